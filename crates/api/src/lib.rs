//! The Kubernetes API of Rollcall: the types of its custom resources, and all names that it uses in a cluster.
//!
//! Where to look:
//! - [`names`]: gates, labels, annotations, object names.
//! - [`sequence`]: `PodSequence`. [`reservation`]: `Order` and `Ticket`. Types, rules, validation.
//! - [`definition`]: the table of our custom resources. [`crd`]: adapts the derived definitions to `kubectl explain`
//!   and to the API server.
//! - [`forms`]: patterns of names and other texts. [`rule`]: one rule in CEL and in Rust; [`shared_rules`]: the rules
//!   that all kinds use.
//! - [`validate`]: reads a spec. [`check`]: checks a JSON value against the [`schema`] of a definition, as the API
//!   server does.
//! - [`watch`]: reads Kubernetes objects into small structs, and converts them to facts of the core.
//! - [`load`]: fills an index of the core with objects.
//! - [`patch`]: the bodies of write requests. [`resource`]: the API path of each kind.
//! - [`duration`], [`time`], [`selector`]: types that all kinds use.

pub mod check;
pub mod crd;
pub mod definition;
pub mod duration;
pub mod forms;
pub mod launch;
pub mod load;
pub mod names;
pub mod patch;
pub mod reservation;
pub mod resource;
pub mod rule;
pub mod schema;
pub mod selector;
pub mod sequence;
pub mod shared_rules;
pub mod time;
pub mod validate;
pub mod watch;
mod words;
