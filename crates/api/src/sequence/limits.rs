//! Bounds of the fields of a `PodSequence`. Tight bounds also keep the CEL rules affordable: the API server estimates
//! the cost of a rule from the largest object that the schema admits.

/// Groups of a sequence. Users need 500; with 1,000 groups of the largest kind, the CEL rules are still within the cost
/// limit of the API server (`crates/cli/tests/cluster/bare/validation`).
pub const GROUPS: usize = 1_000;
/// Groups of a Node-scoped sequence: each group may put a key on every node.
pub const NODE_GROUPS: usize = 32;
/// Names in one group. For more pods, a selector or a workload is the better choice; a longer list would also exceed
/// the 1.5 MiB that etcd allows for an object.
pub const PODS: usize = 1_000;
/// Entries of `dependsOn`.
pub const DEPENDS_ON: usize = 100;
/// Characters of a group's name: a title that still fits a line of `kubectl get podseq`.
pub const GROUP_NAME: usize = 100;
/// The largest number of pods that a field can express: six times the largest cluster that Kubernetes supports (150,000
/// pods).
pub const COUNT: u32 = 1_000_000;
/// Characters of an integer or a percentage (`100%`); it limits the cost of the CEL rule.
pub const MIN_READY: usize = 8;
