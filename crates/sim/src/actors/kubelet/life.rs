//! The kubelet's in-memory state of a pod and its containers.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The back-off before the second restart. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(10);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(300);
/// The back-off is reset after a container has run for twice the longest one.
const FORGIVEN_AFTER: SignedDuration = SignedDuration::from_secs(600);

#[derive(Debug)]
pub struct Life {
    pub uid: String,
    /// When the kubelet first saw the pod. Its probes and its active deadline count from here.
    pub seen: Timestamp,
    /// When the sandbox becomes ready.
    pub sandbox: Option<Timestamp>,
    pub is_set_up: bool,
    /// Known after the first container was created.
    pub ip: Option<String>,
    pub volumes: MountState,
    /// Init containers first, in the order of the spec.
    pub units: Vec<Unit>,
    /// Whether all init containers have finished. After that they no longer block the other containers.
    pub initialized: bool,
    pub ready_since: Option<Timestamp>,
    /// Whether no container is started any more.
    pub ending: bool,
    pub stopping: Option<Stopping>,
    /// The reason and message if the kubelet ended the pod.
    pub verdict: Option<(&'static str, &'static str)>,
    /// Whether no container runs or will run.
    pub over: bool,
    /// The pod's version after the last write of this kubelet.
    pub written: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub enum MountState {
    Unmounted,
    Missing { retry: Timestamp, pause: SignedDuration },
    Mounted,
}

/// The stopping of the running containers: for each of them, the time of its end and its exit code.
#[derive(Debug)]
pub struct Stopping {
    pub until: Timestamp,
    pub ends: Vec<(usize, Timestamp, i32)>,
    /// Whether the pod is being deleted, and is removed at the end.
    pub deletes: bool,
    /// When the pod is over, if later than the end of the containers.
    pub over: Option<Timestamp>,
}

/// A container.
#[derive(Debug)]
pub struct Unit {
    pub name: String,
    pub role: Role,
    /// Its index in the list of its kind.
    pub place: usize,
    pub state: UnitState,
    pub restarts: u32,
    pub runs: u32,
    pub last: Option<End>,
    pub backoff: Option<BackOff>,
    pub started: bool,
    pub ready: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Init,
    Sidecar,
    Main,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// Its turn has not come yet.
    Waiting,
    Creating {
        until: Timestamp,
    },
    /// An object that its environment refers to is missing.
    Refused {
        message: String,
        retry: Timestamp,
    },
    Running {
        since: Timestamp,
    },
    Ended(End),
    /// In back-off until this time.
    Paused {
        until: Timestamp,
        pause: SignedDuration,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub code: i32,
    pub started: Timestamp,
    pub finished: Timestamp,
    /// The number of the run.
    pub run: u32,
    /// Whether the kubelet killed it, which restarts it immediately.
    pub killed: bool,
}

/// The back-off before the next restart, and when it was last extended.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    pub pause: SignedDuration,
    updated: Timestamp,
}

impl Life {
    pub fn new(pod: &Value, now: Timestamp) -> Life {
        let containers = |list: &'static str| {
            pod["spec"][list].as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate()
        };
        let inits = containers("initContainers").map(|(place, container)| {
            let sidecar = container["restartPolicy"] == "Always";
            Unit::new(container, if sidecar { Role::Sidecar } else { Role::Init }, place)
        });
        let mains =
            containers("containers").map(|(place, container)| Unit::new(container, Role::Main, place));
        Life {
            uid: pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            seen: now,
            sandbox: None,
            is_set_up: false,
            ip: None,
            volumes: MountState::Unmounted,
            units: inits.chain(mains).collect(),
            initialized: false,
            ready_since: None,
            ending: false,
            stopping: None,
            verdict: None,
            over: false,
            written: 0,
        }
    }

    pub fn of_role(&self, role: Role) -> impl Iterator<Item = &Unit> {
        self.units.iter().filter(move |unit| unit.role == role)
    }

    pub fn is_ready(&self) -> bool {
        self.units.iter().all(|unit| unit.role == Role::Init || unit.ready)
    }
}

impl Unit {
    fn new(container: &Value, role: Role, place: usize) -> Unit {
        Unit {
            name: container["name"].as_str().unwrap_or_default().to_owned(),
            role,
            place,
            state: UnitState::Waiting,
            restarts: 0,
            runs: 0,
            last: None,
            backoff: None,
            started: false,
            ready: false,
        }
    }

    /// Its entry in the pod's spec.
    pub fn described<'a>(&self, pod: &'a Value) -> &'a Value {
        let list = if self.role == Role::Main { "containers" } else { "initContainers" };
        &pod["spec"][list][self.place]
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, UnitState::Running { .. })
    }

    pub fn end(&mut self, code: i32, finished: Timestamp) {
        if let UnitState::Running { since } = self.state {
            let end = End { code, started: since, finished, run: self.runs, killed: false };
            (self.started, self.ready) = (false, self.role == Role::Init && code == 0);
            self.state = UnitState::Ended(end);
        }
    }

    /// Ends it after failed probes.
    pub fn kill(&mut self, code: i32, finished: Timestamp) {
        self.end(code, finished);
        if let UnitState::Ended(end) = &mut self.state {
            end.killed = true;
        }
    }

    /// Whether it restarts after an end with this code.
    pub fn restarts_after(&self, code: i32, pod: &Value) -> bool {
        if self.role == Role::Sidecar {
            return true;
        }
        let own = &self.described(pod)["restartPolicy"];
        let policy = own.as_str().or(pod["spec"]["restartPolicy"].as_str()).unwrap_or("Always");
        match policy {
            "Never" => false,
            "OnFailure" => code != 0,
            _ => self.role == Role::Main || code != 0,
        }
    }

    /// The back-off that applies after this end.
    pub fn backoff_after(&self, end: &End) -> Option<SignedDuration> {
        let backoff = self.backoff?;
        let forgiven = end.finished.duration_since(backoff.updated) > FORGIVEN_AFTER;
        (!forgiven).then_some(backoff.pause)
    }

    /// Extends the back-off after a restart.
    pub fn lengthen_pause(&mut self, finished: Timestamp, now: Timestamp) {
        let pause = match self.backoff {
            Some(is) if finished.duration_since(is.updated) <= FORGIVEN_AFTER => {
                (is.pause * 2).min(LONGEST_PAUSE)
            }
            _ => FIRST_PAUSE,
        };
        self.backoff = Some(BackOff { pause, updated: now });
    }
}
