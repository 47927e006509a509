//! Definitions as they are shipped, and what is read of objects that hold anything.

mod crd;
mod fuzz;
