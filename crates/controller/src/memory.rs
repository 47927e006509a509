//! Memory that is free and not given back.

/// A list of so many objects leaves holes worth closing.
pub const MANY: usize = 2_000;

/// Gives what is free back to the system. Lists come in pages of megabytes between small things that stay, and glibc keeps
/// the holes: half as much again as what is in use. Other allocators give large blocks back by themselves.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "a call into the C library without arguments that could be wrong")]
    // SAFETY: malloc_trim has no preconditions; it takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
