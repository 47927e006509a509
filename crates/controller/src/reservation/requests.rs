//! Creates, updates and deletes the objects of reservations.

use crate::act::{WriteAnswer, send_patch};
use crate::client::{self, Meaning, request};
use crate::engine::{Engine, LOOK_AFTER};
use crate::metrics::ByKind;
use crate::repeats::content_of;
use crate::watch::Item;
use kube::Client;
use rollcall_api::names;
use rollcall_api::patch::delete_options;
use rollcall_api::reservation::{
    GuardianOptions, PriorityClassObject, TicketObject, guardian, nomination, priority_class, ticket,
    ticket_record,
};
use rollcall_api::resource::Resource;
use rollcall_api::watch::{KeptLabels, PodObject};
use rollcall_core::cluster::Target;
use rollcall_core::decision::{Delete, New, Nominate, TicketWrite};
use rollcall_core::index::{Answer as PodAnswer, Object};
use rollcall_core::key::Key;
use rollcall_core::kind::Kind;
use rollcall_core::planted::{Bug, planted};
use rollcall_core::reservation::spec::TicketRecord;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::Instant;

pub async fn create(
    client: &Client,
    new: &New,
    guardians: &GuardianOptions,
    labels: &KeptLabels,
) -> WriteAnswer {
    let path = format!("{}?fieldManager={}", Resource::path_beside(new.target()), names::FIELD_MANAGER);
    let post =
        |body: serde_json::Value| request("POST", &path, Some(client::JSON), body.to_string().into_bytes());
    let object = match new {
        New::Ticket(new) => {
            let made: TicketObject = client::send(client, post(ticket(new))).await?;
            Object::Ticket(Box::new(made.facts()))
        }
        New::Guardian(new) => {
            let made: PodObject = client::send(client, post(guardian(new, guardians))).await?;
            Object::Pod(made.facts_keeping(labels))
        }
        New::PriorityClass { target, priority } => {
            let owner = definition(client).await;
            let body = priority_class(&target.name, *priority, owner.as_deref());
            let made: PriorityClassObject = client::send(client, post(body)).await?;
            Object::PriorityClass(made.facts())
        }
    };
    Ok(Some(Item::plain(object)))
}

/// Returns the uid of the CRD of tickets. It owns the cluster-scoped objects that we create, so they are deleted with it.
async fn definition(client: &Client) -> Option<String> {
    let path =
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", names::TICKET_DEFINITION);
    let found: Definition = client::get(client, &path).await.ok()?;
    Some(found.metadata.uid)
}

#[derive(Deserialize)]
struct Definition {
    metadata: DefinitionMeta,
}

#[derive(Deserialize)]
struct DefinitionMeta {
    uid: String,
}

/// Hashes the content of a write to a ticket, without its times: equal hashes mean a repetition.
pub fn content_of_record(record: &TicketRecord) -> u64 {
    let TicketRecord { phase, node, guardian, claim, reason, message, expiring, .. } = record;
    let claiming_pod = claim.as_ref().map(|claim| claim.pod);
    content_of(&(
        phase.map(|phase| phase.as_str()),
        node,
        guardian,
        claiming_pod,
        reason,
        message,
        expiring.holds,
    ))
}

pub async fn delete(client: &Client, delete: &Delete) -> WriteAnswer {
    let path = Resource::path_to(&delete.target);
    let body = delete_options(delete.target.uid, delete.at_once).to_string().into_bytes();
    let request = request("DELETE", &path, Some(client::JSON), body);
    client::send::<IgnoredAny>(client, request).await.map(|_| None)
}

pub async fn write_ticket(client: &Client, write: &TicketWrite) -> WriteAnswer {
    let path = format!("{}/status", Resource::path_to(&write.target));
    let ticket: TicketObject = send_patch(client, &path, &ticket_record(write)).await?;
    Ok(Some(Item::plain(Object::Ticket(Box::new(ticket.facts())))))
}

pub async fn nominate(client: &Client, nominate: &Nominate, labels: &KeptLabels) -> WriteAnswer {
    let path = format!("{}/status", Resource::path_to(&nominate.target));
    let pod: PodObject = send_patch(client, &path, &nomination(nominate)).await?;
    Ok(Some(Item::plain(Object::Pod(pod.facts_keeping(labels)))))
}

impl Engine {
    /// Processes the answer to a creation. If the object already exists, its watch reports it.
    pub(crate) fn creation_answered(&mut self, key: Key, target: &Target, answer: WriteAnswer, now: Instant) {
        self.index.reservation_write_ended(target);
        self.queue.add(key, now);
        match answer {
            Ok(item) => {
                if let Some(item) = item {
                    self.apply_answer(item);
                }
                self.index.reservation_refused(key.uid(), None);
                self.repeats.write(key.uid(), &target.name, content_of(&"made"), now);
                self.written_once_or_again(key, target, now);
            }
            Err(failure) => {
                if let Some(refusal) = self.refusal(&failure) {
                    self.shared.metrics.not_made.get_or_create(&ByKind { kind: target.kind.as_str() }).inc();
                    self.index.reservation_refused(key.uid(), Some(refusal));
                }
                self.queue.failed(key, now);
            }
        }
    }

    /// Backs off after a repetition: another party undoes or contradicts our writes.
    fn written_once_or_again(&mut self, key: Key, target: &Target, now: Instant) {
        match self.repeats.was_repeated(key.uid(), &target.name) && !planted(Bug::AnsweredAtOnce) {
            true => self.queue.failed(key, now),
            false => self.queue.succeeded(key),
        }
    }

    /// Processes the answer to the deletion of a ticket or a guardian.
    pub(crate) fn was_deleted(&mut self, key: Key, target: &Target, answer: WriteAnswer, now: Instant) {
        let Some(uid) = target.uid else { return };
        self.queue.add(key, now);
        let code = answer.as_ref().err().and_then(|failure| failure.code);
        // Neither a conflict nor a missing ticket proves the deletion: a conflict has several possible causes, and while the
        // kind is not served, no ticket is found. The watch shows the outcome.
        let missing = code == Some(404) && (target.kind == Kind::Pod || planted(Bug::AbsentIsGone));
        let gone = answer.is_ok() || missing || code == Some(409) && planted(Bug::ConflictIsGone);
        let unknown = answer.as_ref().is_err_and(|failure| failure.meaning() == Meaning::Unknown);
        match target.kind {
            // The next step of the claim depends on whether the guardian still exists: the watch or a later read shows it.
            Kind::Pod if unknown => drop(self.unknown_outcome.insert((now + LOOK_AFTER, uid))),
            Kind::Pod => {
                let outcome = if gone { PodAnswer::Gone } else { PodAnswer::NotDone };
                self.index.pod_write_answered(uid, outcome);
            }
            _ => {
                self.index.reservation_write_ended(target);
                if gone {
                    self.index.delete_ticket(uid);
                }
            }
        }
        match gone {
            true => self.queue.succeeded(key),
            false => self.queue.failed(key, now),
        }
    }

    pub(crate) fn ticket_written(&mut self, key: Key, target: &Target, answer: WriteAnswer, now: Instant) {
        self.index.reservation_write_ended(target);
        self.queue.add(key, now);
        match answer {
            Ok(item) => {
                if let Some(item) = item {
                    self.apply_answer(item);
                }
                self.written_once_or_again(key, target, now);
            }
            Err(failure) => {
                tracing::debug!(ticket = %target.name, moved = failure.meaning() == Meaning::Moved, "could not write the status of a ticket");
                self.queue.failed(key, now);
            }
        }
    }
}
