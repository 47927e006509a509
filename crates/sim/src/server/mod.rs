//! The API server: what it answers, without a socket.

pub mod defaults;
pub mod refusal;
pub mod rules;
