//! Bounds of the fields of a `PodSequence`. A bound that is tight also makes the CEL rules affordable:
//! the API server prices a rule by the largest object that the schema admits.

/// Groups of a sequence. Five hundred must be possible; with 1,000 of the largest kind the CEL rules are still within
/// what the API server allows (`crates/cli/tests/cluster/bare/validation`).
pub const GROUPS: usize = 1_000;
/// Groups of a Node-scoped sequence: each may put a key on every node.
pub const NODE_GROUPS: usize = 32;
/// Names in one group. Beyond that a selector or a workload says it better, and the object, which etcd limits to
/// 1.5 MiB, would no longer fit.
pub const PODS: usize = 1_000;
/// Earlier groups that one group names.
pub const DEPENDS_ON: usize = 100;
/// Characters of a group's name: a title that still fits a line of `kubectl get podseq`.
pub const GROUP_NAME: usize = 100;
/// Pods that one number can mean: six times the largest cluster that Kubernetes supports (150,000 pods).
pub const COUNT: u32 = 1_000_000;
/// Characters of an integer or a percentage (`100%`); CEL prices a rule by it.
pub const MIN_READY: usize = 8;
