//! Loop code that only reservations use: the requests for tickets, guardians and classes, the statuses of Orders,
//! and what is measured.

mod gauges;
mod report;
mod requests;

pub use gauges::TicketGauges;
pub use report::OrderStatuses;
pub use requests::{content_of_record, create, delete, nominate, write_ticket};
