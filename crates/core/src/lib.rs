//! The pure core of Rollcall: facts in, decisions out.
//!
//! ```text
//!  changed object ──▶ index (facts, counted) ──▶ sequence::decide ──▶ Decision
//!                        O(log n), no clock        O(groups + actions)
//! ```
//!
//! Nothing here awaits, reads a clock, looks at the environment or iterates in an order that differs between
//! runs. The manifest of this crate and the `clippy.toml` beside it are the proof. Everything that talks to a
//! cluster lives in other crates and makes no choices of its own.
//!
//! Where to look:
//! - [`facts`]: what is known about a pod, an owner, a namespace. Small on purpose: ten thousands are kept.
//! - [`index`]: keeps the facts and counts them per sequence and group.
//! - [`sequence`]: `PodSequence`: its parsed spec, `evaluate`, `decide`, `check`, `explain`, the reasons.
//! - [`launch`]: the order in which the containers of a pod start.
//! - [`reservation`]: room that is kept, and handed over.
//! - [`agent`]: what init containers on a node wait for.
//! - [`node`]: nodes, and which of them a pod may run on. [`roster`]: the sequences as admission sees them.
//! - [`lease`]: the leader lease as a step function. [`quantity`]: amounts such as `1.5Gi`. [`resources`]: what a pod requests.
//!   [`schedule`]: when something recurs. [`planted`]: bugs on purpose, for tests only.

pub mod agent;
pub mod cluster;
pub mod decision;
pub mod dispatch;
pub mod facts;
pub mod freshness;
pub mod gates;
pub mod hash;
pub mod index;
pub mod intern;
pub mod journal;
pub mod key;
pub mod kind;
pub mod labels;
pub mod launch;
pub mod lease;
pub mod line;
pub mod node;
pub mod planted;
pub mod quantity;
pub mod reason;
pub mod reservation;
pub mod resources;
pub mod roster;
pub mod schedule;
pub mod selector;
pub mod sequence;
pub mod uid;

pub use jiff::Timestamp;
pub use uid::Uid;
