//! Admission reviews, and the server that answers them.

mod cases;
mod common;
mod dial;
mod plain;

mod fuzz;
mod launch;
mod properties;
mod review;
mod server;
