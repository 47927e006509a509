//! One line of the answer of `rollcall explain`, for all features.

use crate::{Timestamp, cluster::Target, facts::Pod, sequence::Reason};
use std::sync::Arc;
use std::time::Duration;

/// One line of the answer. The lines below it explain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// A stable identifier: the code of a reason, or one of [`CODES`].
    pub code: &'static str,
    /// The sentence, including the elapsed time.
    pub text: String,
    /// The start of the state that the line describes.
    pub since: Timestamp,
    /// The object that the line is about. An object that does not exist has no uid.
    pub object: Target,
    /// Recommended actions, the best one first.
    pub hints: Vec<Hint>,
    /// The reason that the line states, if it says why something waits.
    pub reason: Option<Reason>,
    pub below: Vec<Line>,
}

/// The codes of lines that are not reasons, with their meanings.
pub const CODES: &[(&str, &str)] = &[
    ("Held", "A scheduling gate of Rollcall holds the pod; the lines below say why."),
    ("Released", "The pod belongs to a group and has been released."),
    ("Arrived", "The pod has arrived, by the `until` rule of its group."),
    ("NotArrived", "The pod has been released but has not arrived."),
    ("SeveralGates", "Several scheduling gates or sequences affect the pod; each has a line below."),
    ("NotClaimed", "The pod carries the gate of a sequence, but belongs to no visible sequence."),
    ("NotHeld", "No scheduling gate holds the pod, and it belongs to no sequence."),
    ("AboutToBeReleased", "Nothing blocks the pod: the controller is about to release it."),
    ("Sequence", "The sequence as a whole."),
    ("GroupOpen", "The group is open but not complete."),
    ("GroupComplete", "The group is complete."),
    ("GroupTimedOut", "The group was not complete within its timeout."),
    ("GroupClosed", "The group is not open: it waits for earlier groups."),
    ("NodeWaits", "Not all groups are complete on the node."),
    ("NodeComplete", "All groups are complete on the node."),
    ("NoNodeOpen", "The group of the pod is not open on any node."),
    ("NodesUnmarked", "Before it releases pods, the controller marks the nodes where the group is not open."),
    ("WaitsForAgent", "An init container of the pod waits for a marker, a file or a socket on its node."),
    ("Agent", "The DaemonSet that writes the marker."),
    ("AgentNotReady", "The agent's pod on this node is not ready."),
    (
        "AgentReady",
        "The agent's pod on this node is ready: the wait is about to end, or the marker is stale.",
    ),
    ("AgentMissing", "The agent has no pod on this node yet."),
    (
        "AgentNotEligible",
        "The agent's DaemonSet gets no pod on this node, because of its node selector, its affinity or a taint.",
    ),
    ("AgentUnknown", "No visible DaemonSet declares that it writes the marker."),
    ("MarkerNotOnNode", "The file that the container waits for is not in a folder of the node."),
    ("MountNotPropagated", "The waiting container cannot see mounts that were created after it started."),
    (
        "NotOrdered",
        "The pod requests a start order of its containers, but the webhook did not set it up when the pod was created.",
    ),
    ("LaunchHeld", "The pod waits for the ConfigMap that controls the start order of its containers."),
    (
        "BarrierTaken",
        "The ConfigMap that the pod needs for the start order of its containers is a foreign object.",
    ),
    ("Launching", "The containers of the pod start in order; not all ranks are ready yet."),
    ("RankPassed", "The containers of this rank are ready, or have been ready."),
    ("RankOpen", "The containers of this rank may start, but are not ready."),
    ("RankClosed", "The containers of this rank wait for those of a higher rank."),
    (
        "OrderUnjudged",
        "The answer repeats the status of the Order, because the caller is not permitted to read nodes.",
    ),
    (
        "OrderGone",
        "The Order that created the ticket no longer exists, and the ticket is about to be deleted.",
    ),
    ("OfOrder", "The Order that created the ticket."),
    ("TicketUnseen", "The ticket has no status: no controller has processed it yet."),
    ("TicketWaits", "The ticket is not Reserved, for a reason unknown to this version of Rollcall."),
    ("TicketMissing", "The Order needs a ticket there and is about to create it."),
    ("TicketOnce", "A ticket has existed already, and the Order does not create a second one."),
    ("NextSchedule", "The next scheduled time of the Order."),
    ("NodeNotEligible", "The node gets no ticket; the text names the criterion that it does not meet."),
    ("NodeKept", "The node is not Ready: it gets no new ticket and keeps the one that it has."),
    ("NodeFull", "The node has too little free capacity for the ticket."),
    (
        "NodeHasRoom",
        "By the requests of its pods, the node has enough free capacity; something else keeps the guardian away.",
    ),
    ("Occupant", "A pod on a node without enough free capacity, with its requests and its priority."),
    ("Ends", "The time when the ticket expires if no pod claims it."),
    ("Endless", "The ticket does not expire."),
    ("NobodyAsks", "No waiting pod asks for the ticket."),
    ("Wanted", "A pod asks for the ticket and can claim it."),
    (
        "HandOver",
        "The capacity of the ticket is being handed over to the claiming pod; the text names the next step.",
    ),
    (
        "ClaimerGone",
        "The pod that claimed the ticket no longer exists, or the caller is not permitted to read it.",
    ),
    ("ClaimerRuns", "The pod that claimed the ticket is bound to a node."),
    ("ClaimerUnbound", "The pod that claimed the ticket has been released but is not bound to a node yet."),
    ("HasRoom", "The pod uses the capacity of a ticket, or is permitted to."),
    ("TicketChosen", "The pod is about to claim a ticket."),
    ("TicketAwaited", "The pod waits a few seconds for a ticket that is about to be Reserved."),
    ("OtherGateFirst", "The pod claims a ticket once no other scheduling gate holds it."),
    ("TicketPending", "The pod could claim the ticket, but the ticket does not hold its capacity yet."),
    ("TicketTooSmall", "The ticket reserves less than the pod requests."),
    ("TicketElsewhere", "The ticket is on a node where the pod cannot run."),
    ("TicketTaken", "Another pod has claimed the ticket."),
    ("More", "Further lines of the same kind are omitted."),
    ("Event", "The last warning event about the pod, with the message that Kubernetes gave it."),
];

/// A recommended action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    Advice(String),
    /// A command to copy, and its purpose.
    Command {
        purpose: Option<&'static str>,
        command: Command,
    },
}

/// A command. The code that prints it adds the name of the program and, if needed, the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub program: Program,
    /// The words between the program and the namespace flag: `logs`, `describe pod`.
    pub verb: String,
    /// `None` if the command has no namespace.
    pub namespace: Option<Arc<str>>,
    pub arguments: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Kubectl,
    Rollcall,
}

impl Hint {
    pub fn kubectl(verb: &str, namespace: &Arc<str>, arguments: impl Into<String>) -> Hint {
        Hint::command(Program::Kubectl, verb, Some(namespace.clone()), arguments)
    }

    /// A `kubectl` command about a cluster-scoped object.
    pub fn kubectl_cluster(verb: &str, arguments: impl Into<String>) -> Hint {
        Hint::command(Program::Kubectl, verb, None, arguments)
    }

    pub fn rollcall(verb: &str, namespace: &Arc<str>, arguments: impl Into<String>) -> Hint {
        Hint::command(Program::Rollcall, verb, Some(namespace.clone()), arguments)
    }

    fn command(
        program: Program,
        verb: &str,
        namespace: Option<Arc<str>>,
        arguments: impl Into<String>,
    ) -> Hint {
        let (verb, arguments) = (verb.to_owned(), arguments.into());
        Hint::Command { purpose: None, command: Command { program, verb, namespace, arguments } }
    }

    /// Adds the purpose of the command. Advice stays as it is.
    pub fn to(self, purpose: &'static str) -> Hint {
        match self {
            Hint::Command { command, .. } => Hint::Command { purpose: Some(purpose), command },
            Hint::Advice(text) => Hint::Advice(text),
        }
    }
}

impl Line {
    pub fn new(code: &'static str, text: impl Into<String>, since: Timestamp, object: Target) -> Line {
        let (hints, below) = (Vec::new(), Vec::new());
        Line { code, text: text.into(), since, object, hints, reason: None, below }
    }

    /// A line about a pod that has not started. Some callers replace it with a more precise one.
    pub fn not_started(pod: &Pod, trouble: &str, now: Timestamp) -> Line {
        let reason = Reason::NotStarted { pod: pod.name.clone(), trouble: Some(trouble.to_owned()) };
        let text = reason.dated(&elapsed(pod.created, now));
        Line {
            reason: Some(reason.clone()),
            ..Line::new(reason.code(), text, pod.created, Target::of_pod(pod))
        }
    }

    pub fn with(mut self, below: Vec<Line>) -> Line {
        self.below = below;
        self
    }

    pub fn hint(mut self, hint: Hint) -> Line {
        self.hints.push(hint);
        self
    }
}

/// Elapsed time in whole seconds; never negative, even if clocks disagree.
pub fn elapsed(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    human(Duration::from_secs(seconds.unsigned_abs()))
}

/// A duration in the notation of Kubernetes: `1h30m`, `1m30s`, `1.5s`.
pub fn human(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = String::new();
    if h > 0 {
        text += &format!("{h}h");
    }
    if m > 0 {
        text += &format!("{m}m");
    }
    match (s, millis) {
        (0, 0) if !text.is_empty() => {}
        (_, 0) => text += &format!("{s}s"),
        (_, _) => text += format!("{s}.{millis:03}").trim_end_matches('0').to_string().as_str(),
    }
    if millis > 0 { text + "s" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        for (millis, text) in [
            (0, "0s"),
            (900, "0.9s"),
            (1500, "1.5s"),
            (90_000, "1m30s"),
            (5_400_000, "1h30m"),
            (61_250, "1m1.25s"),
        ] {
            assert_eq!(human(Duration::from_millis(millis)), text);
        }
    }
}
