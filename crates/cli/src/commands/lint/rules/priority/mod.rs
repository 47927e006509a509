//! PriorityClasses and who has one.

pub mod agent_without_class;
pub mod too_high;
pub mod two_defaults;
pub mod unknown_class;
