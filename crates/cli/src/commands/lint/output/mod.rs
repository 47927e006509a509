//! Output formats of the findings.

pub mod github;
pub mod json;
pub mod sarif;
pub mod text;
