//! One line of the answer of `rollcall explain`, whichever feature it comes from.

use crate::{Timestamp, cluster::Target, facts::Pod, sequence::Reason};
use std::sync::Arc;
use std::time::Duration;

/// One line, with what it rests on below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// A stable word: the code of a reason, or one of [`CODES`].
    pub code: &'static str,
    /// The sentence, with the time that has gone by.
    pub text: String,
    /// Since when it is so.
    pub since: Timestamp,
    /// What it is about. An object that does not exist has no uid.
    pub object: Target,
    /// What to do, the best first.
    pub hints: Vec<Hint>,
    /// If it says why something waits: the same without the time.
    pub reason: Option<Reason>,
    pub below: Vec<Line>,
}

/// The codes of lines that are no reasons, and what they mean.
pub const CODES: &[(&str, &str)] = &[
    ("Held", "The pod is held by a gate of ours; the lines below say why."),
    ("Released", "The pod belongs to a group, and its gate is gone."),
    ("Arrived", "The pod has arrived by the rule of its group."),
    ("NotArrived", "The pod is out of its gate and has not arrived."),
    ("SeveralGates", "Several gates or sequences concern the pod; each has a line below."),
    ("NotClaimed", "The pod carries the gate of sequences, and no sequence that can be seen claims it."),
    ("NotHeld", "No gate holds the pod, and no sequence claims it."),
    ("AboutToBeReleased", "Nothing stands in the way: the controller is about to release the pod."),
    ("Sequence", "The sequence as a whole."),
    ("GroupOpen", "The group is open and has not arrived."),
    ("GroupComplete", "The group is complete."),
    ("GroupTimedOut", "The group has not arrived within its timeout."),
    ("GroupClosed", "The group waits for others."),
    ("NodeWaits", "The node has not gone through all groups."),
    ("NodeComplete", "The node has gone through all groups."),
    ("NoNodeOpen", "No node has reached the group of the pod."),
    ("NodesUnmarked", "Nodes that have not reached the group are being marked before pods are released."),
    ("WaitsForAgent", "An init container of the pod waits for a marker, a file or a socket of its node."),
    ("Agent", "The DaemonSet that writes the marker."),
    ("AgentNotReady", "The pod of the agent on this node is not ready."),
    (
        "AgentReady",
        "The pod of the agent on this node is ready: the wait is about to end, or the marker is stale.",
    ),
    ("AgentMissing", "The agent has no pod on this node yet."),
    ("AgentNotEligible", "The agent gets no pod on this node: selector, affinity or a taint."),
    ("AgentUnknown", "No DaemonSet that can be seen says that it writes the marker."),
    ("MarkerNotOnNode", "The file that is waited for is in no folder of the node."),
    ("MountNotPropagated", "The waiting container cannot see mounts that were made after its start."),
    ("NotOrdered", "The pod asks for an order of its containers, and was created while nobody gave it one."),
    ("LaunchHeld", "The pod waits for the ConfigMap by which its containers start in order."),
    (
        "BarrierTaken",
        "The ConfigMap that the pod needs for the order of its containers belongs to somebody else.",
    ),
    ("Launching", "The containers of the pod start in order, and not all ranks are ready."),
    ("RankPassed", "The containers of this rank are ready, or were."),
    ("RankOpen", "The containers of this rank may start, and are not ready."),
    ("RankClosed", "The containers of this rank wait for those of a higher one."),
    (
        "OrderUnjudged",
        "What the status of the Order says; the nodes, which would tell more, may not be read.",
    ),
    ("OrderGone", "The Order that made the ticket is gone, and the ticket is about to go."),
    ("OfOrder", "The Order that made the ticket."),
    ("TicketUnseen", "The ticket has no status: no controller has looked at it."),
    ("TicketWaits", "The ticket is not Reserved, for a reason that this version does not know."),
    ("TicketMissing", "A ticket is wanted there and is about to be made."),
    ("TicketOnce", "There was a ticket, and the Order makes no second one."),
    ("NextSchedule", "The next time of the schedule of the Order."),
    ("NodeNotEligible", "The node gets no ticket; the text names the criterion that it fails."),
    ("NodeKept", "The node is not Ready, gets no ticket, and keeps the one that it has."),
    ("NodeFull", "The node has too little left of what the ticket requests."),
    ("NodeHasRoom", "By what its pods request the node has room; something else keeps the guardian away."),
    ("Occupant", "A pod on a node that has no room, with what it requests and its priority."),
    ("Ends", "When the room of the ticket is given up, if nobody claims it."),
    ("Endless", "The ticket has no end."),
    ("NobodyAsks", "No pod that waits asks for the ticket."),
    ("Wanted", "A pod wants the ticket and can have it."),
    ("HandOver", "The room of the ticket is being given to the pod; the text names the next step."),
    ("ClaimerGone", "The pod that claimed the ticket is gone, or may not be read."),
    ("ClaimerRuns", "The pod that claimed the ticket is on a node."),
    ("ClaimerUnbound", "The pod that claimed the ticket has been let go and is on no node yet."),
    ("HasRoom", "The pod has the room of a ticket, or may take it."),
    ("TicketChosen", "The pod is about to get a ticket."),
    ("TicketAwaited", "The pod waits a few seconds for a ticket that is about to be Reserved."),
    ("OtherGateFirst", "The pod gets a ticket when no other gate holds it."),
    ("TicketPending", "The pod could have the ticket, and its room is not kept yet."),
    ("TicketTooSmall", "The ticket keeps less than the pod requests."),
    ("TicketElsewhere", "The ticket is on a node where the pod cannot run."),
    ("TicketTaken", "Another pod has claimed the ticket."),
    ("More", "There are more of the same."),
    ("Event", "The last warning event about the pod, in Kubernetes' own words."),
];

/// What to do about a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    Advice(String),
    /// A command that can be pasted, and a word about what it does.
    Command {
        purpose: Option<&'static str>,
        command: Command,
    },
}

/// A command. Whoever prints it knows the name of the program, and whether the namespace has to be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub program: Program,
    /// What stands between the program and the flag of the namespace: `logs`, `describe pod`.
    pub verb: String,
    /// `None` where the command is about the whole cluster.
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

    /// About an object that has no namespace.
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

    /// The same with a word about what it does.
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

    /// A pod that has not started, whoever waits for it: those who can look further do.
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

/// Time gone by, in whole seconds; never negative, whatever clocks say.
pub fn elapsed(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    human(Duration::from_secs(seconds.unsigned_abs()))
}

/// A duration as a person writes it: `1h30m`, `90s` as `1m30s`, `1.5s`.
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
