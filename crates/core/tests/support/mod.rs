//! A small cluster with a controller, both as plain data, for the tests of the core.
#![allow(dead_code, reason = "`cases` and `cost` use only parts of it")]

pub mod build;
pub mod world;
