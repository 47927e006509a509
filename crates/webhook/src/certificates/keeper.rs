//! Keeps the certificates in the cluster up to date, and serves them.
//!
//! Every replica does this. A write of the Secret contains the resourceVersion that the replica has read. If two
//! replicas write at the same time, one write fails with a conflict, and that replica reads the Secret again.

use super::Served;
use super::make::{Pair, make};
use super::plan::{Held, Step, Terms, step};
use super::read::{may_replace, trusts_newest};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube::Client;
use kube::core::WatchEvent;
use rollcall_api::names;
use rollcall_api::patch::Style;
use rollcall_controller::backoff::Jitter;
use rollcall_controller::client::{self, Failure, Meaning, request, with_query};
use rollcall_controller::clock::Clock;
use rollcall_controller::shared::Shared;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Also the delay until a webhook is noticed that was not installed, or not readable, at the start.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The time after which the API server closes a watch.
const WATCH: Duration = Duration::from_secs(290);
/// A watch without any message for this long is considered dead.
const SILENCE: Duration = Duration::from_secs(300);

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
/// The installation of either configuration grants read access to both, but that of older versions did not.
const OURS: [&str; 2] = [names::WEBHOOK_CONFIGURATION, names::LAUNCH_CONFIGURATION];

pub struct Keeper {
    pub client: Client,
    pub namespace: String,
    pub terms: Terms,
    pub clock: Clock,
    pub jitter: Jitter,
    /// Write nothing; serve with the existing certificates.
    pub dry_run: bool,
    pub shared: Arc<Shared>,
    pub served: Arc<Served>,
    /// Whether a webhook configuration exists that sends us requests.
    pub configured: watch::Sender<bool>,
    /// The certificate that is served, and the last failure that was logged.
    pub serving: Option<Pair>,
    pub said: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    resource_version: String,
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct List<T> {
    metadata: Meta,
    items: Vec<T>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Secret {
    metadata: Meta,
    data: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Configuration {
    webhooks: Vec<Webhook>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Webhook {
    name: String,
    client_config: ClientConfig,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClientConfig {
    ca_bundle: Option<String>,
}

/// The objects in the cluster, and the resource versions to watch them from.
struct Seen {
    secret: Option<Secret>,
    secrets_at: String,
    configurations: Vec<SeenConfiguration>,
    /// The configurations that the controller is not permitted to read.
    hidden: Vec<&'static str>,
}

struct SeenConfiguration {
    name: &'static str,
    /// `None` if it is not installed.
    there: Option<Configuration>,
    at: String,
}

impl Seen {
    fn installed(&self) -> impl Iterator<Item = (&'static str, &Configuration)> {
        self.configurations.iter().filter_map(|seen| Some((seen.name, seen.there.as_ref()?)))
    }
}

impl Keeper {
    /// Runs forever.
    pub async fn run(mut self) {
        let mut failures = 0;
        loop {
            match self.turn().await {
                Ok(()) => failures = 0,
                Err(failure) => {
                    let wait = self.jitter.wait(failures, FIRST_WAIT, LONGEST_WAIT);
                    failures += 1;
                    // Another replica has written first: read the current state again.
                    if failure.meaning() != Meaning::Moved {
                        self.log_failure(&failure);
                    }
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// Logs a failure, but not if it repeats the previous one.
    fn log_failure(&mut self, failure: &Failure) {
        let text = failure.to_string();
        if self.said.as_ref() != Some(&text) {
            match failure.code {
                Some(403) => tracing::info!(
                    "admission webhook is disabled: not permitted to read its configuration (config/webhook grants this)"
                ),
                _ => tracing::warn!(%failure, "could not check or renew the webhook certificates"),
            }
            self.said = Some(text);
        }
    }

    /// Reads the current state, and performs one step. If no step is due, waits until the state changes or a step is
    /// due.
    async fn turn(&mut self) -> Result<(), Failure> {
        let seen = self.look().await?;
        self.said = None;
        let is_configured = seen.installed().next().is_some();
        self.configured.send_replace(is_configured);
        let held = seen
            .secret
            .as_ref()
            .map(Secret::held)
            .unwrap_or_else(|| Held { managed: true, ..Held::default() });
        self.load(&held);
        let mut until = None;
        // Certificates are needed only if a webhook configuration asks for them.
        if is_configured && !self.dry_run {
            let mut webhooks = seen.installed().flat_map(|(_, there)| &there.webhooks);
            let trusted = webhooks.all(|webhook| webhook.trusts(&held.authorities));
            match step(&held, trusted, &self.terms, self.clock.now()) {
                Step::Keep { until: at } => until = at,
                step => return self.take(step, &held, seen.secret.as_ref()).await,
            }
            let mut published = false;
            for (name, configuration) in seen.installed() {
                published |= self.publish(name, configuration, &held).await?;
            }
            if published {
                return Ok(());
            }
        }
        self.wait(seen, until).await
    }

    async fn look(&self) -> Result<Seen, Failure> {
        let secrets: List<Secret> =
            client::get(&self.client, &with_query(&self.secrets(), &only(names::WEBHOOK_SECRET))).await?;
        let (mut configurations, mut hidden, mut forbidden) = (Vec::new(), Vec::new(), None);
        for name in OURS {
            match self.configuration(name).await {
                Ok(seen) => configurations.push(seen),
                Err(failure) if failure.code == Some(403) => {
                    hidden.push(name);
                    forbidden = Some(failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        if let (true, Some(failure)) = (configurations.is_empty(), forbidden) {
            return Err(failure);
        }
        let (secret, secrets_at) = (secrets.items.into_iter().next(), secrets.metadata.resource_version);
        Ok(Seen { secret, secrets_at, configurations, hidden })
    }

    async fn configuration(&self, name: &'static str) -> Result<SeenConfiguration, Failure> {
        let path = with_query(CONFIGURATIONS, &only(name));
        let List { metadata, items }: List<Configuration> = client::get(&self.client, &path).await?;
        Ok(SeenConfiguration { name, there: items.into_iter().next(), at: metadata.resource_version })
    }

    /// Waits until the controller is permitted to read one of these configurations.
    async fn becomes_visible(&self, hidden: &[&'static str]) {
        if hidden.is_empty() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(LONGEST_WAIT).await;
            for name in hidden {
                if self.configuration(name).await.is_ok() {
                    return;
                }
            }
        }
    }

    fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    /// Serves the certificate in the Secret. An unusable certificate does not replace a usable one.
    fn load(&mut self, held: &Held) {
        let Some(pair) = held.current.as_ref().filter(|pair| self.serving.as_ref() != Some(pair)) else {
            return;
        };
        match pair.certified().and_then(|certificate| Ok((certificate, pair.facts()?))) {
            Ok((certificate, facts)) => {
                self.served.serve(certificate);
                self.shared.metrics.certificate_expires.set(facts.expires.as_second());
                let (expires, managed) = (facts.expires, held.managed);
                tracing::info!(%expires, managed, "serving the webhook with this certificate");
                if facts.expires <= self.clock.now() {
                    tracing::warn!("the webhook's certificate has expired");
                }
            }
            Err(error) if held.managed => tracing::debug!(%error, "replacing the unusable certificate"),
            Err(error) => {
                let secret = names::WEBHOOK_SECRET;
                tracing::warn!(secret, %error, "the user-provided webhook certificate cannot be served");
            }
        }
        self.serving = Some(pair.clone());
    }

    async fn take(&self, step: Step, held: &Held, secret: Option<&Secret>) -> Result<(), Failure> {
        let made = || {
            let made = make(&self.terms.names, self.clock.now(), self.terms.lifetime);
            made.map_err(|error| Failure {
                code: None,
                message: format!("cannot create a certificate: {error}"),
            })
        };
        let wanted = match step {
            Step::Replace => held.replaced(made()?),
            Step::Stage => held.staged(made()?),
            Step::Promote => held.promoted(),
            Step::Keep { .. } => return Ok(()),
        };
        tracing::info!(?step, "renewing the webhook's certificate");
        self.write(&wanted, secret).await
    }

    async fn write(&self, held: &Held, secret: Option<&Secret>) -> Result<(), Failure> {
        let field_manager = [("fieldManager", names::FIELD_MANAGER.to_owned())];
        let collection = self.secrets();
        let mut body = json!({
            "metadata": {
                "name": names::WEBHOOK_SECRET,
                "labels": { "app.kubernetes.io/name": names::CONTROLLER },
                "annotations": { names::MANAGED_CERTIFICATES: "true" },
            },
            "data": data(held),
        });
        let request = match secret {
            Some(secret) => {
                body["metadata"]["resourceVersion"] = secret.metadata.resource_version.as_str().into();
                let path = with_query(&format!("{collection}/{}", names::WEBHOOK_SECRET), &field_manager);
                request("PATCH", &path, Some(Style::Merge.content_type()), body.to_string().into_bytes())
            }
            None => {
                body["apiVersion"] = "v1".into();
                body["kind"] = "Secret".into();
                body["type"] = "Opaque".into();
                let path = with_query(&collection, &field_manager);
                request("POST", &path, Some(client::JSON), body.to_string().into_bytes())
            }
        };
        client::send::<IgnoredAny>(&self.client, request).await.map(drop)
    }

    /// Writes the authorities into the webhooks of a configuration. Returns whether there was a change.
    async fn publish(&self, name: &str, configuration: &Configuration, held: &Held) -> Result<bool, Failure> {
        let operations = publication(&configuration.webhooks, &held.authorities);
        if operations.is_empty() {
            return Ok(false);
        }
        let path = format!("{CONFIGURATIONS}/{name}");
        let path = with_query(&path, &[("fieldManager", names::FIELD_MANAGER.to_owned())]);
        let body = Value::from(operations).to_string().into_bytes();
        let patch = request("PATCH", &path, Some(Style::Json.content_type()), body);
        client::send::<IgnoredAny>(&self.client, patch).await?;
        tracing::info!(configuration = name, "published the webhook's authorities");
        Ok(true)
    }

    /// Waits until an object changes, or until the given time.
    async fn wait(&self, seen: Seen, until: Option<Timestamp>) -> Result<(), Failure> {
        let secret = names::WEBHOOK_SECRET;
        let mut secrets = self.open::<Secret>(&self.secrets(), secret, &seen.secrets_at).await?;
        let mut configurations = Vec::new();
        for SeenConfiguration { name, at, .. } in &seen.configurations {
            configurations.push(self.open::<IgnoredObject>(CONFIGURATIONS, name, at).await?);
        }
        let any_configuration =
            futures::future::select_all(configurations.iter_mut().map(|events| change(events).boxed()));
        let until =
            until.map_or_else(|| tokio::time::Instant::now() + SILENCE, |at| self.clock.instant_of(at));
        tokio::select! {
            biased;
            changed = change(&mut secrets) => changed,
            (changed, ..) = any_configuration => changed,
            () = self.becomes_visible(&seen.hidden) => Ok(()),
            () = tokio::time::sleep_until(until) => Ok(()),
        }
    }

    async fn open<T: DeserializeOwned + Clone + Send + 'static>(
        &self,
        path: &str,
        name: &str,
        version: &str,
    ) -> Result<Events<T>, Failure> {
        let mut query = only(name);
        query.extend([
            ("watch", "true".to_owned()),
            ("allowWatchBookmarks", "true".to_owned()),
            ("resourceVersion", version.to_owned()),
            ("timeoutSeconds", WATCH.as_secs().to_string()),
        ]);
        let request = request("GET", &with_query(path, &query), None, Vec::new());
        let opened = tokio::time::timeout(client::TIMEOUT, self.client.request_events::<T>(request)).await;
        let events = opened.map_err(|_| Failure::timeout(client::TIMEOUT))?.map_err(Failure::from)?;
        Ok(events.map(|event| event.map_err(Failure::from)).boxed())
    }
}

/// Selects an object by name, so that a permission for that name is sufficient.
fn only(name: &str) -> Vec<(&'static str, String)> {
    vec![("fieldSelector", format!("metadata.name={name}"))]
}

type Events<T> = BoxStream<'static, Result<WatchEvent<T>, Failure>>;

/// The content of a changed object, which is not needed.
#[derive(Clone, Debug, Deserialize)]
struct IgnoredObject {}

/// Waits for a change, or for the end of the watch. In both cases the caller reads the state again.
async fn change<T>(events: &mut Events<T>) -> Result<(), Failure> {
    loop {
        match tokio::time::timeout(SILENCE, events.next()).await {
            Ok(Some(Ok(WatchEvent::Bookmark(_)))) => {}
            Ok(Some(Ok(WatchEvent::Error(status)))) => return Err(Failure::from(*status)),
            Ok(Some(Ok(_))) | Ok(None) | Err(_) => return Ok(()),
            Ok(Some(Err(failure))) => return Err(failure),
        }
    }
}

impl Secret {
    fn held(&self) -> Held {
        let mark = self.metadata.annotations.get(names::MANAGED_CERTIFICATES).map(String::as_str);
        Held::read(&self.data, mark)
    }
}

impl Webhook {
    fn bundle(&self) -> String {
        let bundle = self.client_config.ca_bundle.as_deref().and_then(|bundle| STANDARD.decode(bundle).ok());
        bundle.and_then(|bundle| String::from_utf8(bundle).ok()).unwrap_or_default()
    }

    fn trusts(&self, authorities: &str) -> bool {
        trusts_newest(&self.bundle(), authorities)
    }
}

/// The data of the Secret as a merge patch: keys that no longer exist are null.
fn data(held: &Held) -> Value {
    let text = |text: Option<&str>| text.map_or(Value::Null, |text| STANDARD.encode(text).into());
    let Held { managed: _, current, next, authorities } = held;
    let mut data = json!({ "ca.crt": text(Some(authorities)) });
    for (name, pair) in [("tls", current), ("next", next)] {
        data[format!("{name}.crt")] = text(pair.as_ref().map(|pair| &*pair.chain));
        data[format!("{name}.key")] = text(pair.as_ref().map(|pair| &*pair.key));
    }
    data
}

/// The patch that sets `caBundle` of the webhooks where this is allowed. Each operation tests the previous value first.
fn publication(webhooks: &[Webhook], authorities: &str) -> Vec<Value> {
    let mut operations = Vec::new();
    for (place, webhook) in webhooks.iter().enumerate().filter(|_| !authorities.trim().is_empty()) {
        let bundle = webhook.bundle();
        if bundle == authorities || !may_replace(&bundle, authorities) {
            continue;
        }
        let path = format!("/webhooks/{place}/clientConfig/caBundle");
        operations
            .push(json!({ "op": "test", "path": format!("/webhooks/{place}/name"), "value": webhook.name }));
        if let Some(there) = &webhook.client_config.ca_bundle {
            operations.push(json!({ "op": "test", "path": path, "value": there }));
        }
        operations.push(json!({ "op": "add", "path": path, "value": STANDARD.encode(authorities) }));
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(name: &str, bundle: Option<&str>) -> Webhook {
        let ca_bundle = bundle.map(|bundle| STANDARD.encode(bundle));
        Webhook { name: name.into(), client_config: ClientConfig { ca_bundle } }
    }

    #[test]
    fn only_bundles_that_are_empty_or_ours_are_written() {
        let stranger = rcgen::generate_simple_self_signed(["x".to_owned()]).expect("one").cert.pem();
        let made = make(&["a".to_owned()], Timestamp::UNIX_EPOCH, WATCH).expect("one");
        let ours = Held::default().replaced(made).authorities;
        let webhooks = [
            webhook("none", None),
            webhook("placeholder", Some("\n")),
            webhook("theirs", Some(&stranger)),
            webhook("there", Some(&ours)),
        ];
        let operations = publication(&webhooks, &ours);
        let written = |operation: &&Value| operation["op"] == "add";
        let paths: Vec<&str> = operations.iter().filter(written).filter_map(|o| o["path"].as_str()).collect();
        assert_eq!(paths, ["/webhooks/0/clientConfig/caBundle", "/webhooks/1/clientConfig/caBundle"]);
        assert_eq!(publication(&webhooks, "").len(), 0, "empty authorities are not published");
    }

    #[test]
    fn a_secret_is_read_back_as_it_was_written() {
        let made = make(&["a".to_owned()], Timestamp::UNIX_EPOCH, WATCH).expect("one");
        let held = Held::default().replaced(made.clone()).staged(made);
        let data = serde_json::from_value(data(&held)).expect("texts");
        let mut secret = Secret { metadata: Meta::default(), data };
        assert_eq!(secret.held(), Held { managed: false, ..held.clone() });
        secret.metadata.annotations.insert(names::MANAGED_CERTIFICATES.into(), "true".into());
        assert_eq!(secret.held(), held);
        assert!(Secret::default().held().managed, "the controller fills an empty Secret");
    }
}
