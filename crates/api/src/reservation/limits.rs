//! Bounds of the fields of an `Order` and a `Ticket`. Each ticket contains a copy of its template, so these bounds limit the
//! memory that the API server and all its clients need. The API server also estimates the cost of a CEL rule from the largest
//! object that the schema admits.

/// Maximum size of a ticket's spec as JSON, in bytes. An Order with 1,000 tickets has 1,000 copies of it in etcd, and the bounds
/// below alone would admit more than etcd can store. A schema cannot count bytes, so the controller checks this limit.
pub const TICKET_BYTES: usize = 16 * 1024;

/// Maximum `replicas` of one Order.
pub const REPLICAS: u32 = 1_000;
/// Maximum `minReadySeconds`: one day. A larger value is most likely a typing error.
pub const MIN_READY_SECONDS: u32 = 86_400;
/// Maximum number of seconds in any other field: one year, as for every duration.
pub const SECONDS: u32 = 31_536_000;

/// Maximum length of a schedule. A list of all 60 minutes has 169 characters.
pub const SCHEDULE: usize = 256;
/// Maximum length of a time zone name. The longest existing name has 32 characters.
pub const TIME_ZONE: usize = 64;
/// Maximum length of a time. With nanoseconds and an offset it has 35 characters.
pub const TIME: usize = 64;

/// Maximum number of annotations of a template, and maximum length of each.
pub const ANNOTATIONS: usize = 16;
pub const ANNOTATION: usize = 1_024;

/// Maximum number of resources in `requests` or `limits`.
pub const RESOURCES: usize = 16;
/// Maximum length of a quantity.
pub const QUANTITY: usize = 32;

pub const TOLERATIONS: usize = 32;
pub const SPREADS: usize = 8;
/// Maximum `maxSkew` and `minDomains`. A larger skew would have no effect, since an Order has at most 1,000 replicas.
pub const SKEW: u32 = 1_000;
/// Maximum number of terms of a node affinity, required or preferred.
pub const NODE_TERMS: usize = 16;
/// Maximum number of requirements of one node selector term.
pub const NODE_REQUIREMENTS: usize = 16;
/// Maximum number of values of one requirement.
pub const NODE_VALUES: usize = 50;
/// Maximum number of terms of a pod affinity, required or preferred. The scheduler compares each term with every pod on every
/// node.
pub const POD_TERMS: usize = 8;
/// Maximum number of namespaces of one pod affinity term.
pub const NAMESPACES: usize = 16;
