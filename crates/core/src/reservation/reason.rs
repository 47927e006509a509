//! Reasons of Orders, tickets and pods that request a ticket. The codes are written to statuses, conditions and events, so they
//! never change. The messages, with details and numbers, are built where the reason arises.

use crate::reason::{Described, reasons};

reasons! {
    #[derive(Copy, PartialOrd, Ord)]
    // Tickets
    Reserved
        "Of a ticket: its guardian runs and occupies the capacity. Of an Order: all desired tickets are Reserved.",
        "nothing; a pod can claim the ticket";
    GuardianStarting
        "The guardian is being created, scheduled or started.",
        "wait a moment; if the state persists, check the guardian: kubectl describe pod";
    NoRoom
        "No eligible node has enough free capacity for the ticket. Guardians never preempt other pods.",
        "rollcall explain ticket/NAME lists the pods on the nodes; free capacity, add a node, or request less";
    GuardianNotRunning
        "The guardian is scheduled but does not run, usually because its image cannot be pulled.",
        "check the guardian: kubectl describe pod; `--guardian-image` of the controller sets another image";
    GuardianRefused
        "The API server rejects the guardian: an exceeded quota, pod security, or a missing permission. The message contains its response.",
        "fix the problem that the message names; rollcall doctor finds missing permissions";
    GuardianNameTaken
        "Another pod has the name of the guardian.",
        "rename or delete that pod";
    GuardianClassTaken
        "A PriorityClass with the name of a guardian class has another value, permits preemption, or is the global default.",
        "kubectl delete priorityclass NAME; the controller creates the correct one";
    UnknownPriorityClass
        "`priorityClassName` names a PriorityClass that does not exist.",
        "create the PriorityClass, or set another name";
    NotStarted
        "`startTime` is in the future.",
        "wait, or change `startTime`";
    Expiring
        "The ticket expires soon and will not be renewed.",
        "claim it; to reserve the capacity for longer, set a longer `duration` or `refreshPolicy: Always`";
    Expired
        "No pod claimed the ticket before it expired. Its capacity is no longer reserved.",
        "nothing, or a longer `duration`; it is deleted after `ttlSecondsAfterFinished`";
    Claimed
        "A pod has claimed the ticket. The pod runs in its capacity, or the hand-over is in progress.",
        "nothing";
    Unclaimed
        "The claiming pod ended before the hand-over was complete. The capacity is reserved again.",
        "nothing";
    NotBound
        "The claiming pod is bound to another node, was rejected four times by the scheduler, or was not bound within 60 s: its ports, volumes or spreading do not allow the node. The capacity is reserved again.",
        "find out why the scheduler rejected the node: kubectl describe pod";
    ClaimEnded
        "The claiming pod has ended.",
        "nothing; the ticket is deleted after `ttlSecondsAfterFinished`";
    TooMany
        "The namespace has more Orders or tickets than are served. The oldest ones are served, and existing reservations are kept.",
        "delete Orders or tickets that are no longer needed, or use another namespace";
    InvalidSpec
        "The spec is invalid; the message names the field.",
        "correct the field that the message names";
    // Orders
    Reserving
        "Tickets are being created, or their guardians are starting.",
        "wait a moment; rollcall explain order/NAME shows the state of each ticket";
    NoEligibleNode
        "No node is eligible: Ready, schedulable, selected, and with tolerated taints only. The message names the criterion that most nodes fail.",
        "rollcall explain order/NAME shows the criterion that each node fails";
    NotYet
        "The next scheduled reservation is in the future.",
        "wait; `nextScheduleTime` is the time of that reservation";
    Over
        "The reservation period of the Order has ended: no more tickets are created.",
        "create the Order again, or set `strategy.refreshPolicy: Always`; an Order of type Recurring reserves at every scheduled time";
    Paused
        "`spec.paused` is true: no tickets are created or removed.",
        "set `spec.paused` to false";
    TicketRefused
        "The API server rejects a ticket. The message contains its response.",
        "fix the problem that the message names; rollcall doctor finds missing permissions";
    Settled
        "No tickets are being created or removed.",
        "nothing";
    NoFailure
        "All tickets could be created, and nodes have enough capacity for them.",
        "nothing";
    NotStalled
        "The spec is valid.",
        "nothing";
    TicketsMade
        "An event: the Order has created tickets.",
        "nothing";
    TicketsRemoved
        "An event: the Order has removed tickets that are no longer wanted.",
        "nothing";
    // Pods
    NoTicket
        "An event: the pod runs without reserved capacity, because it can claim no ticket. The message says why.",
        "rollcall tickets lists the tickets; compare them with the request of the pod";
    PriorityBelowTicket
        "An event: the pod runs without reserved capacity, because its priority is below that of the ticket. Other pods could have preempted it during the hand-over.",
        "give the pod the `priorityClassName` of the ticket";
}

/// Returns the reason with this code. `None` for a code of another version of the controller.
pub fn described(code: &str) -> Option<&'static Described> {
    ALL.iter().find(|known| known.code == code)
}
