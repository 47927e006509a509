//! Tests of `rollcall doctor` on a real cluster: it reports no problem for a healthy installation, finds each defect, and the
//! printed command repairs it.

use crate::common::lab::OWN_NAMESPACE;
use crate::common::make::named;
use crate::common::*;
use anyhow::{Context, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use rollcall_api::names;
use rollcall_webhook::certificates::make::make;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const DEPLOYMENT: &str = "deployment/pod-sequence-controller";
const KEY: &str = "podsequence.example.com/default.gone.db-blocked";
const GONE: &str = "22222222-2222-4222-8222-222222222222";

/// An installation, and methods to break it.
struct Patient {
    lab: Lab,
}

/// The output of one run of the doctor.
#[derive(Debug)]
struct Visit {
    code: Option<i32>,
    findings: Vec<Value>,
}

impl Visit {
    /// The findings of a level other than `ok`.
    fn findings(&self) -> impl Iterator<Item = &Value> {
        self.findings.iter().filter(|finding| finding["level"] != "ok")
    }

    fn about(&self, text: &str) -> Option<&Value> {
        self.findings().find(|finding| finding["text"].as_str().is_some_and(|said| said.contains(text)))
    }
}

impl Patient {
    fn kubectl(&self, line: &str) -> Result<()> {
        let args: Vec<&str> = line.split(' ').collect();
        self.lab.cluster().kubectl_ok(&args).map(drop)
    }

    /// Applies a JSON patch.
    fn patch(&self, what: &str, patch: Value) -> Result<()> {
        let (what, patch) = (what.split(' '), patch.to_string());
        let args: Vec<&str> =
            ["patch"].into_iter().chain(what).chain(["--type=json", "-p", patch.as_str()]).collect();
        self.lab.cluster().kubectl_ok(&args).map(drop)
    }

    /// Runs a command in a shell.
    fn shell(&self, command: &str) -> Result<Output> {
        let cluster = self.lab.cluster();
        let ours = Path::new(env!("CARGO_BIN_EXE_rollcall")).parent().context("a folder")?;
        let path = format!("{}:{}:{}", ours.display(), cluster.bin_dir().display(), std::env::var("PATH")?);
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-ec", command]).env("PATH", path);
        shell
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("KUBECACHEDIR", cluster.dir().join("kubectl-cache"));
        Ok(shell.env_remove("KUBERNETES_SERVICE_HOST").output()?)
    }

    fn visit(&self) -> Result<Visit> {
        let output = self.shell("rollcall doctor -o json")?;
        let answer: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
        let findings = answer["findings"].as_array().context("findings")?.clone();
        Ok(Visit { code: output.status.code(), findings })
    }

    /// Waits until the doctor reports exactly the findings in `known`.
    async fn well_but(&self, known: &[&str]) -> Result<Visit> {
        let mut last = None;
        let well = wait::until("a healthy installation", LIMIT, async || {
            let visit = self.visit()?;
            let expected = visit.findings().count() == known.len()
                && known.iter().all(|text| visit.about(text).is_some());
            last = Some(format!("{visit:#?}"));
            Ok(expected.then_some(visit))
        });
        well.await.with_context(|| last.unwrap_or_default())
    }

    async fn well(&self) -> Result<()> {
        let visit = self.well_but(&[]).await?;
        ensure!(visit.code == Some(0), "{visit:#?}");
        Ok(())
    }

    /// Waits for a problem, runs the command printed below it, and waits until the problem disappears.
    async fn repaired(&self, text: &str) -> Result<()> {
        let mut last = None;
        let found = wait::until("the finding", LIMIT, async || {
            let visit = self.visit()?;
            let found = visit.about(text).filter(|finding| finding["level"] == "problem").cloned();
            ensure!(found.is_none() || visit.code == Some(1), "{visit:#?}");
            last = Some(format!("{visit:#?}"));
            Ok(found)
        });
        let found = found.await.with_context(|| format!("{text}: {}", last.unwrap_or_default()))?;
        let fix = found["fix"].as_str().with_context(|| format!("no command: {found}"))?;
        self.repair(fix)?;
        wait::until("the repair", LIMIT, async || Ok(self.visit()?.about(text).is_none().then_some(())))
            .await
            .with_context(|| format!("{text}: {fix}"))
    }

    fn repair(&self, fix: &str) -> Result<()> {
        let output = self.shell(fix)?;
        ensure!(output.status.success(), "{fix}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Returns the command printed below a note.
    async fn advice(&self, text: &str) -> Result<String> {
        let found = wait::until("the note", LIMIT, async || Ok(self.visit()?.about(text).cloned())).await?;
        ensure!(found["level"] == "note", "{found}");
        found["fix"].as_str().map(str::to_owned).with_context(|| format!("no command: {found}"))
    }

    /// Starts the binary in place of the Deployment's pods, which kwok only simulates.
    async fn controller(&self) -> Result<Controller> {
        Controller::start(&self.lab, Options::args(&["--leader-elect"])).await
    }
}

#[tokio::test]
async fn what_is_broken_is_found_and_the_printed_command_repairs_it() -> Result<()> {
    let lab = Lab::own(rollcall_testbed::Options { nodes: 1, ..Default::default() }).await?;
    let mut patient = Patient { lab };
    let mut controller = patient.controller().await?;
    patient.kubectl(&format!("scale -n {OWN_NAMESPACE} {DEPLOYMENT} --replicas=1"))?;
    patient.well().await?;

    definition_and_permissions(&patient).await?;
    limits(&patient).await?;
    leftovers(&patient).await?;
    few_rights(&patient).await?;

    // Lite mode does not serve the launch webhook.
    let launch = format!("MutatingWebhookConfiguration/{}", names::LAUNCH_CONFIGURATION);
    patient.repair(&format!("rollcall install --mode full --only {launch} | kubectl apply -f -"))?;
    patient.repaired("pods that request a launch order cannot be created").await?;
    patient.well().await?;

    // No controller is running.
    controller.stop().await?;
    patient.kubectl(&format!("scale -n {OWN_NAMESPACE} {DEPLOYMENT} --replicas=0"))?;
    patient.repaired("no controller").await?;
    controller = patient.controller().await?;
    patient.well().await?;

    // Lite mode ignores sequences of Node scope; the printed command switches to Full mode.
    let home = patient.lab.cluster().namespace("doctor").await?;
    let sequence = |spec: Value| {
        json!({
            "apiVersion": names::SEQUENCE_API_VERSION, "kind": names::SEQUENCE_KIND,
            "metadata": {"name": "agents", "namespace": home}, "spec": spec,
        })
    };
    let agents =
        json!({"scope": "Node", "podGroups": [named("agents", &["agent"]), named("apps", &["app"])]});
    patient.lab.cluster().apply(&sequence(agents).to_string())?;
    controller.stop().await?;
    patient.repaired("of scope Node").await?;
    patient.lab.mode = "full";
    let _controller = patient.controller().await?;
    patient.well_but(&["neither policies nor webhook"]).await?;

    launch_order(&patient).await?;
    policies(&patient, &home).await?;
    webhook(&patient, &home).await
}

async fn definition_and_permissions(patient: &Patient) -> Result<()> {
    let field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/suspend";
    patient.patch("crd podsequences.scheduling.example.com", json!([{"op": "remove", "path": field}]))?;
    patient.repaired("differs from that of rollcall").await?;
    patient
        .patch("clusterrole pod-sequence-controller-lite", json!([{"op": "remove", "path": "/rules/0"}]))?;
    patient.repaired("is not permitted to get, list, watch, patch pods").await?;
    patient.kubectl("delete clusterrolebinding pod-sequence-controller-lite")?;
    patient.repaired("is not permitted to").await?;
    // Excess permissions are a note, not a problem.
    let more = json!([{"op": "add", "path": "/rules/0/verbs/-", "value": "update"}]);
    patient.patch("clusterrole pod-sequence-controller-lite", more)?;
    patient.repair(&patient.advice("grants more than required: update pods").await?)?;
    patient.well().await
}

async fn limits(patient: &Patient) -> Result<()> {
    patient.kubectl("delete validatingadmissionpolicybinding podsequence-controller-pods")?;
    patient.repaired("can change the image of every pod").await?;
    patient.kubectl("delete validatingadmissionpolicies,validatingadmissionpolicybindings --all")?;
    patient.repaired("26 of 26 objects missing").await?;
    // A difference that `kubectl apply` would not remove.
    let nowhere = json!([{"op": "add", "path": "/spec/matchResources", "value": {"namespaceSelector": {"matchLabels": {"no": "such"}}}}]);
    patient.patch("validatingadmissionpolicybinding podsequence-controller-pods", nowhere)?;
    patient
        .repaired(
            "ValidatingAdmissionPolicyBinding podsequence-controller-pods differs from the expected manifest",
        )
        .await?;
    patient.well().await
}

async fn leftovers(patient: &Patient) -> Result<()> {
    let namespace = patient.lab.cluster().namespace("stray").await?;
    for name in ["stray-1", "stray-2"] {
        let pod = pod(name).with(json!({"metadata": {"namespace": namespace}}));
        patient.lab.cluster().apply(&pod.to_string())?;
    }
    patient.repaired("2 pods held by").await?;
    patient.kubectl(&format!("label node node-0 {KEY}={GONE}"))?;
    patient.repaired(&format!("label {KEY}")).await?;
    patient.kubectl(&format!("taint node node-0 {KEY}={GONE}:NoSchedule"))?;
    patient.repaired(&format!("taint {KEY}")).await?;
    patient.well().await
}

/// For a user without permissions, each check reports that it is not allowed, and nothing else.
async fn few_rights(patient: &Patient) -> Result<()> {
    let nobody = patient.lab.cluster().service_account_kubeconfig("default", "default").await?;
    let output = patient.shell(&format!("rollcall doctor --kubeconfig {}", nobody.display()))?;
    let (text, stderr) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    ensure!(output.status.code() == Some(2) && stderr.is_empty(), "{text}{stderr}");
    for line in [
        "not allowed to get customresourcedefinitions.apiextensions.k8s.io",
        "not allowed to get deployments.apps in namespace pod-sequence-system",
        "not allowed to list podsequences.scheduling.example.com",
    ] {
        ensure!(text.contains(line), "{line}: {text}");
    }
    // Information that every user can read is still reported.
    ensure!(text.contains("Kubernetes 1."), "{text}");
    Ok(())
}

/// Full mode with launch order, but with neither the policies nor the other webhook.
async fn launch_order(patient: &Patient) -> Result<()> {
    let none = "neither policies nor webhook";
    let configuration = format!("mutatingwebhookconfiguration {}", names::LAUNCH_CONFIGURATION);
    let ignore = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    patient.patch(&configuration, ignore)?;
    patient.repaired("failurePolicy Ignore").await?;
    // An additional condition, which `kubectl apply` would keep.
    let never = json!([{"op": "add", "path": "/webhooks/0/matchConditions/-", "value": {"name": "never", "expression": "false"}}]);
    patient.patch(&configuration, never)?;
    patient.repaired(&format!("{} differs from the expected manifest", names::LAUNCH_CONFIGURATION)).await?;
    patient.kubectl("delete clusterrolebinding pod-sequence-controller-launch")?;
    patient.repaired("is not permitted to get, create, patch, delete configmaps").await?;
    patient.kubectl(&format!("delete service {} -n {OWN_NAMESPACE}", names::WEBHOOK_SERVICE))?;
    patient.repaired("is missing: the webhook cannot be called").await?;
    patient.well_but(&[none]).await?;
    // Full mode works without launch order, and then needs none of its permissions.
    patient.kubectl("delete clusterrole,clusterrolebinding pod-sequence-controller-launch")?;
    patient.kubectl(&format!("delete {configuration}"))?;
    let not_installed = format!("{} is not installed", names::LAUNCH_CONFIGURATION);
    patient.well_but(&[none, &not_installed]).await?;
    patient.repair(&patient.advice(&not_installed).await?)?;
    patient.well_but(&[none]).await.map(drop)
}

async fn policies(patient: &Patient, home: &str) -> Result<()> {
    patient.kubectl(&format!("label namespace {home} podsequence-enabled=true"))?;
    patient.repair(&patient.advice("neither policies nor webhook").await?)?;
    let visit = patient.well_but(&[]).await?;
    let gated =
        |finding: &Value| finding["text"].as_str().is_some_and(|text| text.contains("would get its gate"));
    ensure!(visit.findings.iter().any(gated), "{visit:#?}");
    patient.kubectl("delete mutatingadmissionpolicybinding podsequence-pod-gates")?;
    patient.repaired("objects missing: MutatingAdmissionPolicyBinding podsequence-pod-gates").await?;
    // An additional condition, which `kubectl apply` would keep.
    let never = json!([{"op": "add", "path": "/spec/matchConditions/-", "value": {"name": "never", "expression": "false"}}]);
    patient.patch("mutatingadmissionpolicy podsequence-pod-gates", never)?;
    patient
        .repaired("MutatingAdmissionPolicy podsequence-pod-gates differs from the expected manifest")
        .await?;
    patient.well().await?;

    // Pods of another namespace that already permits a third one.
    let other = patient.lab.cluster().namespace("other").await?;
    patient.kubectl(&format!("annotate namespace {other} {}=ops", names::ALLOW_FROM))?;
    let guest = json!({
        "apiVersion": names::SEQUENCE_API_VERSION, "kind": names::SEQUENCE_KIND,
        "metadata": {"name": "guest", "namespace": home},
        "spec": {"namespace": other, "podGroups": [named("g", &["p"])]},
    });
    patient.lab.cluster().apply(&guest.to_string())?;
    patient.repaired("does not permit it").await?;
    patient.well().await
}

async fn webhook(patient: &Patient, home: &str) -> Result<()> {
    // This API server cannot reach Services, so no pod may match the webhook.
    patient.kubectl(&format!("label namespace {home} podsequence-enabled-"))?;
    patient.repair("rollcall install --mode full --admission webhook | kubectl apply -f -")?;
    let both = "policies and webhook are both installed";
    patient.well_but(&[both]).await?;

    let service = format!("service {} -n {OWN_NAMESPACE}", names::WEBHOOK_SERVICE);
    let nobody = json!([{"op": "replace", "path": "/spec/selector", "value": {"app": "nobody"}}]);
    patient.patch(&service, nobody)?;
    patient.repaired("has no ready endpoint").await?;
    let configuration = format!("mutatingwebhookconfiguration {}", names::WEBHOOK_CONFIGURATION);
    let fail = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]);
    patient.patch(&configuration, fail)?;
    patient.repaired("failurePolicy Fail").await?;
    patient.well_but(&[both]).await?;

    // A foreign certificate authority, which the controller does not change.
    let day = Duration::from_secs(24 * 3600);
    let long_ago = jiff::Timestamp::now() - day * 10;
    let expired = make(&rollcall_webhook::hosts(OWN_NAMESPACE), long_ago, day)?;
    let stranger = expired.authority.clone();
    let own = patient.lab.cluster().ca();
    let bundle = STANDARD.encode(std::fs::read(own)?);
    let distrust = json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]);
    patient.patch(&configuration, distrust)?;
    patient.repaired("1 of 3 caBundles do not trust").await?;

    // A user's certificate that has expired: the printed command hands the Secret over to the controller. A single patch avoids
    // intermediate states that the controller would react to.
    let text = |text: &str| STANDARD.encode(text);
    let brought = json!({
        "metadata": {"annotations": {names::MANAGED_CERTIFICATES: "false"}},
        "data": {"tls.crt": text(&expired.pair.chain), "tls.key": text(&expired.pair.key), "ca.crt": text(&stranger)},
    });
    let patch = brought.to_string();
    let args = ["patch", "secret", names::WEBHOOK_SECRET, "-n", OWN_NAMESPACE, "--type=merge", "-p", &patch];
    patient.lab.cluster().kubectl_ok(&args)?;
    patient.repaired("(user-provided) expired").await?;
    let visit = patient.well_but(&[both]).await?;
    if visit.code != Some(0) {
        bail!("{visit:#?}");
    }
    Ok(())
}
