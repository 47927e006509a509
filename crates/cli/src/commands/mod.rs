//! One module per command: its arguments, and `run`.

pub mod completion;
pub mod controller;
pub mod demo;
pub mod doctor;
pub mod explain;
pub mod install;
pub mod keys;
pub mod lint;
pub mod reference;
pub mod release;
pub mod reservation;
pub mod simulate;
pub mod status;
pub mod target;
pub mod version;
pub mod workload;
