//! Rules about PodSequences and their members.

pub mod circle;
pub mod claimed_twice;
pub mod deadline_while_held;
pub mod gate_forgotten;
pub mod gate_misspelt;
pub mod invalid;
pub mod lacks_toleration;
pub mod more_than_there_are;
pub mod name_of_nobody;
pub mod never_ends;
pub mod nobody_claims;
pub mod node_scope_without_daemon_set;
pub mod not_permitted;
pub mod ordinals_out_of_order;
pub mod progress_deadline;
pub mod quota;
pub mod selects_nothing;
pub mod timeout_too_short;
pub mod workload_missing;
