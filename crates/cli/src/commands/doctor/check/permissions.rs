//! Permissions of the controller's account: whether it has all that it needs, and no others.

use super::{Case, number};
use crate::commands::doctor::command_line::mode_name;
use crate::commands::doctor::fetched::{DEPLOYMENT, Fetched};
use crate::commands::doctor::finding::{Check, DoctorFinding};
use crate::commands::doctor::rights::{Right, granted, listed, needed};
use crate::commands::install::{Admission, Mode, id, objects};
use std::collections::{BTreeMap, BTreeSet};

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    match case.seen.object(DEPLOYMENT) {
        Fetched::Found(_) => {}
        // Without a controller no account needs them. Installing the controller also installs its permissions.
        Fetched::Absent => return Vec::new(),
        Fetched::Forbidden(_) => {
            return vec![
                Check::Permissions.unknown("permissions of the controller", "its Deployment cannot be read"),
            ];
        }
    }
    let mut findings = missing(case);
    findings.extend(beyond(case));
    findings.extend(left_over(case));
    findings
}

fn missing(case: &Case<'_>) -> Vec<DoctorFinding> {
    let Case { seen, installed, command_line } = case;
    let account = &installed.account;
    let missing = match &seen.missing {
        Fetched::Found(missing) => missing.as_slice(),
        Fetched::Absent => &[],
        Fetched::Forbidden(why) => {
            return vec![Check::Permissions.unknown(&format!("permissions of {account}"), why)];
        }
    };
    if missing.is_empty() {
        let mode = mode_name(installed.mode);
        let rights = number(seen.needed, "permission");
        return vec![Check::Permissions.ok(format!("{account} has all {rights} that {mode} mode needs"))];
    }
    let mut by_role: BTreeMap<&str, Vec<Right>> = BTreeMap::new();
    for right in missing {
        by_role.entry(&right.role).or_default().push(right.clone());
    }
    let problems = by_role.into_iter().map(|(role, rights)| {
        let text = format!("{account} is not permitted to {} ({})", listed(&rights), role.replace('/', " "));
        let binding = role.replacen('/', "Binding/", 1);
        case.differs(Check::Permissions, text, command_line.restore(installed, &[role, &binding]))
    });
    problems.collect()
}

/// Rules in the installed roles that the manifests do not contain.
fn beyond(case: &Case<'_>) -> Vec<DoctorFinding> {
    let Case { seen, installed, command_line } = case;
    let wanted = needed(installed, &seen.namespace);
    let roles: BTreeSet<&str> = wanted.iter().map(|right| right.role.as_str()).collect();
    let mut findings = Vec::new();
    for role in roles {
        let Some(there) = seen.object(role).value() else { continue };
        let mut there = there.clone();
        // Lists omit the kind, and single answers may omit it too.
        there["kind"] = role.split('/').next().unwrap_or_default().into();
        let more: Vec<Right> = granted(&there).into_iter().filter(|right| !wanted.contains(right)).collect();
        if !more.is_empty() {
            let text = format!("{} grants more than required: {}", role.replace('/', " "), listed(&more));
            let finding = Check::Permissions.note(text);
            findings.push(match seen.newer() {
                Some(_) => finding,
                None => finding.fix(command_line.restore(installed, &[role])),
            });
        }
    }
    findings
}

/// Bindings of Full mode that Lite mode does not need.
fn left_over(case: &Case<'_>) -> Vec<DoctorFinding> {
    const BINDING: &str = "ClusterRoleBinding/";
    let Case { seen, installed, command_line } = case;
    let ids = |mode: Mode, admission| -> BTreeSet<String> {
        objects(mode, admission, &seen.namespace).iter().map(id).collect()
    };
    let of_lite = ids(Mode::Lite, None);
    let of_full = ids(Mode::Full, Some(Admission::Webhook));
    let only_full = of_full.difference(&of_lite).filter_map(|id| id.strip_prefix(BINDING));
    let left = only_full.filter(|name| installed.is_lite() && seen.has(&format!("{BINDING}{name}")));
    let left = left.map(|name| {
        let text =
            format!("ClusterRoleBinding {name} is a leftover of Full mode; Lite mode does not need it");
        Check::Permissions
            .note(text)
            .fix(command_line.kubectl(format!("delete clusterrolebinding,clusterrole {name}")))
    });
    left.collect()
}
