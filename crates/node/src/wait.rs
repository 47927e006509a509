//! `rollcall-node wait`: waits until all conditions hold at the same time.

use crate::Outcome;
use crate::arguments::Wait;
use crate::condition::Condition;
use crate::talk::{PAUSE, Talk, Topic, exactly, gone_by};
use crate::watch::{Event, Events, Watch};
use std::io;
use std::time::{Duration, Instant};

/// Maximum delay until the main thread notices checks that have no answer.
const TICK: Duration = Duration::from_secs(1);

pub fn run(options: &Wait) -> io::Result<Outcome> {
    let Wait { conditions, timeout, interval, settle } = options;
    let events = Events::new()?;
    let mut talk = Talk::new();
    talk.line(&announcement(options));
    let watch = Watch::start(conditions, *interval, &events)?;
    let mut holding = Holding { since: None };
    let started = talk.started();
    let end = timeout.map(|timeout| started + timeout);
    let mut report = started + PAUSE;
    loop {
        let now = Instant::now();
        let missing = watch.missing(now);
        let settled = holding.look(missing.is_empty(), *settle, now);
        if settled == Some(Duration::ZERO) {
            talk.line(&format!("{}: all conditions hold", gone_by(now - started)));
            return Ok(Outcome::Done);
        }
        if end.is_some_and(|end| now >= end) {
            talk.line(&gave_up(now - started, &missing, settled, *settle));
            return Ok(Outcome::Failed);
        }
        if now >= report {
            talk.repeat(Topic::State, still(&missing, settled, *settle), now);
            report = now + PAUSE;
        }
        let settling = settled.map(|left| now + left);
        let next = [Some(report), end, settling, Some(now + TICK)].into_iter().flatten().min();
        match events.next(next.unwrap_or(report)) {
            Some(Event::Gone) => holding.since = None,
            Some(Event::Signal(signal)) => {
                let missing = watch.missing(Instant::now());
                let rest = still(&missing, settled, *settle);
                talk.line(&format!("{}: terminated by signal {signal}, {rest}", gone_by(started.elapsed())));
                return Ok(Outcome::Ended(signal));
            }
            Some(Event::ReadNodes | Event::Mounts | Event::Command(_)) | None => {}
        }
    }
}

/// The time since when all conditions hold.
struct Holding {
    since: Option<Instant>,
}

impl Holding {
    /// How much longer the conditions must hold; `None` if they do not hold.
    fn look(&mut self, holds: bool, settle: Duration, now: Instant) -> Option<Duration> {
        self.since = holds.then(|| self.since.unwrap_or(now));
        self.since.map(|since| settle.saturating_sub(now.saturating_duration_since(since)))
    }
}

fn announcement(options: &Wait) -> String {
    let Wait { conditions, timeout, interval: _, settle } = options;
    let conditions: Vec<String> = conditions.iter().map(ToString::to_string).collect();
    let settle = match settle.is_zero() {
        true => String::new(),
        false => format!(", all for {} without interruption", exactly(*settle)),
    };
    let limit = timeout.map_or("without a limit".into(), |timeout| format!("at most {}", exactly(timeout)));
    format!("waiting for {}{settle}; {limit}", conditions.join(", "))
}

fn still(missing: &[(&Condition, String)], settled: Option<Duration>, settle: Duration) -> String {
    match settled {
        Some(left) => format!("conditions hold; {} of {} settle time left", gone_by(left), exactly(settle)),
        None => format!("still waiting: {}", listed(missing)),
    }
}

fn listed(missing: &[(&Condition, String)]) -> String {
    let missing: Vec<String> = missing.iter().map(|(condition, why)| format!("{condition}: {why}")).collect();
    missing.join("; ")
}

/// The final message: only the missing conditions, and a hint.
fn gave_up(
    waited: Duration,
    missing: &[(&Condition, String)],
    settled: Option<Duration>,
    settle: Duration,
) -> String {
    let waited = gone_by(waited);
    let Some((first, _)) = missing.first() else {
        let held = gone_by(settle.saturating_sub(settled.unwrap_or(settle)));
        return format!(
            "{waited}: gave up: all conditions hold, but for {held} only; the settle time is {}",
            exactly(settle)
        );
    };
    let mut text = format!("{waited}: gave up: {}\nhint: {}", listed(missing), first.hint());
    // The host name of a pod is its name, unless the pod uses the host network.
    if let Ok(pod) = std::env::var("HOSTNAME") {
        text += &format!("; if this is pod {pod}: rollcall explain pod/{pod}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_starts_the_settle_time_anew() {
        let start = Instant::now();
        let settle = Duration::from_secs(5);
        let mut holding = Holding { since: None };
        let mut look = |holds, second| {
            let left = holding.look(holds, settle, start + Duration::from_secs(second));
            left.map(|left| left.as_secs())
        };
        let seen =
            [look(false, 0), look(true, 1), look(true, 4), look(false, 5), look(true, 6), look(true, 11)];
        assert_eq!(seen, [None, Some(5), Some(2), None, Some(5), Some(0)]);
    }

    #[test]
    fn what_is_said() {
        let marker = Condition::Marker { path: "/mnt/dump/.ready".into(), plain: false };
        let tcp = Condition::Tcp(crate::condition::Address::parse("csi:80").expect("an address"));
        let options = Wait {
            conditions: vec![marker.clone(), tcp.clone()],
            timeout: Some(Duration::from_secs(300)),
            interval: Duration::from_secs(1),
            settle: Duration::from_secs(2),
        };
        assert_eq!(
            announcement(&options),
            "waiting for marker /mnt/dump/.ready, tcp csi:80, all for 2s without interruption; at most 5m"
        );
        let missing = [(&marker, "not found".to_owned()), (&tcp, "connection refused".to_owned())];
        assert_eq!(
            still(&missing, None, Duration::ZERO),
            "still waiting: marker /mnt/dump/.ready: not found; tcp csi:80: connection refused"
        );
        let gave_up = gave_up(Duration::from_secs(300), &missing[1..], None, Duration::ZERO);
        let (first, hint) = gave_up.split_once('\n').expect("two lines");
        assert_eq!(first, "5m: gave up: tcp csi:80: connection refused");
        assert!(hint.starts_with("hint: check that the server there is ready"), "{hint}");
    }

    #[test]
    fn a_settle_time_that_was_not_over_is_said() {
        let settle = Duration::from_secs(30);
        assert_eq!(
            gave_up(Duration::from_secs(60), &[], Some(Duration::from_secs(18)), settle),
            "1m: gave up: all conditions hold, but for 12s only; the settle time is 30s"
        );
    }
}
