//! Runs the two installations of the documentation verbatim on a real node. The controller runs there from its image as the
//! Deployment of rbac-lite.yaml or rbac.yaml. The examples run as real containers with real readiness probes.

use crate::common::docs::{commands, shell};
use anyhow::{Context, Result, ensure};
use rollcall_testbed::{AuditEvent, Cluster, Image, RealNode};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::sync::OnceCell;

const ACCOUNT: &str = "system:serviceaccount:pod-sequence-system:pod-sequence-controller";
const IMAGE: &str = "pod-sequence-controller:latest";

/// A policy that sets the imagePullPolicy. Images cannot be pulled here, but for `nginx:latest` Kubernetes defaults to Always.
/// The policy lets the test use the printed manifests unchanged.
const USE_WHAT_IS_THERE: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: use-what-is-there}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{spec: Object.spec{containers: object.spec.containers.map(c,
          Object.spec.containers{name: c.name, imagePullPolicy: "IfNotPresent"})}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: use-what-is-there}
spec: {policyName: use-what-is-there}
"#;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `make TARGET…` in the repository.
fn make(arguments: &[&str], environment: &[(&str, &Path)]) -> Result<()> {
    let output = Command::new("make")
        .args(arguments)
        .envs(environment.iter().copied())
        // Uses the programs that are already built, because a release build takes minutes and is not tested here.
        .env("PROGRAM", env!("CARGO_BIN_EXE_rollcall"))
        .env("IMAGE_PROFILE", "dev")
        .current_dir(repository())
        .output()
        .context("run make")?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "make {arguments:?} ended with {}:\n{stdout}\n{stderr}", output.status);
    Ok(())
}

/// Runs `make undeploy` and waits until the namespace is deleted, as the next installation needs.
fn undeploy(cluster: &Cluster) -> Result<()> {
    let kubectl = format!("KUBECTL={}", cluster.bin_dir().join("kubectl").display());
    make(&["undeploy", &kubectl], &[("KUBECONFIG", &cluster.kubeconfig())])?;
    cluster
        .kubectl_ok(&["wait", "--for=delete", "namespace/pod-sequence-system", "--timeout=60s"])
        .map(drop)
        .context("make undeploy leaves the namespace")
}

/// Ensures that a tool can build images. If none works, installs buildah, which needs no daemon.
fn have_an_engine() -> Result<()> {
    let works = |program: &str| {
        let output = Command::new(program).arg("info").output();
        output.is_ok_and(|output| output.status.success())
    };
    if ["docker", "podman", "buildah"].into_iter().any(works) {
        return Ok(());
    }
    rollcall_testbed::install_packages(&[("buildah", "/usr/bin/buildah")])
}

/// Script of the nginx substitute. As the CSI driver of the example it becomes ready when the test creates the file `/go`.
const NGINX: &str = "/bin/busybox hostname | /bin/busybox grep -q ^csi-driver- && \
    while ! test -f /go; do /bin/busybox sleep 0.2; done; exec /bin/busybox httpd -f -p 80 -h /www";

/// Imports a substitute for `nginx:latest` that answers on port 80.
fn import_nginx(node: &RealNode, dir: &Path) -> Result<()> {
    let page = dir.join("index.html");
    fs::write(&page, "it works\n")?;
    let archive = dir.join("nginx.tar");
    Image::new("docker.io/library/nginx:latest")
        .file("/bin/busybox", Path::new("/bin/busybox"))
        .file("/www/index.html", &page)
        .entrypoint(&["/bin/busybox", "sh", "-c", NGINX])
        .write(&archive)?;
    node.import_image(&archive)
}

fn resource_version(event: &AuditEvent) -> u64 {
    event.response_object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn is_ready(event: &AuditEvent) -> bool {
    let conditions = event.response_object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Checks that the controller's account released each pod after the previous one was ready.
fn in_order(cluster: &Cluster, pods: &[&str]) -> Result<()> {
    let mut audit = cluster.audit();
    let events: Vec<AuditEvent> =
        audit.all()?.iter().filter(|e| e.resource == "pods" && e.is_committed()).cloned().collect();
    let of = |pod: &str| events.iter().filter(move |event| event.name == pod).collect::<Vec<_>>();
    let mut ready_before = 0;
    for pod in pods {
        let released = of(pod).into_iter().find(|event| event.user == ACCOUNT && event.verb == "patch");
        let released = released.with_context(|| format!("{pod} was not released by {ACCOUNT}"))?;
        ensure!(released.response_object["spec"]["schedulingGates"].is_null(), "{pod} still has a gate");
        let released = resource_version(released);
        ensure!(released > ready_before, "{pod} was released at {released}, before {ready_before}");
        let ready = of(pod).into_iter().filter(|event| is_ready(event)).map(resource_version).min();
        ready_before = ready.with_context(|| format!("{pod} never became ready"))?;
        ensure!(
            ready_before > released,
            "{pod} was ready at {ready_before}, before its release at {released}"
        );
    }
    Ok(())
}

/// Takes a turn on the machine, and imports the controller's image and the images of the examples.
async fn start() -> Result<super::MachineTurn> {
    let archive = controller_image().await?;
    let machine = super::turn().await?;
    let dir = machine.cluster.dir().join("images");
    fs::create_dir_all(&dir)?;
    machine.node.import_image(archive)?;
    import_nginx(&machine.node, &dir)?;
    machine.cluster.apply(USE_WHAT_IS_THERE)?;
    Ok(machine)
}

/// Returns the archive of the controller's image, built once as the README describes. It is built before the node is taken,
/// because a build takes a while.
async fn controller_image() -> Result<&'static Path> {
    static ARCHIVE: OnceCell<tempfile::TempPath> = OnceCell::const_new();
    let build = async || {
        tokio::task::spawn_blocking(|| {
            have_an_engine()?;
            let archive = tempfile::NamedTempFile::new()?.into_temp_path();
            make(&["docker-build", &format!("IMG={IMAGE}"), &format!("IMG_TAR={}", archive.display())], &[])?;
            Ok(archive)
        })
        .await?
    };
    let archive = ARCHIVE.get_or_try_init(build).await;
    archive.map(|archive| &**archive)
}

fn rolled_out(cluster: &Cluster) -> Result<()> {
    let rollout = ["rollout", "status", "deployment/pod-sequence-controller", "--timeout=120s"];
    let namespace = ["-n", "pod-sequence-system"];
    cluster.kubectl_ok(&[&namespace, &rollout[..]].concat()).map(drop).or_else(|error| {
        let pods = cluster.kubectl_ok(&[&namespace[..], &["describe", "pods"]].concat())?;
        Err(error.context(pods))
    })
}

#[tokio::test]
async fn the_lite_install_on_a_real_node() -> Result<()> {
    let machine = start().await?;
    let cluster = &machine.cluster;
    let file = |path: &str| repository().join(path).display().to_string();
    let kubectl = |arguments: &[&str]| cluster.kubectl_ok(arguments);
    kubectl(&["apply", "-f", &file("config/crd/podsequence-crd.yaml")])?;
    kubectl(&["apply", "-f", &file("config/rbac/rbac-lite.yaml")])?;
    rolled_out(cluster)?;

    kubectl(&["apply", "-f", &file("config/samples/example-podsequence.yaml")])?;
    let complete = kubectl(&["wait", "--for=condition=Ready", "podseq/example-sequence", "--timeout=180s"]);
    if let Err(error) = complete {
        return Err(error.context(kubectl(&["describe", "podseq,pods"])?));
    }
    in_order(cluster, &["pod-1", "pod-2", "pod-3"])?;

    let row = kubectl(&["get", "podseq", "example-sequence", "--no-headers"])?;
    ensure!(
        row.split_whitespace().collect::<Vec<_>>()[..4] == ["example-sequence", "Completed", "3/3", "3/3"],
        "{row}"
    );
    let log = kubectl(&["logs", "-n", "pod-sequence-system", "deployment/pod-sequence-controller"])?;
    ensure!(log.contains("leading"), "{log}");
    let may = |verb: &str| {
        let output = cluster.kubectl(&["auth", "can-i", verb, "pods", &format!("--as={ACCOUNT}")])?;
        anyhow::Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    ensure!(
        may("patch")? == "yes" && may("update")? == "no",
        "the controller must be permitted to patch pods but not to update them"
    );

    kubectl(&["delete", "-f", &file("config/samples/example-podsequence.yaml"), "--timeout=60s"])?;
    undeploy(cluster)
}

/// Checks that a pod without a gate in its template gets one: the API server can reach the webhook through its Service.
async fn webhook_is_reached(cluster: &Cluster) -> Result<()> {
    let run = "run probe --image=nginx:latest --labels=app=my-app --dry-run=server -o";
    let args: Vec<&str> = run.split(' ').chain(["jsonpath={.spec.schedulingGates[*].name}"]).collect();
    let gated =
        async || Ok((cluster.kubectl_ok(&args)? == "podsequence.example.com/sequence-gate").then_some(()));
    let reached =
        rollcall_testbed::wait::until("a gate from the webhook", Duration::from_secs(60), gated).await;
    reached.or_else(|error| {
        let logs =
            ["logs", "-n", "pod-sequence-system", "-l", "app.kubernetes.io/name=pod-sequence-controller"];
        Err(error.context(cluster.kubectl_ok(&logs)?))
    })
}

#[tokio::test]
async fn the_full_install_on_a_real_node() -> Result<()> {
    let machine = start().await?;
    let cluster = &machine.cluster;
    tokio::task::spawn_blocking(|| rollcall_testbed::install_packages(&[("openssl", "/usr/bin/openssl")]))
        .await??;
    let kubectl = |arguments: &[&str]| cluster.kubectl_ok(arguments);

    // The section has five steps; the fourth one refers to the command from step 2.
    let steps = commands("config/webhook/README.md", "### Bring your own")?;
    let (before, after) = steps.split_at(steps.find("# 3.").context("step 3")?);
    let printed = shell(cluster, before)?;
    let (_, bundle) = printed.split_once("\"value\":\"").context("a command")?;
    let (bundle, _) = bundle.split_once('"').context("the end of a bundle")?;
    ensure!(after.contains("<CA_BUNDLE>"), "{after}");
    shell(cluster, &after.replace("<CA_BUNDLE>", bundle))?;
    rolled_out(cluster)?;
    ensure!(
        kubectl(&["get", "pods", "-n", "pod-sequence-system", "-o", "name"])?.lines().count() == 2,
        "replicas"
    );

    kubectl(&[
        "apply",
        "-f",
        &repository().join("config/samples/node-scoped-csi-example.yaml").display().to_string(),
    ])?;
    kubectl(&["label", "namespace", "default", "podsequence-enabled=true"])?;
    webhook_is_reached(cluster).await?;

    // The driver runs but is not ready, so no app may be bound.
    let driver = ["get", "pods", "-l", "app=csi-driver", "-o", "jsonpath={.items[*].metadata.name}"];
    kubectl(&[
        "wait",
        "--for=jsonpath={.status.phase}=Running",
        "pods",
        "-l",
        "app=csi-driver",
        "--timeout=120s",
    ])?;
    kubectl(&[
        "wait",
        "--for=jsonpath={.status.nodes.waiting}=1",
        "podseq/csi-driver-sequence",
        "--timeout=60s",
    ])?;
    let apps = ["get", "pods", "-l", "app=my-app", "-o", "jsonpath={.items[*].spec.nodeName}"];
    ensure!(kubectl(&apps)?.is_empty(), "an app landed before the driver was ready");
    let label = format!("jsonpath={{.metadata.labels.{}}}", key_of(cluster)?.replace('.', "\\."));
    ensure!(!kubectl(&["get", "node", "real", "-o", &label])?.is_empty(), "the node is not blocked");

    // Makes the driver ready.
    kubectl(&["exec", &kubectl(&driver)?, "--", "/bin/busybox", "touch", "/go"])?;
    let complete =
        kubectl(&["wait", "--for=condition=Ready", "podseq/csi-driver-sequence", "--timeout=180s"]);
    if let Err(error) = complete {
        return Err(error.context(kubectl(&["describe", "podseq,pods"])?));
    }
    ensure!(kubectl(&apps)? == "real real real", "the apps do not run");
    ensure!(kubectl(&["get", "node", "real", "-o", &label])?.is_empty(), "the node is still blocked");
    driver_first(cluster)?;

    // Switches from user-provided certificates to certificates of the controller.
    shell(cluster, &commands("config/webhook/README.md", "To go back to certificates")?)?;
    let managed = "jsonpath={.metadata.annotations.podsequence\\.example\\.com/managed-certificates}";
    let ours = async || {
        let args =
            ["get", "secret", "-n", "pod-sequence-system", "pod-sequence-webhook-certs", "-o", managed];
        let output = cluster.kubectl(&args)?;
        Ok((output.stdout == b"true").then_some(()))
    };
    rollcall_testbed::wait::until("certificates of the controller", Duration::from_secs(60), ours).await?;
    webhook_is_reached(cluster).await?;

    kubectl(&["delete", "podseq", "csi-driver-sequence", "--timeout=60s"])?;
    let clean = async || {
        let node = kubectl(&["get", "node", "real", "-o", "jsonpath={.metadata}"])?;
        Ok((!node.contains("podsequence.example.com/")).then_some(()))
    };
    rollcall_testbed::wait::until(
        "a node without labels and taints of Rollcall",
        Duration::from_secs(60),
        clean,
    )
    .await?;
    kubectl(&["delete", "deployment,daemonset", "--all", "--timeout=60s"])?;
    undeploy(cluster)?;
    let left = cluster.kubectl(&[
        "get",
        "mutatingwebhookconfiguration,clusterrole,clusterrolebinding",
        "-o",
        "name",
    ])?;
    ensure!(!String::from_utf8_lossy(&left.stdout).contains("sequence"), "make undeploy left objects behind");
    kubectl(&["label", "namespace", "default", "podsequence-enabled-"]).map(drop)
}

/// Returns the label that marks nodes as blocked for the second group.
fn key_of(cluster: &Cluster) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_rollcall"))
        .args(["keys", "csi-driver-sequence"])
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut words = text.split_whitespace().filter(|word| word.ends_with("-blocked"));
    words.next_back().map(str::to_owned).with_context(|| format!("no key in {text:?}"))
}

/// Checks that every app was bound after the driver was ready. A binding has no version of its own, so the first status that
/// the kubelet writes for the pod is used.
fn driver_first(cluster: &Cluster) -> Result<()> {
    let mut audit = cluster.audit();
    let pods: Vec<AuditEvent> =
        audit.all()?.iter().filter(|e| e.resource == "pods" && e.is_committed()).cloned().collect();
    let of = |prefix: &'static str| pods.iter().filter(move |event| event.name.starts_with(prefix));
    let ready = of("csi-driver-").filter(|event| is_ready(event)).map(resource_version).min();
    let ready = ready.context("the driver was never ready")?;
    let released: Vec<u64> = of("my-app-")
        .filter(|event| event.user == ACCOUNT && event.verb == "patch")
        .map(resource_version)
        .collect();
    ensure!(released.len() == 3 && released.iter().all(|at| *at > ready), "{released:?} against {ready}");
    Ok(())
}
