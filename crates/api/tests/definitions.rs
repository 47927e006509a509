//! Tests of the shipped definitions, and of decoding arbitrary objects.

mod crd;
mod fuzz;
