//! A real API server with the CRDs of Rollcall.

use super::corpus;
use kube::Client;
use rollcall_api::definition::Custom;
use rollcall_testbed::{Cluster, shared, wait::until};
use serde_json::{Value, json};
use std::sync::OnceLock;
use std::time::Duration;

const DEFINITIONS: [&str; 2] = [
    include_str!("../../../../../../config/crd/podsequence-crd.yaml"),
    include_str!("../../../../../../config/crd/korder-crd.yaml"),
];

/// Time limit for the API server to serve a new CRD; it usually takes less than a second.
const LIMIT: Duration = Duration::from_secs(120);

/// An additional cause that the API server reports if it has not evaluated all rules.
const NOT_ALL_CHECKED: &str = "some validation rules were not checked";

pub struct Server {
    cluster: &'static Cluster,
    client: Client,
}

pub async fn start() -> Server {
    let cluster = shared().await;
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        DEFINITIONS.iter().for_each(|file| cluster.apply(file).unwrap());
        cluster
            .kubectl_ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"])
            .unwrap();
    });
    let server = Server { cluster, client: cluster.client() };
    server.wait_until_served().await;
    server
}

impl Server {
    /// Returns the API server's objections to `object` as (field, message). Uses a dry run, so nothing is stored.
    pub async fn refusal(&self, object: &Value) -> Vec<(String, String)> {
        match self.create("?dryRun=All&fieldValidation=Strict", object).await {
            Ok(_) => vec![],
            // Another test has stored an object of this name. The validation comes before this conflict.
            Err(kube::Error::Api(status)) if status.code == 409 => vec![],
            Err(kube::Error::Api(status)) => {
                let causes =
                    status.details.as_ref().map(|details| details.causes.clone()).unwrap_or_default();
                assert!(!causes.is_empty(), "rejected, but not because of its content: {}", status.message);
                let told = causes.into_iter().filter(|cause| !cause.message.contains(NOT_ALL_CHECKED));
                told.map(|cause| (cause.field, cause.message)).collect()
            }
            Err(error) => panic!("no answer: {error}"),
        }
    }

    async fn create(&self, query: &str, object: &Value) -> kube::Result<Value> {
        let path = path(object);
        let request =
            http::Request::post(format!("{path}{query}")).header("Content-Type", "application/json");
        self.client.request(request.body(serde_json::to_vec(object).unwrap()).unwrap()).await
    }

    /// Returns the object as the API server would store it.
    pub async fn stored(&self, object: &Value) -> Value {
        self.create("?dryRun=All", object).await.unwrap()
    }

    pub fn kubectl_apply(&self, object: &Value) -> anyhow::Result<()> {
        self.cluster.apply(&object.to_string())
    }

    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.cluster.kubectl_ok(arguments).unwrap()
    }

    /// Creates `object` and sets its `status`.
    pub fn create_with_status(&self, object: &Value, status: Value) {
        self.cluster.apply(&object.to_string()).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let patch = json!({ "status": status }).to_string();
        let target = ["patch", &kind, &name, "--namespace", "default", "--subresource=status"];
        self.kubectl(&[&target[..], &["--type=merge", "--patch", &patch]].concat());
    }

    /// Waits until the API server serves and lists the CRDs, which happens shortly after they are established.
    async fn wait_until_served(&self) {
        let ticket = json!({ "resources": { "requests": { "cpu": "1" } } });
        let probes = [
            (Custom::PodSequence, json!({ "podGroups": [{ "pods": ["a"] }] })),
            (Custom::Order, json!({ "template": { "spec": ticket } })),
            (Custom::Ticket, ticket),
        ];
        for (custom, spec) in probes {
            let (group, plural) = (custom.crd().spec.group, custom.crd().spec.names.plural);
            let probe = corpus::object(custom, "probe", spec);
            let served = until("the definition to be served", LIMIT, async || {
                // This also refreshes the discovery cache of kubectl.
                let listed =
                    self.kubectl(&["api-resources", &format!("--api-group={group}")]).contains(&plural);
                Ok((listed && self.create("?dryRun=All", &probe).await.is_ok()).then_some(()))
            });
            served.await.unwrap();
        }
    }
}

/// Returns the path of the collection for this kind.
fn path(object: &Value) -> String {
    let definition = corpus::custom(object["kind"].as_str().unwrap()).crd().spec;
    let (group, version, plural) =
        (&definition.group, &definition.versions[0].name, &definition.names.plural);
    format!("/apis/{group}/{version}/namespaces/default/{plural}")
}
