//! Memory that is free and not given back: glibc keeps it unless it is told otherwise. Other allocators do by themselves what
//! is asked for here.

/// Blocks of this size and more, such as the pages of a list, live outside of the heap and leave no holes in it. Left to
/// itself, glibc raises this limit each time such a block is freed, up to 32 MiB.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK: i32 = 64 * 1024;
/// One heap for all threads: there are few, and each of its own has its own holes.
#[cfg(target_env = "gnu")]
const HEAPS: i32 = 1;

/// A list of so many objects leaves holes worth closing.
pub const MANY_OBJECTS: usize = 2_000;

/// Before anything large is allocated. With 10,000 pods, a tenth less memory.
pub fn keep_small() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "calls into the C library with constants that it accepts")]
    // SAFETY: mallopt only sets numbers; with those that it does not accept it does nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Gives what is free back to the system. Lists come in pages of megabytes between small things that stay, and glibc keeps
/// the holes: half as much again as what is in use.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "a call into the C library without arguments that could be wrong")]
    // SAFETY: malloc_trim has no preconditions; it takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
