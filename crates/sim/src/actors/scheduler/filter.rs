//! Whether a pod fits a node, and if not, why. Order and wording follow the real scheduler.

use super::neighbours::{Demands, Miss};
use super::node::{Needs, Node};
use super::requests::Amounts;
use crate::actors::common::placement;
use serde_json::json;
use std::borrow::Cow;

/// Why a node rejects a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    pub reasons: Vec<Cow<'static, str>>,
    /// Whether preemption cannot help, even if it removed all other pods.
    pub for_good: bool,
    /// Whether preemption could help, because resources or ports are missing.
    pub about_room: bool,
}

impl Unfit {
    fn new(reason: &'static str, for_good: bool) -> Unfit {
        Unfit { reasons: vec![reason.into()], for_good, about_room: false }
    }
}

pub fn check(needs: &Needs, demands: &Demands, node: &Node) -> Result<(), Unfit> {
    let spec = needs.spec();
    let tolerations = &spec["tolerations"];
    if node.object["spec"]["unschedulable"] == true {
        let taint = json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" });
        if !placement::tolerates(tolerations, &taint) {
            return Err(Unfit::new("node(s) were unschedulable", true));
        }
    }
    if node.unregistered {
        // The API server taints a new node until its kubelet has registered.
        let taint = json!({ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" });
        if !placement::tolerates(tolerations, &taint) {
            return Err(Unfit::new("node(s) had untolerated taint(s)", true));
        }
    }
    let borne =
        |taint: &serde_json::Value| !placement::keeps_away(taint) || placement::tolerates(tolerations, taint);
    if !node.taints().iter().all(borne) {
        return Err(Unfit::new("node(s) had untolerated taint(s)", true));
    }
    if !placement::selects_node(spec, &node.object) {
        return Err(Unfit::new("node(s) didn't match Pod's node affinity/selector", true));
    }
    room(needs, node)?;
    demands.check(node).map_err(|miss| match miss {
        Miss::NoSuchLabel => {
            Unfit::new("node(s) didn't match pod topology spread constraints (missing required label)", true)
        }
        Miss::Skewed => Unfit::new("node(s) didn't match pod topology spread constraints", false),
        Miss::NotNear => Unfit::new("node(s) didn't match pod affinity rules", true),
        Miss::NotAway => Unfit::new("node(s) didn't match pod anti-affinity rules", false),
        Miss::Unwanted => Unfit::new("node(s) didn't satisfy existing pods anti-affinity rules", false),
    })
}

/// Checks ports and resources. Nominated pods count like bound ones, unless they have a lower priority.
pub fn room(needs: &Needs, node: &Node) -> Result<(), Unfit> {
    let reserved =
        node.nominated.values().filter(|other| other.key != needs.key && other.priority >= needs.priority);
    let (mut pods, mut used) = (node.pods.len(), Cow::Borrowed(&node.used));
    for other in reserved {
        pods += 1;
        used.to_mut().add(&other.requests);
    }
    if !node.has_free(&needs.ports) {
        let mut unfit = Unfit::new("node(s) didn't have free ports for the requested pod ports", false);
        unfit.about_room = true;
        return Err(unfit);
    }
    resources(&needs.requests, node, pods, &used)
}

fn resources(wanted: &Amounts, node: &Node, pods: usize, used: &Amounts) -> Result<(), Unfit> {
    let mut unfit = Unfit { reasons: Vec::new(), for_good: false, about_room: true };
    if pods as i64 + 1 > node.most_pods {
        unfit.reasons.push("Too many pods".into());
    }
    let room = &node.room;
    for (reason, wanted, room, used) in [
        ("Insufficient cpu", wanted.cpu, room.cpu, used.cpu),
        ("Insufficient memory", wanted.memory, room.memory, used.memory),
        ("Insufficient ephemeral-storage", wanted.ephemeral, room.ephemeral, used.ephemeral),
    ] {
        if wanted > 0 && wanted > room - used {
            unfit.reasons.push(reason.into());
            unfit.for_good |= wanted > room;
        }
    }
    for (name, wanted) in wanted.others.iter().filter(|(_, wanted)| **wanted > 0) {
        let of = |amounts: &Amounts| amounts.others.get(name).copied().unwrap_or_default();
        if *wanted > of(room) - of(used) {
            unfit.reasons.push(format!("Insufficient {name}").into());
            unfit.for_good |= *wanted > of(room);
        }
    }
    if unfit.reasons.is_empty() { Ok(()) } else { Err(unfit) }
}
