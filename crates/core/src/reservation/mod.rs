//! Reservations: an Order keeps room, by Tickets; a guardian, a pod that does nothing, sits in the room of a ticket until the pod comes
//! for which it is kept.
//!
//! ```text
//! Order ──▶ Ticket per place ──▶ guardian runs: Reserved
//! pod with the gate ──▶ ticket says Claimed ─▶ pod is nominated for the node ─▶ guardian goes ─▶ gate goes ─▶ the scheduler binds
//! ```
//!
//! - [`spec`]: what is known. [`timetable`]: when. [`eligible`]: where. [`names`]: how everything is called.
//! - [`index`]: Orders with their places, tickets, pods that wait for one.
//! - [`wanted`]: what a pod asks for. [`admission`]: which new pods are held until they have it.
//! - [`budget`]: what one namespace can cost at most.
//! - [`order`], [`ticket`], [`claim`]: what to do about each of them. [`hand_over`]: the steps by which claims get their capacity.
//!   [`check`]: whether it may be done. [`orphan`]: guardians without a ticket. [`status`]: what an Order says.
//! - [`reason`]: the words for how things stand. [`explain`]: why they do.
//!
//! See docs/decisions/0012 for the reasons behind guardians, and 0013 for the hand-over.

pub mod admission;
pub mod budget;
pub mod check;
pub mod claim;
pub mod eligible;
pub mod explain;
pub mod hand_over;
pub mod index;
pub mod names;
pub mod order;
pub mod orphan;
pub mod reason;
pub mod spec;
pub mod status;
pub mod ticket;
pub mod timetable;
pub mod wanted;

pub use check::check;
pub use index::Reservations;
pub use spec::Wanted;

use crate::cluster::Cluster;

/// What decisions about reservations rest on.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub cluster: &'a Cluster,
    pub reservations: &'a Reservations,
}
