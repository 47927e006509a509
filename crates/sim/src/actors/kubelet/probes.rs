//! Computes the results of probes. The time when an application can answer is known in advance, so the times when a probe
//! changes its result can be computed without probing periodically.

use super::behaviour::{Behaviour, Program};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The expected future of a running container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// When the startup probe succeeds; the start if there is no such probe.
    pub started: Option<Timestamp>,
    pub ready: Option<Timestamp>,
    /// When the readiness probe fails again.
    pub unready: Option<Timestamp>,
    /// When a liveness or startup probe has failed too often.
    pub killed: Option<Timestamp>,
}

/// The probe in the spec of the container.
#[derive(Clone, Copy, Debug)]
struct Probe {
    delay: SignedDuration,
    period: i64,
    failures: i64,
    successes: i64,
}

fn probe(container: &Value, name: &str) -> Option<Probe> {
    let probe = container[name].as_object()?;
    let number = |field: &str, default: i64| probe.get(field).and_then(Value::as_i64).unwrap_or(default);
    Some(Probe {
        delay: SignedDuration::from_secs(number("initialDelaySeconds", 0).max(0)),
        period: number("periodSeconds", 10).max(1) * 1000,
        failures: number("failureThreshold", 3).max(1),
        successes: number("successThreshold", 1).max(1),
    })
}

impl Probe {
    /// The first tick at or after `at`. The ticks start at `anchor`.
    fn tick(&self, anchor: Timestamp, at: Timestamp) -> Timestamp {
        let gone = at.as_millisecond().saturating_sub(anchor.as_millisecond()).max(0);
        let ticks = (gone + self.period - 1) / self.period;
        later(anchor, SignedDuration::from_millis(ticks.saturating_mul(self.period)))
    }

    /// The time `more` ticks after `tick`.
    fn then(&self, tick: Timestamp, more: i64) -> Timestamp {
        later(tick, SignedDuration::from_millis(self.period.saturating_mul(more)))
    }

    /// When the probe has failed too often, if the application does not answer between `from` and `until`.
    fn fails(&self, anchor: Timestamp, from: Timestamp, until: Option<Timestamp>) -> Option<Timestamp> {
        let failed = self.then(self.tick(anchor, from), self.failures - 1);
        until.is_none_or(|until| failed < until).then_some(failed)
    }
}

pub fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// `since` is the start of the container, `seen` the time when the kubelet first saw the pod, which starts the probe ticks.
pub fn outlook(
    container: &Value,
    since: Timestamp,
    seen: Timestamp,
    pod: &Behaviour,
    program: &Program,
) -> Outlook {
    let able = later(since, program.answers_after.max(pod.ready_after.unwrap_or_default()));
    let hangs = program.hangs_after.map(|after| later(since, after));
    let answers = |at: Timestamp| at >= able && hangs.is_none_or(|hangs| at < hangs);

    let mut outlook = Outlook { started: Some(since), ..Outlook::default() };
    if let Some(probe) = probe(container, "startupProbe") {
        let asked = later(since, probe.delay);
        let answered = probe.tick(seen, asked.max(able));
        outlook.started = answers(answered).then_some(answered);
        outlook.killed = probe.fails(seen, asked, outlook.started);
        if outlook.killed.is_some() {
            outlook.started = None;
        }
    }
    let Some(started) = outlook.started else { return outlook };

    match probe(container, "readinessProbe") {
        Some(probe) => {
            // The readiness probe runs immediately after the startup, and its ticks count from there.
            let first = probe.tick(started, later(since, probe.delay).max(able));
            let ready = probe.then(first, probe.successes - 1);
            outlook.ready = answers(ready).then_some(ready);
            if outlook.ready.is_some() {
                outlook.unready = hangs.and_then(|hangs| probe.fails(started, hangs, None));
            }
        }
        // Without a readiness probe, the behaviour of the pod determines when it is ready.
        None => outlook.ready = Some(started.max(able)),
    }
    if let Some(probe) = probe(container, "livenessProbe") {
        let asked = later(since, probe.delay).max(started);
        let killed = if asked < able { probe.fails(seen, asked, Some(able)) } else { None };
        outlook.killed = killed.or(hangs.and_then(|hangs| probe.fails(seen, hangs.max(asked), None)));
    }
    match pod.ready {
        Some(true) => (outlook.ready, outlook.unready) = (Some(started), None),
        Some(false) => (outlook.ready, outlook.unready) = (None, None),
        None => {}
    }
    outlook
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn look(container: Value, answers_after: i64, hangs_after: Option<i64>) -> Outlook {
        let program = Program {
            start: SignedDuration::ZERO,
            exit: None,
            times: None,
            answers_after: SignedDuration::from_secs(answers_after),
            hangs_after: hangs_after.map(SignedDuration::from_secs),
            stop: SignedDuration::ZERO,
        };
        outlook(&container, at(100), at(99), &Behaviour::NOTHING, &program)
    }

    #[test]
    fn without_probes() {
        let outlook = look(json!({}), 0, None);
        assert_eq!((outlook.started, outlook.ready, outlook.killed), (Some(at(100)), Some(at(100)), None));
        assert_eq!(look(json!({}), 7, None).ready, Some(at(107)));
    }

    #[test]
    fn readiness_counts_from_the_start_of_the_container() {
        let every_5 = json!({ "readinessProbe": { "periodSeconds": 5 } });
        assert_eq!(look(every_5.clone(), 0, None).ready, Some(at(100)));
        assert_eq!(look(every_5.clone(), 7, None).ready, Some(at(110)));
        let delayed = json!({ "readinessProbe": { "periodSeconds": 5, "initialDelaySeconds": 12, "successThreshold": 2 } });
        assert_eq!(look(delayed, 7, None).ready, Some(at(120)));
        // Hangs at 107. The probes at 110, 115 and 120 fail.
        assert_eq!(look(every_5, 0, Some(7)).unready, Some(at(120)));
    }

    #[test]
    fn startup_gives_time_or_gives_up() {
        let startup = json!({ "startupProbe": { "periodSeconds": 3, "failureThreshold": 4 } });
        // The ticks count from 99: 102, 105, 108, 111.
        assert_eq!(look(startup.clone(), 5, None).started, Some(at(105)));
        let never = look(startup, 60, None);
        assert_eq!((never.started, never.ready, never.killed), (None, None, Some(at(111))));
    }

    #[test]
    fn liveness_kills_what_does_not_answer_in_time() {
        let live = json!({ "livenessProbe": { "periodSeconds": 10, "failureThreshold": 2 } });
        assert_eq!(look(live.clone(), 5, None).killed, None);
        // The probes at 109 and 119 fail.
        assert_eq!(look(live.clone(), 30, None).killed, Some(at(119)));
        assert_eq!(look(live.clone(), 0, Some(21)).killed, Some(at(139)));
        let patient = json!({ "livenessProbe": { "periodSeconds": 10, "failureThreshold": 2, "initialDelaySeconds": 25 } });
        assert_eq!(look(patient, 30, None).killed, None);
    }
}
