//! Checks a history against the rules.

use serde_json::{Value, json};

use super::history::{History, Life, Release, Version, meant};
use super::{Rules, Violation};
use crate::common::lab::OWN_NAMESPACE;
use crate::common::scene::{condition, gates};

/// The default gate.
const GATE: &str = "podsequence.example.com/sequence-gate";

pub fn judge(history: &History, rules: &Rules) -> Vec<Violation> {
    let judge = Judge { history, rules };
    let mut found = Vec::new();
    for release in history.releases().iter().filter(|release| release.user == rules.account) {
        judge.release(release, &mut found);
    }
    for pod in history.pods.values() {
        judge.writes_to_pod(pod, &mut found);
    }
    for sequence in history.sequences.values() {
        judge.writes_to_sequence(sequence, &mut found);
    }
    judge.other_writes(&mut found);
    found
}

struct Judge<'a> {
    history: &'a History,
    rules: &'a Rules,
}

/// A version of a sequence.
#[derive(Clone, Copy)]
struct Standing<'a> {
    life: &'a Life,
    object: &'a Value,
}

impl Standing<'_> {
    fn groups(&self) -> &[Value] {
        self.object["spec"]["podGroups"].as_array().map_or(&[], Vec::as_slice)
    }

    fn gate(&self) -> &str {
        self.object["spec"]["schedulingGateName"].as_str().unwrap_or(GATE)
    }

    fn target(&self) -> &str {
        self.object["spec"]["namespace"].as_str().unwrap_or(&self.life.namespace)
    }

    fn continuous(&self) -> bool {
        self.object["spec"]["enforcement"] == "Continuous"
    }

    /// Returns the earliest group that the pod belongs to.
    fn group_of(&self, pod: &Value) -> Option<usize> {
        self.groups().iter().position(|group| claims(group, pod))
    }

    fn title(&self, position: usize) -> String {
        let name = self.groups()[position]["name"].as_str();
        name.map_or_else(|| format!("Group {}", position + 1), str::to_owned)
    }

    /// Returns the groups that a group waits for.
    fn waits_for(&self, position: usize) -> Vec<usize> {
        let group = &self.groups()[position];
        let named: Vec<&str> =
            group["dependsOn"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !named.is_empty() {
            let place = |name: &&str| self.groups().iter().position(|group| group["name"] == **name);
            return named.iter().filter_map(place).collect();
        }
        match group["start"] == "Immediately" {
            true => Vec::new(),
            false => position.checked_sub(1).into_iter().collect(),
        }
    }

    fn opened_by_hand(&self, position: usize) -> bool {
        let list = self.object["metadata"]["annotations"]["podsequence.example.com/open-groups"].as_str();
        let title = self.title(position);
        list.unwrap_or_default().split(',').any(|name| name.trim() == title)
    }
}

impl Judge<'_> {
    /// Checks S1 for a removed gate, and S6: whether any sequence may remove it.
    fn release(&self, release: &Release, found: &mut Vec<Violation>) {
        let life = &self.history.pods[&release.uid];
        let Some(pod) = life.before(release.rv) else { return };
        let claims =
            self.history.sequences.values().filter_map(|sequence| self.claim(sequence, pod, release));
        let mut claimed = false;
        for (sequence, outcome) in claims {
            claimed = true;
            if let Err(detail) = outcome {
                let detail = format!("{} (rv {}), of {}: {detail}", release.pod, release.rv, sequence.name);
                found.push(Violation { invariant: "S1", detail });
            }
        }
        if !claimed {
            let detail = format!(
                "{} (rv {}): {} was removed, but no sequence may remove it",
                release.pod, release.rv, release.gate
            );
            found.push(Violation { invariant: "S6", detail });
        }
    }

    /// Checks a release against one sequence; `None` if the pod does not belong to the sequence through this gate.
    fn claim<'a>(
        &self,
        sequence: &'a Life,
        pod: &Version,
        release: &Release,
    ) -> Option<(&'a Life, Result<(), String>)> {
        // The controller decides on the newest version that it has seen, and an edit may not have reached it yet.
        let versions = sequence.versions.iter().rev().filter(|version| version.rv < release.rv);
        let mut specs: Vec<Standing> = Vec::new();
        for version in versions {
            let same = |known: &Standing| {
                known.object["metadata"]["generation"] == version.object["metadata"]["generation"]
            };
            let by_hand = &version.object["metadata"]["annotations"];
            let as_before =
                |known: &Standing| same(known) && known.object["metadata"]["annotations"] == *by_hand;
            if !specs.iter().any(as_before) {
                specs.push(Standing { life: sequence, object: &version.object });
            }
        }
        let mine = |spec: &&Standing| {
            spec.target() == self.rules.namespace
                && spec.gate() == release.gate
                && spec.group_of(&pod.object).is_some()
                && self.permitted(spec, release.rv)
        };
        let mut outcome = None;
        for spec in specs.iter().take(2).filter(mine) {
            let released_by_end =
                sequence.is_over(release.rv) && spec.object["spec"]["deletionPolicy"] != "Hold";
            let judged = match released_by_end {
                true => Ok(()),
                false => self.in_order(spec, &pod.object, release.rv),
            };
            outcome = match outcome {
                Some(Ok(())) => Some(Ok(())),
                _ => Some(judged),
            };
        }
        outcome.map(|outcome| (sequence, outcome))
    }

    fn permitted(&self, sequence: &Standing, rv: u64) -> bool {
        let from = &sequence.life.namespace;
        let invited =
            |guest: &super::Guest| guest.namespace == *from && (guest.since..guest.until).contains(&rv);
        *from == self.rules.namespace || self.rules.cross_namespace.iter().any(invited)
    }

    fn in_order(&self, sequence: &Standing, pod: &Value, rv: u64) -> Result<(), String> {
        let position = sequence.group_of(pod).ok_or("not a member")?;
        match (sequence.object["spec"]["scope"] == "Node", self.rules.by_node) {
            (true, true) => return Ok(()),
            (true, false) => return Err("released for a sequence of Node scope".into()),
            (false, _) => {}
        }
        let opened = self.opened(sequence, position)?;
        // With enforcement Bootstrap, later pods of a group that has been complete are released at once.
        let been_complete =
            || !sequence.continuous() && self.held_from(sequence, position, 0).is_some_and(|at| at < rv);
        if opened >= rv && !been_complete() {
            return Err(format!("group {:?} opened only at rv {opened}", sequence.title(position)));
        }
        self.start_limit(sequence, position, rv)
    }

    /// Returns the first version when a group may open, or the reason why it is still blocked at the end of the log.
    fn opened(&self, sequence: &Standing, position: usize) -> Result<u64, String> {
        if sequence.opened_by_hand(position) {
            return Ok(0);
        }
        let mut opened = 0;
        for earlier in sequence.waits_for(position) {
            // Versions contain no times, so the tests themselves check that a timeout has expired.
            if sequence.groups()[earlier]["onTimeout"] == "Continue" {
                continue;
            }
            let own = self.opened(sequence, earlier)?;
            let held = self.held_from(sequence, earlier, own);
            let held = held.ok_or_else(|| format!("group {:?} never held", sequence.title(earlier)))?;
            opened = opened.max(held);
        }
        Ok(opened)
    }

    /// Returns the first version from `since` on with enough arrived members of the group.
    fn held_from(&self, sequence: &Standing, position: usize, since: u64) -> Option<u64> {
        let group = &sequence.groups()[position];
        let mut steps: Vec<(u64, &str, Option<bool>)> = Vec::new();
        for pod in self.history.pods.values() {
            for version in &pod.versions {
                let member = claims(group, &version.object) && !pod.is_over(version.rv);
                steps.push((version.rv, &pod.uid, member.then(|| arrived(group, &version.object))));
            }
            steps.extend(pod.ended.map(|ended| (ended, pod.uid.as_str(), None)));
        }
        steps.sort_by_key(|(rv, _, _)| *rv);
        let key = (sequence.life.name.clone(), sequence.title(position));
        let expected = group["expected"].as_u64().or(self.rules.expected.get(&key).copied());
        let expected = expected.or(group["pods"].as_array().map(|names| names.len() as u64));
        let mut members = std::collections::BTreeMap::new();
        for (index, (rv, uid, member)) in steps.iter().enumerate() {
            match member {
                Some(arrived) => drop(members.insert(*uid, *arrived)),
                None => drop(members.remove(uid)),
            }
            let last_of_version = steps.get(index + 1).is_none_or(|next| next.0 != *rv);
            let absent = group["optional"] == true && members.is_empty();
            let expected = expected.unwrap_or(members.len().max(1) as u64);
            let expected = if absent { 0 } else { expected };
            let arrived = members.values().filter(|arrived| **arrived).count() as u64;
            // An earlier state counts from `since` on, if it has not changed until then.
            let next = steps.get(index + 1).map_or(u64::MAX, |next| next.0);
            if last_of_version && next > since && arrived >= required(group, expected) {
                return Some((*rv).max(since));
            }
        }
        None
    }

    /// Checks that not more members are starting at the same time than the group allows.
    fn start_limit(&self, sequence: &Standing, position: usize, rv: u64) -> Result<(), String> {
        let group = &sequence.groups()[position];
        let Some(limit) = group["maxConcurrentStarts"].as_u64() else { return Ok(()) };
        let starting = self.history.pods.values().filter(|pod| {
            let Some(now) = pod.before(rv + 1).filter(|_| !pod.is_over(rv)) else { return false };
            claims(group, &now.object)
                && !gates(&now.object).contains(&sequence.gate())
                && !arrived(group, &now.object)
                && now.object["status"]["phase"] != "Failed"
        });
        let starting = starting.count() as u64;
        match starting <= limit {
            true => Ok(()),
            false => Err(format!("{starting} members were starting at once, the limit is {limit}")),
        }
    }

    /// Checks S2 and S7: writes of the account to a pod only remove gates, and are guarded with the pod's UID.
    fn writes_to_pod(&self, pod: &Life, found: &mut Vec<Violation>) {
        let mut add = |invariant, detail: String| found.push(Violation { invariant, detail });
        if let Some(first) = pod.versions.first().filter(|first| first.user == self.rules.account) {
            add("S2", format!("{} was written by {} before it was created", pod.name, first.user));
        }
        for (before, after) in pod.steps().filter(|(_, after)| after.user == self.rules.account) {
            if is_repetition(before, after) {
                continue;
            }
            let what = format!("{} (rv {})", pod.name, after.rv);
            if (after.verb.as_str(), after.path.as_str()) != ("patch", "pods") {
                add("S2", format!("{what}: {} {}", after.verb, after.path));
            }
            let (old, new) = (gates(&before.object), gates(&after.object));
            let taken: Vec<&&str> = old.iter().filter(|gate| !new.contains(gate)).collect();
            let kept: Vec<&str> = old.iter().copied().filter(|gate| new.contains(gate)).collect();
            let ours = |gate: &str| {
                self.history.sequences.values().any(|sequence| manages(sequence, gate, after.rv))
            };
            if taken.len() != 1 || !ours(taken[0]) || kept != new {
                add("S2", format!("{what}: the gates went from {old:?} to {new:?}"));
            }
            let mut rests = [rest(&before.object), rest(&after.object)];
            if self.rules.by_node {
                rests.iter_mut().for_each(forget_our_requirements);
            }
            if rests[0] != rests[1] {
                add("S2", format!("{what}: the write changed more than the gates"));
            }
            let meant = meant(&after.request);
            if meant.as_ref() != Some(&pod.uid) {
                add(
                    "S7",
                    format!("{what}: the write was guarded with UID {meant:?}, but the pod has {}", pod.uid),
                );
            }
        }
    }

    /// Checks that the account writes only the status of a sequence, and that the observed generation never decreases.
    fn writes_to_sequence(&self, sequence: &Life, found: &mut Vec<Violation>) {
        let mut seen = 0;
        for version in sequence.versions.iter().filter(|version| version.user == self.rules.account) {
            let what = format!("{}/{} (rv {})", sequence.namespace, sequence.name, version.rv);
            if (version.verb.as_str(), version.path.as_str()) != ("patch", "podsequences/status") {
                let detail = format!("{what}: {} {}", version.verb, version.path);
                found.push(Violation { invariant: "S2", detail });
            }
            let observed = version.object["status"]["observedGeneration"].as_u64().unwrap_or_default();
            if observed < seen {
                let detail = format!("{what}: observedGeneration went from {seen} to {observed}");
                found.push(Violation { invariant: "S9", detail });
            }
            seen = observed;
        }
    }

    /// Checks S6: all other writes are events about sequences, or notes and the lease in the controller's own namespace.
    fn other_writes(&self, found: &mut Vec<Violation>) {
        for event in &self.history.others {
            let allowed = match event.resource.as_str() {
                "events" => event.verb == "create",
                "configmaps" | "leases" => event.namespace == OWN_NAMESPACE,
                // Pods of other namespaces are checked with other logs.
                "pods" => event.namespace != self.rules.namespace,
                _ => false,
            };
            if !allowed {
                let detail = format!("{} {} in {:?}", event.verb, event.resource_path(), event.namespace);
                found.push(Violation { invariant: "S6", detail });
            }
        }
    }
}

/// Whether a sequence managed this gate at some time before `rv`.
fn manages(sequence: &Life, gate: &str, rv: u64) -> bool {
    let before = sequence.versions.iter().filter(|version| version.rv < rv);
    before
        .map(|version| Standing { life: sequence, object: &version.object })
        .any(|standing| standing.gate() == gate)
}

/// Whether a write only repeats the removal of a gate that is already removed. It changes nothing, and the answer contains a
/// version that another write created. An example is a binding, whose own answer does not contain the pod.
fn is_repetition(before: &Version, after: &Version) -> bool {
    let asked = after.request["spec"]["schedulingGates"].as_array().filter(|asked| asked.len() == 1);
    let Some(gate) = asked.and_then(|asked| asked[0]["name"].as_str()) else { return false };
    let uid = &after.request["metadata"]["uid"];
    let asks = json!({
        "metadata": {"uid": uid},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]},
    });
    after.request == asks
        && *uid == after.object["metadata"]["uid"]
        && !gates(&before.object).contains(&gate)
        && gates(&before.object) == gates(&after.object)
}

/// Returns the pod without the fields that a release changes: its gates, and fields that the API server maintains.
fn rest(pod: &Value) -> Value {
    let mut rest = pod.clone();
    if let Some(spec) = rest["spec"].as_object_mut() {
        spec.remove("schedulingGates");
    }
    if let Some(metadata) = rest["metadata"].as_object_mut() {
        for counted in ["resourceVersion", "generation", "managedFields"] {
            metadata.remove(counted);
        }
    }
    rest
}

/// Removes the requirements and tolerations that keep a pod off blocked nodes or let it onto them.
fn forget_our_requirements(pod: &mut Value) {
    const REQUIRED: &str = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let is = |entry: &Value, operator: &str| {
        let key = entry["key"].as_str().unwrap_or_default();
        key.starts_with("podsequence.example.com/") && entry["operator"] == operator
    };
    let ours = |requirement: &Value| is(requirement, "DoesNotExist");
    let tolerations = pod["spec"].get_mut("tolerations").and_then(Value::as_array_mut);
    if let Some(tolerations) = tolerations {
        tolerations.retain(|toleration| !(is(toleration, "Exists") && toleration["effect"] == "NoSchedule"));
    }
    let terms =
        pod["spec"].pointer_mut(REQUIRED).and_then(|required| required["nodeSelectorTerms"].as_array_mut());
    let Some(terms) = terms else { return };
    for term in terms.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(list) = term.get_mut("matchExpressions").and_then(Value::as_array_mut) {
            list.retain(|requirement| !ours(requirement));
            if list.is_empty() {
                term.remove("matchExpressions");
            }
        }
    }
    // An affinity that exists only because of Rollcall.
    if terms.iter().all(|term| *term == serde_json::json!({}))
        && let Some(spec) = pod["spec"].as_object_mut()
    {
        spec.remove("affinity");
    }
}

pub fn claims(group: &Value, pod: &Value) -> bool {
    // In these tests, pods of workloads have the label `app: <name of the workload>`.
    if group["workloadRef"].is_object() {
        return pod["metadata"]["labels"]["app"] == group["workloadRef"]["name"];
    }
    match (group["pods"].as_array(), &group["podSelector"]) {
        (Some(names), _) => names.contains(&pod["metadata"]["name"]),
        (None, selector) if selector.is_object() => selects(selector, &pod["metadata"]["labels"]),
        (None, _) => false,
    }
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let mut pairs = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    pairs.all(|(key, value)| labels[key] == *value)
        && expressions.all(|expression| {
            let label = &labels[expression["key"].as_str().unwrap_or_default()];
            let listed = expression["values"].as_array().is_some_and(|values| values.contains(label));
            match expression["operator"].as_str() {
                Some("In") => listed,
                Some("NotIn") => !listed,
                Some("Exists") => label.is_string(),
                Some("DoesNotExist") => label.is_null(),
                _ => false,
            }
        })
}

/// Returns how many of `expected` members must have arrived.
fn required(group: &Value, expected: u64) -> u64 {
    match &group["minReady"] {
        Value::Number(count) => count.as_u64().unwrap_or(expected),
        Value::String(percent) => {
            let percent: u64 = percent.trim_end_matches('%').parse().unwrap_or(100);
            (expected * percent).div_ceil(100)
        }
        _ => expected,
    }
}

/// Whether a pod has arrived according to the settings of its group.
pub fn arrived(group: &Value, pod: &Value) -> bool {
    let succeeded = pod["status"]["phase"] == "Succeeded";
    let ready = condition(&pod["status"], "Ready").is_some_and(|condition| condition["status"] == "True");
    match group["until"].as_str().unwrap_or("Auto") {
        "Ready" => ready || succeeded,
        "Succeeded" => succeeded,
        "Started" => succeeded || started(pod),
        _ => succeeded || ready && !runs_to_completion(pod),
    }
}

fn started(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let wanted = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    pod["status"]["phase"] == "Running"
        && statuses.is_some_and(|all| {
            all.len() == wanted && all.iter().all(|container| container["started"] == true)
        })
}

fn runs_to_completion(pod: &Value) -> bool {
    let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    matches!(pod["spec"]["restartPolicy"].as_str(), Some("Never" | "OnFailure"))
        && containers.all(|container| container["readinessProbe"].is_null())
}
