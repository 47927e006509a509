//! Names of tickets, guardians and their PriorityClasses. All names are deterministic, so no object is created twice.

use super::spec::{PriorityClass, Ticket};
use crate::{Uid, hash::fnv1a64};
use std::sync::Arc;

/// A taint that keeps other pods off a node while capacity is being reserved there. Rollcall does not set it; guardians tolerate
/// it.
pub const RESERVING_TAINT: &str = "korder.dev/reserving";
/// On a pod: the ticket that it requests, by name, label or group.
pub const TICKET_REQUEST: &str = "korder.dev/ticket-request";
/// On a pod: the Order whose tickets it requests.
pub const ORDER_REQUEST: &str = "korder.dev/order-request";
/// Older form of [`ORDER_REQUEST`]: `"true"`, together with the name of the Order in [`ORDER`].
pub const REQUIRED: &str = "korder.dev/required";
pub const ORDER: &str = "korder.dev/order";
/// On a ticket, a label: the group that pods request with `group:`.
pub const GROUP: &str = "korder.dev/group";
/// On a pod: the ticket that it has claimed, and the node of that ticket.
pub const TICKET_CLAIMED: &str = "korder.dev/ticket-claimed";
pub const TICKET_NODE: &str = "korder.dev/ticket-node";
/// On a ticket, labels: the hash of its template, and its index in an Order with a number of tickets.
pub const TEMPLATE_HASH: &str = "korder.dev/template-hash";
pub const INDEX: &str = "korder.dev/index";
/// On a ticket: the scheduled time that caused its creation.
pub const TICK: &str = "korder.dev/tick";
/// On a guardian, labels: the mark of a guardian, and the uid of its Order.
pub const GUARDIAN: &str = "korder.dev/guardian";
pub const ORDER_UID: &str = "korder.dev/order-uid";

const GUARDIAN_PREFIX: &str = "korder-guardian-";
/// The highest value that Kubernetes allows in a user-defined PriorityClass.
pub const HIGHEST_PRIORITY: i32 = 1_000_000_000;
/// The longest name of a ticket. It is part of the name of its guardian, and must be valid as the value of a label.
const LONGEST_TICKET: usize = 63;
const LONGEST_NAME: usize = 253;

/// Returns the name, or if it is too long, a shortened name that ends with a hash.
fn short(name: &str, longest: usize) -> String {
    if name.len() <= longest {
        return name.to_owned();
    }
    let hash = format!("{:016x}", fnv1a64(name.as_bytes()));
    let cut = name[..longest - hash.len() - 1].trim_end_matches(['-', '.']);
    format!("{cut}-{hash}")
}

/// The preferred name of the ticket of an Order in a place.
pub fn ticket_name(order: &str, place: &str) -> String {
    short(&format!("{order}-{place}"), LONGEST_TICKET)
}

/// The name of a ticket whose preferred name belongs to the ticket `other`. It depends only on the arguments, so a repeated
/// creation uses the same name.
pub fn ticket_name_beside(order: &str, place: &str, other: Uid) -> String {
    let hash = fnv1a64(format!("{order}/{place}/{other}").as_bytes());
    let suffix = format!("-{:08x}", hash as u32);
    let name = short(&format!("{order}-{place}"), LONGEST_TICKET - suffix.len());
    format!("{name}{suffix}")
}

pub fn guardian_name(ticket: &str) -> String {
    short(&format!("{GUARDIAN_PREFIX}{ticket}"), LONGEST_NAME)
}

/// The name of the ticket in the name of a guardian; `None` if the pod is not named like a guardian.
pub fn ticket_of_guardian(pod: &str) -> Option<&str> {
    pod.strip_prefix(GUARDIAN_PREFIX)
}

pub fn guardian_of(ticket: &Ticket) -> Arc<str> {
    guardian_name(&ticket.name).into()
}

/// The name of the PriorityClass of guardians with this priority.
pub fn guardian_class(priority: i32) -> String {
    format!("{GUARDIAN_PREFIX}{priority}")
}

/// Whether a PriorityClass has the settings that guardians with this priority need: above all, it must never preempt.
pub fn is_guardian_class(class: &PriorityClass, priority: i32) -> bool {
    class.value == priority && class.never_preempts && !class.global_default
}
