//! The Kubernetes API of Rollcall: the types of its custom resources, and every name it goes by in a cluster.
//!
//! Where to look:
//! - [`names`]: gates, labels, annotations, object names.
//! - [`sequence`]: `PodSequence`. [`reservation`]: `Order` and `Ticket`. Types, rules, validation.
//! - [`definition`]: the table of our custom resources. [`crd`]: what makes the derived definitions fit for `kubectl explain`
//!   and for the API server.
//! - [`forms`]: the forms of names and other texts. [`rule`]: a rule in CEL and in Rust; [`shared_rules`]: those that all kinds use.
//! - [`validate`]: reads a spec. [`check`]: a JSON value against the [`schema`] of a definition, as the API server would judge it.
//! - [`watch`]: what is read of the objects of Kubernetes: small structs, and the facts they become.
//! - [`load`]: the one way from objects to an index of the core.
//! - [`patch`]: the bodies of what is written. [`resource`]: where each kind is found.
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
