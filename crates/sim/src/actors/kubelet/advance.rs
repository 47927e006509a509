//! Advances a pod as far as possible now, and computes when to continue.

use super::behaviour::{self, Behaviour};
use super::config;
use super::life::{End, Life, MountState, Role, Stopping, Unit, UnitState};
use super::probes::{later, outlook};
use crate::chance::Chance;
use crate::program_behaviour::ProgramBehaviour;
use crate::store::Store;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The kubelet polls the runtime once a second. An ended container is visible as terminated for this long before it
/// restarts.
const RELIST: SignedDuration = SignedDuration::from_secs(1);
/// A pod with a container in back-off is synced when the back-off expires, but at least at this interval. The container is
/// shown as terminated until the first such sync, and as CrashLoopBackOff afterwards.
const RESYNC: SignedDuration = SignedDuration::from_secs(60);
/// How long a container is still shown in back-off after the back-off has expired.
const RESTART: SignedDuration = SignedDuration::from_millis(100);
/// Delay before the creation of a container is retried, plus a random part of up to half of it.
const RETRY_MILLIS: i64 = 10_000;
/// The first delay before mounting volumes is retried; it doubles up to the longest one.
const FIRST_MOUNT_PAUSE: SignedDuration = SignedDuration::from_millis(500);
const LONGEST_MOUNT_PAUSE: SignedDuration = SignedDuration::from_secs(122);
/// The exit code of a killed process.
const KILLED: i32 = 137;

/// A pod with the data that its kubelet uses.
pub struct PodContext<'a> {
    pub pod: &'a Value,
    pub store: &'a Store,
    pub programs: &'a ProgramBehaviour,
    pub chance: &'a mut Chance,
    pub now: Timestamp,
    pub behaviour: Behaviour,
    /// The pod has changed, so failed operations are retried immediately.
    pub nudged: bool,
}

/// The result of a sync.
#[derive(Debug, Default)]
pub struct Progress {
    pub changed: bool,
    pub next: Option<Timestamp>,
}

impl Progress {
    fn wake(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

pub fn advance(life: &mut Life, context: &mut PodContext) -> Progress {
    let mut progress = Progress::default();
    if life.over {
        return progress;
    }
    if life.stopping.is_some() {
        stop_further(life, context, &mut progress);
        return progress;
    }
    if past_deadline(life, context, &mut progress) {
        life.verdict =
            Some(("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"));
        begin_stop(life, context, false);
        stop_further(life, context, &mut progress);
        return progress;
    }
    if !mount(life, context, &mut progress) {
        return progress;
    }
    set_up(life, context, &mut progress);
    run_containers(life, context, &mut progress);
    end_pod(life, context, &mut progress);
    note_readiness(life, context.now);
    if life.ending {
        begin_stop(life, context, false);
        stop_further(life, context, &mut progress);
    } else if is_finished(life, context.pod) {
        // Only sidecars are left. The end of the other containers is reported first, then the phase.
        begin_stop(life, context, false);
        if let Some(stopping) = &mut life.stopping {
            stopping.over = Some(later(stopping.until, RELIST));
        }
        stop_further(life, context, &mut progress);
    }
    progress
}

fn past_deadline(life: &Life, context: &PodContext, progress: &mut Progress) -> bool {
    let Some(seconds) = context.pod["spec"]["activeDeadlineSeconds"].as_i64() else { return false };
    let deadline = later(life.seen, SignedDuration::from_secs(seconds));
    progress.wake(deadline);
    deadline <= context.now
}

fn mount(life: &mut Life, context: &PodContext, progress: &mut Progress) -> bool {
    let pause = match life.volumes {
        MountState::Mounted => return true,
        MountState::Missing { retry, .. } if retry > context.now => {
            progress.wake(retry);
            return false;
        }
        MountState::Missing { pause, .. } => (pause * 2).min(LONGEST_MOUNT_PAUSE),
        MountState::Unmounted => FIRST_MOUNT_PAUSE,
    };
    let namespace = context.pod["metadata"]["namespace"].as_str().unwrap_or_default();
    if config::missing_volume(context.store, namespace, context.pod).is_none() {
        life.volumes = MountState::Mounted;
        return true;
    }
    let retry = later(context.now, pause);
    life.volumes = MountState::Missing { retry, pause };
    progress.wake(retry);
    false
}

/// The sandbox is ready half-way to the start of the first container, and this is reported.
fn set_up(life: &mut Life, context: &PodContext, progress: &mut Progress) {
    let at = match (life.sandbox, life.units.first()) {
        (Some(at), _) => at,
        (None, Some(first)) => {
            let wait = first_start(first, life.seen, context).duration_since(context.now);
            later(context.now, wait / 2)
        }
        (None, None) => context.now,
    };
    life.sandbox = Some(at);
    if at > context.now {
        progress.wake(at);
    } else if !life.is_set_up {
        life.is_set_up = true;
        progress.changed = true;
    }
}

fn run_containers(life: &mut Life, context: &mut PodContext, progress: &mut Progress) {
    let (seen, was_initialized) = (life.seen, life.initialized);
    for unit in &mut life.units {
        if unit.role == Role::Main && !life.initialized {
            life.initialized = true;
        }
        step(unit, seen, context, progress);
        let holds_back = match unit.role {
            Role::Init => !unit.ready,
            Role::Sidecar => !unit.started,
            Role::Main => false,
        };
        if holds_back && !was_initialized {
            return;
        }
    }
}

/// Advances one container as far as possible now.
fn step(unit: &mut Unit, seen: Timestamp, context: &mut PodContext, progress: &mut Progress) {
    let now = context.now;
    loop {
        match &unit.state {
            UnitState::Waiting => {
                let until = first_start(unit, seen, context);
                unit.state = UnitState::Creating { until };
            }
            UnitState::Creating { until } if *until <= now => start(unit, context, progress),
            UnitState::Creating { until } => return progress.wake(*until),
            UnitState::Refused { retry, .. } if *retry <= now || context.nudged => {
                start(unit, context, progress);
                if let UnitState::Refused { retry, .. } = unit.state {
                    return progress.wake(retry);
                }
            }
            UnitState::Refused { retry, .. } => return progress.wake(*retry),
            UnitState::Running { since } => {
                let since = *since;
                run_on(unit, since, seen, context, progress);
                if unit.is_running() {
                    return;
                }
            }
            UnitState::Ended(end) => {
                if !unit.restarts_after(end.code, context.pod) {
                    return;
                }
                if end.killed {
                    let end = end.clone();
                    go_on(unit, end, now, progress);
                    continue;
                }
                let seen_ended = later(end.finished, RELIST);
                if seen_ended > now {
                    return progress.wake(seen_ended);
                }
                let pause = unit.backoff_after(end);
                let looked_at = later(end.finished, pause.unwrap_or_default().min(RESYNC));
                if looked_at > now && !context.nudged {
                    return progress.wake(looked_at);
                }
                let end = end.clone();
                let until = pause.map(|pause| later(end.finished, pause).max(later(now, RESTART)));
                unit.last = Some(end);
                match pause.zip(until) {
                    Some((pause, until)) => {
                        unit.state = UnitState::Paused { until, pause };
                        progress.changed = true;
                    }
                    None => restart(unit, now),
                }
            }
            UnitState::Paused { until, .. } if *until <= now => restart(unit, now),
            UnitState::Paused { until, .. } => return progress.wake(*until),
        }
    }
}

fn first_start(unit: &Unit, seen: Timestamp, context: &PodContext) -> Timestamp {
    match context.behaviour.start_after {
        Some(after) if unit.role == Role::Main => later(seen, after).max(context.now),
        _ => later(context.now, program(unit, context).start),
    }
}

fn program(unit: &Unit, context: &PodContext) -> behaviour::Program {
    let (init, main) = (unit.role == Role::Init, unit.role == Role::Main);
    behaviour::of_container(context.pod, &unit.name, init, main, context.programs)
}

fn restart(unit: &mut Unit, now: Timestamp) {
    let finished = unit.last.as_ref().map_or(now, |end| end.finished);
    unit.lengthen_pause(finished, now);
    start_again(unit, now);
}

fn start_again(unit: &mut Unit, now: Timestamp) {
    unit.restarts += 1;
    // Its image is already present.
    unit.state = UnitState::Creating { until: now };
}

/// The kubelet restarts a container that it has killed without delay. The back-off depends on the end before this one, so
/// the first two kills cause no pause.
fn go_on(unit: &mut Unit, end: End, now: Timestamp, progress: &mut Progress) {
    let finished = end.finished;
    let Some(before) = unit.last.replace(end) else { return start_again(unit, now) };
    match unit.backoff_after(&before).filter(|pause| later(before.finished, *pause) > now) {
        Some(pause) => {
            unit.state = UnitState::Paused { until: later(finished, pause), pause };
            progress.changed = true;
        }
        None => {
            unit.lengthen_pause(before.finished, now);
            start_again(unit, now);
        }
    }
}

fn start(unit: &mut Unit, context: &mut PodContext, progress: &mut Progress) {
    let now = context.now;
    let namespace = context.pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let state = match config::missing_for(context.store, namespace, unit.described(context.pod)) {
        Some(message) => {
            let more = context.chance.below(RETRY_MILLIS as u64 / 2) as i64;
            let retry = later(now, SignedDuration::from_millis(RETRY_MILLIS + more));
            UnitState::Refused { message, retry }
        }
        None => {
            unit.runs += 1;
            UnitState::Running { since: now }
        }
    };
    progress.changed = true;
    unit.state = state;
}

fn run_on(unit: &mut Unit, since: Timestamp, seen: Timestamp, context: &PodContext, progress: &mut Progress) {
    let now = context.now;
    let program = program(unit, context);
    let own = if unit.role == Role::Main { &context.behaviour } else { &Behaviour::NOTHING };
    let outlook = outlook(unit.described(context.pod), since, seen, own, &program);
    let exit = match (program.exit, program.times.is_none_or(|times| unit.runs <= times)) {
        // An init container always ends, by default with code 0.
        (Some((after, _)), false) if unit.role == Role::Init => Some((after, 0)),
        (exit, true) => exit,
        (_, false) => None,
    };
    let exit = exit.map(|(after, code)| (later(since, after), code, false));
    let grace = grace(context.pod);
    let killed = outlook.killed.map(|at| (later(at, program.stop.min(grace)), KILLED, true));
    let end = exit.into_iter().chain(killed).min_by_key(|(at, ..)| *at);
    if let Some((at, code, killed)) = end {
        if at <= now {
            match killed {
                true => unit.kill(code, now),
                false => unit.end(code, now),
            }
            progress.changed = true;
            return;
        }
        progress.wake(at);
    }
    let come = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    let started = come(outlook.started);
    let ready = started && unit.role != Role::Init && come(outlook.ready) && !come(outlook.unready);
    if (started, ready) != (unit.started, unit.ready) {
        (unit.started, unit.ready) = (started, ready);
        progress.changed = true;
    }
    for at in [outlook.started, outlook.ready, outlook.unready].into_iter().flatten() {
        if at > now {
            progress.wake(at);
        }
    }
}

/// Ends the whole pod if its behaviour says so.
fn end_pod(life: &mut Life, context: &PodContext, progress: &mut Progress) {
    let Some((after, code)) = context.behaviour.end else { return };
    if !life.of_role(Role::Main).all(Unit::is_running) {
        return;
    }
    note_readiness(life, context.now);
    let newest = life.of_role(Role::Main).filter_map(|unit| match unit.state {
        UnitState::Running { since } => Some(since),
        _ => None,
    });
    let newest = newest.max();
    let from = match context.behaviour.ready {
        Some(false) => newest,
        _ => life.ready_since,
    };
    let Some(at) = from.map(|from| later(from, after)) else { return };
    if at > context.now {
        return progress.wake(at);
    }
    for unit in life.units.iter_mut().filter(|unit| unit.role == Role::Main) {
        unit.end(code, context.now);
    }
    life.ending = true;
    progress.changed = true;
}

fn note_readiness(life: &mut Life, now: Timestamp) {
    life.ready_since = life.is_ready().then(|| life.ready_since.unwrap_or(now));
}

/// Whether no container except sidecars runs or will be started.
fn is_finished(life: &Life, pod: &Value) -> bool {
    let ended = |unit: &Unit| match &unit.state {
        UnitState::Ended(end) => !unit.restarts_after(end.code, pod),
        _ => false,
    };
    let failed = |unit: &Unit| matches!(&unit.state, UnitState::Ended(end) if end.code != 0);
    life.of_role(Role::Main).all(ended) || life.of_role(Role::Init).any(|unit| ended(unit) && failed(unit))
}

fn grace(pod: &Value) -> SignedDuration {
    let given = pod["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let grace = given.or(pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
    SignedDuration::from_secs(grace.max(0))
}

/// Begins to stop all containers. Sidecars follow the other containers, in reverse order.
pub fn begin_stop(life: &mut Life, context: &PodContext, deletes: bool) {
    let (now, grace) = (context.now, grace(context.pod));
    let limit = later(now, grace);
    let mut ends = Vec::new();
    let mut until = now;
    let mut stop = |place: usize, unit: &Unit, from: Timestamp| {
        let asked = later(from, program(unit, context).stop);
        let (at, code) = match context.behaviour.slow_delete.filter(|_| deletes) {
            Some(slow) => (later(now, slow), 0),
            None if asked <= limit => (asked, 0),
            None => (limit, KILLED),
        };
        ends.push((place, at, code));
        at
    };
    let running = || life.units.iter().enumerate().filter(|(_, unit)| unit.is_running());
    for (place, unit) in running().filter(|(_, unit)| unit.role != Role::Sidecar) {
        until = until.max(stop(place, unit, now));
    }
    let sidecars: Vec<_> = running().filter(|(_, unit)| unit.role == Role::Sidecar).collect();
    for (place, unit) in sidecars.into_iter().rev() {
        until = until.max(stop(place, unit, until));
    }
    life.ending = true;
    life.stopping = Some(Stopping { until, ends, deletes, over: None });
}

fn stop_further(life: &mut Life, context: &PodContext, progress: &mut Progress) {
    let Some(stopping) = &mut life.stopping else { return };
    if stopping.until > context.now {
        return progress.wake(stopping.until);
    }
    for (place, at, code) in stopping.ends.drain(..) {
        life.units[place].end(code, at);
        life.is_set_up = false;
        progress.changed = true;
    }
    life.ready_since = None;
    match stopping.over {
        Some(over) if over > context.now => progress.wake(over),
        _ => {
            (life.over, life.is_set_up) = (true, false);
            progress.changed = true;
        }
    }
}
