//! A fake API server whose objects contain hostile text wherever the API allows text.

use super::ATTACK;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use tempfile::TempDir;

/// The behaviour of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Returns hostile objects.
    Answers,
    /// Returns this status code with a hostile message.
    Refuses(u16),
}

/// A server that runs until the end of the test, and its kubeconfig.
pub struct Server {
    folder: TempDir,
}

impl Server {
    pub fn start(mood: Mood) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("its address"));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || serve(stream, mood));
            }
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": ATTACK,
            "contexts": [{"name": ATTACK, "context": {"cluster": "x", "user": ATTACK}}],
            "clusters": [{"name": "x", "cluster": {"server": address}}],
            "users": [{"name": ATTACK, "user": {}}],
        });
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("kubeconfig"), ascii(&config)).expect("write");
        Server { folder }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

/// JSON without C1 characters, so that it is also valid YAML.
pub fn ascii(value: &Value) -> String {
    let escaped = |char: char| match char.is_ascii() {
        true => char.to_string(),
        false => format!("\\u{:04x}", u32::from(char)),
    };
    value.to_string().replace('\x7f', "\\u007f").chars().map(escaped).collect()
}

/// Reads one request and answers it.
fn serve(mut stream: TcpStream, mood: Mood) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    reader.take(length).read_to_end(&mut Vec::new()).ok()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?, words.next()?.split('?').next()?);
    let (code, body) = match mood {
        Mood::Answers => answer(method, path),
        Mood::Refuses(code) => (code, refusal(code)),
    };
    let body = body.to_string();
    let head = format!("HTTP/1.1 {code} {code}\r\ncontent-type: application/json\r\nconnection: close");
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).ok()
}

fn refusal(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
           "reason": ATTACK, "message": ATTACK})
}

fn answer(method: &str, path: &str) -> (u16, Value) {
    let list = |items: Vec<Value>| (200, json!({"metadata": {"resourceVersion": "1"}, "items": items}));
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (method, parts.as_slice()) {
        ("POST", [.., "selfsubjectreviews"]) => {
            (201, json!({"metadata": {}, "status": {"userInfo": {"username": ATTACK}}}))
        }
        ("POST", [.., "selfsubjectaccessreviews"]) => {
            (201, json!({"metadata": {}, "spec": {}, "status": {"allowed": true}}))
        }
        ("PATCH", [.., "pods", _]) => (200, held_pod()),
        ("PATCH", [.., "podsequences", _]) => (200, tame()),
        ("GET", ["version"]) => (200, json!({"major": "1", "minor": "36", "gitVersion": ATTACK})),
        ("GET", [.., "podsequences"]) => list(vec![hostile(), tame()]),
        ("GET", [.., "pods"]) => list(vec![held_pod(), failing_pod(), waiting_pod(), stray_pod()]),
        ("GET", [.., "pods", "waits"]) => (200, waiting_pod()),
        ("GET", [.., "pods", "stray"]) => (200, stray_pod()),
        ("GET", [.., "pods", _]) => (200, held_pod()),
        ("GET", [.., "orders"]) => list(vec![order()]),
        ("GET", [.., "tickets"]) => list(vec![ticket()]),
        ("GET", [.., "priorityclasses"]) => list(vec![]),
        ("GET", [.., "events"]) => list(vec![event()]),
        ("GET", [.., "daemonsets"]) => list(vec![agent()]),
        ("GET", [.., "deployments" | "replicasets" | "statefulsets" | "jobs" | "cronjobs"]) => list(vec![]),
        ("GET", [.., "horizontalpodautoscalers"]) => list(vec![]),
        ("GET", [.., "nodes"]) => list(vec![node()]),
        ("GET", [.., "nodes", _]) => (200, node()),
        ("GET", [.., "csinodes" | "configmaps"]) => list(vec![]),
        ("GET", ["api", "v1", "namespaces"]) => list(vec![namespace()]),
        ("GET", ["api", "v1", "namespaces", _]) => (200, namespace()),
        ("GET", [.., "deployments", _]) => (200, deployment()),
        _ => (500, refusal(500)),
    }
}

fn metadata(name: &str, uid: &str) -> Value {
    json!({"name": name, "namespace": "default", "uid": uid, "resourceVersion": "1", "generation": 1,
           "creationTimestamp": "2026-11-15T23:00:00Z", "labels": {"app": name}, "annotations": {"note": ATTACK}})
}

/// A sequence that an API server with the real CRD would reject, and a forged status.
fn hostile() -> Value {
    json!({
        "metadata": metadata("hostile", "s1"),
        "spec": {"podGroups": [{"name": ATTACK, "pods": ["web"]}]},
        "status": {
            "phase": "Failed", "observedGeneration": 1, "message": ATTACK,
            "summary": {"group": ATTACK, "ready": ATTACK},
            "groups": [{"name": ATTACK, "state": "Open", "arrived": 1, "openedAt": "2026-11-15T23:00:00.000Z"}],
            "blockedBy": [{"group": ATTACK, "pod": ATTACK, "reason": ATTACK, "message": ATTACK}],
            "nodes": {"total": 2, "complete": 0, "waiting": 2},
            "nodeStatus": [{"nodeName": ATTACK, "phase": "InProgress", "message": ATTACK}],
            "conditions": [{"type": "Stalled", "status": "True", "reason": ATTACK, "message": ATTACK,
                            "lastTransitionTime": "2026-11-15T23:00:00Z"}],
        },
    })
}

/// A valid sequence that selects hostile pods.
fn tame() -> Value {
    let group = |name: &str, app: &str| json!({"name": name, "podSelector": {"matchLabels": {"app": app}}});
    json!({
        "metadata": metadata("tame", "s2"),
        "spec": {"podGroups": [group("first", ATTACK_LABEL), group("second", "web")]},
        "status": {
            "phase": "InProgress", "observedGeneration": 1,
            "blockedBy": [{"group": "second", "pod": "web", "reason": "ReleaseForbidden", "message": ATTACK}],
        },
    })
}

const ATTACK_LABEL: &str = "failing";

fn held_pod() -> Value {
    json!({
        "metadata": metadata("web", "p1"),
        "spec": {"schedulingGates": [{"name": "podsequence.example.com/sequence-gate"}, {"name": ATTACK}],
                 "containers": [{"name": ATTACK, "image": ATTACK}]},
        "status": {"phase": "Pending"},
    })
}

/// A pod that other pods wait for; its event contains the output of a program in it.
fn failing_pod() -> Value {
    let mut metadata = metadata(ATTACK, "p2");
    metadata["labels"] = json!({"app": ATTACK_LABEL});
    json!({
        "metadata": metadata,
        "spec": {"nodeName": ATTACK, "containers": [{"name": ATTACK, "image": ATTACK}]},
        "status": {
            "phase": "Running", "reason": ATTACK, "message": ATTACK,
            "conditions": [{"type": "Ready", "status": "False", "reason": ATTACK, "message": ATTACK,
                            "lastTransitionTime": "2026-11-15T23:00:00Z"}],
            "containerStatuses": [{"name": ATTACK, "image": ATTACK, "ready": false, "restartCount": 3,
                                   "state": {"waiting": {"reason": ATTACK, "message": ATTACK}},
                                   "lastState": {"terminated": {"exitCode": 1, "reason": ATTACK, "message": ATTACK}}}],
        },
    })
}

/// A pod in an init container that waits for an agent on its node.
fn waiting_pod() -> Value {
    json!({
        "metadata": metadata("waits", "p3"),
        "spec": {
            "nodeName": "node-1",
            "initContainers": [{
                "name": ATTACK, "image": format!("rollcall-node:{ATTACK}"), "command": ["/rollcall-node"],
                "args": ["wait", "--marker", marker(), "--timeout", "5m"],
                "volumeMounts": [{"name": ATTACK, "mountPath": "/mnt"}],
            }],
            "containers": [{"name": "app"}],
            "volumes": [{"name": ATTACK, "hostPath": {"path": "/mnt"}}],
        },
        "status": {
            "phase": "Pending",
            "initContainerStatuses": [{"name": ATTACK, "ready": false, "restartCount": 0,
                                       "state": {"running": {"startedAt": "2026-11-15T23:00:00Z"}}}],
        },
    })
}

fn marker() -> String {
    format!("/mnt/{ATTACK}")
}

/// A pod with a gate that no controller manages.
fn stray_pod() -> Value {
    json!({
        "metadata": metadata("stray", "p4"),
        "spec": {"schedulingGates": [{"name": ATTACK}], "containers": [{"name": "app"}]},
        "status": {"phase": "Pending"},
    })
}

/// An Order with a forged status.
fn order() -> Value {
    let condition = json!({"type": "Ready", "status": "False", "reason": ATTACK, "message": ATTACK,
        "lastTransitionTime": "2026-11-15T23:00:00Z"});
    json!({
        "metadata": metadata("agents", "6"),
        "spec": {"daemonSet": true, "template": {"spec": {"resources": {"requests": {"cpu": "1"}}}}},
        "status": {"observedGeneration": 1, "message": ATTACK, "conditions": [condition]},
    })
}

/// A ticket of the Order, with a forged status.
fn ticket() -> Value {
    let mut metadata = metadata("agents-a", "7");
    metadata["ownerReferences"] = json!([{"apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "name": "agents",
        "uid": order()["metadata"]["uid"], "controller": true}]);
    json!({
        "metadata": metadata,
        "spec": {"resources": {"requests": {"cpu": "1"}}, "nodeName": "a"},
        "status": {"phase": "Pending", "nodeName": ATTACK, "podName": ATTACK, "expires": ATTACK, "guardianPod": ATTACK,
            "reason": ATTACK, "message": ATTACK, "observedGeneration": 1},
    })
}

/// The event that a kubelet writes when a probe fails; it contains the output of the probe.
fn event() -> Value {
    json!({
        "type": "Warning", "reason": ATTACK, "message": format!("Readiness probe failed: {ATTACK}"),
        "lastTimestamp": "2026-11-15T23:00:10Z", "involvedObject": {"uid": "p2"},
    })
}

fn agent() -> Value {
    let mut metadata = metadata(ATTACK, "d1");
    metadata["annotations"] = json!({"rollcall.dev/marker": marker()});
    json!({
        "metadata": metadata,
        "spec": {"selector": {}, "template": {"metadata": {}, "spec": {
            "nodeSelector": {ATTACK: ATTACK}, "containers": [{"name": ATTACK, "image": ATTACK}],
        }}},
    })
}

fn node() -> Value {
    let mut metadata = metadata(ATTACK, "n1");
    metadata["labels"] = json!({"podsequence.example.com/g-1": ATTACK, ATTACK: ATTACK});
    json!({
        "metadata": metadata,
        "spec": {"taints": [{"key": ATTACK, "value": ATTACK, "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": ATTACK, "message": ATTACK}]},
    })
}

fn namespace() -> Value {
    json!({"metadata": metadata("default", "ns1")})
}

/// A controller from a Deployment with hostile names.
fn deployment() -> Value {
    json!({
        "metadata": metadata("pod-sequence-controller", "c1"),
        "spec": {"replicas": 1, "template": {"spec": {
            "serviceAccountName": ATTACK,
            "containers": [{"name": ATTACK, "image": ATTACK, "args": [ATTACK]}],
        }}},
        "status": {"conditions": [{"type": "Available", "status": "False", "reason": ATTACK, "message": ATTACK}]},
    })
}
