//! Whether policies or the webhook add gates to new pods.

use super::server::POLICIES;
use super::{Case, number, some};
use crate::commands::doctor::compare::{differences, in_words};
use crate::commands::doctor::fetched::{CONFIGURATION, Fetched, Probe};
use crate::commands::doctor::finding::{Check, DoctorFinding};
use crate::commands::install::{Admission, Mode, id, objects_of};

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    let installed = &case.installed;
    let mut findings = Vec::new();
    match (installed.policies, installed.webhook) {
        (true, true) => {
            let text = "policies and webhook are both installed: this is harmless, but one is enough (a gate is never added twice)";
            findings.push(Check::Admission.note(text));
        }
        (false, false) => findings.extend(none(case)),
        (true, false) | (false, true) => {}
    }
    if installed.policies {
        findings.extend(policies(case));
    }
    findings.extend(case.seen.probe.as_ref().map(|probe| of_a_pod(case, probe)));
    findings
}

fn none(case: &Case<'_>) -> Option<DoctorFinding> {
    let Case { seen, installed, command_line } = case;
    let unseen = seen.objects.iter().find_map(|(id, fetched)| {
        let asked = id == CONFIGURATION || id.starts_with("MutatingAdmissionPolicy/");
        fetched.forbidden().filter(|_| asked)
    });
    if let Some(why) = unseen {
        return Some(Check::Admission.unknown("policies and webhook", why));
    }
    if installed.mode == Mode::Lite {
        return Some(Check::Admission.ok("not used in Lite mode: pod templates contain the gate"));
    }
    let minor = seen.version.value().map_or(POLICIES, |version| version.minor);
    let admission = if minor >= POLICIES { Admission::Policies } else { Admission::Webhook };
    let text = "neither policies nor webhook are installed: only pods whose template has the gate are held, and new nodes are briefly open";
    Some(Check::Admission.note(text).fix(command_line.install(installed, Mode::Full, Some(admission))))
}

fn policies(case: &Case<'_>) -> Vec<DoctorFinding> {
    let Case { seen, installed, command_line } = case;
    let (mut findings, mut missing) = (Vec::new(), Vec::new());
    let ours = objects_of(Admission::Policies, &seen.namespace);
    for object in &ours {
        let id = id(object);
        match seen.object(&id) {
            Fetched::Found(there) => {
                let found = differences(&object["spec"], &there["spec"], "spec");
                if !found.is_empty() {
                    let text = format!(
                        "{} differs from the expected manifest: {}",
                        id.replace('/', " "),
                        in_words(&found)
                    );
                    findings.push(case.differs(
                        Check::Admission,
                        text,
                        command_line.replace(installed, &[&id]),
                    ));
                }
            }
            Fetched::Absent => missing.push(id),
            Fetched::Forbidden(why) => findings.push(Check::Admission.unknown(&id.replace('/', " "), why)),
        }
    }
    if !missing.is_empty() {
        let only: Vec<&str> = missing.iter().map(String::as_str).collect();
        let named: Vec<String> = missing.iter().map(|id| id.replace('/', " ")).collect();
        let text = format!(
            "policies: {} of {} missing: {}",
            missing.len(),
            number(ours.len(), "object"),
            some(&named)
        );
        findings.push(case.differs(Check::Admission, text, command_line.restore(installed, &only)));
    }
    if findings.is_empty() {
        let text =
            format!("policies: all {} are installed and match this program", number(ours.len(), "object"));
        findings.push(Check::Admission.ok(text));
    }
    findings
}

fn of_a_pod(case: &Case<'_>, probe: &Fetched<Probe>) -> DoctorFinding {
    match probe {
        Fetched::Found(Probe { namespace, sequence, gated: true }) => Check::Admission
            .ok(format!("a pod of {sequence} in namespace {namespace} would get its gate (dry run)")),
        Fetched::Found(Probe { namespace, sequence, gated: false }) => {
            let text =
                format!("a pod of {sequence} in namespace {namespace} would not get its gate (dry run)");
            let finding = Check::Admission.problem(text);
            match case.installed.webhook {
                true => finding
                    .fix(case.command_line.kubectl_here("logs deployment/pod-sequence-controller --tail=50")),
                false => finding.fix(
                    case.command_line
                        .kubectl("get mutatingadmissionpolicies,mutatingadmissionpolicybindings"),
                ),
            }
        }
        Fetched::Absent => Check::Admission.unknown("dry run of a pod", "its namespace does not exist"),
        Fetched::Forbidden(why) => Check::Admission.unknown("dry run of a pod", why),
    }
}
