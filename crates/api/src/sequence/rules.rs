//! The CEL rules of a `PodSequence`: constraints that the schema cannot express. Each has the same condition in Rust
//! beside it.
//!
//! The API server estimates the cost of every rule from the largest object that the schema admits, so no rule compares
//! all groups with all others. The oldest supported Kubernetes is 1.33: comprehensions with two variables exist, but
//! the newer list functions (`distinct`, `sort`, `slice`) do not.

use super::limits;
use crate::duration::{self, GoDuration};
use crate::names;
use crate::rule::{Rule, ensure, has, list};
use crate::shared_rules::{self, parse_duration};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum number of names in a message.
const SHOWN: usize = 10;

/// The message for an invalid `minReady`.
pub const MIN_READY_MESSAGE: &str = "must be a number from 0 to 1000000 or a percentage from 0% to 100%";

/// The fields that select the members of a group.
const MEMBERS: [&str; 3] = ["pods", "podSelector", "workloadRef"];

/// All rules of `PodSequence`.
pub fn all() -> Vec<Rule> {
    [spec(), groups(), group(), gate(), min_ready(), timeout(), workload_ref(), node_ready()]
        .into_iter()
        .flatten()
        .collect()
}

/// Rules for `spec`.
pub fn spec() -> Vec<Rule> {
    let node_only = "(has(g.nodeReady) || (has(g.nodeSelector) && size(g.nodeSelector) > 0))";
    let max = limits::NODE_GROUPS;
    vec![
        Rule::new(
            format!("self.scope != 'Node' || size(self.podGroups) <= {max}"),
            format!("scope: Node allows at most {max} groups"),
            at_most_32_groups_per_node,
        )
        .expression(format!(
            "'scope: Node allows at most {max} groups, not %d'.format([size(self.podGroups)])"
        ))
        .at(".podGroups"),
        Rule::new(
            format!("self.scope == 'Node' || !self.podGroups.exists(g, {node_only})"),
            "nodeSelector and nodeReady need scope: Node",
            node_fields_need_node_scope,
        )
        .expression(format!(
            "[self.podGroups.transformList(i, g, {node_only}, i)[0]].map(i, 'spec.podGroups[%s].%s: needs scope: \
             Node'.format([string(i), has(self.podGroups[i].nodeReady) ? 'nodeReady' : 'nodeSelector']))[0]"
        ))
        .at(".podGroups")
        .reason("FieldValueForbidden"),
        Rule::new(
            "self.scope == 'Node' || self.nodeGuard != 'Taints'",
            "Taints needs scope: Node",
            taints_need_node_scope,
        )
        .at(".nodeGuard")
        .reason("FieldValueForbidden"),
    ]
}

fn is_node_scope(spec: &Value) -> bool {
    spec["scope"] == "Node"
}

fn at_most_32_groups_per_node(spec: &Value) -> Result<(), String> {
    let (count, max) = (list(spec, "podGroups").len(), limits::NODE_GROUPS);
    ensure(!is_node_scope(spec) || count <= max, || {
        format!("scope: Node allows at most {max} groups, not {count}")
    })
}

fn node_fields_need_node_scope(spec: &Value) -> Result<(), String> {
    for (index, group) in list(spec, "podGroups").iter().enumerate() {
        let labels = group["nodeSelector"].as_object().is_some_and(|labels| !labels.is_empty());
        let field = match has(group, "nodeReady") {
            true => "nodeReady",
            false => "nodeSelector",
        };
        ensure(is_node_scope(spec) || !(labels || has(group, "nodeReady")), || {
            format!("spec.podGroups[{index}].{field}: needs scope: Node")
        })?;
    }
    Ok(())
}

fn taints_need_node_scope(spec: &Value) -> Result<(), String> {
    ensure(is_node_scope(spec) || spec["nodeGuard"] != "Taints", || "Taints needs scope: Node".into())
}

/// Rules for `spec.podGroups`: names are unique, and `dependsOn` names earlier groups.
///
/// It is one rule, because both conditions need the map from name to index. Building that map fails if a name occurs
/// twice; the API server then answers `insert failed: key NAME already exists evaluating rule:` and `message`. In every
/// other case it answers with `messageExpression`.
pub fn groups() -> Vec<Rule> {
    let names = "self.transformMapEntry(i, g, has(g.name), {g.name: i})";
    let earlier = format!(
        "[self.transformList(j, h, j < i && j < {SHOWN} && has(h.name), h.name)].map(e, size(e) == 0 ? 'none of them has \
         a name' : e.join(', '))[0]"
    );
    vec![
        Rule::new(
            format!(
                "[{names}].all(names, self.all(i, g, !has(g.dependsOn) || g.dependsOn.all(d, d in names && names[d] < \
                 i)))"
            ),
            DUPLICATE_NAME_MESSAGE,
            names_are_unique_and_dependencies_earlier,
        )
        .expression(format!(
            "[{names}].map(names, [self.transformList(i, g, has(g.dependsOn) && g.dependsOn.exists(d, !(d in names) || \
             names[d] >= i), i)[0]].map(i, 'spec.podGroups[%s].dependsOn: \"%s\" is not an earlier group of this \
             sequence (%s%s)'.format([string(i), self[i].dependsOn.filter(d, !(d in names) || names[d] >= i)[0], \
             {earlier}, i > {SHOWN} ? ', ...' : '']))[0])[0]"
        )),
    ]
}

const DUPLICATE_NAME_MESSAGE: &str = "the names of the groups must differ";

fn names_are_unique_and_dependencies_earlier(groups: &Value) -> Result<(), String> {
    let groups = groups.as_array().map_or(&[][..], Vec::as_slice);
    let mut index_of = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        let Some(name) = group["name"].as_str() else { continue };
        ensure(index_of.insert(name, index).is_none(), || {
            format!("spec.podGroups[{index}].name: {DUPLICATE_NAME_MESSAGE}, and \"{name}\" occurs twice")
        })?;
    }
    for (index, group) in groups.iter().enumerate() {
        for dependency in list(group, "dependsOn").iter().filter_map(Value::as_str) {
            ensure(index_of.get(dependency).is_some_and(|earlier| *earlier < index), || {
                let earlier = earlier_names(&groups[..index]);
                format!(
                    "spec.podGroups[{index}].dependsOn: \"{dependency}\" is not an earlier group of this sequence \
                     ({earlier})"
                )
            })?;
        }
    }
    Ok(())
}

fn earlier_names(groups: &[Value]) -> String {
    let names: Vec<&str> = groups.iter().take(SHOWN).filter_map(|group| group["name"].as_str()).collect();
    match (names.is_empty(), groups.len() > SHOWN) {
        (true, false) => "none of them has a name".to_owned(),
        (true, true) => "none of them has a name, ...".to_owned(),
        (false, false) => names.join(", "),
        (false, true) => format!("{}, ...", names.join(", ")),
    }
}

/// Rules for each group.
pub fn group() -> Vec<Rule> {
    let given = "['pods', 'podSelector', 'workloadRef'].filter(f, f == 'pods' ? has(self.pods) : f == 'podSelector' ? \
                 has(self.podSelector) : has(self.workloadRef))";
    let mut rules = vec![
        Rule::new(
            format!(
                "[has(self.pods), has(self.podSelector), has(self.workloadRef)].exists_one(given, given) || \
                 (has(self.nodeReady) && !({HAS_MEMBERS}))"
            ),
            "exactly one of pods, podSelector and workloadRef must be given",
            exactly_one_kind_of_members,
        )
        .expression(format!(
            "'exactly one of pods, podSelector and workloadRef must be given, not ' + [{given}].map(g, size(g) == 0 ? \
             'none' : g.join(' and '))[0]"
        )),
        Rule::new(
            "self.start != 'Immediately' || !has(self.dependsOn) || size(self.dependsOn) == 0",
            "a group that starts Immediately waits for nothing, so it cannot have dependsOn",
            immediate_groups_depend_on_nothing,
        )
        .at(".dependsOn")
        .reason("FieldValueForbidden"),
        Rule::new(
            "!has(self.pods) || !has(self.expected) || self.expected == size(self.pods)",
            "must be left out or be the number of names in pods",
            expected_is_the_number_of_names,
        )
        .expression(
            "'must be left out or be the number of names in pods, %d, not %d'.format([size(self.pods), self.expected])",
        )
        .at(".expected"),
    ];
    rules.extend(fields_about_members());
    rules
}

/// Whether a group selects members.
const HAS_MEMBERS: &str = "has(self.pods) || has(self.podSelector) || has(self.workloadRef)";

/// The fields that a group of `nodeReady` alone must not have. `until` has a default, so it is always set.
fn fields_about_members() -> [Rule; 5] {
    let rule = |given: &str, path: &'static str, check: fn(&Value) -> Result<(), String>| {
        let rule = format!("!has(self.nodeReady) || {HAS_MEMBERS} || !({given})");
        Rule::new(rule, without_members(path), check).at(path).reason("FieldValueForbidden")
    };
    [
        rule("has(self.expected)", ".expected", |group| has_members_for(group, ".expected")),
        rule("has(self.minReady)", ".minReady", |group| has_members_for(group, ".minReady")),
        rule("has(self.maxConcurrentStarts)", ".maxConcurrentStarts", |group| {
            has_members_for(group, ".maxConcurrentStarts")
        }),
        rule("has(self.optional)", ".optional", |group| has_members_for(group, ".optional")),
        rule("self.until != 'Auto'", ".until", |group| has_members_for(group, ".until")),
    ]
}

fn without_members(path: &str) -> String {
    format!("a group of nodeReady alone has no members, so it cannot have {}", &path[1..])
}

fn has_members_for(group: &Value, path: &str) -> Result<(), String> {
    let given = match &group[&path[1..]] {
        Value::Null => false,
        value => path != ".until" || value != "Auto",
    };
    let has_members = MEMBERS.into_iter().any(|field| has(group, field));
    ensure(!has(group, "nodeReady") || has_members || !given, || without_members(path))
}

fn exactly_one_kind_of_members(group: &Value) -> Result<(), String> {
    let given: Vec<&str> = MEMBERS.into_iter().filter(|field| has(group, field)).collect();
    ensure(given.len() == 1 || given.is_empty() && has(group, "nodeReady"), || {
        let given = if given.is_empty() { "none".to_owned() } else { given.join(" and ") };
        format!("exactly one of pods, podSelector and workloadRef must be given, not {given}")
    })
}

fn immediate_groups_depend_on_nothing(group: &Value) -> Result<(), String> {
    ensure(group["start"] != "Immediately" || list(group, "dependsOn").is_empty(), || {
        "a group that starts Immediately waits for nothing, so it cannot have dependsOn".into()
    })
}

fn expected_is_the_number_of_names(group: &Value) -> Result<(), String> {
    let (Some(pods), Some(expected)) = (group["pods"].as_array(), group["expected"].as_u64()) else {
        return Ok(());
    };
    ensure(expected == pods.len() as u64, || {
        format!("must be left out or be the number of names in pods, {}, not {expected}", pods.len())
    })
}

/// Rules for `spec.schedulingGateName`.
pub fn gate() -> Vec<Rule> {
    let mut rules = shared_rules::qualified_name();
    rules.push(Rule::new(
        format!("!(self in ['{}', '{}'])", names::LAUNCH_GATE, names::TICKET_GATE),
        "is a gate that Rollcall removes for another reason; choose a name of your own",
        gate_is_not_another_of_ours,
    ));
    rules
}

fn gate_is_not_another_of_ours(gate: &Value) -> Result<(), String> {
    ensure(*gate != names::LAUNCH_GATE && *gate != names::TICKET_GATE, || {
        "is a gate that Rollcall removes for another reason; choose a name of your own".into()
    })
}

/// Rules for `minReady`.
pub fn min_ready() -> Vec<Rule> {
    vec![Rule::new(
        format!(
            "type(self) == int ? int(self) >= 0 && int(self) <= {} : string(self).matches('^(100|[1-9]?[0-9])%$')",
            limits::COUNT
        ),
        MIN_READY_MESSAGE,
        |value| {
            ensure(serde_json::from_value::<super::MinReady>(value.clone()).is_ok(), || {
                MIN_READY_MESSAGE.into()
            })
        },
    )]
}

/// Rules for `timeout`.
pub fn timeout() -> Vec<Rule> {
    let message = "must be longer than 0s; leave timeout out to wait without limit";
    let mut rules = shared_rules::duration();
    rules.push(Rule::new(
        format!("!self.matches(r'{}') || duration(self) > duration('0s')", duration::PATTERN),
        message,
        |value| match parse_duration(value) {
            Ok(GoDuration::ZERO) => {
                Err("must be longer than 0s; leave timeout out to wait without limit".into())
            }
            Ok(_) | Err(_) => Ok(()),
        },
    ));
    rules
}

/// Rules for `workloadRef`.
pub fn workload_ref() -> Vec<Rule> {
    vec![
        Rule::new(
            "self.apiVersion == (self.kind in ['Job', 'CronJob'] ? 'batch/v1' : 'apps/v1')",
            "must be batch/v1 for a Job or a CronJob, and apps/v1 for the other kinds",
            |workload| {
                let kind = workload["kind"].as_str().unwrap_or_default();
                let expected = if matches!(kind, "Job" | "CronJob") { "batch/v1" } else { "apps/v1" };
                ensure(workload["apiVersion"] == expected, || {
                    format!("must be {expected} for kind {kind}, not {}", workload["apiVersion"].as_str().unwrap_or(""))
                })
            },
        )
        .expression(
            "'must be %s for kind %s, not %s'.format([self.kind in ['Job', 'CronJob'] ? 'batch/v1' : 'apps/v1', \
             self.kind, self.apiVersion])",
        )
        .at(".apiVersion"),
    ]
}

/// Rules for `nodeReady`.
pub fn node_ready() -> Vec<Rule> {
    vec![Rule::new(
        "[has(self.csiDriver), has(self.allocatable), has(self.condition)].exists_one(given, given)",
        "exactly one of csiDriver, allocatable and condition must be given",
        |ready| {
            let given = ["csiDriver", "allocatable", "condition"]
                .into_iter()
                .filter(|field| has(ready, field))
                .count();
            ensure(given == 1, || "exactly one of csiDriver, allocatable and condition must be given".into())
        },
    )]
}
