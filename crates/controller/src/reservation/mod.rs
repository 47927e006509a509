//! Loop code that only reservations use: the requests for tickets, guardians and classes, and the statuses of Orders.

mod report;
mod requests;

pub use report::{OrderStatuses, OrderWrite};
pub use requests::{create, delete, nominate, write_ticket};
