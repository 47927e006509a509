//! Whatever the object.

pub mod refused;
pub mod twice;
pub mod unknown_field;
