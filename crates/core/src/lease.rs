//! The leader lease as a step function. A lease expires when *we* have seen its record unchanged for its duration on our own
//! monotonic clock. Wall clocks of other replicas are never trusted.

use crate::planted::{Bug, planted};
use std::time::Duration;

/// The lease object as last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    pub holder: Option<String>,
    pub duration: Duration,
    /// Its resourceVersion: while it does not change, the holder has not renewed the lease.
    pub version: String,
}

/// The state of a candidate. `now` is the time since the candidate started, from a clock that never jumps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    seen: Option<(LeaseRecord, Duration)>,
    /// The start time of our last successful renewal.
    renewed: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    Create,
    /// Write ourselves into the lease, if it still has this version.
    Take {
        version: String,
    },
    Renew {
        version: String,
    },
    /// Another replica leads; read again after this time.
    Wait {
        again: Duration,
    },
    /// We led and can no longer be sure of it.
    Lost,
}

/// Parameters of the lease. A holder renews at a third of the duration and gives up at two thirds, so that it stops acting
/// before another replica may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub identity: String,
    pub duration: Duration,
}

impl Terms {
    pub fn renew_every(&self) -> Duration {
        self.duration / 3
    }

    pub fn give_up_after(&self) -> Duration {
        self.duration * 2 / 3
    }
}

impl Candidate {
    /// Records the result of reading the lease.
    pub fn observe(&mut self, record: LeaseRecord, now: Duration) {
        let unchanged = self.seen.as_ref().is_some_and(|(known, _)| known.version == record.version);
        if !unchanged {
            self.seen = Some((record, now));
        }
    }

    /// Records our own successful write, which began at `begun`.
    pub fn wrote(&mut self, record: LeaseRecord, begun: Duration) {
        self.seen = Some((record, begun));
        self.renewed = Some(begun);
    }

    /// Whether we lead at `now`.
    pub fn leads(&self, terms: &Terms, now: Duration) -> bool {
        self.renewed.is_some_and(|renewed| now < renewed + terms.give_up_after())
    }

    /// Returns the next step at `now`.
    pub fn step(&self, terms: &Terms, now: Duration) -> LeaseStep {
        if self.renewed.is_some() && !self.leads(terms, now) {
            return LeaseStep::Lost;
        }
        let Some((record, seen_at)) = &self.seen else { return LeaseStep::Create };
        let version = record.version.clone();
        match record.holder.as_deref() {
            Some(holder) if holder == terms.identity => LeaseStep::Renew { version },
            Some(holder) if !holder.is_empty() => {
                if self.renewed.is_some() {
                    return LeaseStep::Lost;
                }
                let expires = *seen_at + record.duration;
                match now >= expires || planted(Bug::LeaseTakenEarly) {
                    true => LeaseStep::Take { version },
                    false => LeaseStep::Wait { again: (expires - now).min(terms.renew_every()) },
                }
            }
            Some(_) | None => LeaseStep::Take { version },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn terms() -> Terms {
        Terms { identity: "me".into(), duration: S(15) }
    }

    fn held_by(holder: &str, version: &str) -> LeaseRecord {
        let holder = (!holder.is_empty()).then(|| holder.to_string());
        LeaseRecord { holder, duration: S(15), version: version.into() }
    }

    #[test]
    fn nothing_there_is_created() {
        assert_eq!(Candidate::default().step(&terms(), S(0)), LeaseStep::Create);
    }

    #[test]
    fn a_free_lease_is_taken_at_once() {
        let mut me = Candidate::default();
        me.observe(held_by("", "1"), S(3));
        assert_eq!(me.step(&terms(), S(3)), LeaseStep::Take { version: "1".into() });
    }

    #[test]
    fn another_holder_expires_only_after_we_saw_no_renewal() {
        let mut me = Candidate::default();
        me.observe(held_by("other", "1"), S(0));
        assert_eq!(me.step(&terms(), S(1)), LeaseStep::Wait { again: S(5) });
        me.observe(held_by("other", "2"), S(10));
        me.observe(held_by("other", "2"), S(20));
        assert_eq!(me.step(&terms(), S(24)), LeaseStep::Wait { again: S(1) });
        assert_eq!(me.step(&terms(), S(25)), LeaseStep::Take { version: "2".into() });
    }

    #[test]
    fn leadership_ends_before_anybody_else_may_begin() {
        let mut me = Candidate::default();
        assert!(!me.leads(&terms(), S(0)));
        me.wrote(held_by("me", "5"), S(100));
        assert!(me.leads(&terms(), S(109)));
        assert_eq!(me.step(&terms(), S(105)), LeaseStep::Renew { version: "5".into() });
        assert!(!me.leads(&terms(), S(110)));
        assert_eq!(me.step(&terms(), S(110)), LeaseStep::Lost);
    }

    #[test]
    fn somebody_took_it_from_us() {
        let mut me = Candidate::default();
        me.wrote(held_by("me", "5"), S(0));
        me.observe(held_by("other", "6"), S(1));
        assert_eq!(me.step(&terms(), S(1)), LeaseStep::Lost);
    }

    #[test]
    fn our_own_record_of_an_earlier_life_is_renewed() {
        let mut me = Candidate::default();
        me.observe(held_by("me", "5"), S(0));
        assert_eq!(me.step(&terms(), S(0)), LeaseStep::Renew { version: "5".into() });
    }
}
