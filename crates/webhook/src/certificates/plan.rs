//! Decides about the next step for the certificates.

use super::make::{Made, Pair};
use super::read::first;
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between the publication of an authority and its use. API servers receive a new bundle within milliseconds; this
/// is for slow ones.
const OVERLAP: Duration = Duration::from_secs(600);

/// The content of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Whether the controller may write the Secret.
    pub managed: bool,
    pub current: Option<Pair>,
    pub next: Option<Pair>,
    /// Authorities, the newest first.
    pub authorities: String,
}

/// The properties of new certificates.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The names that a certificate must have, the most important one first.
    pub names: Vec<String>,
    pub lifetime: Duration,
}

impl Terms {
    /// Certificates are renewed at this age. The remaining third of the lifetime gives users time to notice and fix
    /// failures.
    fn renewed_after(&self) -> Duration {
        self.lifetime * 2 / 3
    }

    fn overlap(&self) -> Duration {
        OVERLAP.min(self.lifetime / 20)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no usable certificate: create one and serve it at once.
    Replace,
    /// Create the next certificate and publish its authority beside the current one.
    Stage,
    /// Serve the next certificate.
    Promote,
    /// Do nothing before that time.
    Keep { until: Option<Timestamp> },
}

/// The next step. `trusted`: the bundle of every webhook contains the newest authority.
pub fn step(held: &Held, trusted: bool, terms: &Terms, now: Timestamp) -> Step {
    if !held.managed {
        return Step::Keep { until: None };
    }
    let usable = |pair: &Pair| {
        let facts = pair.certified().and_then(|_| pair.facts()).ok()?;
        let fits = terms.names.iter().all(|name| facts.names.contains(name)) && now < facts.expires;
        fits.then_some(facts)
    };
    let Some(current) = held.current.as_ref().and_then(usable) else { return Step::Replace };
    let after = |at: Timestamp, wait: Duration| at.saturating_add(wait).unwrap_or(Timestamp::MAX);
    let wait =
        |until: Timestamp, then: Step| if now < until { Step::Keep { until: Some(until) } } else { then };
    match held.next.as_ref().map(usable) {
        None => wait(after(current.made, terms.renewed_after()), Step::Stage),
        Some(None) => Step::Stage,
        // The authority must be published first, which triggers another call. If it cannot be, wait until the current
        // certificate expires.
        Some(Some(_)) if !trusted => Step::Keep { until: Some(current.expires) },
        Some(Some(next)) => wait(after(next.made, terms.overlap()), Step::Promote),
    }
}

impl Held {
    /// Reads the data of the Secret, and the value of its annotation
    /// [`MANAGED_CERTIFICATES`](rollcall_api::names::MANAGED_CERTIFICATES).
    pub fn read(data: &BTreeMap<String, String>, mark: Option<&str>) -> Held {
        let text = |key: &str| {
            let bytes = STANDARD.decode(data.get(key)?).ok()?;
            String::from_utf8(bytes).ok().filter(|text| !text.trim().is_empty())
        };
        let pair = |name: &str| {
            Some(Pair { chain: text(&format!("{name}.crt"))?, key: text(&format!("{name}.key"))? })
        };
        Held {
            // The controller fills an empty Secret, which a user has created.
            managed: mark == Some("true") || data.is_empty(),
            current: pair("tls"),
            next: pair("next"),
            authorities: text("ca.crt").unwrap_or_default(),
        }
    }

    /// The content after a new certificate has replaced all others.
    pub fn replaced(&self, made: Made) -> Held {
        let authorities = self.with_authority(&made.authority);
        Held { managed: true, current: Some(made.pair), next: None, authorities }
    }

    /// The content after a new certificate has been staged, to be served later.
    pub fn staged(&self, made: Made) -> Held {
        let authorities = self.with_authority(&made.authority);
        Held { next: Some(made.pair), authorities, ..self.clone() }
    }

    /// The content after the staged certificate has been promoted.
    pub fn promoted(&self) -> Held {
        Held { current: self.next.clone().or(self.current.clone()), next: None, ..self.clone() }
    }

    /// The new authority, and the one of the certificate that is served: some API servers may still trust only that
    /// one. The authority of a staged certificate that was discarded is dropped, because the certificate was never
    /// served.
    fn with_authority(&self, authority: &str) -> String {
        let authorities = &self.authorities;
        let before = match (&self.next, first(authorities)) {
            (Some(_), Some(newest)) => {
                first(&authorities[authorities.find(newest).unwrap_or(0) + newest.len()..])
            }
            (_, newest) => newest,
        };
        format!("{}\n{}\n", authority.trim(), before.unwrap_or_default()).trim_end().to_owned() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::make::make;
    use crate::certificates::read::{certificates, may_replace, trusts_newest};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn terms() -> Terms {
        Terms { names: vec!["a.svc".into(), "127.0.0.1".into(), "::1".into()], lifetime: 90 * DAY }
    }

    fn day(number: u32) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().expect("a time") + DAY * number
    }

    fn new_certificate(now: Timestamp) -> Made {
        make(&terms().names, now, terms().lifetime).expect("a certificate")
    }

    fn held() -> Held {
        Held { managed: true, ..Held::default() }.replaced(new_certificate(day(0)))
    }

    #[test]
    fn a_certificate_is_what_was_asked_for() {
        let facts = held().current.expect("one").facts().expect("facts");
        assert_eq!((facts.made, facts.expires), (day(0), day(90)));
        assert_eq!(facts.names, terms().names.into_iter().collect());
    }

    #[test]
    fn renewal_goes_in_steps_and_both_authorities_are_trusted_meanwhile() {
        let terms = terms();
        assert_eq!(step(&Held { managed: true, ..Held::default() }, false, &terms, day(0)), Step::Replace);
        let held = held();
        assert_eq!(step(&held, true, &terms, day(1)), Step::Keep { until: Some(day(60)) });
        assert_eq!(step(&held, true, &terms, day(60)), Step::Stage);
        let (old, staged) = (held.authorities.clone(), held.staged(new_certificate(day(60))));
        assert_eq!(certificates(&staged.authorities).len(), 2);
        assert_eq!(staged.current, held.current);
        assert!(trusts_newest(&staged.authorities, &staged.authorities));
        assert!(!trusts_newest(&old, &staged.authorities));
        assert_eq!(step(&staged, false, &terms, day(61)), Step::Keep { until: Some(day(90)) });
        let until = day(60) + OVERLAP;
        assert_eq!(step(&staged, true, &terms, day(60)), Step::Keep { until: Some(until) });
        assert_eq!(step(&staged, true, &terms, until), Step::Promote);
        let promoted = staged.promoted();
        assert_eq!((&promoted.current, &promoted.next), (&staged.next, &None));
        assert_eq!(promoted.authorities, staged.authorities);
        // The next renewal drops the oldest authority.
        let again = promoted.staged(new_certificate(day(120)));
        assert_eq!(certificates(&again.authorities).len(), 2);
        assert!(!certificates(&again.authorities).contains(&certificates(&old)[0]));
    }

    #[test]
    fn a_next_one_that_is_given_up_does_not_push_the_served_one_out_of_the_bundle() {
        let held = held();
        let twice = held.staged(new_certificate(day(60))).staged(new_certificate(day(61)));
        assert!(certificates(&twice.authorities).contains(&certificates(&held.authorities)[0]));
        assert_eq!(certificates(&twice.authorities).len(), 2);
    }

    #[test]
    fn what_is_no_good_is_replaced() {
        let (terms, held) = (terms(), held());
        assert_eq!(step(&held, true, &terms, day(90)), Step::Replace, "expired");
        let more = Terms { names: vec!["other.svc".into()], ..terms.clone() };
        assert_eq!(step(&held, true, &more, day(1)), Step::Replace, "another name");
        let other = new_certificate(day(0)).pair.key;
        let chain = held.current.clone().expect("one").chain;
        for current in [
            Pair { chain: chain.clone(), key: other },
            Pair { chain, key: String::new() },
            Pair { chain: "x".into(), key: "x".into() },
        ] {
            let broken = Held { current: Some(current), ..held.clone() };
            assert_eq!(step(&broken, true, &terms, day(1)), Step::Replace);
        }
    }

    #[test]
    fn what_others_made_is_never_touched() {
        let theirs = Held { managed: false, ..held() };
        assert_eq!(step(&theirs, false, &terms(), day(1000)), Step::Keep { until: None });
    }

    #[test]
    fn a_bundle_is_written_over_only_if_it_is_empty_or_ours() {
        let ours = held().authorities;
        let stranger = rcgen::generate_simple_self_signed(["x".to_owned()]).expect("one").cert.pem();
        for (bundle, expected) in
            [("", true), ("\n", true), (ours.as_str(), true), (&stranger, false), ("no certificate", false)]
        {
            assert_eq!(may_replace(bundle, &held().authorities), expected, "{bundle}");
        }
        assert!(may_replace(&format!("{stranger}{ours}"), ""), "an authority of ours, whose Secret was lost");
        assert!(may_replace(&stranger, &stranger), "an authority that the user provides and changes");
    }
}
