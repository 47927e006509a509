//! The Kubernetes API of Rollcall: the types of its custom resources, and every name it goes by in a cluster.
//!
//! Where to look:
//! - [`names`]: gates, labels, annotations, object names.
//! - [`sequence`]: `PodSequence`: types, schema, validation.
//! - [`crd`]: what makes the derived definitions fit for `kubectl explain` and for the API server.
//! - [`check`]: a JSON value against the [`schema`] of a definition, as the API server would judge it.
//! - [`watch`]: what is read of the objects of Kubernetes: small structs, and the facts they become.
//! - [`patch`]: the bodies of what is written. [`resource`]: where each kind is found.
//! - [`duration`], [`time`]: the two scalar types that all kinds use.

pub mod check;
pub mod crd;
pub mod duration;
pub mod launch;
pub mod names;
pub mod patch;
pub mod resource;
pub mod schema;
pub mod sequence;
pub mod time;
pub mod watch;
