//! What a kubelet has in memory about a pod: its containers, and how far each of them is.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The pause before the second restart. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(10);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(300);
/// A container that ran for twice the longest pause begins anew.
const FORGIVEN_AFTER: SignedDuration = SignedDuration::from_secs(600);

#[derive(Debug)]
pub struct Life {
    pub uid: String,
    /// When the kubelet first saw it: its probes and its deadline count from here.
    pub seen: Timestamp,
    /// When the sandbox is up, and whether it is.
    pub sandbox: Option<Timestamp>,
    pub is_set_up: bool,
    /// Known once a container was made.
    pub ip: Option<String>,
    pub volumes: Volumes,
    /// Init containers first, in the order in which they stand.
    pub units: Vec<Unit>,
    /// All init containers are through; from then on they do not hold back anything.
    pub initialized: bool,
    pub ready_since: Option<Timestamp>,
    /// Nothing is started any more.
    pub ending: bool,
    pub stopping: Option<Stopping>,
    /// Why it was ended, where the kubelet ended it.
    pub verdict: Option<(&'static str, &'static str)>,
    /// No container runs, and none will.
    pub over: bool,
    /// The version of the pod that the kubelet itself has written last.
    pub written: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Volumes {
    Unmounted,
    Missing { retry: Timestamp, pause: SignedDuration },
    Mounted,
}

/// The containers that still run, being stopped: when each is gone, and with which code.
#[derive(Debug)]
pub struct Stopping {
    pub until: Timestamp,
    pub ends: Vec<(usize, Timestamp, i32)>,
    /// Because the pod is being deleted: it goes at the end.
    pub deletes: bool,
    /// When the pod is over, if that is later.
    pub over: Option<Timestamp>,
}

/// One container.
#[derive(Debug)]
pub struct Unit {
    pub name: String,
    pub role: Role,
    /// Where it stands in the list of its kind.
    pub place: usize,
    pub state: State,
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
pub enum State {
    /// It is not its turn.
    Waiting,
    Creating {
        until: Timestamp,
    },
    /// What its environment refers to is missing.
    Refused {
        message: String,
        retry: Timestamp,
    },
    Running {
        since: Timestamp,
    },
    Ended(End),
    /// Ended too often; the next start is at this time.
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
    /// Which run of the container it was.
    pub run: u32,
    /// The kubelet itself has killed it, and goes on at once.
    pub killed: bool,
}

/// The pause before the next restart, and when it was last made longer.
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
            volumes: Volumes::Unmounted,
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
            state: State::Waiting,
            restarts: 0,
            runs: 0,
            last: None,
            backoff: None,
            started: false,
            ready: false,
        }
    }

    /// How the pod describes it.
    pub fn described<'a>(&self, pod: &'a Value) -> &'a Value {
        let list = if self.role == Role::Main { "containers" } else { "initContainers" };
        &pod["spec"][list][self.place]
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    pub fn end(&mut self, code: i32, finished: Timestamp) {
        if let State::Running { since } = self.state {
            let end = End { code, started: since, finished, run: self.runs, killed: false };
            (self.started, self.ready) = (false, self.role == Role::Init && code == 0);
            self.state = State::Ended(end);
        }
    }

    /// Ends it because its probes failed.
    pub fn kill(&mut self, code: i32, finished: Timestamp) {
        self.end(code, finished);
        if let State::Ended(end) = &mut self.state {
            end.killed = true;
        }
    }

    /// Whether it is started again after it ended with this code.
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

    /// The pause that this end has to be followed by.
    pub fn backoff_after(&self, end: &End) -> Option<SignedDuration> {
        let backoff = self.backoff?;
        let forgiven = end.finished.duration_since(backoff.updated) > FORGIVEN_AFTER;
        (!forgiven).then_some(backoff.pause)
    }

    /// A restart makes the next pause longer.
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
