//! The commands of rollcall-node, as processes of their own.

mod common;

mod mark;
mod volume;
mod wait;
