use super::{reserving_objects, seekers};
use crate::commands::lint::rules::prelude::*;
use rollcall_api::watch::PodObject;
use rollcall_core::reservation::spec::{Resources, lacking};
use rollcall_sim::server::defaults;
use serde_json::json;

pub const RULE: Rule = Rule {
    code: "RC610",
    severity: Severity::Warning,
    title: "a pod that requests more than its ticket reserves",
    why: "A pod can claim a ticket only if the ticket reserves at least the total requests of the pod. Like for the \
          scheduler, the total includes init containers and overhead. This pod requests more, so it runs without reserved \
          capacity, and the ticket stays unclaimed.",
    hint: "# in the ticket, at least as much as the pod requests\nresources:\n  requests: {cpu: 200m, memory: 256Mi}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let rooms = reserving_objects(all);
    for seeker in seekers(all, &rooms) {
        let mut offers = rooms.iter().filter(|room| room.serves(&seeker)).peekable();
        let Some(first) = offers.peek().copied() else { continue };
        let Some(asked) = requested(&seeker.template) else { continue };
        let Some((name, amount)) = lacking(&first.ticket.requests, &asked) else { continue };
        if offers.all(|room| lacking(&room.ticket.requests, &asked).is_some()) {
            let kept = first.ticket.requests.get(name).map_or("none".to_owned(), |kept| kept.to_string());
            let (whose, object) = (seeker.template.object.full_name(), first.object.full_name());
            found.at_key(
                &seeker.template.spec.get("containers"),
                format!(
                    "a pod of {whose} requests {amount} of {name}, but a ticket of {object} reserves {kept}"
                ),
            );
        }
    }
}

/// Total requests of a pod of this template, including requests that the API server derives from limits.
fn requested(template: &PodTemplate) -> Option<Resources> {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": template.spec.value });
    if defaults::undecodable(Kind::Pod, &pod).is_some() {
        return None;
    }
    defaults::fill(Kind::Pod, &mut pod);
    serde_json::from_value(pod).ok().map(|pod: PodObject| pod.requests())
}
