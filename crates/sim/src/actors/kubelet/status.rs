//! The status of a pod as its kubelet writes it.

use super::life::{End, Life, Role, Unit, UnitState};
use super::phase::phase;
use crate::cluster::seconds;
use jiff::SignedDuration;
use rollcall_core::hash;
use serde_json::{Map, Value, json};

/// The conditions that the kubelet sets, in its order.
const OWN: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Writes the pod's status. `stamp` is the current time, `host` the address of the node.
pub fn write(pod: &mut Value, life: &Life, stamp: &str, host: &str) {
    let phase = phase(life, pod);
    let conditions = conditions(pod, life, phase, stamp);
    let has_inits = life.units.iter().any(|unit| unit.role != Role::Main);
    let of = |list: bool| -> Vec<Value> {
        let units = life.units.iter().filter(|unit| (unit.role == Role::Main) == list);
        units.map(|unit| container(unit, unit.described(pod), life, pod, has_inits)).collect()
    };
    let (mut mains, inits) = (of(true), of(false));
    mains.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    let generation = pod["metadata"]["generation"].clone();
    let host_network = pod["spec"]["hostNetwork"].as_bool().unwrap_or_default();
    let status = &mut pod["status"];
    if !generation.is_null() {
        status["observedGeneration"] = generation;
    }
    status["phase"] = phase.into();
    if let Some((reason, message)) = life.verdict.filter(|_| phase == "Failed") {
        status["reason"] = reason.into();
        status["message"] = message.into();
    }
    status["conditions"] = conditions.into();
    status["containerStatuses"] = mains.into();
    if !inits.is_empty() {
        status["initContainerStatuses"] = inits.into();
    }
    status["hostIP"] = host.into();
    status["hostIPs"] = json!([{ "ip": host }]);
    let ip = if host_network { Some(host) } else { life.ip.as_deref() };
    if let Some(ip) = ip {
        status["podIP"] = ip.into();
        status["podIPs"] = json!([{ "ip": ip }]);
    }
    if status["startTime"].is_null() {
        status["startTime"] = seconds(life.seen).into();
    }
}

/// The desired state of a condition: whether it holds, and the reason.
struct Holds {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Holds {
    fn yes() -> Holds {
        Holds { holds: true, reason: "", message: String::new() }
    }

    fn no(reason: &'static str, message: String) -> Holds {
        Holds { holds: false, reason, message }
    }
}

fn conditions(pod: &Value, life: &Life, phase: &str, stamp: &str) -> Vec<Value> {
    let old = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let foreign = old.iter().filter(|is| !OWN.iter().any(|own| is["type"] == *own));
    let mut all: Vec<Value> = foreign.cloned().collect();
    for name in OWN {
        let wanted = match name {
            "PodReadyToStartContainers" => match life.is_set_up {
                true => Holds::yes(),
                false => Holds::no("", String::new()),
            },
            "Initialized" => initialized(life, phase),
            "ContainersReady" => containers_ready(life, phase),
            "Ready" => match containers_ready(life, phase) {
                ready if ready.holds => readiness_gates(pod, old),
                not => not,
            },
            _ => Holds::yes(),
        };
        let was = old.iter().find(|is| is["type"] == name);
        all.push(condition(name, wanted, was, &pod["metadata"]["generation"], stamp));
    }
    all
}

fn condition(name: &str, wanted: Holds, was: Option<&Value>, generation: &Value, stamp: &str) -> Value {
    let status = if wanted.holds { "True" } else { "False" };
    let since = was.filter(|was| was["status"] == status).and_then(|was| was["lastTransitionTime"].as_str());
    let mut condition = Map::new();
    condition.insert("type".into(), name.into());
    condition.insert("status".into(), status.into());
    condition.insert("lastTransitionTime".into(), since.unwrap_or(stamp).into());
    if !generation.is_null() {
        condition.insert("observedGeneration".into(), generation.clone());
    }
    if !wanted.reason.is_empty() {
        condition.insert("reason".into(), wanted.reason.into());
    }
    if !wanted.message.is_empty() {
        condition.insert("message".into(), wanted.message.into());
    }
    condition.into()
}

/// Whether the runtime knows a container of the pod, which means that a sandbox exists.
pub fn was_made(unit: &Unit) -> bool {
    !matches!(unit.state, UnitState::Waiting | UnitState::Creating { .. }) || unit.last.is_some()
}

fn initialized(life: &Life, phase: &str) -> Holds {
    if phase == "Succeeded" {
        return Holds { holds: true, reason: "PodCompleted", message: String::new() };
    }
    if life.of_role(Role::Main).any(|unit| unit.runs > 0) {
        return Holds::yes();
    }
    let is_through = |unit: &&Unit| match unit.role {
        Role::Init => unit.ready,
        Role::Sidecar => unit.started,
        Role::Main => true,
    };
    let incomplete: Vec<&str> =
        life.units.iter().filter(|unit| !is_through(unit)).map(|unit| &*unit.name).collect();
    match incomplete.is_empty() {
        true => Holds::yes(),
        false => Holds::no(
            "ContainersNotInitialized",
            format!("containers with incomplete status: [{}]", incomplete.join(" ")),
        ),
    }
}

fn containers_ready(life: &Life, phase: &str) -> Holds {
    match phase {
        "Succeeded" => return Holds::no("PodCompleted", String::new()),
        "Failed" => return Holds::no("PodFailed", String::new()),
        _ => {}
    }
    let unready = life.units.iter().filter(|unit| unit.role != Role::Init && !unit.ready);
    let unready: Vec<&str> = unready.map(|unit| &*unit.name).collect();
    match unready.is_empty() {
        true => Holds::yes(),
        false => Holds::no(
            "ContainersNotReady",
            format!("containers with unready status: [{}]", unready.join(" ")),
        ),
    }
}

fn readiness_gates(pod: &Value, conditions: &[Value]) -> Holds {
    let gates = pod["spec"]["readinessGates"].as_array().into_iter().flatten();
    let missing = gates.filter_map(|gate| {
        let kind = gate["conditionType"].as_str()?;
        match conditions.iter().find(|condition| condition["type"] == kind) {
            None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
            Some(condition) => match condition["status"].as_str().unwrap_or_default() {
                "True" => None,
                other => {
                    Some(format!("the status of pod readiness gate {kind:?} is not \"True\", but {other}"))
                }
            },
        }
    });
    let missing: Vec<String> = missing.collect();
    match missing.is_empty() {
        true => Holds::yes(),
        false => Holds::no("ReadinessGatesNotReady", missing.join(", ")),
    }
}

fn container(unit: &Unit, described: &Value, life: &Life, pod: &Value, has_inits: bool) -> Value {
    let image = &described["image"];
    let mut status = json!({
        "name": unit.name, "image": image, "imageID": "", "ready": unit.ready, "started": unit.started,
        "restartCount": unit.restarts, "lastState": {},
    });
    let id = |run: u32| format!("containerd://{}", container_id(&life.uid, &unit.name, run));
    if let Some(last) = &unit.last {
        status["lastState"] = json!({ "terminated": terminated(last, &id(last.run)) });
    }
    let waiting = |reason: &str, message: String| match message.is_empty() {
        true => json!({ "waiting": { "reason": reason } }),
        false => json!({ "waiting": { "reason": reason, "message": message } }),
    };
    status["state"] = match &unit.state {
        UnitState::Waiting | UnitState::Creating { .. } if life.over && (life.initialized || !has_inits) => {
            json!({ "terminated": {
            "reason": "ContainerStatusUnknown", "exitCode": 137,
            "message": "The container could not be located when the pod was terminated",
        } })
        }
        UnitState::Waiting | UnitState::Creating { .. } => {
            waiting(if has_inits { "PodInitializing" } else { "ContainerCreating" }, String::new())
        }
        UnitState::Refused { message, .. } => waiting("CreateContainerConfigError", message.clone()),
        UnitState::Running { since } => json!({ "running": { "startedAt": seconds(*since) } }),
        UnitState::Ended(end) => json!({ "terminated": terminated(end, &id(end.run)) }),
        UnitState::Paused { pause, .. } => {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
            let of = format!("{}_{}({})", text("name"), text("namespace"), life.uid);
            let pause = go_duration(*pause);
            let message = format!("back-off {pause} restarting failed container={} pod={of}", unit.name);
            waiting("CrashLoopBackOff", message)
        }
    };
    if unit.runs > 0 {
        status["containerID"] = id(unit.runs).into();
        status["imageID"] = format!("sim://{}", image.as_str().unwrap_or_default()).into();
        let resources = &described["resources"];
        if resources["requests"].as_object().is_some_and(|requests| !requests.is_empty()) {
            status["allocatedResources"] = resources["requests"].clone();
        }
        status["resources"] = if resources.is_object() { resources.clone() } else { json!({}) };
    }
    if let Some(mounts) = described["volumeMounts"].as_array().filter(|mounts| !mounts.is_empty()) {
        status["volumeMounts"] = mounts.iter().map(mount).collect();
    }
    status
}

fn mount(mount: &Value) -> Value {
    let mut shown = json!({ "name": mount["name"], "mountPath": mount["mountPath"] });
    if mount["readOnly"] == true {
        shown["readOnly"] = true.into();
        shown["recursiveReadOnly"] = "Disabled".into();
    }
    shown
}

fn terminated(end: &End, id: &str) -> Value {
    json!({
        "exitCode": end.code,
        "reason": if end.code == 0 { "Completed" } else { "Error" },
        "startedAt": seconds(end.started),
        "finishedAt": seconds(end.finished),
        "containerID": id,
    })
}

/// An id of 64 hexadecimal digits, different for each run.
fn container_id(uid: &str, name: &str, run: u32) -> String {
    let whole = format!("{uid}/{name}/{run}");
    let part = |salt: u8| hash::fnv1a64(format!("{salt}{whole}").as_bytes());
    format!("{:016x}{:016x}{:016x}{:016x}", part(0), part(1), part(2), part(3))
}

/// Formats a duration of whole seconds like Go: `10s`, `1m20s`, `5m0s`.
fn go_duration(duration: SignedDuration) -> String {
    match (duration.as_secs() / 60, duration.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
