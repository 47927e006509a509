//! The webhook of Full mode on a real API server: the same results as the policies, and what becomes of pods when it is away,
//! slow, wrong, or gets new certificates.

#[path = "../../../webhook/tests/cases/mod.rs"]
mod cases;
mod certificates;
#[path = "../common/mod.rs"]
mod common;
mod crowd;
mod gates;
mod hook;
mod load;
#[path = "../admission/server.rs"]
mod server;
mod trouble;
