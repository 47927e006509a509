//! Sources of the webhook's certificates.

use super::{hook, load};
use crate::common::lab::{OWN_NAMESPACE, repository};
use crate::common::server::Server;
use crate::common::*;
use anyhow::{Context, ensure};
use rollcall_api::names::{WEBHOOK_CONFIGURATION, WEBHOOK_SECRET};
use rollcall_testbed::AuditEvent;
use std::collections::BTreeSet;
use std::process::Command;
use tokio_util::sync::CancellationToken;

/// A lifetime so short that several renewals fit into a test.
const SHORT_LIFETIME: [&str; 2] = ["--webhook-certificate-lifetime", "10s"];
/// A lifetime for a busy machine. When a renewal begins, a third of the lifetime remains, long enough for a controller that
/// waits for CPU time.
const SHORT_LIFETIME_UNDER_LOAD: [&str; 2] = ["--webhook-certificate-lifetime", "45s"];

#[tokio::test]
async fn certificates_are_renewed_under_load_and_no_pod_notices() -> Result<()> {
    let lab = hook::install(0).await?;
    hook::with_patience(&lab)?;
    // Two replicas share the certificates.
    let first = Controller::start(&lab, Options::args(&SHORT_LIFETIME_UNDER_LOAD)).await?;
    let second = Controller::start(&lab, Options::args(&SHORT_LIFETIME_UNDER_LOAD)).await?;
    lab.call_webhook(first.webhook)?;
    let server = Server::new(lab.cluster());
    hook::in_force(&server).await?;
    let namespace = server.namespace("renewed", json!({})).await?;
    let (sequence, pod) = hook::claimed(&namespace);
    server.sequences(&namespace, &[sequence]).await?;

    let stop = CancellationToken::new();
    let renewals = async {
        let mut served = BTreeSet::new();
        for port in [first.webhook, second.webhook] {
            lab.call_webhook(port)?;
            served.insert(hook::secret(&server, "tls.crt").await?);
            let enough = served.len() + 1;
            wait::until("renewals", LIMIT, async || {
                served.insert(hook::secret(&server, "tls.crt").await?);
                Ok((served.len() >= enough).then_some(()))
            })
            .await?;
        }
        stop.cancel();
        anyhow::Ok(served.len())
    };
    let (outcome, renewals) =
        tokio::try_join!(load::create(&server, &namespace, "p", pod, stop.clone()), renewals)?;
    assert!(renewals >= 3 && outcome.held > 100, "{renewals} {outcome:?}");
    assert_eq!((outcome.free, outcome.refused.len()), (0, 0), "{outcome:?}");
    // Of two replicas that renew at the same time, one wins, and neither retries endlessly.
    let writes =
        lab.events(|event| event.user == ACCOUNT && event.resource == "secrets" && is_write(event))?;
    let done = writes.iter().filter(|event| event.is_committed()).count();
    assert!(done <= 2 * renewals + 2, "{done} writes for {renewals} certificates");
    permissions(&lab)
}

fn is_write(event: &AuditEvent) -> bool {
    matches!(event.verb.as_str(), "create" | "patch" | "update" | "delete")
}

/// Checks that the requests are those that `webhook.yaml` permits.
fn permissions(lab: &Lab) -> Result<()> {
    let of = |resource: &str| -> Result<Vec<AuditEvent>> {
        lab.events(|event| event.user == ACCOUNT && event.resource == resource)
    };
    for (resource, granted, name) in [
        ("secrets", &["create", "list", "patch", "watch"][..], WEBHOOK_SECRET),
        ("mutatingwebhookconfigurations", &["list", "patch", "watch"], WEBHOOK_CONFIGURATION),
    ] {
        let events = of(resource)?;
        let used: BTreeSet<&str> = events.iter().map(|event| event.verb.as_str()).collect();
        assert_eq!(used, granted.iter().copied().collect(), "{resource}");
        assert!(events.iter().all(|event| event.status_code != 403), "{resource}");
        let elsewhere = |event: &&AuditEvent| event.verb == "patch" && event.name != name;
        assert_eq!(events.iter().filter(elsewhere).count(), 0, "{resource}");
        let account = format!("--as={ACCOUNT}");
        for verb in ["get", "list", "update", "delete"] {
            let args = ["auth", "can-i", verb, resource, "-n", OWN_NAMESPACE, &account];
            assert!(!lab.cluster().kubectl(&args)?.status.success(), "{verb} {resource}");
        }
    }
    Ok(())
}

/// The procedure of the original project: the script, the configuration, the patch, then the controller.
#[tokio::test]
async fn certificates_that_are_brought_are_served_and_never_written() -> Result<()> {
    tokio::task::spawn_blocking(|| rollcall_testbed::install_packages(&[("openssl", "/usr/bin/openssl")]))
        .await??;
    let lab = Lab::full(rollcall_testbed::Options { nodes: 0, ..Default::default() }).await?;
    let server = Server::new(lab.cluster());
    // The script creates the namespace if it is missing.
    lab.cluster().kubectl_ok(&["delete", "namespace", OWN_NAMESPACE])?;
    let command = generate(&lab)?;
    lab.apply_file("config/webhook/webhook.yaml")?;
    shell(&lab, &command)?;
    let (theirs, served) = (lab.webhook_bundle(0)?, hook::secret(&server, "tls.crt").await?);
    assert_eq!(theirs, hook::secret(&server, "ca.crt").await?);
    lab.apply_file("config/rbac/rbac.yaml")?;
    let scale = ["-n", OWN_NAMESPACE, "scale", "deployment", "pod-sequence-controller", "--replicas=0"];
    lab.cluster().kubectl_ok(&scale)?;

    let controller = Controller::start(&lab, Options::args(&SHORT_LIFETIME)).await?;
    lab.call_webhook(controller.webhook)?;
    hook::in_force(&server).await?;
    assert_eq!(lab.webhook_bundle(0)?, theirs);
    assert_eq!(lab.webhook_bundle(1)?, theirs, "an empty bundle is filled from the Secret");
    assert_eq!(hook::secret(&server, "tls.crt").await?, served);

    // New certificates from the user are served without a restart, once the bundle trusts them.
    shell(&lab, &generate(&lab)?)?;
    assert_ne!(hook::secret(&server, "tls.crt").await?, served);
    assert_ne!(lab.webhook_bundle(0)?, theirs);
    hook::in_force(&server).await?;
    let written =
        lab.events(|event| event.user == ACCOUNT && event.resource == "secrets" && is_write(event))?;
    assert_eq!(written.len(), 0, "{written:?}");

    // Returns to certificates that the controller issues.
    lab.cluster().kubectl_ok(&["delete", "secret", "-n", OWN_NAMESPACE, WEBHOOK_SECRET])?;
    let patch = json!([{ "op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": "Cg==" }]);
    let patch = ["patch", "mutatingwebhookconfiguration", WEBHOOK_CONFIGURATION, "--type=json", "-p"]
        .into_iter()
        .map(str::to_owned)
        .chain([patch.to_string()])
        .collect::<Vec<_>>();
    lab.cluster().kubectl_ok(&patch.iter().map(String::as_str).collect::<Vec<_>>())?;
    wait::until("a certificate authority of the controller", LIMIT, async || {
        let ours = hook::secret(&server, "ca.crt").await?;
        Ok((!ours.is_empty() && lab.webhook_bundle(0)? == ours).then_some(()))
    })
    .await?;
    hook::in_force(&server).await
}

/// Returns the command that the script prints; it makes API servers trust the new certificates.
fn generate(lab: &Lab) -> Result<String> {
    let output = Command::new(repository("config/webhook/generate-certs.sh"))
        .env("KUBECTL", lab.cluster().bin_dir().join("kubectl"))
        .env("KUBECONFIG", lab.cluster().kubeconfig())
        .output()
        .context("run generate-certs.sh")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command in a shell.
fn shell(lab: &Lab, command: &str) -> Result<()> {
    let path = format!("{}:{}", lab.cluster().bin_dir().display(), std::env::var("PATH")?);
    let mut shell = Command::new("sh");
    shell.args(["-ec", command]).env("PATH", path).env("KUBECONFIG", lab.cluster().kubeconfig());
    let output = shell.output()?;
    ensure!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
