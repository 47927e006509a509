//! The embedded cluster: an API server in the process, the actors around it, virtual time.

pub mod kinds;
pub mod plan;
pub mod report;
pub mod server;
pub mod store;
