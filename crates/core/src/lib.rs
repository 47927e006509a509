//! The pure core of Rollcall: facts in, decisions out.
//!
//! ```text
//!  changed object ──▶ index (facts, counted) ──▶ sequence::decide ──▶ Decision
//!                        O(log n), no clock        O(groups + actions)
//! ```
//!
//! Nothing here awaits, reads a clock, accesses the environment or iterates in an order that differs between runs. The manifest
//! of this crate and the `clippy.toml` beside it enforce that. All code that talks to a cluster is in other crates and makes no
//! decisions of its own.
//!
//! Where to look:
//! - [`facts`]: facts about pods, owners and namespaces. Small on purpose: tens of thousands are stored.
//! - [`index`]: stores the facts and counts them per sequence and group.
//! - [`sequence`]: `PodSequence`: its parsed spec, `evaluate`, `decide`, `check`, `explain`, the reasons.
//! - [`launch`]: the start order of the containers of a pod.
//! - [`reservation`]: capacity that tickets reserve and hand over.
//! - [`agent`]: conditions that init containers on a node wait for.
//! - [`node`]: nodes, and which of them a pod may run on. [`roster`]: the sequences as admission sees them.
//! - [`lease`]: the leader lease as a step function. [`quantity`]: amounts such as `1.5Gi`. [`resources`]: the requests of a
//!   pod. [`schedule`]: recurring times. [`planted`]: planted bugs, for tests only.

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
