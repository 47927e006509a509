//! The commands of rollcall-node, run as processes.

mod common;

mod mark;
mod volume;
mod wait;
