//! The same findings for people, programs, code hosts and CI.

pub mod github;
pub mod json;
pub mod sarif;
pub mod text;
