//! Reservations: an Order reserves capacity for future pods by creating Tickets. The guardian of a ticket, a pause pod, occupies
//! the capacity until a pod claims the ticket.
//!
//! ```text
//! Order ──▶ Ticket per place ──▶ guardian runs: Reserved
//! gated pod ──▶ ticket Claimed ─▶ pod nominated for the node ─▶ guardian deleted ─▶ gate removed ─▶ scheduler binds the pod
//! ```
//!
//! - [`spec`]: facts about Orders and tickets. [`timetable`]: when an Order reserves. [`eligible`]: on which nodes. [`names`]:
//!   all names.
//! - [`index`]: Orders with their places, tickets, and pods that wait for a ticket.
//! - [`wanted`]: the ticket that a pod requests. [`admission`]: the new pods that are held until they have claimed a ticket.
//! - [`budget`]: the limits of one namespace.
//! - [`order`], [`ticket`], [`claim`]: the decisions about Orders, tickets and claiming pods. [`hand_over`]: the steps of handing
//!   over reserved capacity. [`check`]: the audit of decisions. [`orphan`]: guardians without a ticket. [`status`]: the status of
//!   an Order.
//! - [`reason`]: the reasons in statuses and events. [`explain`]: the lines of `rollcall explain`.
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
pub use spec::RequestedTicket;

use crate::cluster::Cluster;

/// The facts that decisions about reservations use.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub cluster: &'a Cluster,
    pub reservations: &'a Reservations,
}
