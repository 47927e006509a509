//! What sequences need of the loop besides decisions: notes, statuses, gauges.

mod gauges;
mod notes;
mod report;

pub use gauges::Gauges;
pub use notes::Notes;
pub use report::SequenceStatuses;
