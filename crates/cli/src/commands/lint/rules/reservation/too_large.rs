use super::{rooms, seekers};
use crate::commands::lint::rules::prelude::*;
use rollcall_api::watch::PodObject;
use rollcall_core::reservation::spec::{Resources, lacking};
use rollcall_sim::server::defaults;
use serde_json::json;

pub const RULE: Rule = Rule {
    code: "RC610",
    severity: Severity::Warning,
    title: "a pod that is larger than the room kept for it",
    why: "A pod is given a ticket only if the ticket keeps at least what its containers request together, as the scheduler counts: init \
          containers and overhead included. This one requests more, so it runs without reserved room, and the room stays empty.",
    hint: "# of the ticket, at least as much as the pod requests\nresources:\n  requests: {cpu: 200m, memory: 256Mi}",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    let rooms = rooms(all);
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
                    "a pod of {whose} requests {amount} of {name}, and a ticket of {object} keeps {kept}"
                ),
            );
        }
    }
}

/// What a pod of this template takes, after the API server has filled in what follows from its limits.
fn requested(template: &Template) -> Option<Resources> {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": template.spec.value });
    if defaults::undecodable(Kind::Pod, &pod).is_some() {
        return None;
    }
    defaults::fill(Kind::Pod, &mut pod);
    serde_json::from_value(pod).ok().map(|pod: PodObject| pod.requests())
}
