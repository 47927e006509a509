//! Controller code that only reservations use: the requests for tickets, guardians and priority classes, the statuses of
//! Orders, and metrics.

mod gauges;
mod report;
mod requests;

pub use gauges::TicketGauges;
pub use report::OrderStatuses;
pub use requests::{content_of_record, create, delete, nominate, write_ticket};
