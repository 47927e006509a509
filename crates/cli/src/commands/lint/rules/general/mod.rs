//! Rules about any kind of object.

pub mod refused;
pub mod twice;
pub mod unknown_field;
