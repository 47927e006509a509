//! The webhook of Full mode on a real API server: the same results as the policies, and what becomes of pods when it is away,
//! slow, wrong, or gets new certificates.

mod certificates;
mod crowd;
mod gates;
mod hook;
mod load;
mod trouble;
