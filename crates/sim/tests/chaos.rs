//! The controller through faults, in virtual time.

mod fault_runs;
#[cfg(debug_assertions)]
mod planted;
mod reliability;

/// A sixth faster than the usual one for all these small objects.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
