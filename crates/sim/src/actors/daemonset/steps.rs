//! The pods that a DaemonSet creates and deletes in one reconciliation.

use super::nodes::{self, NodeFit, node_fit};
use super::{StoredPod, View};
use crate::actors::common::numbers::{Round, int_or_percent};
use crate::actors::common::{born, delete_this, pods};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::store::Key;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// Failed pods are replaced after one second, then with exponential back-off up to a quarter of an hour.
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(15);

pub struct Failures {
    wait: SignedDuration,
    last: Timestamp,
}

#[derive(Default)]
pub struct PodChanges {
    /// The nodes that get a new pod.
    create: Vec<String>,
    delete: Vec<StoredPod>,
    /// When to reconcile again because of failed pods.
    pub again: Option<Timestamp>,
}

impl PodChanges {
    pub fn carry_out(self, cluster: &mut Cluster, view: &View) -> Result<(), Refusal> {
        let spec = nodes::spec(view.set);
        for node in &self.create {
            cluster.create(Kind::Pod, nodes::new_pod(view.key, view.set, &spec, node, &view.hash))?;
        }
        for (key, pod) in &self.delete {
            delete_this(cluster, key, pod);
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

pub fn plan(view: &View, failures: &mut BTreeMap<(Key, String), Failures>) -> PodChanges {
    let mut plan = PodChanges::default();
    let spec = nodes::spec(view.set);
    let limits = Limits::from_spec(view, &spec);
    for node in &view.nodes {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        plan_node(view, &mut plan, name, node_fit(&spec, node), &limits, failures);
    }
    // Pods pinned to a deleted node would wait forever.
    for (name, pods) in &view.pods {
        if !view.nodes.iter().any(|node| node["metadata"]["name"] == **name) {
            plan.delete.extend(pods.iter().filter(|(_, pod)| pods::node(pod).is_empty()).cloned());
        }
    }
    // The number of pods is corrected first, the template afterwards.
    if plan.is_idle() && view.set["spec"]["updateStrategy"]["type"] != "OnDelete" {
        match limits.surge {
            0 => replace(view, &mut plan, &spec, limits.unavailable),
            surge => overlap(view, &mut plan, &spec, surge),
        }
    }
    plan
}

struct Limits {
    surge: i64,
    unavailable: i64,
}

impl Limits {
    fn from_spec(view: &View, spec: &Value) -> Limits {
        let strategy = &view.set["spec"]["updateStrategy"]["rollingUpdate"];
        let wanted = view.nodes.iter().filter(|node| node_fit(spec, node) == NodeFit::Wanted).count() as i64;
        let surge = int_or_percent(&strategy["maxSurge"], wanted, Round::Up).unwrap_or(0);
        let unavailable = int_or_percent(&strategy["maxUnavailable"], wanted, Round::Up).unwrap_or(1);
        let both_zero = wanted > 0 && surge == 0 && unavailable == 0;
        Limits { surge, unavailable: if both_zero { 1 } else { unavailable } }
    }
}

/// Plans the pods of one node.
fn plan_node(
    view: &View,
    plan: &mut PodChanges,
    node: &str,
    fit: NodeFit,
    limits: &Limits,
    failures: &mut BTreeMap<(Key, String), Failures>,
) {
    let Some(there) = view.pods.get(node) else {
        if fit == NodeFit::Wanted {
            plan.create.push(node.to_owned());
        }
        return;
    };
    let staying = there.iter().filter(|(_, pod)| !pod.is_terminating());
    if fit == NodeFit::Unwanted {
        plan.delete.extend(staying.cloned());
        return;
    }
    let (over, mut running): (Vec<&StoredPod>, Vec<&StoredPod>) =
        staying.partition(|(_, pod)| pods::is_over(pod));
    for pod in over {
        if pods::is_succeeded(&pod.1) || may_replace(view, plan, node, failures) {
            plan.delete.push(pod.clone());
        }
    }
    running.sort_by_key(|pod| age_key(pod));
    if limits.surge == 0 {
        plan.delete.extend(running.into_iter().skip(1).cloned());
        return;
    }
    if running.is_empty() && fit == NodeFit::Wanted {
        plan.create.push(node.to_owned());
    }
    let (mut new, mut old): (Vec<&StoredPod>, Vec<&StoredPod>) =
        running.into_iter().partition(|(_, pod)| view.is_updated(pod));
    // Two pods may coexist only while the old one is ready and the new one is not available yet.
    plan.delete.extend(new.drain(new.len().min(1)..).chain(old.drain(old.len().min(1)..)).cloned());
    if let ([new], [old]) = (new.as_slice(), old.as_slice())
        && (!pods::is_ready(&old.1) || view.is_available(&new.1))
    {
        plan.delete.push((*old).clone());
    }
}

/// Sorts bound pods first, then by age.
pub fn age_key(pod: &StoredPod) -> impl Ord + use<> {
    let (key, pod) = pod;
    (pods::node(pod).is_empty(), born(pod), key.clone())
}

fn may_replace(
    view: &View,
    plan: &mut PodChanges,
    node: &str,
    failures: &mut BTreeMap<(Key, String), Failures>,
) -> bool {
    match failures.get_mut(&(view.key.clone(), node.to_owned())) {
        Some(known) => {
            let quiet = view.now.duration_since(known.last);
            if quiet < known.wait {
                let again = view.now.checked_add(known.wait - quiet).unwrap_or(view.now);
                plan.again = Some(plan.again.map_or(again, |at| at.min(again)));
                return false;
            }
            // A failure long ago does not count.
            known.wait = match quiet > LONGEST_WAIT * 2 {
                true => FIRST_WAIT,
                false => (known.wait * 2).min(LONGEST_WAIT),
            };
            known.last = view.now;
        }
        None => {
            let first = Failures { wait: FIRST_WAIT, last: view.now };
            failures.insert((view.key.clone(), node.to_owned()), first);
        }
    }
    true
}

/// The new and the old pod on a node; `None` if there are several of one sort.
fn new_and_old<'a>(
    view: &View,
    pods: &'a [StoredPod],
) -> Option<(Option<&'a StoredPod>, Option<&'a StoredPod>)> {
    let staying = pods.iter().filter(|(_, pod)| !pod.is_terminating());
    let (new, old): (Vec<&StoredPod>, Vec<&StoredPod>) = staying.partition(|(_, pod)| view.is_updated(pod));
    (new.len() <= 1 && old.len() <= 1).then(|| (new.first().copied(), old.first().copied()))
}

/// All nodes that have a pod or should have one.
fn concerned<'a>(view: &'a View, spec: &Value) -> BTreeMap<String, &'a [StoredPod]> {
    let mut nodes: BTreeMap<String, &[StoredPod]> =
        view.pods.iter().map(|(node, pods)| (node.clone(), pods.as_slice())).collect();
    for node in view.nodes.iter().filter(|node| node_fit(spec, node) == NodeFit::Wanted) {
        nodes.entry(node["metadata"]["name"].as_str().unwrap_or_default().to_owned()).or_default();
    }
    nodes
}

/// Deletes old pods, up to the allowed number of unavailable ones. Unavailable old pods are deleted immediately.
fn replace(view: &View, plan: &mut PodChanges, spec: &Value, may_be_unavailable: i64) {
    let (mut unavailable, mut candidates) = (0, Vec::new());
    for pods in concerned(view, spec).into_values() {
        match new_and_old(view, pods) {
            Some((Some((_, new)), None)) => unavailable += i64::from(!view.is_available(new)),
            Some((None, Some(old))) if !view.is_available(&old.1) => {
                plan.delete.push(old.clone());
                unavailable += 1;
            }
            Some((None, Some(old))) => candidates.push(old.clone()),
            _ => unavailable += 1,
        }
    }
    let room = (may_be_unavailable - unavailable).max(0) as usize;
    plan.delete.extend(candidates.into_iter().take(room));
}

/// Creates new pods beside the old ones, up to the allowed surge.
fn overlap(view: &View, plan: &mut PodChanges, spec: &Value, surge: i64) {
    let (mut surging, mut candidates) = (0, Vec::new());
    for (node, pods) in concerned(view, spec) {
        let stored = view.nodes.iter().find(|one| one["metadata"]["name"] == *node);
        let wanted = stored.is_some_and(|stored| node_fit(spec, stored) == NodeFit::Wanted);
        match new_and_old(view, pods) {
            None => surging += 1,
            Some((_, None)) => {}
            Some((None, Some(old))) if !wanted => {
                if !view.is_available(&old.1) {
                    plan.delete.push(old.clone());
                }
            }
            Some((None, Some(old))) if !view.is_available(&old.1) => plan.create.push(node),
            Some((None, Some(_))) => candidates.push(node),
            Some((Some(new), Some(_))) if !view.is_available(&new.1) => surging += 1,
            Some((Some(_), Some(old))) => plan.delete.push(old.clone()),
        }
    }
    let room = (surge - surging).max(0) as usize;
    plan.create.extend(candidates.into_iter().take(room));
}
