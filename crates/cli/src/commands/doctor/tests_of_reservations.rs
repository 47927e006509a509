//! Like `tests`, for reservations: their CRDs and leftovers.

use super::fetched::{ClusterView, DEFINITIONS_OF_RESERVATIONS, Fetched, Version};
use super::rights::needed;
use super::testing::{NAMESPACE, change, full, lite, webhook};
use super::tests::{absent, findings_of};
use crate::testing;
use rollcall_api::names;
use serde_json::json;

#[test]
fn what_is_said_of_reservations() {
    fn gated(seen: &mut ClusterView, others: &[&str], created: &str) {
        let mut pod = testing::held("web");
        let gates = std::iter::once(names::TICKET_GATE).chain(others.iter().copied());
        pod["spec"]["schedulingGates"] = gates.map(|name| json!({ "name": name })).collect();
        pod["metadata"]["creationTimestamp"] = created.into();
        seen.unbound = Fetched::Found(vec![testing::pod(pod)]);
    }
    fn undefined(seen: &mut ClusterView) {
        DEFINITIONS_OF_RESERVATIONS.iter().for_each(|id| absent(seen, id));
        seen.tickets = Fetched::Absent;
    }
    fn guardian(owner: &str) -> rollcall_api::watch::PodObject {
        let mut pod = testing::ready("korder-guardian-agents-a");
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "core.korder.dev/v1alpha1", "kind": "Ticket", "name": "agents-a", "uid": owner, "controller": true,
        }]);
        testing::pod(pod)
    }
    fn class(name: &str, value: i32) -> rollcall_api::reservation::PriorityClassObject {
        serde_json::from_value(json!({ "metadata": { "name": name }, "value": value })).expect("a class")
    }
    const JUST_NOW: &str = "2026-11-15T23:00:40Z";
    const EARLIER: &str = "2026-11-15T22:50:00Z";
    let text = findings_of(&[
        ("CRDs missing", full, undefined),
        ("CRDs missing in Lite mode", lite, undefined),
        ("one of two CRDs missing", full, |seen| absent(seen, DEFINITIONS_OF_RESERVATIONS[1])),
        ("CRD being deleted", full, |seen| {
            change(seen, DEFINITIONS_OF_RESERVATIONS[0], |crd| {
                crd["metadata"]["deletionTimestamp"] = "2026-11-15T23:00:00Z".into()
            });
        }),
        ("rights missing", full, |seen| {
            let rights = needed(&seen.installed(), NAMESPACE).into_iter();
            let missing = rights.filter(|right| right.role.ends_with("-reservations")).collect();
            seen.missing = Fetched::Found(missing);
        }),
        ("before 1.35", webhook, |seen| {
            seen.version = Fetched::Found(Version { minor: 34, text: "1.34.2".into() });
        }),
        ("before 1.35, without the CRDs", webhook, |seen| {
            seen.version = Fetched::Found(Version { minor: 34, text: "1.34.2".into() });
            undefined(seen);
        }),
        ("a pod that has waited briefly", full, |seen| gated(seen, &[], JUST_NOW)),
        ("a pod that has waited long", full, |seen| gated(seen, &[], EARLIER)),
        ("a pod with a foreign gate too", full, |seen| gated(seen, &["example.com/quota"], EARLIER)),
        ("a pod in Lite mode", lite, |seen| gated(seen, &[], JUST_NOW)),
        ("a pod without the CRDs", full, |seen| {
            gated(seen, &[], JUST_NOW);
            undefined(seen);
        }),
        ("a guardian without a ticket", full, |seen| {
            seen.guardians = Fetched::Found(vec![guardian("gone")]);
        }),
        ("a guardian with its ticket", full, |seen| {
            let mut ticket = testing::tickets().remove(0);
            ticket["metadata"]["uid"] = "there".into();
            seen.tickets = Fetched::Found(vec![serde_json::from_value(ticket).expect("a ticket")]);
            seen.guardians = Fetched::Found(vec![guardian("there")]);
        }),
        ("tickets that may not be listed", full, |seen| {
            seen.tickets = Fetched::Forbidden("not allowed to list tickets".into());
        }),
        ("classes with the CRDs", full, |seen| {
            seen.classes = Fetched::Found(vec![class("korder-guardian-0", 0)]);
        }),
        ("classes without the CRDs", full, |seen| {
            undefined(seen);
            let classes =
                [("korder-guardian-0", 0), ("korder-guardian-7", 7), ("korder-guardian-x", 1), ("mine", 2)];
            seen.classes = Fetched::Found(classes.map(|(name, value)| class(name, value)).into());
        }),
    ]);
    insta::assert_snapshot!(text);
}
