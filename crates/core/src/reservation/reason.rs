//! Every word by which an Order, a ticket or a pod that wants one says how it stands. They are written to statuses, conditions and
//! events, so they never change. The sentences, with the numbers, are made where the reason arises.

use crate::reason::{Described, reasons};

reasons! {
    #[derive(Copy, PartialOrd, Ord)]
    // Tickets
    Reserved
        "Of a ticket: its guardian runs, so the room is kept. Of an Order: all tickets that it wants are Reserved.",
        "nothing; a pod can take the room";
    GuardianStarting
        "The guardian is made, scheduled or started.",
        "wait a moment; if it stays, look at the guardian: kubectl describe pod";
    NoRoom
        "No node on which the guardian could be has room for what the ticket requests. Nobody is evicted for it.",
        "rollcall explain ticket/NAME says who sits there; make room, add a node, or request less";
    GuardianNotRunning
        "The guardian is on a node and does not run, mostly because its image cannot be pulled.",
        "look at the guardian: kubectl describe pod; `--guardian-image` of the controller names another image";
    GuardianRefused
        "The API server refuses to make the guardian: a quota, pod security, or a right that is missing. The message is its own.",
        "change what the message names; rollcall doctor finds missing rights";
    GuardianNameTaken
        "Another pod has the name of the guardian.",
        "rename or delete that pod";
    GuardianClassTaken
        "A PriorityClass has the name of one of ours, and would let guardians evict others or has another value.",
        "kubectl delete priorityclass NAME; the controller makes its own";
    UnknownPriorityClass
        "`priorityClassName` names a PriorityClass that does not exist.",
        "create the PriorityClass, or name another one";
    NotStarted
        "`startTime` is ahead.",
        "wait, or change `startTime`";
    Expiring
        "The end of the ticket is near, and nothing renews it.",
        "claim it; a longer `duration` or `refreshPolicy: Always` keeps the room";
    Expired
        "Nobody has claimed the ticket in time. Its room is not kept any more.",
        "nothing, or a longer `duration`; it is deleted after `ttlSecondsAfterFinished`";
    Claimed
        "A pod has the room of the ticket, or is being given it.",
        "nothing";
    Unclaimed
        "The pod that had claimed the ticket went before it had the room. The room is kept again.",
        "nothing";
    NotBound
        "The claiming pod is bound to another node, was rejected four times by the scheduler, or was not bound within 60 s: its ports, volumes or spreading do not allow the node. The capacity is reserved again.",
        "look at why the scheduler refused the node: kubectl describe pod";
    ClaimEnded
        "The pod that had the room has ended.",
        "nothing; the ticket is deleted after `ttlSecondsAfterFinished`";
    TooMany
        "There are more Orders or tickets in the namespace than are served. Those that were there first keep what they have.",
        "delete what is not needed any more, or use another namespace";
    InvalidSpec
        "The spec asks for something that cannot be done; the message names the field.",
        "correct the field that the message names";
    // Orders
    Reserving
        "Tickets are being made, or their guardians are about to run.",
        "wait a moment; rollcall explain order/NAME says what each ticket waits for";
    NoEligibleNode
        "No node is Ready, schedulable, selected and tolerated. The message names the criterion that failed most often.",
        "rollcall explain order/NAME says which criterion each node fails";
    NotYet
        "The Order reserves at a time of its schedule that is ahead.",
        "wait; `nextScheduleTime` says when";
    Over
        "The time of the Order is over: no ticket is made any more.",
        "create it anew, or let it recur: `strategy.type: Recurring`, `refreshPolicy: Always`";
    Paused
        "`spec.paused` is true: no ticket is made or removed.",
        "set `spec.paused` to false";
    TicketRefused
        "The API server refuses to make a ticket. The message is its own.",
        "change what the message names; rollcall doctor finds missing rights";
    Settled
        "Nothing is being made or removed.",
        "nothing";
    NoFailure
        "All tickets could be made, and have room.",
        "nothing";
    NotStalled
        "The spec can be carried out.",
        "nothing";
    TicketsMade
        "An event: the Order has made tickets.",
        "nothing";
    TicketsRemoved
        "An event: the Order has removed tickets that are not wanted any more.",
        "nothing";
    // Pods
    NoTicket
        "An event: the pod runs without reserved room, because there is no ticket for it. The message says why.",
        "rollcall tickets shows what there is; compare what the pod asks for with it";
    PriorityBelowTicket
        "An event: the pod runs without reserved room, because its priority is below that of the ticket: others could have taken the room from it.",
        "give the pod the `priorityClassName` of the ticket";
}

/// What a status names, if this program knows it: another version of the controller may know others.
pub fn described(code: &str) -> Option<&'static Described> {
    ALL.iter().find(|known| known.code == code)
}
