//! Faults of reservations, at planned times and at the steps of a hand-over.

use super::fault::Fault;
use super::mischief::{FAULT_LASTS, Mischief, act};
use super::world::reservation::{self, AGENTS, BUFFER, CLASS, PRIORITY};
use super::world::{self, NAMESPACE};
use crate::actors::nodes::NOT_READY;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::Shared;
use crate::store::{Key, Stored};
use http::Method;
use rollcall_api::names;
use rollcall_core::reservation::names::{guardian_class, guardian_name};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::sleep;

impl Mischief {
    pub(super) async fn strike_reservation(&mut self, fault: Fault) {
        match fault {
            Fault::GuardianDeleted | Fault::GuardianFailed => {
                let Some(guardian) = self.any(Kind::Pod, reservation::is_guardian) else { return };
                self.act(|cluster| match fault {
                    Fault::GuardianDeleted => drop(cluster.delete_now(&guardian)),
                    _ => fail(cluster, &guardian),
                });
            }
            Fault::TicketDeleted => {
                let Some(ticket) = self.any(Kind::Ticket, |_| true) else { return };
                self.act(|cluster| drop(cluster.delete(&ticket)));
            }
            Fault::ClassDeleted => self.delete_class().await,
            Fault::NodeNotReady => {
                let node = world::NODES[self.chance.below(world::NODES.len() as u64) as usize];
                self.say_not_ready(node, "true");
                sleep(FAULT_LASTS).await;
                self.say_not_ready(node, "false");
            }
            _ => self.strike_order(fault).await,
        }
    }

    async fn strike_order(&mut self, fault: Fault) {
        let name = if self.chance.below(2) == 0 { AGENTS } else { BUFFER };
        let (key, order) = (Key::new(Kind::Order, NAMESPACE, name), reservation::order(name));
        if fault == Fault::OrderRecreated {
            self.act(|cluster| drop(cluster.delete(&key)));
            sleep(FAULT_LASTS).await;
            return self.act(|cluster| drop(cluster.create(Kind::Order, order)));
        }
        self.act(|cluster| {
            let _ = cluster.update(&key, |order| match fault {
                Fault::OrderPaused => order["spec"]["paused"] = true.into(),
                _ => order["spec"]["template"]["spec"]["resources"]["requests"]["cpu"] = "700m".into(),
            });
        });
        sleep(FAULT_LASTS).await;
        self.act(|cluster| {
            let _ = cluster.update(&key, |there| {
                there["spec"]["paused"] = false.into();
                there["spec"]["template"]["spec"]["resources"] =
                    order["spec"]["template"]["spec"]["resources"].clone();
            });
        });
    }

    async fn delete_class(&mut self) {
        let ours = guardian_class(i32::try_from(PRIORITY).unwrap_or_default());
        let name = if self.chance.below(2) == 0 { CLASS } else { &ours };
        self.act(|cluster| drop(cluster.delete(&Key::new(Kind::PriorityClass, "", name))));
        sleep(FAULT_LASTS).await;
        if name == CLASS {
            let (kind, class) = reservation::class();
            self.act(|cluster| drop(cluster.create(kind, class)));
        }
    }

    fn say_not_ready(&self, node: &str, value: &str) {
        self.act(|cluster| {
            let _ = cluster.update(&Key::new(Kind::Node, "", node), |node| {
                node["metadata"]["annotations"][NOT_READY] = value.into();
            });
        });
    }

    fn any(&mut self, kind: Kind, which: impl Fn(&Value) -> bool) -> Option<Key> {
        let cluster = self.shared.lock();
        let all: Vec<&Key> = cluster
            .store
            .list(kind, Some(NAMESPACE))
            .filter(|(_, is)| which(is))
            .map(|(key, _)| key)
            .collect();
        let at = self.chance.below(all.len().max(1) as u64) as usize;
        all.get(at).map(|key| (*key).clone())
    }
}

/// Marks a guardian as evicted by its kubelet.
fn fail(cluster: &mut Cluster, guardian: &Key) {
    let _ = cluster.update_status(guardian, |pod| {
        pod["status"] =
            json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource" });
    });
}

/// Whether a request is a step of a hand-over: a status patch of a ticket, or the patch or deletion of a pod.
pub fn is_step(method: &Method, path: &str, key: &Key) -> bool {
    let status = path.ends_with("/status");
    match key.kind {
        Kind::Ticket => status && method == Method::PATCH,
        Kind::Pod => method == Method::PATCH || method == Method::DELETE,
        _ => false,
    }
}

/// Injects a fault into a hand-over, just before one of its steps is carried out.
pub fn strike_hand_over(shared: &Arc<Shared>, about: &Key, fault: Fault) {
    let Some((ticket, pod, node)) = hand_over(&shared.lock(), about) else { return };
    match fault {
        Fault::ClaimerGone => act(shared, |cluster| {
            let old = cluster.store.get(&pod).cloned();
            let _ = cluster.delete_now(&pod);
            if let Some(old) = old.filter(|old| old["metadata"]["ownerReferences"].is_null()) {
                reservation::WORLD.create_pod_again(cluster, &old);
            }
        }),
        Fault::TicketGone => act(shared, |cluster| drop(cluster.delete(&ticket))),
        Fault::GuardianGone => {
            let guardian = Key::new(Kind::Pod, &ticket.namespace, &guardian_name(&ticket.name));
            act(shared, |cluster| drop(cluster.delete_now(&guardian)));
        }
        Fault::TicketGateTaken => act(shared, |cluster| {
            let _ = cluster.update(&pod, |pod| {
                if let Some(gates) = pod["spec"]["schedulingGates"].as_array_mut() {
                    gates.retain(|gate| gate["name"] != names::TICKET_GATE);
                }
            });
        }),
        _ => {
            cordon(shared, &node, true);
            let shared = shared.clone();
            tokio::spawn(async move {
                sleep(FAULT_LASTS).await;
                cordon(&shared, &node, false);
            });
        }
    }
}

fn cordon(shared: &Arc<Shared>, node: &str, cordoned: bool) {
    act(shared, |cluster| {
        let _ = cluster.update(&Key::new(Kind::Node, "", node), |node| {
            node["spec"]["unschedulable"] = cordoned.into();
        });
    });
}

/// The ticket, the claiming pod and the node of the hand-over that a write to this object belongs to.
fn hand_over(cluster: &Cluster, about: &Key) -> Option<(Key, Key, String)> {
    let object = cluster.store.get(about)?;
    let of_guardian = object["metadata"]["ownerReferences"][0]["uid"].as_str();
    let is_meant = |key: &Key, ticket: &Stored| match about.kind {
        Kind::Ticket => key == about,
        _ => ticket["status"]["podUID"] == object.uid() || of_guardian == Some(ticket.uid()),
    };
    let claimed = |ticket: &Stored| ticket["status"]["phase"] == "Claimed";
    let mut tickets = cluster.store.list(Kind::Ticket, Some(NAMESPACE));
    let (key, ticket) = tickets.find(|(key, ticket)| claimed(ticket) && is_meant(key, ticket))?;
    let pod = Key::new(Kind::Pod, NAMESPACE, ticket["status"]["podName"].as_str()?);
    Some((key.clone(), pod, ticket["status"]["nodeName"].as_str()?.to_owned()))
}
