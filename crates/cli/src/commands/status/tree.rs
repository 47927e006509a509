//! Draws a sequence as a tree: its groups, and the reasons why they wait.

use super::view::SequenceView;
use crate::output::{BAD, BUSY, FAINT, GOOD, STRONG, styled};
use crate::shown;
use crate::shown::{Show, Shown};
use jiff::Timestamp;
use rollcall_api::sequence::{BlockedBy, GroupState, GroupStatus, NodeCounts, NodeSequenceStatus, Phase};
use rollcall_core::line::{elapsed, human};
use std::time::Duration;

/// Length of a bar in characters, a multiple of 2, 3, 4, 6, 8 and 12.
const BAR: u32 = 24;
/// Number of complete groups to show before the first incomplete one, if not all groups fit.
const BEHIND: usize = 2;
/// Maximum number of incomplete nodes to show.
const NODES: usize = 5;

#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub bars: bool,
    /// Maximum number of groups to show; the remaining ones are only counted.
    pub rows: usize,
}

pub fn text(view: &SequenceView, style: Style, now: Timestamp) -> Shown {
    let status = &view.status;
    let phase = match status.phase {
        Some(Phase::Completed) => styled(GOOD, view.phase()),
        Some(Phase::Failed) => styled(BAD, view.phase()),
        Some(Phase::Pending | Phase::InProgress) => styled(BUSY, view.phase()),
        None => shown!("no status yet"),
    };
    let message = status.message.as_ref().filter(|text| !text.is_empty());
    let message = message.map_or(String::new(), |message| format!(": {message}"));
    let mut text = shown!("{}  {}{}\n", styled(STRONG, &view.name), phase, message);
    let nodes =
        status.nodes.as_ref().map(|nodes| nodes_below(nodes, &status.node_status)).unwrap_or_default();
    let (before, shown, after) = window(&status.groups, style.rows);
    if before > 0 {
        text += shown!("├─ … {} complete groups before\n", before);
    }
    let width = shown.iter().map(|group| group.name.shown().width()).max().unwrap_or_default();
    for (position, group) in shown.iter().enumerate() {
        let last = position + 1 == shown.len() && after == 0 && nodes.is_empty();
        let (branch, further) = if last { ("└─", "   ") } else { ("├─", "│  ") };
        text += shown!("{} {}\n", branch, line(group, width, style.bars, now));
        let blockers = status.blocked_by.iter().filter(|blocker| blocker.group == group.name);
        text += blockers_below(&blockers.collect::<Vec<_>>(), further, now);
    }
    if after > 0 {
        let branch = if nodes.is_empty() { "└─" } else { "├─" };
        text += shown!("{} … {} more groups after\n", branch, after);
    }
    text + nodes
}

/// Draws the number of complete nodes, and the waits of the first incomplete ones.
fn nodes_below(counts: &NodeCounts, listed: &[NodeSequenceStatus]) -> Shown {
    let NodeCounts { total, complete, waiting } = counts;
    let mut text = shown!("└─ {} of {} nodes are complete\n", complete, total);
    let others = listed.iter().filter(|node| node.phase != Some(Phase::Completed));
    let others: Vec<&NodeSequenceStatus> = others.take(NODES).collect();
    let more = (*waiting as usize).saturating_sub(others.len());
    for (position, node) in others.iter().enumerate() {
        let branch = if position + 1 == others.len() && more == 0 { "└─" } else { "├─" };
        let message = node.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
        text += shown!("   {} {}{}\n", branch, node.node_name, message);
    }
    if more > 0 {
        text += shown!("   └─ … {} more\n", more);
    }
    text
}

/// Selects the groups around the first incomplete one; also returns the number of groups omitted before and after them.
fn window(groups: &[GroupStatus], rows: usize) -> (usize, &[GroupStatus], usize) {
    if groups.len() <= rows {
        return (0, groups, 0);
    }
    let current = groups.iter().position(|group| group.state != GroupState::Complete).unwrap_or(groups.len());
    let start = current.saturating_sub(BEHIND).min(groups.len() - rows);
    (start, &groups[start..start + rows], groups.len() - start - rows)
}

fn blockers_below(blockers: &[&BlockedBy], indent: &str, now: Timestamp) -> Shown {
    let mut text = Shown::default();
    for (position, blocker) in blockers.iter().enumerate() {
        let branch = if position + 1 == blockers.len() { "└─" } else { "├─" };
        // The message of the sequence already contains the API server's response about the first blocker.
        let BlockedBy { group: _, pod, reason, message: _, since } = blocker;
        let pod = pod.as_ref().map_or(String::new(), |pod| format!("{pod}: "));
        let since = since.map_or(String::new(), |since| format!(" for {}", elapsed(since.get(), now)));
        text += shown!("{}{} {}{}{}\n", indent, branch, pod, reason, since);
    }
    text
}

/// Draws one group: arrived and expected pods, and the state with its duration.
pub fn line(group: &GroupStatus, width: usize, bars: bool, now: Timestamp) -> Shown {
    let arrived = group.arrived.unwrap_or_default();
    let expected = group.expected.map_or("?".into(), |expected| expected.to_string());
    let bar = if bars { format!("{}  ", bar(group)) } else { String::new() };
    let name = group.name.shown().padded(width);
    shown!("{}  {}{}/{}  {}", name, bar, arrived, expected, state(group, now))
}

fn state(group: &GroupStatus, now: Timestamp) -> Shown {
    let opened = group.opened_at.map(|at| at.get());
    let open_for = opened.map_or(String::new(), |at| format!(" for {}", elapsed(at, now)));
    let state = match group.state {
        GroupState::Waiting => styled(FAINT, "waits"),
        GroupState::Open => shown!("{}{}", styled(BUSY, "open"), open_for),
        GroupState::TimedOut => {
            let open = opened.map_or(String::new(), |_| format!(", open{open_for}"));
            shown!("{}{}", styled(BAD, "timed out"), open)
        }
        GroupState::Complete => {
            let times = opened.zip(group.completed_at);
            let took = times.map_or(String::new(), |(from, to)| format!(" after {}", took(from, to.get())));
            shown!("{}{}", styled(GOOD, "complete"), took)
        }
    };
    if group.opened_by_hand { state + shown!(", opened by hand") } else { state }
}

/// Formats a completed duration in tenths of a second.
fn took(from: Timestamp, to: Timestamp) -> String {
    let millis = u64::try_from(to.duration_since(from).as_millis()).unwrap_or_default();
    human(Duration::from_millis(millis / 100 * 100))
}

/// Draws a bar: `█` arrived, `░` released, `·` held or not yet created.
fn bar(group: &GroupStatus) -> String {
    let (present, released) = (group.present.unwrap_or_default(), group.released.unwrap_or_default());
    let arrived = group.arrived.unwrap_or_default();
    let whole = group.expected.unwrap_or(0).max(present).max(1);
    // Rounds down, so that a bar is full only if all pods have arrived.
    let part = |number: u32| (u64::from(number.min(whole)) * u64::from(BAR) / u64::from(whole)) as usize;
    let all = BAR as usize;
    let full = if group.state == GroupState::Complete { all } else { part(arrived) };
    let busy = part(released.max(arrived)).max(full) - full;
    "█".repeat(full) + &"░".repeat(busy) + &"·".repeat(all - full - busy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::json;

    fn plain(object: serde_json::Value, style: Style) -> String {
        text(&SequenceView::new(&testing::sequence(object)), style, testing::now()).without_colours()
    }

    #[test]
    fn in_the_middle() {
        insta::assert_snapshot!(plain(testing::shop_in_progress(), Style { bars: true, rows: 20 }));
        insta::assert_snapshot!(plain(testing::shop_in_progress(), Style { bars: false, rows: 20 }));
    }

    #[test]
    fn by_node() {
        let mut shop = testing::shop_in_progress();
        let node = |number: usize| {
            let phase = if number < 8 { "InProgress" } else { "Completed" };
            json!({ "nodeName": format!("worker-{number}"), "phase": phase, "message": "\"agents\": 0 of 1 pods arrived" })
        };
        shop["status"]["nodes"] = json!({ "total": 9, "complete": 2, "waiting": 7 });
        shop["status"]["nodeStatus"] = (1..=9).map(node).collect();
        insta::assert_snapshot!(plain(shop.clone(), Style { bars: false, rows: 20 }));
        shop["status"]["nodes"] = json!({ "total": 3, "complete": 1, "waiting": 2 });
        shop["status"]["nodeStatus"] = [6, 7, 8].map(node).into_iter().collect();
        insta::assert_snapshot!(plain(shop, Style { bars: false, rows: 20 }));
    }

    #[test]
    fn without_a_status() {
        insta::assert_snapshot!(plain(testing::shop(), Style { bars: true, rows: 20 }), @"shop  no status yet");
    }

    #[test]
    fn many_groups_are_cut_around_the_current_one() {
        let mut shop = testing::shop_in_progress();
        let group = |number: usize| {
            let state = ["Complete", "TimedOut", "Waiting"][number.clamp(9, 11) - 9];
            json!({"name": format!("Group {number}"), "state": state, "arrived": 1, "openedByHand": number == 8})
        };
        shop["status"]["groups"] = (1..=30).map(group).collect();
        insta::assert_snapshot!(plain(shop, Style { bars: true, rows: 5 }));
    }

    #[test]
    fn a_bar_is_full_only_when_nothing_is_missing() {
        let group = GroupStatus {
            expected: Some(1000),
            present: Some(1000),
            released: Some(1000),
            arrived: Some(999),
            ..GroupStatus { name: "x".into(), ..Default::default() }
        };
        assert_eq!(bar(&group).matches('█').count(), BAR as usize - 1);
        let wild = GroupStatus { arrived: Some(u32::MAX), released: Some(3), ..Default::default() };
        assert_eq!(bar(&wild).chars().count(), BAR as usize);
    }
}
