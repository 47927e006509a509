//! Bounds of the fields of an `Order` and a `Ticket`. What a template has is in each of its tickets, so a bound here is one on
//! the memory of everybody; and the API server prices a rule by the largest object that the schema admits.

/// Bytes of the spec of a ticket, as JSON. An order with a thousand tickets has a thousand copies of it in etcd; the bounds below alone
/// would allow more than etcd has room for. No schema can count bytes, so the controller does.
pub const TICKET_BYTES: usize = 16 * 1024;

/// Tickets of one order that counts by number.
pub const REPLICAS: u32 = 1_000;
/// A day: room that must be there for longer before it counts is a mistyped number.
pub const MIN_READY_SECONDS: u32 = 86_400;
/// A year, as of every duration.
pub const SECONDS: u32 = 31_536_000;

/// Characters of a schedule: all sixty minutes as a list have 169.
pub const SCHEDULE: usize = 256;
/// Characters of the name of a time zone; the longest has 32.
pub const TIME_ZONE: usize = 64;
/// Characters of a time: with nanoseconds and an offset it has 35.
pub const TIME: usize = 64;

/// Annotations of a template, and characters of each.
pub const ANNOTATIONS: usize = 16;
pub const ANNOTATION: usize = 1_024;

/// Resources in `requests` or `limits`.
pub const RESOURCES: usize = 16;
/// Characters of a quantity.
pub const QUANTITY: usize = 32;

pub const TOLERATIONS: usize = 32;
pub const SPREADS: usize = 8;
/// Uneven by more than this is not spread at all.
pub const SKEW: u32 = 1_000;
/// Terms of a node affinity, required or preferred.
pub const NODE_TERMS: usize = 16;
/// Conditions of one term.
pub const NODE_REQUIREMENTS: usize = 16;
/// Values of one condition.
pub const NODE_VALUES: usize = 50;
/// Terms of a pod affinity, required or preferred. The scheduler compares each with every pod of every node.
pub const POD_TERMS: usize = 8;
/// Namespaces of one such term.
pub const NAMESPACES: usize = 16;
