//! The product on real clusters. Each module below has clusters of its own; `scripts/test.sh` runs each in a process of its own.

#[path = "../../../webhook/tests/cases/mod.rs"]
mod cases;
mod common;

mod bare;
mod full;
mod own_controller;
mod real;
mod shared;
