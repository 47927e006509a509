//! Controller code that only sequences use: notes, statuses, gauges.

mod gauges;
mod notes;
mod report;

pub use gauges::Gauges;
pub use notes::Notes;
pub use report::SequenceStatuses;
