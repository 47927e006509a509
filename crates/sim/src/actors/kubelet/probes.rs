//! Probes, without a tick for each of them: when an application can answer is known beforehand, so the moments at which a
//! probe changes its mind can be computed.

use super::behaviour::{Behaviour, Program};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// What becomes of a container that runs, as far as it is known now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The startup probe succeeded, or there is none.
    pub started: Option<Timestamp>,
    pub ready: Option<Timestamp>,
    /// The readiness probe fails again.
    pub unready: Option<Timestamp>,
    /// A liveness or startup probe has failed too often.
    pub killed: Option<Timestamp>,
}

/// A probe as the container describes it.
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
    /// The first tick at or after `at` of those that began at `anchor`.
    fn tick(&self, anchor: Timestamp, at: Timestamp) -> Timestamp {
        let gone = at.as_millisecond().saturating_sub(anchor.as_millisecond()).max(0);
        let ticks = (gone + self.period - 1) / self.period;
        later(anchor, SignedDuration::from_millis(ticks.saturating_mul(self.period)))
    }

    /// After `more` further ticks.
    fn then(&self, tick: Timestamp, more: i64) -> Timestamp {
        later(tick, SignedDuration::from_millis(self.period.saturating_mul(more)))
    }

    /// When it has failed too often, if the application does not answer from `from` until `until`.
    fn fails(&self, anchor: Timestamp, from: Timestamp, until: Option<Timestamp>) -> Option<Timestamp> {
        let failed = self.then(self.tick(anchor, from), self.failures - 1);
        until.is_none_or(|until| failed < until).then_some(failed)
    }
}

pub fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// `since` is when the container started, `seen` when the kubelet first saw its pod: from then on it asks.
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
            // It is asked as soon as it has started, and its time runs from there.
            let first = probe.tick(started, later(since, probe.delay).max(able));
            let ready = probe.then(first, probe.successes - 1);
            outlook.ready = answers(ready).then_some(ready);
            if outlook.ready.is_some() {
                outlook.unready = hangs.and_then(|hangs| probe.fails(started, hangs, None));
            }
        }
        // Where nothing asks the application, its word stands for itself: a pod may say when it is ready.
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
        // Hangs at 107: asked at 110, 115 and 120 in vain.
        assert_eq!(look(every_5, 0, Some(7)).unready, Some(at(120)));
    }

    #[test]
    fn startup_gives_time_or_gives_up() {
        let startup = json!({ "startupProbe": { "periodSeconds": 3, "failureThreshold": 4 } });
        // The kubelet asks from 99 on: 102, 105, 108, 111.
        assert_eq!(look(startup.clone(), 5, None).started, Some(at(105)));
        let never = look(startup, 60, None);
        assert_eq!((never.started, never.ready, never.killed), (None, None, Some(at(111))));
    }

    #[test]
    fn liveness_kills_what_does_not_answer_in_time() {
        let live = json!({ "livenessProbe": { "periodSeconds": 10, "failureThreshold": 2 } });
        assert_eq!(look(live.clone(), 5, None).killed, None);
        // 109 and 119.
        assert_eq!(look(live.clone(), 30, None).killed, Some(at(119)));
        assert_eq!(look(live.clone(), 0, Some(21)).killed, Some(at(139)));
        let patient = json!({ "livenessProbe": { "periodSeconds": 10, "failureThreshold": 2, "initialDelaySeconds": 25 } });
        assert_eq!(look(patient, 30, None).killed, None);
    }
}
