use crate::commands::lint::rules::prelude::*;
use rollcall_core::sequence::spec::{Group, Members, OnTimeout};
use std::collections::{BTreeMap, BTreeSet};

pub const RULE: Rule = Rule {
    code: "RC110",
    severity: Severity::Error,
    title: "sequences that wait for each other",
    why: "A single sequence cannot contain a cycle, but two sequences can form one: the first holds A until B is ready, and \
          the second holds B until A is ready. A pod that belongs to two sequences is released only when both allow it.",
    hint: "# let one of the groups start without waiting\npodGroups:\n- name: Queue\n  start: Immediately",
    about_absence: false,
    check,
};

/// Edge of the wait graph: pods of a template wait for template `to`, because `group` of `sequence` holds them.
struct Edge {
    to: usize,
    sequence: usize,
    group: usize,
}

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    if claims.sequences.len() < 2 {
        return;
    }
    let edges = edges(all, claims);
    let mut reported = BTreeSet::new();
    for start in edges.keys() {
        let Some(circle) = circle(&edges, *start) else { continue };
        let mut members: Vec<usize> = circle.iter().map(|edge| edge.to).collect();
        members.sort_unstable();
        if !reported.insert(members) {
            continue;
        }
        let last = circle.last().expect("a circle has an edge");
        let name = |template: usize| claims.templates[template].object.full_name();
        let mut words = name(*start);
        for edge in &circle {
            let sequence = &claims.sequences[edge.sequence].object.name;
            words += &format!(" waits for {} (PodSequence {sequence})", name(edge.to));
            if edge.to != *start {
                words += ", which";
            }
        }
        let place = claims.sequences[last.sequence].group_field(last.group);
        found.at(&place, format!("deadlock: {words}"));
    }
}

/// Returns the wait graph, by waiting template. Lists of pod names count only for single-pod templates: other pods of a listed
/// StatefulSet may be in another group.
fn edges(all: &Manifests, claims: &Claims) -> BTreeMap<usize, Vec<Edge>> {
    let whole = |group: &Group, template: usize| match group.members {
        Members::Selector(_) | Members::Workload(_) | Members::None => true,
        Members::Names(_) => claims.templates[template].size() == Some(1),
    };
    // A group that times out and continues, or needs no ready pods, cannot block others indefinitely.
    let lets_pass = |group: &Group| {
        group.min_ready.required(u32::MAX) == 0
            || group.timeout.is_some() && group.on_timeout == OnTimeout::Continue
    };
    let mut edges: BTreeMap<usize, Vec<Edge>> = BTreeMap::new();
    for (number, position, place) in &claims.claims {
        let (sequence, template) = (&claims.sequences[*number], &claims.templates[*place]);
        let held =
            template.has_gate(&sequence.spec.gate) || gets_gate_at_admission(all, &template.object.namespace);
        if !held || !whole(&sequence.spec.groups[*position], *place) {
            continue;
        }
        for earlier in sequence.waits_for(*position) {
            let group = &sequence.spec.groups[earlier];
            if lets_pass(group) {
                continue;
            }
            let others = claims.places(*number, earlier).iter();
            for to in others.filter(|to| **to != *place && whole(group, **to)) {
                let edge = Edge { to: *to, sequence: *number, group: *position };
                edges.entry(*place).or_default().push(edge);
            }
        }
    }
    edges
}

/// Returns the shortest cycle through a template.
fn circle(edges: &BTreeMap<usize, Vec<Edge>>, start: usize) -> Option<Vec<&Edge>> {
    let mut came_by: BTreeMap<usize, (usize, &Edge)> = BTreeMap::new();
    let mut next = std::collections::VecDeque::from([start]);
    while let Some(at) = next.pop_front() {
        for edge in edges.get(&at).into_iter().flatten() {
            if edge.to == start {
                let mut way = vec![edge];
                let mut back = at;
                while back != start {
                    let (from, edge) = came_by.get(&back)?;
                    way.push(edge);
                    back = *from;
                }
                way.reverse();
                return Some(way);
            }
            came_by.entry(edge.to).or_insert_with(|| {
                next.push_back(edge.to);
                (at, edge)
            });
        }
    }
    None
}
