//! A small cluster and a controller in it, both as plain data, for the tests of the core.
#![allow(dead_code, reason = "every test binary uses another part of it")]

pub mod build;
pub mod world;
