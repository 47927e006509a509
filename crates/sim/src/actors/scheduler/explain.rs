//! Why a pod is unschedulable, in the words of the real scheduler.

use super::filter::Unfit;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why each node was rejected.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// The number of nodes.
    pub nodes: usize,
    /// A reason that does not concern nodes.
    pub before: Option<String>,
    pub unfit: BTreeMap<Arc<str>, Unfit>,
    /// The reason for all nodes that were not checked.
    pub others: Option<&'static str>,
    /// The result of preemption.
    pub after: String,
}

impl Diagnosis {
    pub fn sentence(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut text = format!("0/{} nodes are available:", self.nodes);
        match &self.before {
            Some(before) => text.push_str(&format!(" {before}.")),
            None => {
                let others = self.others.map(|others| (Cow::Borrowed(others), self.nodes - self.unfit.len()));
                let all = self.unfit.values().flat_map(|unfit| unfit.reasons.iter().cloned());
                text.push_str(&counted(all, others));
            }
        }
        if !self.after.is_empty() {
            text.push(' ');
            text.push_str(&self.after);
        }
        text
    }
}

/// The reasons with their numbers of nodes, sorted as texts, after a space and followed by a full stop.
pub fn counted(
    reasons: impl Iterator<Item = Cow<'static, str>>,
    others: Option<(Cow<'static, str>, usize)>,
) -> String {
    let mut counts: BTreeMap<Cow<'static, str>, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    if let Some((reason, count)) = others.filter(|(_, count)| *count > 0) {
        *counts.entry(reason).or_default() += count;
    }
    let mut parts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    if parts.is_empty() { String::new() } else { format!(" {}.", parts.join(", ")) }
}
