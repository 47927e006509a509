//! Checks that pods are released in the order of their groups, counted over the whole cluster.

use super::history::Violation;
use super::seen::Seen;
use super::world::{self, Group, Members, SequenceRule, World};
use crate::store::{Change, Key};
use jiff::Timestamp;
use rollcall_api::names;
use serde_json::Value;
use std::collections::BTreeMap;

/// The pods, groups and sequences committed so far.
pub struct ReleaseOrder {
    world: &'static World,
    seen: Seen,
    /// Whether clocks are wrong in this run. Times are then not checked.
    pub clocks_are_wrong: bool,
    /// Whether two controllers act at the same time. The limit of pods that start at once is then not checked.
    pub two_act: bool,
    pods: BTreeMap<Key, ReleaseOrderPod>,
    /// Since when each group has been complete, by index of its rule and position.
    complete: BTreeMap<(usize, usize), Timestamp>,
    sequences: BTreeMap<usize, Sequence>,
    /// The latest requested restart, by rule.
    second_starts: BTreeMap<usize, SecondStart>,
}

/// A requested restart of a sequence. Only completions after the request count for it.
struct SecondStart {
    token: String,
    complete: BTreeMap<usize, Timestamp>,
    /// The value of [`Seen::moment`] when a controller confirmed the restart.
    begun: Option<u64>,
}

struct ReleaseOrderPod {
    uid: String,
    tier: String,
    arrived: bool,
    /// Released by a controller, and not arrived yet.
    starting: bool,
}

#[derive(Default)]
struct Sequence {
    /// The uid while the sequence exists.
    uid: Option<String>,
    suspended: bool,
    deleted: bool,
    released: u64,
}

impl ReleaseOrder {
    pub fn new(world: &'static World, seen: Seen) -> ReleaseOrder {
        ReleaseOrder {
            world,
            seen,
            clocks_are_wrong: false,
            two_act: false,
            pods: BTreeMap::new(),
            complete: BTreeMap::new(),
            sequences: BTreeMap::new(),
            second_starts: BTreeMap::new(),
        }
    }

    /// Records a change of a pod by any author.
    pub fn pod(&mut self, change: &Change) {
        let key = &change.key;
        if &*key.namespace != world::NAMESPACE {
            return;
        }
        let known = self.pods.remove(key).filter(|known| known.uid == change.object.uid());
        let was = known.as_ref().is_some_and(|known| known.arrived);
        let arrived = change.after().is_some_and(|pod| world::has_arrived(pod));
        if !change.deleted {
            let starting = known.is_some_and(|known| known.starting) && !arrived;
            let (uid, tier) = (change.object.uid().to_owned(), world::tier(&change.object).to_owned());
            self.pods.insert(key.clone(), ReleaseOrderPod { uid, tier, arrived, starting });
        }
        if arrived && !was {
            self.record_complete_groups(change.at);
        }
    }

    /// Records the groups that are complete after an arrival.
    fn record_complete_groups(&mut self, at: Timestamp) {
        for (place, rule) in self.world.rules.iter().enumerate() {
            for (position, group) in rule.groups.iter().enumerate() {
                let by_pods = !matches!(group.members, Members::Job(_));
                if by_pods && self.count(rule, position, |pod| pod.arrived) >= group.required {
                    self.complete.entry((place, position)).or_insert(at);
                    if let Some(start) = self.second_starts.get_mut(&place) {
                        start.complete.entry(position).or_insert(at);
                    }
                }
            }
        }
    }

    /// The number of members of a group that fulfil a condition.
    fn count(&self, rule: &SequenceRule, position: usize, which: impl Fn(&ReleaseOrderPod) -> bool) -> usize {
        let members = self.pods.iter().filter(|(_, pod)| which(pod));
        members.filter(|(key, pod)| rule.group_of(&key.name, &pod.tier) == Some(position)).count()
    }

    pub fn job(&mut self, change: &Change) {
        if !world::is_done(&change.object) {
            return;
        }
        for (place, rule) in self.world.rules.iter().enumerate() {
            let of_it =
                |group: &Group| matches!(group.members, Members::Job(name) if name == &*change.key.name);
            if let Some(position) = rule.groups.iter().position(of_it) {
                self.complete.entry((place, position)).or_insert(change.at);
                if let Some(start) = self.second_starts.get_mut(&place) {
                    start.complete.entry(position).or_insert(change.at);
                }
            }
        }
    }

    /// Records a requested or a confirmed restart.
    fn second_start(&mut self, place: usize, change: &Change) {
        let asked = change.object["metadata"]["annotations"][names::BEGIN_AGAIN].as_str();
        let Some(token) = asked.filter(|_| !change.deleted) else {
            self.second_starts.remove(&place);
            return;
        };
        if self.second_starts.get(&place).is_none_or(|start| start.token != token) {
            let rule = &self.world.rules[place];
            let complete = rule.groups.iter().enumerate().filter_map(|(position, group)| {
                // A completed Job stays completed across restarts.
                let done = matches!(group.members, Members::Job(_))
                    .then(|| self.complete.get(&(place, position)).copied());
                let arrived = || self.count(rule, position, |pod| pod.arrived) >= group.required;
                Some((position, done.unwrap_or_else(|| arrived().then_some(change.at))?))
            });
            let complete = complete.collect();
            let start = SecondStart { token: token.to_owned(), complete, begun: None };
            self.second_starts.insert(place, start);
        }
        if let Some(start) = self.second_starts.get_mut(&place)
            && start.begun.is_none()
            && change.object["status"]["begunAgain"] == start.token.as_str()
        {
            start.begun = Some(self.seen.moment());
            self.sequences.entry(place).or_default().released = 0;
        }
    }

    /// Since when a group is complete, from the view of the process that sent the current write. The first start counts
    /// until the process has received the restart request and a controller has confirmed it.
    fn complete_since(&self, place: usize, position: usize, process: usize) -> Option<Timestamp> {
        let first = self.complete.get(&(place, position)).copied();
        let Some(start) = self.second_starts.get(&place) else { return first };
        let begun = start.begun.is_some_and(|begun| begun < self.seen.sent());
        match begun && self.seen.knew(process, &start.token) && !self.two_act {
            true => start.complete.get(&position).copied(),
            false => first,
        }
    }

    /// Checks the release of a pod by a controller.
    pub fn released(&mut self, change: &Change, process: usize) -> Vec<Violation> {
        let name = &*change.key.name;
        let tier = world::tier(&change.object).to_owned();
        if let Some(pod) = self.pods.get_mut(&change.key) {
            pod.starting = true;
        }
        let (mut found, mut asked_for) = (Vec::new(), false);
        for (place, rule) in self.world.rules.iter().enumerate() {
            let Some(position) = rule.group_of(name, &tier).filter(|_| rule.permitted) else { continue };
            let sequence = self.sequences.entry(place).or_default();
            // A controller only follows sequences that it has received. A deleted sequence may still release its pods.
            let there = sequence.uid.as_ref().is_some_and(|uid| self.seen.knew(process, uid));
            asked_for |= there || sequence.deleted && rule.lets_go;
            if there {
                sequence.released += 1;
                let suspended = sequence.suspended.then(|| format!("while {} is suspended", rule.sequence));
                let too_early = || self.too_early(place, position, process, change.at);
                let wrong = suspended.or_else(|| too_early().filter(|_| rule.guard.is_none()));
                let wrong = wrong.or_else(|| self.too_many(rule, position));
                found.extend(wrong.map(|why| ("S1", format!("pod {name} was released {why}"))));
            }
        }
        if !asked_for {
            found.push(("S6", format!("pod {name} was released without a sequence that permits it")));
        }
        found.into_iter().map(|(invariant, detail)| Violation { invariant, detail }).collect()
    }

    /// Why the group must still wait.
    fn too_early(&self, place: usize, position: usize, process: usize, at: Timestamp) -> Option<String> {
        let earlier = position.checked_sub(1)?;
        let group = &self.world.rules[place].groups[earlier];
        let Some(since) = self.complete_since(place, earlier, process) else {
            return Some(format!("before {} was complete", group.name));
        };
        let settled = at.duration_since(since).as_millis();
        let early = !self.clocks_are_wrong && settled < i128::from(group.settle_seconds * 1000);
        early.then(|| format!("{settled} ms after {} was complete", group.name))
    }

    fn too_many(&self, rule: &SequenceRule, position: usize) -> Option<String> {
        let limit = rule.groups[position].at_once;
        if self.two_act || limit == usize::MAX {
            return None;
        }
        let starting = self.count(rule, position, |pod| pod.starting);
        (starting > limit)
            .then(|| format!("while {starting} pods of the group were starting, including this one"))
    }

    /// Records and checks a change of a sequence by any author.
    pub fn sequence(&mut self, change: &Change) -> Option<Violation> {
        let place = self.world.rules.iter().position(|rule| rule.key() == change.key)?;
        self.second_start(place, change);
        let rule = &self.world.rules[place];
        let sequence = self.sequences.entry(place).or_default();
        sequence.uid = change.after().map(|sequence| sequence.uid().to_owned());
        sequence.suspended = change.object["spec"]["suspend"] == true;
        sequence.deleted |= change.deleted;
        if change.deleted {
            return None;
        }
        let phase = |object: &Value| object["status"]["phase"].as_str().unwrap_or("Pending").to_owned();
        let before = change.before.as_ref().map_or("Pending".into(), |before| phase(before));
        let now = phase(&change.object);
        let broken = |detail: String| Some(Violation { invariant: "S9", detail });
        if matches!(&*before, "InProgress" | "Completed") && now == "Pending" && sequence.released > 0 {
            return broken(format!("{} went from {before} to Pending", rule.sequence));
        }
        // A sequence in Node scope is checked by `node_order`.
        if now == "Completed" && before != "Completed" && rule.guard.is_none() {
            let start = self.second_starts.get(&place).filter(|start| start.begun.is_some());
            let complete = |position: &usize| match start {
                Some(start) => start.complete.contains_key(position),
                None => self.complete.contains_key(&(place, *position)),
            };
            let late: Vec<usize> = (0..rule.groups.len()).filter(|position| !complete(position)).collect();
            if !late.is_empty() {
                return broken(format!(
                    "{} is Completed although its groups {late:?} never were complete",
                    rule.sequence
                ));
            }
        }
        None
    }
}
