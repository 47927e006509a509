//! Rules about PriorityClasses and the pods that use them.

pub mod agent_without_class;
pub mod too_high;
pub mod two_defaults;
pub mod unknown_class;
