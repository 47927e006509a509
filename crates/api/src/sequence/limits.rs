//! Bounds and forms of the fields of a `PodSequence`. A bound that is tight also makes the CEL rules affordable:
//! the API server prices a rule by the largest object that the schema admits.

/// Groups of a sequence. Five hundred must be possible; with 1,000 of the largest kind the CEL rules are still within
/// what the API server allows (`crates/cli/tests/validation`).
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
/// Labels in `matchLabels` or `nodeSelector`, and expressions in `matchExpressions`.
pub const SELECTOR_TERMS: usize = 32;
/// Values of one expression.
pub const SELECTOR_VALUES: usize = 100;
/// Pods that one number can mean: six times the largest cluster that Kubernetes supports (150,000 pods).
pub const COUNT: u32 = 1_000_000;
/// Characters of an integer or a percentage (`100%`); CEL prices a rule by it.
pub const MIN_READY: usize = 8;

/// Characters of the name of most objects (RFC 1123 subdomain).
pub const SUBDOMAIN: usize = 253;
/// Characters of a namespace's name, of a label's value, and of the part of a label's key behind the slash.
pub const LABEL: usize = 63;
/// Characters of a qualified name: subdomain, slash, label.
pub const QUALIFIED_NAME: usize = SUBDOMAIN + 1 + LABEL;

/// The name of a pod or of a workload.
pub const SUBDOMAIN_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// The name of a namespace.
pub const DNS_LABEL_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The value of a label; empty is one.
pub const LABEL_VALUE_PATTERN: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// The name of a group: no control characters (C0, DEL, C1), nothing that ends a line or turns the direction of writing
/// ([`turns`](super::turns)), no blank at either end. Who reads a name on a terminal must see what is there.
/// In the syntax of RE2, which is that of API servers.
pub const GROUP_NAME_PATTERN: &str = concat!(
    r"^[^\x00-\x20\x7f-\x{9f}\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}]",
    r"([^\x00-\x1f\x7f-\x{9f}\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}]*",
    r"[^\x00-\x20\x7f-\x{9f}\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}])?$"
);
/// A gate, the key of a label, a resource or a node condition: an optional prefix, a slash, a name.
pub const QUALIFIED_NAME_PATTERN: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
);
