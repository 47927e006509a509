//! By which names tickets, guardians and their classes are known. All of them follow from what they are for, so that nobody makes
//! the same thing twice.

use super::spec::{PriorityClass, Ticket};
use crate::{Uid, hash::fnv1a64};
use std::sync::Arc;

/// The taint of a node on which room is still being kept.
pub const RESERVING_TAINT: &str = "korder.dev/reserving";
/// On a pod: the ticket, or what it must be like.
pub const TICKET_REQUEST: &str = "korder.dev/ticket-request";
/// On a pod: the Order whose tickets it wants.
pub const ORDER_REQUEST: &str = "korder.dev/order-request";
/// The older spelling of the same: `"true"`, with [`ORDER`].
pub const REQUIRED: &str = "korder.dev/required";
pub const ORDER: &str = "korder.dev/order";
/// On a ticket, a label: what `group:` names.
pub const GROUP: &str = "korder.dev/group";
/// On a pod: the ticket whose room it was given, and the node of that room.
pub const TICKET_CLAIMED: &str = "korder.dev/ticket-claimed";
pub const TICKET_NODE: &str = "korder.dev/ticket-node";
/// On a ticket, labels: the template it was made of, and its place in an Order that wants a number of them.
pub const TEMPLATE_HASH: &str = "korder.dev/template-hash";
pub const INDEX: &str = "korder.dev/index";
/// On a ticket: the time of the schedule for which it was made.
pub const TICK: &str = "korder.dev/tick";
/// On a guardian, labels: what it is, and the Order it belongs to, by uid.
pub const GUARDIAN: &str = "korder.dev/guardian";
pub const ORDER_UID: &str = "korder.dev/order-uid";

const GUARDIAN_PREFIX: &str = "korder-guardian-";
/// No PriorityClass of a user has more.
pub const HIGHEST_PRIORITY: i32 = 1_000_000_000;
/// The name of a ticket is part of the name of its guardian, and of a label.
const LONGEST_TICKET: usize = 63;
const LONGEST_NAME: usize = 253;

/// The name as it is, or cut and told apart by a hash where it is too long.
fn short(name: &str, longest: usize) -> String {
    if name.len() <= longest {
        return name.to_owned();
    }
    let hash = format!("{:016x}", fnv1a64(name.as_bytes()));
    let cut = name[..longest - hash.len() - 1].trim_end_matches(['-', '.']);
    format!("{cut}-{hash}")
}

/// The first name of the ticket of an Order in a place.
pub fn ticket_name(order: &str, place: &str) -> String {
    short(&format!("{order}-{place}"), LONGEST_TICKET)
}

/// The name of the ticket that comes after another one, or that another one is in the way of. One that was made beside the same
/// ticket twice has the same name twice.
pub fn ticket_name_beside(order: &str, place: &str, other: Uid) -> String {
    let hash = fnv1a64(format!("{order}/{place}/{other}").as_bytes());
    let suffix = format!("-{:08x}", hash as u32);
    let name = short(&format!("{order}-{place}"), LONGEST_TICKET - suffix.len());
    format!("{name}{suffix}")
}

pub fn guardian_name(ticket: &str) -> String {
    short(&format!("{GUARDIAN_PREFIX}{ticket}"), LONGEST_NAME)
}

/// The ticket after which a pod is called that is called like a guardian.
pub fn ticket_of_guardian(pod: &str) -> Option<&str> {
    pod.strip_prefix(GUARDIAN_PREFIX)
}

pub fn guardian_of(ticket: &Ticket) -> Arc<str> {
    guardian_name(&ticket.name).into()
}

/// The class of guardians of this priority.
pub fn guardian_class(priority: i32) -> String {
    format!("{GUARDIAN_PREFIX}{priority}")
}

/// Whether a class is what a guardian of this priority needs: it evicts nobody.
pub fn is_guardian_class(class: &PriorityClass, priority: i32) -> bool {
    class.value == priority && class.never_preempts && !class.global_default
}
