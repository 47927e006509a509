//! The output for users about reservations while the controller is running.

use super::*;
use std::process::Command;

/// Runs the program, checks that it succeeds, and returns its stdout and stderr.
fn rollcall(cluster: &Cluster, arguments: &[&str]) -> Result<(String, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
    let output = command.env("KUBECONFIG", cluster.kubeconfig()).args(arguments).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    // Helps to find the cause of a failed test.
    println!("$ rollcall {}\n{out}{err}", arguments.join(" "));
    ensure!(output.status.success(), "{arguments:?}: {err}");
    Ok((out, err))
}

fn says(text: &str, parts: &[&str]) -> Result<()> {
    parts.iter().try_for_each(|part| {
        ensure!(text.contains(part), "\"{part}\" is not in:\n{text}");
        Ok(())
    })
}

pub async fn people_see_why_it_is_not_there(lab: &Lab) -> Result<()> {
    let cluster = lab.cluster();
    let namespace = cluster.namespace("seen").await?;
    let here = ["-n", namespace.as_str()];
    let order = json!({
        "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": "agents" },
        "spec": { "daemonSet": true, "template": { "spec": {
            "resources": { "requests": { "cpu": "100m" } },
            "nodeSelector": { "kubernetes.io/hostname": "node-0" },
        } } },
    });
    apply(cluster, &namespace, &order)?;
    // Two nodes with 32 CPUs each, enough for one ticket per node.
    let buffer = json!({
        "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": "buffer" },
        "spec": { "replicas": 3, "template": { "spec": { "resources": { "requests": { "cpu": "20" } } } } },
    });
    apply(cluster, &namespace, &buffer)?;
    // A foreign gate holds it, so that its state does not change during the test.
    let gates = json!([{ "name": "korder.dev/ticket-gate" }, { "name": "example.com/quota" }]);
    let mut web = pod("web", json!({ "schedulingGates": gates }));
    web["metadata"]["annotations"] = json!({ "korder.dev/order-request": "agents" });
    apply(cluster, &namespace, &web)?;
    let full = wait::until("a ticket without capacity", LIMIT, async || {
        let tickets = list(cluster, &namespace, "tickets")?;
        let name = |ticket: &Value| ticket["metadata"]["name"].as_str().map(str::to_owned);
        let reason =
            |reason: &str| tickets.iter().filter(|ticket| ticket["status"]["reason"] == reason).count();
        let found = tickets.iter().find(|ticket| ticket["status"]["reason"] == "NoRoom").and_then(name);
        Ok(found.filter(|_| reason("NoRoom") == 1 && reason("Reserved") == 3))
    })
    .await?;
    cluster.kubectl_ok(&[
        "wait",
        "-n",
        &namespace,
        "order/agents",
        "--for=condition=Ready",
        "--timeout=90s",
    ])?;

    let ask = |words: &[&str]| rollcall(cluster, &[words, &here].concat());
    let (out, _) = ask(&["explain", "order/agents"])?;
    says(
        &out,
        &[
            "Order agents has been Ready for ",
            "1 of 1 nodes reserved",
            "node-1 gets no ticket: not matched by nodeSelector",
        ],
    )?;
    wait::until("the message of the Order", LIMIT, async || {
        let says = cluster.kubectl_ok(&[
            "get",
            "-n",
            &namespace,
            "order/buffer",
            "-o",
            "jsonpath={.status.message}",
        ])?;
        Ok((says == "2 of 3 tickets reserved; not enough capacity for 1").then_some(()))
    })
    .await?;
    let (out, _) = ask(&["explain", "order/buffer"])?;
    says(
        &out,
        &[
            "2 of 3 tickets reserved; not enough capacity for 1",
            &format!("ticket {full} has been Pending for "),
            " cpu free, but the ticket requests 20",
            "requests 20 cpu, priority 0",
        ],
    )?;
    // The scheduler writes its event asynchronously.
    let out = wait::until("the event of the guardian", LIMIT, async || {
        let (out, _) = ask(&["explain", &format!("ticket/{full}")])?;
        Ok(out.contains("FailedScheduling").then_some(out))
    })
    .await?;
    let parts = [
        "not enough capacity for 20 cpu",
        "node-0 has ",
        " cpu free, but the ticket requests 20",
        "requests 20 cpu, priority 0",
    ];
    says(&out, &parts)?;
    let (out, _) = ask(&["explain", "ticket/agents-node-0"])?;
    says(
        &out,
        &[
            "has been Reserved for ",
            "web requests it but cannot claim it: the ticket is too small",
            "created by Order agents",
        ],
    )?;
    let (out, _) = ask(&["explain", "pod/web"])?;
    says(
        &out,
        &[
            "held by 2 gates",
            "it can claim a ticket once all other gates are removed",
            "is too small: the pod requests 1 cpu",
        ],
    )?;
    let (out, _) = ask(&["explain", "pod/web", "-o", "json"])?;
    let line: Value = serde_json::from_str(&out)?;
    ensure!(line["below"][0]["code"] == "OtherGateFirst", "{line}");

    let (out, _) = ask(&["orders"])?;
    says(&out, &["agents   DaemonSet   1         1       0", "2 of 3 reserved, 1 NoRoom"])?;
    ask(&["tickets"])?;
    let (out, _) = ask(&["tickets", "-o", "wide"])?;
    says(&out, &["korder-guardian-agents-node-0", "NoRoom: not enough capacity for 20 cpu"])?;
    let (out, _) = rollcall(cluster, &["tickets", "-A", "-o", "json"])?;
    let tickets: Value = serde_json::from_str(&out)?;
    let known = tickets["items"].as_array().context("a list")?;
    ensure!(
        known.iter().any(|ticket| ticket["name"] == *full && ticket["namespace"] == *namespace),
        "{tickets}"
    );

    let (out, err) = ask(&["release", "pod/web"])?;
    says(&out, &["pod/web released by ", "(korder.dev/ticket-gate)"])?;
    says(&err, &["the pod runs without reserved capacity", "other gates still hold it: example.com/quota"])?;
    let gates = cluster.kubectl_ok(&[
        "get",
        "-n",
        &namespace,
        "pod/web",
        "-o",
        "jsonpath={.spec.schedulingGates[*].name}",
    ])?;
    ensure!(gates == "example.com/quota", "{gates}");
    cluster.kubectl_ok(&["delete", "-n", &namespace, "pod/web", "order/agents", "order/buffer"]).map(drop)
}
