//! Tests on real clusters. Each module below has its own clusters; `scripts/test.sh` runs each module in a separate process.

#[path = "../../../webhook/tests/cases/mod.rs"]
mod cases;
mod common;

mod bare;
mod full;
mod own_controller;
mod real;
mod shared;
