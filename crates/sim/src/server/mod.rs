//! The API server: what it answers, without a socket.

pub mod refusal;
