//! The Lite install of the README, word by word, on a real node: the controller runs there from its image as the
//! Deployment of rbac-lite.yaml, and the first example runs as real containers with real readiness probes.

use anyhow::{Context, Result, ensure};
use rollcall_testbed::{AuditEvent, Cluster, Image, Options, RealNode};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ACCOUNT: &str = "system:serviceaccount:pod-sequence-system:pod-sequence-controller";
const IMAGE: &str = "pod-sequence-controller:latest";

/// Nothing can be pulled here, and `nginx:latest` means "pull always" to Kubernetes; with this the manifests can
/// stay as they are printed.
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

/// `make TARGET…` in the repository, against the cluster.
fn make(cluster: &Cluster, arguments: &[&str]) -> Result<()> {
    let output = Command::new("make")
        .args(arguments)
        .arg(format!("KUBECTL={}", cluster.bin_dir().join("kubectl").display()))
        .env("KUBECONFIG", cluster.kubeconfig())
        // Of the same code; a release build takes minutes and is not what is tested here.
        .env("IMAGE_PROFILE", "dev")
        .current_dir(repository())
        .output()
        .context("run make")?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "make {arguments:?} ended with {}:\n{stdout}\n{stderr}", output.status);
    Ok(())
}

/// Something that builds images: buildah needs no daemon, so it is installed where nothing else works.
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

/// `nginx:latest`, as far as the example needs it: something that answers on port 80.
fn import_nginx(node: &RealNode, dir: &Path) -> Result<()> {
    let page = dir.join("index.html");
    fs::write(&page, "it works\n")?;
    let archive = dir.join("nginx.tar");
    Image::new("docker.io/library/nginx:latest")
        .file("/bin/busybox", Path::new("/bin/busybox"))
        .file("/www/index.html", &page)
        .entrypoint(&["/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/www"])
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

/// Each pod lost its gate, through the controller's account, after the one before it was ready.
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

#[tokio::test]
async fn the_lite_install_on_a_real_node() -> Result<()> {
    let cluster = Cluster::start(Options { nodes: 0, ..Options::default() }).await?;
    let dir = cluster.dir().join("images");
    fs::create_dir(&dir)?;
    // Before the node is taken, of which the machine has one: a build can take minutes.
    tokio::task::spawn_blocking(have_an_engine).await??;
    let archive = dir.join("controller.tar");
    make(&cluster, &["docker-build", &format!("IMG={IMAGE}"), &format!("IMG_TAR={}", archive.display())])?;

    let node = cluster.start_real_node("real").await?;
    node.import_image(&archive)?;
    import_nginx(&node, &dir)?;
    cluster.apply(USE_WHAT_IS_THERE)?;

    let file = |path: &str| repository().join(path).display().to_string();
    let kubectl = |arguments: &[&str]| cluster.kubectl_ok(arguments);
    kubectl(&["apply", "-f", &file("config/crd/podsequence-crd.yaml")])?;
    kubectl(&["apply", "-f", &file("config/rbac/rbac-lite.yaml")])?;
    let rollout = ["rollout", "status", "deployment/pod-sequence-controller", "--timeout=120s"];
    if let Err(error) = kubectl(&[&["-n", "pod-sequence-system"], &rollout[..]].concat()) {
        let pods = kubectl(&["-n", "pod-sequence-system", "describe", "pods"])?;
        return Err(error.context(pods));
    }

    kubectl(&["apply", "-f", &file("config/samples/example-podsequence.yaml")])?;
    let complete = kubectl(&["wait", "--for=condition=Ready", "podseq/example-sequence", "--timeout=180s"]);
    if let Err(error) = complete {
        return Err(error.context(kubectl(&["describe", "podseq,pods"])?));
    }
    in_order(&cluster, &["pod-1", "pod-2", "pod-3"])?;

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
    ensure!(may("patch")? == "yes" && may("update")? == "no", "patches only, never updates");

    kubectl(&["delete", "-f", &file("config/samples/example-podsequence.yaml"), "--timeout=60s"])?;
    make(&cluster, &["undeploy"])?;
    let gone = cluster.kubectl(&["get", "namespace", "pod-sequence-system"])?;
    let gone = !gone.status.success() || String::from_utf8_lossy(&gone.stdout).contains("Terminating");
    ensure!(gone, "make undeploy leaves the namespace");
    // The node is cleaned up by its own; a pod left running would only make that slower.
    tokio::time::timeout(Duration::from_secs(60), node.stop_kubelet()).await??;
    Ok(())
}
