//! Tests of the program as users run it, against a real cluster. No controller is running, and these commands work without one.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use rollcall_testbed::{Cluster, namespace, shared, wait};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tokio::sync::OnceCell;

/// Time limit of waits, far longer than any of them takes, so that a slow machine does not fail a test.
const LIMIT: Duration = Duration::from_secs(180);
const ROLLCALL: &str = env!("CARGO_BIN_EXE_rollcall");
const GATE: &str = "podsequence.example.com/sequence-gate";

/// Returns the cluster with the PodSequence CRD.
async fn cluster() -> &'static Cluster {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let cluster = shared().await;
    let install = || async {
        cluster
            .apply(include_str!("../../../../../config/crd/podsequence-crd.yaml"))
            .expect("the definition");
        let wait = [
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd/podsequences.scheduling.example.com",
        ];
        cluster.kubectl_ok(&wait).expect("an established definition");
    };
    INSTALLED.get_or_init(install).await;
    cluster
}

/// The exit code and output of a run of the program.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

fn rollcall(kubeconfig: &Path) -> Command {
    let mut command = Command::new(ROLLCALL);
    command
        .env("KUBECONFIG", kubeconfig)
        .env_remove("RUST_LOG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::null());
    command
}

fn run(cluster: &Cluster, arguments: &[&str]) -> Run {
    run_as(&cluster.kubeconfig(), arguments)
}

fn run_as(kubeconfig: &Path, arguments: &[&str]) -> Run {
    rollcall(kubeconfig).args(arguments).output().expect("run rollcall").into()
}

/// Replaces times and the random parts of names with letters.
fn steady(text: &str, namespace: &str) -> String {
    let text = text.replace(namespace, "NAMESPACE");
    let mut steady = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, digits) = rest.split_at(start);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let alone = before.ends_with(' ') || before.is_empty();
        let seconds =
            alone && digits[end..].starts_with('s') && !digits[end + 1..].starts_with(char::is_alphanumeric);
        steady += before;
        steady += if seconds { "N" } else { &digits[..end] };
        rest = &digits[end..];
    }
    steady + rest
}

fn pod(name: &str, gates: &[&str], annotations: Value) -> Value {
    let gates: Vec<Value> = gates.iter().map(|gate| json!({"name": gate})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulingGates": gates, "containers": [{"name": "server", "image": "example"}]},
    })
}

fn shop() -> Value {
    json!({
        "apiVersion": "scheduling.example.com/v1alpha1", "kind": "PodSequence",
        "metadata": {"name": "shop"},
        "spec": {"podGroups": [
            {"name": "Database Layer", "pods": ["postgres-0"]},
            {"name": "Application Layer", "pods": ["app-1", "app-2"]},
            {"pods": ["web"]},
        ]},
    })
}

fn create(cluster: &Cluster, namespace: &str, objects: &[Value]) -> Result<()> {
    let objects = objects.iter().cloned().map(|mut object| {
        object["metadata"]["namespace"] = namespace.into();
        object
    });
    cluster
        .apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects.collect::<Vec<_>>()}).to_string())
}

async fn until_pod(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let pods = Api::<Pod>::namespaced(cluster.client(), namespace);
    let pod = wait::for_object(&pods, name, LIMIT, |pod| wanted(&json!(pod))).await?;
    Ok(json!(pod))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Creates the shop with its second tier stuck, as in the documentation.
async fn stuck_shop(cluster: &Cluster) -> Result<String> {
    let namespace = namespace("cli").await;
    let stuck = json!({"testbed.rollcall.dev/never-ready": "true"});
    create(
        cluster,
        &namespace,
        &[
            shop(),
            pod("postgres-0", &[], json!({})),
            pod("app-1", &[], json!({})),
            pod("app-2", &[], stuck),
            pod("web", &[GATE, "example.com/other"], json!({})),
        ],
    )?;
    for name in ["postgres-0", "app-1"] {
        until_pod(cluster, &namespace, name, is_ready).await?;
    }
    until_pod(cluster, &namespace, "app-2", |pod| pod["status"]["phase"] == "Running").await?;
    Ok(namespace)
}

/// Creates the event that a kubelet writes when the readiness probe of a pod fails.
async fn complain(cluster: &Cluster, namespace: &str, name: &str) -> Result<()> {
    let pod = until_pod(cluster, namespace, name, |_| true).await?;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "Unhealthy",
        "metadata": {"name": format!("{name}.1")},
        "message": "Readiness probe failed: HTTP probe failed with statuscode: 503",
        "lastTimestamp": pod["metadata"]["creationTimestamp"],
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name, "uid": pod["metadata"]["uid"]},
    });
    create(cluster, namespace, &[event])
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_goes_down_to_the_container() -> Result<()> {
    let cluster = cluster().await;
    let namespace = stuck_shop(cluster).await?;
    complain(cluster, &namespace, "app-2").await?;

    let web = run(cluster, &["explain", "pod/web", "-n", &namespace]);
    assert_eq!((web.code, web.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(steady(&web.stdout, &namespace));

    let shop = run(cluster, &["explain", "podseq", "shop", "-n", &namespace]);
    assert_eq!(shop.code, Some(0));
    insta::assert_snapshot!(steady(&(shop.stderr + &shop.stdout), &namespace));

    let json = run(cluster, &["explain", "pod/web", "-n", &namespace, "-o", "json"]);
    let tree: Value = serde_json::from_str(&json.stdout)?;
    assert_eq!(tree["code"], "SeveralGates");
    let blamed = &tree["below"][0]["below"][0]["below"][0];
    assert_eq!((&blamed["code"], &blamed["object"]["name"]), (&json!("NotReady"), &json!("app-2")));
    assert_eq!(
        (&blamed["object"]["kind"], &blamed["object"]["namespace"]),
        (&json!("Pod"), &json!(namespace))
    );
    assert!(blamed["since"].is_string() && blamed["object"]["uid"].is_string(), "{blamed:#}");
    assert!(
        blamed["hints"][0].as_str().is_some_and(|hint| hint.starts_with("kubectl logs -n ")),
        "{blamed:#}"
    );
    assert_eq!(blamed["below"][0]["code"], "Event");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_named_with_what_is() -> Result<()> {
    let cluster = cluster().await;
    let namespace = namespace("cli").await;
    create(cluster, &namespace, &[shop(), pod("web", &[GATE], json!({}))])?;
    let mut answers = String::new();
    for line in [
        "explain pod/webb",
        "explain podseq/shopp",
        "explain web",
        "release pod/vveb",
        "release shop",
        "release shop --group nope",
        "release pod/web --group nope",
        "release pod/web --gate nope",
        "status shopp",
        "status shopp -w",
    ] {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        arguments.extend(["-n", &namespace]);
        let run = run(cluster, &arguments);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{line}: {run:?}");
        answers += &format!("$ rollcall {line}\n{}", run.stderr);
    }
    insta::assert_snapshot!(steady(&answers, &namespace));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn release_takes_our_gate_and_says_who() -> Result<()> {
    let cluster = cluster().await;
    let namespace = namespace("cli").await;
    let mut sequence = shop();
    sequence["spec"]["schedulingGateName"] = "example.com/ours".into();
    let gates = ["example.com/first", "example.com/ours", "example.com/last"];
    create(cluster, &namespace, &[sequence, pod("web", &gates, json!({"kept": "yes"}))])?;
    let before = until_pod(cluster, &namespace, "web", |_| true).await?;

    let first = run(cluster, &["release", "pod/web", "-n", &namespace, "--reason", "demo at ten"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_eq!(first.stdout, "pod/web released by admin (example.com/ours)\n");
    assert_eq!(first.stderr, "note: other gates still hold it: example.com/first, example.com/last\n");

    let mut after = until_pod(cluster, &namespace, "web", |_| true).await?;
    assert_eq!(after["metadata"]["annotations"]["podsequence.example.com/released-by"], "admin");
    assert_eq!(after["metadata"]["annotations"]["podsequence.example.com/released-reason"], "demo at ten");
    assert_eq!(after["spec"]["schedulingGates"], json!([{"name": gates[0]}, {"name": gates[2]}]));
    assert_eq!(after["metadata"]["annotations"]["kept"], "yes");
    after["spec"]["schedulingGates"] = before["spec"]["schedulingGates"].clone();
    assert_eq!(after["spec"], before["spec"], "the spec must not change");

    let second = run(cluster, &["release", "pod", "web", "-n", &namespace]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(1), ""), "{second:?}");
    assert!(second.stderr.contains("has no Rollcall gate; it has example.com/first, example.com/last"));

    let named = run(cluster, &["release", "pod/web", "-n", &namespace, "--gate", "example.com/last"]);
    assert_eq!(named.code, Some(0), "{named:?}");
    Ok(())
}

/// A sequence of another namespace can name any gate, but without permission it has no effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_has_no_gate_removed_and_is_not_let_in() -> Result<()> {
    let cluster = cluster().await;
    let (victim, stranger) = (namespace("cli").await, namespace("cli").await);
    let mut sequence = shop();
    sequence["metadata"]["name"] = "steal-gate".into();
    sequence["spec"]["namespace"] = victim.as_str().into();
    sequence["spec"]["schedulingGateName"] = "kueue.x-k8s.io/admission".into();
    sequence["spec"]["podGroups"] = json!([{ "name": "all", "pods": ["web"] }]);
    create(cluster, &stranger, &[sequence])?;
    let ours = "podsequence.example.com/sequence-gate";
    create(cluster, &victim, &[pod("web", &["kueue.x-k8s.io/admission", ours], json!({}))])?;

    let explained = run(cluster, &["explain", "pod/web", "-n", &victim]);
    assert_eq!(explained.code, Some(0), "{explained:?}");
    for word in ["steal-gate", "allow-from", &*stranger] {
        assert!(!explained.stdout.contains(word), "{word}: {explained:?}");
    }
    assert!(explained.stdout.contains("held by the gate kueue.x-k8s.io/admission for"), "{explained:?}");

    let released = run(cluster, &["release", "pod/web", "-n", &victim]);
    assert_eq!(released.stdout, format!("pod/web released by admin ({ours})\n"), "{released:?}");
    let after = until_pod(cluster, &victim, "web", |_| true).await?;
    assert_eq!(after["spec"]["schedulingGates"], json!([{ "name": "kueue.x-k8s.io/admission" }]));

    // With the permission, the sequence takes effect and is reported with its namespace.
    let allow = format!("podsequence.example.com/allow-from={stranger}");
    cluster.kubectl_ok(&["annotate", "namespace", &victim, &allow])?;
    let explained = run(cluster, &["explain", "pod/web", "-n", &victim]);
    let by = format!("web is held by PodSequence {stranger}/steal-gate (group 1 of 1, \"all\")");
    assert!(explained.stdout.contains(&by), "{explained:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn release_opens_groups_beside_those_that_are_open() -> Result<()> {
    let cluster = cluster().await;
    let namespace = namespace("cli").await;
    create(cluster, &namespace, &[shop()])?;
    let open = |groups: &[&str]| {
        let mut arguments = vec!["release", "shop", "-n", &namespace];
        groups.iter().for_each(|group| arguments.extend(["--group", group]));
        let run = run(cluster, &arguments);
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    };
    let annotation = || {
        let path = r"jsonpath={.metadata.annotations.podsequence\.example\.com/open-groups}";
        cluster.kubectl_ok(&["get", "podseq", "shop", "-n", &namespace, "-o", path])
    };
    assert_eq!(open(&["Group 3"]), "podsequence/shop opened by hand: \"Group 3\"\n");
    assert_eq!(annotation()?, "Group 3");
    let both = open(&["Group 1", "Application Layer", "Group 3"]);
    assert_eq!(both, "podsequence/shop opened by hand: \"Application Layer\", \"Database Layer\"\n");
    assert_eq!(annotation()?, "Application Layer,Database Layer,Group 3");
    let again = open(&["Database Layer"]);
    assert_eq!(again, "podsequence/shop unchanged: already opened by hand: \"Database Layer\"\n");
    Ok(())
}

/// Writes a status like a controller.
fn report(cluster: &Cluster, namespace: &str, status: Value) -> Result<()> {
    let patch = json!({"status": status}).to_string();
    let arguments =
        ["patch", "podseq", "shop", "-n", namespace, "--subresource=status", "--type=merge", "-p", &patch];
    cluster.kubectl_ok(&arguments).map(drop)
}

fn in_progress() -> Value {
    json!({
        "phase": "InProgress", "observedGeneration": 1, "message": "on its way",
        "summary": {"group": "2/3 Application Layer", "ready": "1/2"},
        "groups": [{"name": "Database Layer", "state": "Complete", "expected": 1, "arrived": 1}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn status_is_what_kubectl_shows() -> Result<()> {
    let cluster = cluster().await;
    let namespace = namespace("cli").await;
    let empty = run(cluster, &["status", "-n", &namespace]);
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), ""));
    assert_eq!(
        empty.stderr,
        format!("note: no podsequences in namespace {namespace}; -A lists all namespaces\n")
    );

    create(cluster, &namespace, &[shop()])?;
    report(cluster, &namespace, in_progress())?;
    let words = |text: &str| -> Vec<Vec<String>> {
        // The age is excluded, because it changes between the two commands.
        let row = |line: &str| line.split_whitespace().rev().skip(1).map(str::to_owned).collect();
        text.lines().map(row).collect()
    };
    let ours = run(cluster, &["status", "-n", &namespace]);
    assert_eq!(words(&ours.stdout), words(&cluster.kubectl_ok(&["get", "podseq", "-n", &namespace])?));
    let all = run(cluster, &["status", "-A"]);
    assert!(all.stdout.starts_with("NAMESPACE ") && all.stdout.contains(&namespace), "{all:?}");

    let one = run(cluster, &["status", "shop", "-n", &namespace]);
    assert_eq!((one.code, one.stderr.as_str()), (Some(0), ""));
    assert_eq!(one.stdout, "shop  InProgress: on its way\n└─ Database Layer  1/1  complete\n");
    let json: Value =
        serde_json::from_str(&run(cluster, &["status", "shop", "-n", &namespace, "-o", "json"]).stdout)?;
    assert_eq!(json["status"]["summary"]["ready"], "1/2");

    report(cluster, &namespace, json!({"phase": "Failed"}))?;
    assert_eq!(run(cluster, &["status", "shop", "-n", &namespace]).code, Some(1));
    Ok(())
}

/// Starts the program watching the shop, and reads its first output.
fn watching(
    cluster: &Cluster,
    namespace: &str,
    more: &[&str],
) -> Result<(Child, BufReader<std::process::ChildStdout>)> {
    let mut command = rollcall(&cluster.kubeconfig());
    command.args(["status", "shop", "-w", "-n", namespace]).args(more);
    let mut child = cluster.adopt(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdout = BufReader::new(child.stdout.take().context("a pipe")?);
    let mut line = String::new();
    while !line.ends_with("on its way\n") {
        ensure!(stdout.read_line(&mut line)? > 0, "the output ended after: {line}");
    }
    Ok((child, stdout))
}

async fn ended(mut child: Child, mut stdout: impl Read) -> Result<Run> {
    let status = wait::until("the exit of rollcall", LIMIT, async || Ok(child.try_wait()?)).await?;
    let mut run = Run { code: status.code(), stdout: String::new(), stderr: String::new() };
    stdout.read_to_string(&mut run.stdout)?;
    child.stderr.take().context("a pipe")?.read_to_string(&mut run.stderr)?;
    Ok(run)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_the_sequence() -> Result<()> {
    let cluster = cluster().await;
    let namespace = namespace("cli").await;
    create(cluster, &namespace, &[shop()])?;

    report(cluster, &namespace, in_progress())?;
    let (child, stdout) = watching(cluster, &namespace, &[])?;
    // The phase Completed describes an older spec, so the watch continues.
    report(cluster, &namespace, json!({"observedGeneration": 0, "phase": "Completed", "message": "older"}))?;
    report(
        cluster,
        &namespace,
        json!({"observedGeneration": 1, "phase": "Completed", "message": "all 3 groups"}),
    )?;
    let complete = ended(child, stdout).await?;
    assert_eq!((complete.code, complete.stderr.as_str()), (Some(0), ""));
    assert!(complete.stdout.ends_with("shop: Completed: all 3 groups\n"), "{complete:?}");

    report(cluster, &namespace, in_progress())?;
    let (child, stdout) = watching(cluster, &namespace, &["--timeout", "1h"])?;
    report(cluster, &namespace, json!({"phase": "Failed", "message": "too late"}))?;
    let failed = ended(child, stdout).await?;
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), "shop: Failed: too late\n"));
    assert_eq!(failed.stderr, "hint: rollcall explain podseq/shop\n");

    report(cluster, &namespace, in_progress())?;
    let (child, stdout) = watching(cluster, &namespace, &["--timeout", "500ms"])?;
    let late = ended(child, stdout).await?;
    assert_eq!(late.code, Some(3), "{late:?}");
    assert!(late.stderr.contains("podsequence shop is not complete yet"), "{late:?}");

    let (child, stdout) = watching(cluster, &namespace, &[])?;
    cluster.kubectl_ok(&["delete", "podseq", "shop", "-n", &namespace])?;
    let gone = ended(child, stdout).await?;
    assert_eq!((gone.code, gone.stderr.as_str()), (Some(2), "error: podsequence shop was deleted\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_said_and_the_rest_is_answered() -> Result<()> {
    let cluster = cluster().await;
    let namespace = stuck_shop(cluster).await?;
    cluster.kubectl_ok(&["create", "serviceaccount", "reader", "-n", &namespace])?;
    let nobody = cluster.service_account_kubeconfig(&namespace, "reader").await?;
    let refused = run_as(&nobody, &["explain", "pod/web"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.starts_with("error: not allowed to list podsequences in namespace"),
        "{refused:?}"
    );

    let rules = ["create", "role", "reader", "-n", &namespace, "--verb=list", "--resource=pods,podsequences"];
    cluster.kubectl_ok(&rules)?;
    let subject = format!("--serviceaccount={namespace}:reader");
    cluster.kubectl_ok(&["create", "rolebinding", "reader", "-n", &namespace, "--role=reader", &subject])?;
    // The API server's authorizer receives the new role asynchronously.
    let answered = wait::until("the permissions", LIMIT, async || {
        let run = run_as(&nobody, &["explain", "pod/web"]);
        Ok((run.code == Some(0)).then_some(run))
    });
    let answered = answered.await?;
    insta::assert_snapshot!(steady(&(answered.stderr + &answered.stdout), &namespace));

    let refused = run_as(&nobody, &["release", "pod/web"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("not allowed to get pod web in namespace"), "{refused:?}");
    Ok(())
}

/// `lint` ignores fields that the API server has defaulted, and objects that controllers own. With fewer permissions it checks
/// fewer kinds.
#[tokio::test(flavor = "multi_thread")]
async fn lint_reads_a_namespace() -> Result<()> {
    let cluster = cluster().await;
    let namespace = namespace("lint").await;
    let labels = json!({ "app": "db" });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "db", "image": "db" }] } });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
        "spec": { "replicas": 2, "serviceName": "db", "selector": { "matchLabels": labels }, "template": template },
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "db" },
        "spec": { "minAvailable": 2, "selector": { "matchLabels": labels } },
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "once" },
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "a", "image": "a" }] } } },
    });
    create(cluster, &namespace, &[set, budget, job])?;

    let found = run(cluster, &["lint", "--live", "-n", &namespace, "-o", "json"]);
    assert_eq!(found.code, Some(0), "{found:?}");
    let report: Value = serde_json::from_str(&found.stdout)?;
    let findings = report["findings"].as_array().context("a list")?;
    let codes: Vec<&str> = findings.iter().filter_map(|finding| finding["code"].as_str()).collect();
    for code in ["RC202", "RC210", "RC216", "RC232"] {
        assert!(codes.contains(&code), "{code}: {found:?}");
    }
    assert!(!codes.contains(&"RC234"), "the defaulted backoffLimit must be ignored: {found:?}");
    let budget =
        findings.iter().find(|finding| finding["code"] == "RC210").context("no finding about the budget")?;
    assert_eq!(
        (&budget["object"], &budget["field"], &budget["file"], &budget["line"]),
        (&json!("PodDisruptionBudget/db"), &json!("spec.minAvailable"), &Value::Null, &Value::Null)
    );
    let strict = run(cluster, &["lint", "--live", "-n", &namespace, "--strict"]);
    assert_eq!(strict.code, Some(1));
    let place = format!("PodDisruptionBudget/db in namespace {namespace}: spec.minAvailable");
    assert!(strict.stdout.contains(&place), "{strict:?}");

    cluster.kubectl_ok(&["create", "serviceaccount", "reader", "-n", &namespace])?;
    let nobody = cluster.service_account_kubeconfig(&namespace, "reader").await?;
    let refused = run_as(&nobody, &["lint", "--live"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("not allowed to list anything in namespace"), "{refused:?}");
    let rules = ["create", "role", "reader", "-n", &namespace, "--verb=list", "--resource=statefulsets"];
    cluster.kubectl_ok(&rules)?;
    let subject = format!("--serviceaccount={namespace}:reader");
    cluster.kubectl_ok(&["create", "rolebinding", "reader", "-n", &namespace, "--role=reader", &subject])?;
    let answered = wait::until("the permissions", LIMIT, async || {
        let run = run_as(&nobody, &["lint", "--live"]);
        Ok((run.code == Some(0)).then_some(run))
    });
    let answered = answered.await?;
    assert!(answered.stderr.contains("not allowed to list namespaces, nodes, "), "{answered:?}");
    assert!(answered.stdout.contains("note[RC216]"), "{answered:?}");
    Ok(())
}

/// A real API server accepts all samples of workloads, except the pitfalls that `lint` expects it to reject.
#[tokio::test(flavor = "multi_thread")]
async fn samples_of_workloads_are_what_lint_says_they_are() -> Result<()> {
    let cluster = cluster().await;
    let namespace = namespace("samples").await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/samples/workloads");
    let mut judged = (0, 0);
    for kind in ["statefulsets", "daemonsets", "daemonsets/nodes", "jobs", "cronjobs", "pitfalls"] {
        for entry in std::fs::read_dir(folder.join(kind))? {
            let path = entry?.path();
            if !path.is_file() {
                continue;
            }
            let file = path.to_str().context("UTF-8")?;
            let wrong = run(cluster, &["lint", file]).code == Some(1);
            let applied = cluster.kubectl(&["apply", "--dry-run=server", "-n", &namespace, "-f", file])?;
            assert_eq!(
                applied.status.success(),
                !wrong,
                "{file}: {}",
                String::from_utf8_lossy(&applied.stderr)
            );
            if wrong { judged.1 += 1 } else { judged.0 += 1 }
        }
    }
    assert!(judged.0 >= 25 && judged.1 >= 3, "{judged:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_install_prints_is_accepted() -> Result<()> {
    let cluster = cluster().await;
    let namespace = namespace("cli").await;
    for mode in ["lite", "full"] {
        let image = ["--image", "registry.example/rollcall:1"];
        let manifests =
            run(cluster, &["install", "--mode", mode, "--namespace", &namespace, image[0], image[1]]);
        assert_eq!((manifests.code, manifests.stderr.as_str()), (Some(0), ""));
        let file = cluster.dir().join(format!("{namespace}.yaml"));
        std::fs::write(&file, &manifests.stdout)?;
        let file = file.to_str().context("UTF-8")?;
        // Another test of this process may create the same definitions between the request and the answer.
        let applied = wait::until("an apply that meets no other one", LIMIT, async || {
            match cluster.kubectl_ok(&["apply", "--dry-run=server", "--validate=strict", "-f", file]) {
                Err(error) if error.to_string().contains("(AlreadyExists)") => Ok(None),
                answer => answer.map(Some),
            }
        })
        .await?;
        for object in ["customresourcedefinition", "deployment.apps/pod-sequence-controller", "clusterrole."]
        {
            assert!(applied.contains(object), "{applied}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_finds_it_as_a_plugin() -> Result<()> {
    let cluster = cluster().await;
    let folder = cluster.dir().join("plugins");
    std::fs::create_dir_all(&folder)?;
    std::os::unix::fs::symlink(ROLLCALL, folder.join("kubectl-rollcall"))?;
    let namespace = namespace("cli").await;
    create(cluster, &namespace, &[pod("web", &[GATE], json!({}))])?;
    let kubectl = |arguments: &[&str]| -> Result<Run> {
        let mut command = Command::new(cluster.bin_dir().join("kubectl"));
        command.env("PATH", &folder).env("KUBECONFIG", cluster.kubeconfig()).arg("rollcall").args(arguments);
        Ok(command.output()?.into())
    };
    let explained = kubectl(&["explain", "pod/web", "-n", &namespace])?;
    let hint = format!("kubectl rollcall release -n {namespace} pod/web");
    assert!(explained.code == Some(0) && explained.stdout.contains(&hint), "{explained:?}");
    let usage = kubectl(&["status", "--nope"])?;
    assert!(usage.code == Some(2) && usage.stderr.contains("Usage: kubectl rollcall status"), "{usage:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_stops_when_it_is_told_to() -> Result<()> {
    let cluster = cluster().await;
    // In dry-run mode, because the other tests here play the controller themselves.
    let mut command = rollcall(&cluster.kubeconfig());
    let nowhere = ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-bind-address=0"];
    command.args(["controller", "--mode=lite", "--dry-run", "--log-format=json"]).args(nowhere);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = cluster.adopt(&mut command).spawn()?;
    let mut stderr = BufReader::new(child.stderr.take().context("a pipe")?);
    let mut line = String::new();
    stderr.read_line(&mut line)?;
    let first: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
    assert_eq!(first["message"], "starting");
    let pid = child.id().to_string();
    ensure!(Command::new("kill").args(["-TERM", &pid]).status()?.success(), "kill");
    let status = wait::until("the controller's exit", LIMIT, async || Ok(child.try_wait()?)).await?;
    assert_eq!(status.code(), Some(0));
    Ok(())
}
