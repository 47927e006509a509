//! The leader lease: the I/O around the step function in `rollcall-core`.

use crate::backoff::Jitter;
use crate::client::{self, Failure, Meaning, request};
use crate::clock::Clock;
use futures::stream::{self, BoxStream, StreamExt};
use kube::Client;
use rollcall_api::names;
use rollcall_api::patch::Style;
use rollcall_core::lease::{Candidate, LeaseRecord, LeaseStep, Terms};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Shows which version leads, without a request to the process.
fn annotations() -> serde_json::Value {
    json!({ names::LEASE_VERSION: env!("CARGO_PKG_VERSION") })
}

/// Changes of leadership that the loop needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// We lead at least until this time.
    Leading { until: Instant, version: String },
    /// Another replica leads, or none.
    Following,
    /// We led and no longer do.
    Lost,
}

#[derive(Deserialize)]
struct LeaseObject {
    metadata: rollcall_api::watch::Meta,
    #[serde(default)]
    spec: LeaseSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u64>,
}

impl LeaseObject {
    fn record(self, terms: &Terms) -> LeaseRecord {
        LeaseRecord {
            holder: self.spec.holder_identity,
            duration: self.spec.lease_duration_seconds.map_or(terms.duration, Duration::from_secs),
            version: self.metadata.resource_version,
        }
    }
}

pub struct Keeper {
    client: Client,
    namespace: String,
    terms: Terms,
    clock: Clock,
    candidate: Candidate,
    jitter: Jitter,
    failures: u32,
    next: Instant,
}

impl Keeper {
    pub fn new(client: Client, namespace: &str, terms: Terms, clock: Clock, seed: u64) -> Keeper {
        Keeper {
            client,
            namespace: namespace.to_owned(),
            terms,
            clock,
            candidate: Candidate::default(),
            jitter: Jitter::seeded(seed),
            failures: 0,
            next: Instant::now(),
        }
    }

    /// Returns a stream of leadership news that ends when the lease is lost.
    pub fn news(self) -> BoxStream<'static, News> {
        let step = |keeper: Option<Keeper>| async move {
            let mut keeper = keeper?;
            let news = keeper.turn().await;
            let lost = news == News::Lost;
            Some((news, (!lost).then_some(keeper)))
        };
        stream::unfold(Some(self), step).boxed()
    }

    async fn turn(&mut self) -> News {
        tokio::time::sleep_until(self.next).await;
        let begun = self.clock.elapsed();
        let holds = self.candidate.leads(&self.terms, begun);
        if !holds && let Err(failure) = self.read().await {
            return self.failed(&failure);
        }
        let written = match self.candidate.step(&self.terms, self.clock.elapsed()) {
            LeaseStep::Create => self.write(None).await,
            LeaseStep::Take { version } | LeaseStep::Renew { version } => {
                match self.write(Some(version)).await {
                    // The lease was deleted.
                    Err(failure) if failure.code == Some(404) => self.write(None).await,
                    written => written,
                }
            }
            LeaseStep::Wait { again } => {
                // Check at least this often: the holder may release the lease early.
                self.next = Instant::now() + again.min(LONGEST_WAIT);
                return News::Following;
            }
            LeaseStep::Lost => return News::Lost,
        };
        match written {
            Ok(record) => {
                self.failures = 0;
                let version = record.version.clone();
                self.candidate.wrote(record, begun);
                self.next = Instant::now() + self.terms.renew_every();
                let left = self.terms.give_up_after().saturating_sub(self.clock.elapsed() - begun);
                News::Leading { until: Instant::now() + left, version }
            }
            Err(failure) => {
                // Another replica wrote it, or our write succeeded and the answer was lost: read it. We may still hold the
                // lease until our own time is up.
                if failure.meaning() != Meaning::Refused {
                    let _ = self.read().await;
                }
                self.failed(&failure)
            }
        }
    }

    fn failed(&mut self, failure: &Failure) -> News {
        tracing::warn!(%failure, "could not read or write the leader lease");
        // Retry often enough that one failure does not cost the lease.
        let longest = LONGEST_WAIT.min(self.terms.renew_every() / 2);
        let wait = self.jitter.wait(self.failures, FIRST_WAIT.min(longest / 2), longest);
        self.failures += 1;
        self.next = Instant::now() + wait;
        match self.candidate.step(&self.terms, self.clock.elapsed()) {
            LeaseStep::Lost => News::Lost,
            LeaseStep::Create | LeaseStep::Take { .. } | LeaseStep::Renew { .. } | LeaseStep::Wait { .. } => {
                News::Following
            }
        }
    }

    fn path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    /// Reads the lease. The result counts from the time of the answer, not of the request. Otherwise, a replica could take over
    /// a lease too early: one that another replica acquired while the first was paused between request and answer.
    async fn read(&mut self) -> Result<(), Failure> {
        let path = format!("{}/{}", self.path(), names::LEASE);
        let get = client::get::<LeaseObject>(&self.client, &path);
        match self.in_time(get).await {
            Ok(lease) => self.candidate.observe(lease.record(&self.terms), self.clock.elapsed()),
            Err(failure) if failure.code == Some(404) => {}
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    async fn write(&self, version: Option<String>) -> Result<LeaseRecord, Failure> {
        let now = format!("{:.6}", self.clock.now());
        let spec = json!({
            "holderIdentity": self.terms.identity,
            "leaseDurationSeconds": self.terms.duration.as_secs().max(1),
            "acquireTime": now,
            "renewTime": now,
        });
        let lease: LeaseObject = match version {
            None => {
                let body = json!({
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": { "name": names::LEASE, "namespace": self.namespace, "annotations": annotations() },
                    "spec": spec,
                });
                let post = request("POST", &self.path(), Some(client::JSON), body.to_string().into_bytes());
                self.in_time(client::send(&self.client, post)).await?
            }
            Some(version) => self.in_time(patch(&self.client, &self.path(), &version, spec)).await?,
        };
        Ok(lease.record(&self.terms))
    }

    /// Limits the time of a request, so that after one that hangs, another is possible before the lease expires.
    async fn in_time<T>(&self, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let limit = self.terms.renew_every().min(client::TIMEOUT);
        tokio::time::timeout(limit, request).await.unwrap_or_else(|_| Err(Failure::timeout(limit)))
    }
}

async fn patch(
    client: &Client,
    leases: &str,
    version: &str,
    spec: serde_json::Value,
) -> Result<LeaseObject, Failure> {
    let body = json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": version },
        { "op": "add", "path": "/metadata/annotations", "value": annotations() },
        { "op": "add", "path": "/spec", "value": spec },
    ]);
    let path = format!("{leases}/{}", names::LEASE);
    client::send(
        client,
        request("PATCH", &path, Some(Style::Json.content_type()), body.to_string().into_bytes()),
    )
    .await
}

/// Releases the lease, so that the next leader need not wait until it expires.
pub async fn give_back(
    client: &Client,
    namespace: &str,
    identity: &str,
    version: &str,
) -> Result<(), Failure> {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let spec = json!({ "holderIdentity": "", "leaseDurationSeconds": 1 });
    match patch(client, &leases, version, spec.clone()).await {
        // A renewal was in flight when the process was told to stop.
        Err(failure) if failure.meaning() == Meaning::Moved => {
            let lease: LeaseObject = client::get(client, &format!("{leases}/{}", names::LEASE)).await?;
            match lease.spec.holder_identity.as_deref() == Some(identity) {
                true => patch(client, &leases, &lease.metadata.resource_version, spec).await.map(drop),
                false => Ok(()),
            }
        }
        answer => answer.map(drop),
    }
}
