//! Tests of the webhook of Full mode on a real API server: it gives the same results as the policies. Pods are created even
//! while it is unavailable, slow or broken, or renews its certificates.

mod certificates;
mod crowd;
mod gates;
mod hook;
mod load;
mod trouble;
