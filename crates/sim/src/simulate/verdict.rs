//! Builds the report of a run: what has arrived, what is stuck, and why.

use super::causes::Causes;
use super::never::{LackingWorkload, never};
use super::timeline::{PodLife, Timeline};
use super::{arrived, chain, dns, facts, notes, tickets};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::plan::Plan;
use crate::report::{GroupReport, Never, Outcome, PodReport, Report, SequenceReport, TicketReport};
use jiff::Timestamp;
use rollcall_core::line::Line;
use rollcall_core::sequence::explain::explain_sequence;
use rollcall_core::sequence::index::SequenceEntry;
use rollcall_core::sequence::membership::{Asking, KnownPod};
use rollcall_core::sequence::spec::{Group, Members, Scope};
use rollcall_core::sequence::{GroupView, evaluate};
use serde_json::Value;
use std::collections::BTreeMap;

pub fn report(
    plan: &Plan,
    cluster: &Cluster,
    timeline: &Timeline,
    outcome: Outcome,
    mut notes: Vec<String>,
) -> Report {
    let index = facts::index(cluster);
    let causes = Causes { plan, cluster, index: &index, now: cluster.now() };
    let lives = timeline.lives();
    let reporter = Reporter { causes, timeline, lives: &lives };
    let verdicts: Vec<SequenceVerdict> =
        index.sequences.iter().map(|entry| reporter.sequence(entry)).collect();
    for (entry, judged) in index.sequences.iter().zip(&verdicts) {
        notes.extend(notes::without_gate(entry, &judged.report, &lives));
    }
    notes.extend(notes::not_run(cluster));
    let pods: Vec<PodReport> = lives.iter().map(|life| reporter.pod(life)).collect();
    let tickets = timeline.tickets();
    let ended = match outcome {
        Outcome::Complete => {
            let changed = |ticket: &TicketReport| ticket.spans.last().map(|span| span.from);
            let tickets = tickets.iter().filter_map(changed);
            lives.iter().filter_map(|life| life.arrived).chain(tickets).max().unwrap_or_default()
        }
        Outcome::Stuck => timeline.last_progress().as_millis() as u64,
        Outcome::Unfinished => plan.until.as_millis() as u64,
    };
    let (sequences, stalls): (Vec<_>, Vec<_>) =
        verdicts.into_iter().map(|judged| (judged.report, judged.stall)).unzip();
    let never = match outcome {
        Outcome::Stuck => {
            never(&pods, &sequences, stalls.into_iter().flatten().collect(), reporter.lacking_workloads())
        }
        Outcome::Complete | Outcome::Unfinished => Vec::new(),
    };
    Report {
        seed: plan.seed,
        nodes: cluster.store.list(Kind::Node, None).count(),
        ended,
        last_action: plan.at.iter().map(|at| at.time.as_millis() as u64).max().unwrap_or_default(),
        outcome,
        critical: chain::critical(&lives, &sequences),
        sequences,
        pods,
        claims: timeline.claims(),
        orders: tickets::orders(cluster),
        tickets,
        never,
        notes,
    }
}

struct Reporter<'a> {
    causes: Causes<'a>,
    timeline: &'a Timeline,
    lives: &'a [PodLife],
}

/// The report of a sequence. `stall` is set if the sequence itself is stuck, rather than one of its groups.
struct SequenceVerdict {
    report: SequenceReport,
    stall: Option<Never>,
}

impl Reporter<'_> {
    fn sequence(&self, entry: &SequenceEntry) -> SequenceVerdict {
        let Causes { cluster, index, now, .. } = self.causes;
        let (namespace, name) = (entry.sequence.namespace.to_string(), entry.sequence.name.to_string());
        let stored = cluster.store.find(Kind::PodSequence, &namespace, &name);
        let status = stored.map(|stored| &stored["status"]).unwrap_or(&Value::Null);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lines = explain_sequence(index.facts(), entry, now).below;
        let (of_groups, of_all): (Vec<&Line>, Vec<&Line>) =
            lines.iter().partition(|line| line.reason.is_none());
        let stall = of_all.first().and_then(|line| self.causes.first(line, &namespace));
        let mut members = self.members(entry);
        let groups = entry.spec().map(|spec| spec.groups.as_slice()).unwrap_or_default();
        let evaluation = evaluate(index.facts(), entry, now);
        let groups = groups.iter().enumerate().map(|(at, group)| {
            let pods = members.remove(&at).unwrap_or_default();
            let target = entry.spec().map_or(&entry.sequence.namespace, |spec| &spec.pod_namespace);
            self.group(
                group,
                evaluation.groups.get(at),
                &status["groups"][at],
                pods,
                of_groups.get(at).copied(),
                target,
            )
        });
        let report = SequenceReport {
            groups: groups.collect(),
            by_node: entry.spec().is_some_and(|spec| spec.scope == Scope::Node),
            phase: text(&status["phase"]),
            message: text(&status["message"]),
            namespace,
            name,
        };
        let what = format!("podseq/{}", report.name);
        SequenceVerdict { stall: stall.map(|why| Never { what, pods: Vec::new(), why }), report }
    }

    /// The pods of each group: places in `lives` by place of the group.
    fn members(&self, entry: &SequenceEntry) -> BTreeMap<usize, Vec<usize>> {
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let Some(spec) = entry.spec() else { return members };
        for (place, life) in self.lives.iter().enumerate() {
            let mut memberships = self.causes.index.facts().memberships_of(life.facts.uid);
            let membership = memberships.find(|membership| membership.sequence == entry.sequence.uid);
            let group = match life.deleted {
                // The index does not know deleted pods.
                Some(_) => {
                    let asking =
                        Asking { namespace: &entry.sequence.namespace, name: &entry.sequence.name, spec };
                    asking.group_of(&KnownPod { pod: &life.facts, cluster: &self.causes.index.cluster })
                }
                None => membership.map(|membership| membership.group as usize),
            };
            if let Some(group) = group {
                members.entry(group).or_default().push(place);
            }
        }
        members
    }

    fn group(
        &self,
        group: &Group,
        view: Option<&GroupView>,
        shown: &Value,
        pods: Vec<usize>,
        line: Option<&Line>,
        namespace: &str,
    ) -> GroupReport {
        let moment = |value: &Value| {
            let at: Timestamp = value.as_str()?.parse().ok()?;
            Some(self.timeline.since_beginning(at))
        };
        let line = line.filter(|_| shown["state"] != "Complete");
        let mut reason = line.and_then(|line| self.causes.first(line, namespace));
        if let (Some(why), Members::Selector(selector)) = (&mut reason, &group.members)
            && why.code == "NothingMatches"
        {
            why.hint = self.causes.existing_labels(selector, namespace);
        }
        GroupReport {
            name: group.title.to_string(),
            waits_for: group.after.to_vec(),
            state: shown["state"].as_str().unwrap_or("Waiting").to_owned(),
            expected: view.and_then(|view| view.expected),
            arrived: view.map_or(0, |view| view.arrived),
            opened: moment(&shown["openedAt"]),
            completed: moment(&shown["completedAt"]),
            pods,
            reason,
        }
    }

    fn pod(&self, life: &PodLife) -> PodReport {
        let known = self.causes.index.cluster.pod(life.facts.uid);
        PodReport {
            namespace: life.namespace.clone(),
            name: life.name.clone(),
            workload: life.workload(),
            node: life.node.clone(),
            dns: dns::names(self.causes.cluster, life),
            spans: life.spans.clone(),
            deleted: life.deleted,
            arrived: life.arrived,
            reason: known.filter(|_| life.arrived.is_none()).map(|pod| self.causes.of_pod(pod)),
            ranks: life.ranks.clone(),
        }
    }

    fn lacking_workloads(&self) -> Vec<LackingWorkload> {
        let all = arrived::lacking_workloads(self.causes.cluster).map(|(key, sentence)| LackingWorkload {
            namespace: key.namespace.to_string(),
            workload: format!("{}/{}", key.kind.info().name, key.name),
            why: self.causes.of_workload(key, sentence),
        });
        all.collect()
    }
}
