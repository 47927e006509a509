//! Pods and DaemonSets, parsed for the marker files that they wait for or write.

use anyhow::Result;
use jiff::Timestamp;
use rollcall_api::names;
use rollcall_api::watch;
use rollcall_core::agent::explain::{Agent, WaitingPod};
use rollcall_core::agent::recognise::{Container, VolumeMount};
use rollcall_core::facts::OwnerKind;
use serde::Deserialize;
use serde_json::Value;

/// A pod as the API server returned it; `rollcall_api` parses its facts.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct PodObject(Value);

#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct DaemonSetObject(Value);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    init_containers: Vec<ContainerObject>,
    containers: Vec<ContainerObject>,
    volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerObject {
    name: String,
    image: String,
    command: Vec<String>,
    args: Vec<String>,
    volume_mounts: Vec<MountObject>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MountObject {
    name: String,
    mount_path: String,
    sub_path: String,
    mount_propagation: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    name: String,
    host_path: Option<HostPath>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct HostPath {
    path: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    init_container_statuses: Vec<ContainerStatus>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    ready: bool,
    restart_count: u32,
    state: State,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    running: Option<Running>,
    waiting: Option<WaitingState>,
    terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WaitingState {
    reason: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    last_transition_time: Option<Timestamp>,
}

impl ContainerObject {
    fn facts(&self, volumes: &[Volume]) -> Container {
        let mounts = self.volume_mounts.iter().map(|mount| {
            let volume = volumes.iter().find(|volume| volume.name == mount.name);
            let host = volume.and_then(|volume| volume.host_path.as_ref()).map(|host| {
                let inner = mount.sub_path.trim_matches('/');
                let slash = if inner.is_empty() { "" } else { "/" };
                format!("{}{slash}{inner}", host.path.trim_end_matches('/'))
            });
            let propagated = ["HostToContainer", "Bidirectional"].contains(&mount.mount_propagation.as_str());
            VolumeMount { path: mount.mount_path.clone(), host, propagated }
        });
        Container {
            name: self.name.clone(),
            image: self.image.clone(),
            command: self.command.clone(),
            args: self.args.clone(),
            mounts: mounts.collect(),
        }
    }
}

/// Parses the containers in the spec of a pod or of a template, init containers first.
pub fn containers(spec: &Value) -> Result<Vec<Container>> {
    let PodSpec { init_containers, containers, volumes } = part(spec)?;
    Ok(init_containers.iter().chain(&containers).map(|container| container.facts(&volumes)).collect())
}

impl PodObject {
    /// Describes the marker files that the pod's current init container waits for; `None` if it waits for no marker file.
    pub fn waiting(&self) -> Result<Option<WaitingPod>> {
        let pod = watch::PodObject::deserialize(&self.0)?.facts();
        let spec = PodSpec::deserialize(&self.0["spec"])?;
        let status = part::<Status>(&self.0["status"])?;
        // Init containers run one after the other, so the first one that is not ready is the current one.
        let Some(current) = status.init_container_statuses.iter().find(|status| !status.ready) else {
            return Ok(None);
        };
        let failed = current.state.terminated.as_ref().is_some_and(|ended| ended.exit_code != 0);
        let pauses =
            failed || current.state.waiting.as_ref().is_some_and(|state| state.reason == "CrashLoopBackOff");
        if current.state.running.is_none() && !pauses {
            return Ok(None);
        }
        let container = spec.init_containers.iter().find(|container| container.name == current.name);
        let files = container.map(|container| container.facts(&spec.volumes).waits_for()).unwrap_or_default();
        if files.is_empty() {
            return Ok(None);
        }
        let began = current.state.running.as_ref().and_then(|running| running.started_at);
        let scheduled = status.conditions.iter().find(|condition| condition.kind == "PodScheduled");
        let bound = scheduled.and_then(|condition| condition.last_transition_time);
        // After a restart, the wait began before the current attempt, so the start time of the container is too late.
        let since = began.filter(|_| current.restart_count == 0).or(bound).unwrap_or(pod.created);
        Ok(Some(WaitingPod { pod, container: current.name.clone(), files, since, pauses }))
    }
}

impl DaemonSetObject {
    /// Returns the agent if this DaemonSet writes marker files, as declared by its annotation or by the arguments of its
    /// containers.
    pub fn agent(&self) -> Result<Option<Agent>> {
        let said = self.0["metadata"]["annotations"][names::MARKER].as_str();
        let markers: Vec<String> = match said {
            Some(paths) => paths.split(',').map(|path| path.trim().to_owned()).collect(),
            None => {
                let spec = part::<PodSpec>(&self.0["spec"]["template"]["spec"])?;
                // Native sidecars are init containers.
                let containers = spec.containers.iter().chain(&spec.init_containers);
                let kept = containers.flat_map(|container| container.facts(&spec.volumes).keeps());
                kept.filter_map(|found| found.host).collect()
            }
        };
        if markers.is_empty() {
            return Ok(None);
        }
        let daemon_set = watch::OwnerObject::deserialize(&self.0)?.facts(OwnerKind::DaemonSet);
        Ok(Some(Agent { daemon_set, markers, pods: Vec::new() }))
    }
}

/// Parses a part of an object; a missing part yields the default.
fn part<T: Default + for<'a> Deserialize<'a>>(value: &Value) -> Result<T> {
    if value.is_null() { Ok(T::default()) } else { Ok(T::deserialize(value)?) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_core::agent::explain::explain;
    use rollcall_core::line::Line;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-11-17T09:00:41Z".parse().expect("a time")
    }

    /// The pod `memory-leak-app` of the sample, waiting in its init container.
    fn pod() -> Value {
        json!({
            "metadata": {"name": "app", "namespace": "memory-leak-demo", "uid": "u1", "resourceVersion": "1",
                         "creationTimestamp": "2026-11-17T08:59:00Z"},
            "spec": {
                "nodeName": "node-1",
                "initContainers": [{
                    "name": "wait-for-volume-manager", "image": "rollcall-node:latest",
                    "args": ["wait", "--marker", "/mnt/dump/.ready", "--timeout", "5m"],
                    "volumeMounts": [{"name": "host-dumps", "mountPath": "/mnt/dump", "mountPropagation": "HostToContainer"}],
                }],
                "containers": [{"name": "app"}],
                "volumes": [{"name": "host-dumps", "hostPath": {"path": "/mnt/dump"}}],
            },
            "status": {
                "phase": "Pending",
                "initContainerStatuses": [{"name": "wait-for-volume-manager", "ready": false, "restartCount": 0,
                                           "state": {"running": {"startedAt": "2026-11-17T09:00:00Z"}}}],
            },
        })
    }

    fn agent(annotations: Value, selector: Value) -> Value {
        json!({
            "metadata": {"name": "dump-volume-manager", "namespace": "memory-leak-demo", "uid": "d1",
                         "resourceVersion": "1", "creationTimestamp": "2026-11-17T08:00:00Z", "annotations": annotations},
            "spec": {"selector": {}, "template": {"metadata": {}, "spec": {
                "nodeSelector": selector,
                "containers": [{
                    "name": "volume-manager", "image": "rollcall-node:latest",
                    "args": ["volume", "--source", "/pv-storage", "--target", "/host/mnt/dump"],
                    "volumeMounts": [{"name": "host-mnt", "mountPath": "/host/mnt", "mountPropagation": "Bidirectional"}],
                }],
                "volumes": [{"name": "host-mnt", "hostPath": {"path": "/mnt"}}],
            }}},
        })
    }

    fn node(taints: Value) -> Value {
        json!({"metadata": {"name": "node-1", "uid": "n1", "resourceVersion": "1", "labels": {"disk": "ssd"}},
               "spec": {"taints": taints}})
    }

    fn agent_pod(ready: bool) -> Value {
        json!({
            "metadata": {"name": "dump-volume-manager-x", "namespace": "memory-leak-demo", "uid": "p1", "resourceVersion": "1",
                         "creationTimestamp": "2026-11-17T09:00:00Z"},
            "spec": {"nodeName": "node-1", "containers": [{}]},
            "status": {"phase": "Running",
                       "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" },
                                       "lastTransitionTime": "2026-11-17T09:00:03Z"}],
                       "containerStatuses": [{"name": "volume-manager", "ready": ready,
                                              "state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
        })
    }

    fn lines(line: &Line, depth: usize) -> Vec<String> {
        let this = format!("{}{}: {}", "  ".repeat(depth), line.code, line.text);
        std::iter::once(this).chain(line.below.iter().flat_map(|below| lines(below, depth + 1))).collect()
    }

    fn answer(pod: Value, agent: Option<Value>, agent_pod: Option<Value>, node: Value) -> Vec<String> {
        let waiting = PodObject(pod).waiting().expect("a pod").expect("it waits");
        let agents: Vec<Agent> = agent
            .map(|agent| {
                let mut agent = DaemonSetObject(agent).agent().expect("a DaemonSet").expect("an agent");
                let pods = agent_pod.map(|pod| watch::PodObject::deserialize(&pod).expect("a pod").facts());
                agent.pods = pods.into_iter().collect();
                agent
            })
            .into_iter()
            .collect();
        let node = watch::NodeObject::deserialize(&node).expect("a node").facts();
        lines(&explain(&waiting, &agents, Some(&node), now()), 0)
    }

    const HEAD: &str = "WaitsForAgent: app waits in its init container wait-for-volume-manager for /mnt/dump/.ready on node-1 for 41s";
    const AGENT: &str =
        "  Agent: /mnt/dump/.ready is written by DaemonSet memory-leak-demo/dump-volume-manager";

    #[test]
    fn an_agent_that_is_not_ready() {
        let seen = answer(pod(), Some(agent(json!({}), json!({}))), Some(agent_pod(false)), node(json!([])));
        let why = "    AgentNotReady: dump-volume-manager-x on node-1 has not been ready for 38s: container volume-manager: ImagePullBackOff";
        assert_eq!(seen, [HEAD, AGENT, why]);
    }

    #[test]
    fn an_agent_that_gets_no_pod_here() {
        let tainted = node(json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]));
        let seen = answer(pod(), Some(agent(json!({}), json!({}))), None, tainted);
        assert_eq!(
            seen[2],
            "    AgentNotEligible: it wants no pod on node-1: it does not tolerate the taint gpu=yes:NoSchedule"
        );
        let seen = answer(pod(), Some(agent(json!({}), json!({"disk": "hdd"}))), None, node(json!([])));
        let why = "    AgentNotEligible: it wants no pod on node-1: its node selector or affinity does not match the labels of the node";
        assert_eq!(seen[2], why);
        let seen = answer(pod(), Some(agent(json!({}), json!({}))), None, node(json!([])));
        assert_eq!(seen[2], "    AgentMissing: it has no pod on node-1 yet");
    }

    #[test]
    fn an_agent_that_is_ready() {
        let seen = answer(pod(), Some(agent(json!({}), json!({}))), Some(agent_pod(true)), node(json!([])));
        assert!(seen[2].starts_with("    AgentReady: dump-volume-manager-x on node-1 is ready;"), "{seen:?}");
        let mut blind = pod();
        blind["spec"]["initContainers"][0]["volumeMounts"][0]
            .as_object_mut()
            .expect("a mount")
            .remove("mountPropagation");
        let seen = answer(blind, Some(agent(json!({}), json!({}))), Some(agent_pod(true)), node(json!([])));
        assert!(
            seen[2].starts_with("    MountNotPropagated: ") && seen[2].contains("HostToContainer"),
            "{seen:?}"
        );
    }

    #[test]
    fn who_writes_it() {
        let elsewhere = agent(json!({"rollcall.dev/marker": "/run/other.ready"}), json!({}));
        let seen = answer(pod(), Some(elsewhere), None, node(json!([])));
        assert_eq!(
            seen[1..],
            ["  AgentUnknown: no visible DaemonSet declares that it writes /mnt/dump/.ready"]
        );
        let said = agent(json!({"rollcall.dev/marker": "/run/a, /mnt/dump/.ready"}), json!({}));
        assert_eq!(answer(pod(), Some(said), None, node(json!([])))[1], AGENT);
        let mut inside = pod();
        inside["spec"]["volumes"] = json!([{"name": "host-dumps", "emptyDir": {}}]);
        let seen = answer(inside, None, None, node(json!([])));
        assert!(
            seen[1].starts_with("  MarkerNotOnNode: /mnt/dump/.ready is not in a folder of the node"),
            "{seen:?}"
        );
    }

    #[test]
    fn the_shell_loop_of_the_sample_and_a_wait_that_gave_up() {
        let mut shell = pod();
        shell["spec"]["initContainers"][0].as_object_mut().expect("a container").remove("args");
        shell["spec"]["initContainers"][0]["command"] =
            json!(["sh", "-c", "while [ ! -f /mnt/dump/.ready ]; do sleep 2; done"]);
        assert_eq!(answer(shell, None, None, node(json!([])))[0], HEAD);
        let mut again = pod();
        again["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-17T08:50:41Z"}]);
        again["status"]["initContainerStatuses"][0]["restartCount"] = json!(2);
        again["status"]["initContainerStatuses"][0]["state"] =
            json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let seen = answer(again, None, None, node(json!([])));
        assert!(
            seen[0].ends_with("on node-1 for 10m; the container gave up and restarts after a back-off"),
            "{seen:?}"
        );
    }

    #[test]
    fn pods_that_do_not_wait_like_that() {
        let none = |pod: Value| PodObject(pod).waiting().expect("a pod").is_none();
        let mut done = pod();
        done["status"]["initContainerStatuses"][0]["ready"] = json!(true);
        assert!(none(done));
        let mut pulling = pod();
        pulling["status"]["initContainerStatuses"][0]["state"] =
            json!({"waiting": {"reason": "ErrImagePull"}});
        assert!(none(pulling));
        let mut other = pod();
        other["spec"]["initContainers"][0]["args"] = json!(["migrate"]);
        assert!(none(other));
        let mut unbound = pod();
        unbound["status"] = json!({});
        assert!(none(unbound));
    }
}
