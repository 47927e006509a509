//! The behaviour of the programs in a pod, from its annotations, the rules in [`ProgramBehaviour`], or its defaults, in
//! this order.
//!
//! The annotations in `testbed/README.md` have the same meaning here. They apply to the whole pod: `complete-after` and
//! `fail-after` end it regardless of its restart policy. Further annotations apply to a single container and leave restarts
//! to the restart policy:
//!
//! | annotation | |
//! |---|---|
//! | `NAME.start: 2s` | time to start, once its turn has come |
//! | `NAME.ready-after: 2s` | time from its start until it answers its probes |
//! | `NAME.hang-after: 1m` | time from its start until it stops answering |
//! | `NAME.exit-after: 5s` | time from its start until it exits |
//! | `NAME.exit-code: "3"` | its exit code; default 0 |
//! | `NAME.exit-times: "2"` | only the first two runs exit; after that it keeps running, or an init container succeeds |
//! | `NAME.stop: 3s` | time to terminate |
//!
//! Effects of an agent on its node, some time after the agent is ready (see [`crate::actors::agents`]):
//!
//! | annotation | |
//! |---|---|
//! | `csi-driver: NAME` | a driver in the node's CSINode |
//! | `device: NAME=2` | a resource of the node, with its amount |
//! | `condition: TYPE` | a condition of the node with status True |

use crate::program_behaviour::{BehaviourRule, ProgramBehaviour};
use jiff::SignedDuration;
use serde_json::Value;

/// The prefix of these annotations, which `testbed/README.md` describes.
pub const PREFIX: &str = "testbed.rollcall.dev/";

/// The behaviour of a pod as a whole.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Time from the binding until the containers run.
    pub start_after: Option<SignedDuration>,
    /// Time from the start of a container until the application can answer.
    pub ready_after: Option<SignedDuration>,
    /// Forces the readiness, whatever the application answers.
    pub ready: Option<bool>,
    /// The end of the pod, regardless of its restart policy: time after it is ready, and exit code.
    pub end: Option<(SignedDuration, i32)>,
    /// How long the pod is terminating, regardless of its grace period.
    pub slow_delete: Option<SignedDuration>,
}

impl Behaviour {
    /// The behaviour of a pod without annotations and rules.
    pub const NOTHING: Behaviour =
        Behaviour { start_after: None, ready_after: None, ready: None, end: None, slow_delete: None };
}

/// The behaviour of one container.
#[derive(Clone, Debug)]
pub struct Program {
    /// Time to start, once its turn has come.
    pub start: SignedDuration,
    /// Time from its start until it exits, and the exit code.
    pub exit: Option<(SignedDuration, i32)>,
    /// How many runs exit in this way; `None` means all.
    pub times: Option<u32>,
    /// Time from its start until it can answer.
    pub answers_after: SignedDuration,
    /// Time from its start until it stops answering.
    pub hangs_after: Option<SignedDuration>,
    /// Time to terminate.
    pub stop: SignedDuration,
}

pub fn annotation<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let annotations = pod["metadata"]["annotations"].as_object()?;
    annotations.get(&format!("{PREFIX}{name}"))?.as_str()
}

fn has_any(pod: &Value) -> bool {
    let annotations = pod["metadata"]["annotations"].as_object();
    annotations.is_some_and(|annotations| annotations.keys().any(|key| key.starts_with(PREFIX)))
}

/// The value of the first rule that matches this pod and has one.
fn from_rules<T>(
    programs: &ProgramBehaviour,
    pod: &Value,
    what: impl Fn(&BehaviourRule) -> Option<T>,
) -> Option<T> {
    let mut said = programs.rules.iter().filter_map(|rule| what(rule).map(|value| (rule, value)));
    said.find(|(rule, _)| rule.pods.includes(pod)).map(|(_, value)| value)
}

fn ends_by_itself(pod: &Value, programs: &ProgramBehaviour) -> bool {
    let spec = &pod["spec"];
    let restarted = !matches!(spec["restartPolicy"].as_str(), Some("Never" | "OnFailure"));
    let probed = || {
        let containers = spec["containers"].as_array().into_iter().flatten();
        containers.into_iter().any(|container| !container["readinessProbe"].is_null())
    };
    is_of_job(pod) || programs.unprobed_pods_end && !restarted && !probed()
}

pub fn of_pod(pod: &Value, programs: &ProgramBehaviour) -> Behaviour {
    let said = has_any(pod);
    let time = |name: &str| if said { annotation(pod, name).and_then(duration) } else { None };
    let ready = match said.then(|| annotation(pod, "ready")).flatten() {
        Some("true") => Some(true),
        Some(_) => Some(false),
        None if said && annotation(pod, "never-ready") == Some("true") => Some(false),
        None => from_rules(programs, pod, |rule| rule.never_ready.then_some(false)),
    };
    let end = time("fail-after").map(|after| (after, 1)).or(time("complete-after").map(|after| (after, 0)));
    let end = match end {
        None if ends_by_itself(pod, programs) && from_rules(programs, pod, exit_of).is_none() => {
            Some((programs.job, 0))
        }
        end => end,
    };
    Behaviour {
        start_after: time("start-after").or_else(|| from_rules(programs, pod, |rule| rule.start_after)),
        ready_after: time("ready-after").or_else(|| from_rules(programs, pod, |rule| rule.ready_after)),
        ready,
        end,
        slow_delete: time("slow-delete"),
    }
}

/// `is_main` is false for init containers and sidecars, which the rules do not cover.
pub fn of_container(
    pod: &Value,
    name: &str,
    is_init: bool,
    is_main: bool,
    programs: &ProgramBehaviour,
) -> Program {
    let said = has_any(pod);
    let own = |what: &str| if said { annotation(pod, &format!("{name}.{what}")) } else { None };
    let code = own("exit-code").and_then(|code| code.parse().ok());
    let exit_after = own("exit-after").and_then(duration);
    let exit = match (exit_after, code) {
        (Some(after), code) => Some((after, code.unwrap_or(0))),
        (None, Some(code)) => Some((if is_init { programs.init } else { SignedDuration::ZERO }, code)),
        (None, None) if is_init => Some((programs.init, 0)),
        (None, None) if is_main => from_rules(programs, pod, exit_of),
        (None, None) => None,
    };
    let times = match own("exit-times") {
        Some(times) => times.parse().ok(),
        None if is_main && exit_after.is_none() => from_rules(programs, pod, |rule| rule.times),
        None => None,
    };
    Program {
        start: own("start").and_then(duration).unwrap_or(programs.start),
        exit,
        times,
        answers_after: own("ready-after").and_then(duration).unwrap_or_default(),
        hangs_after: own("hang-after").and_then(duration),
        stop: own("stop").and_then(duration).unwrap_or(programs.stop),
    }
}

fn exit_of(rule: &BehaviourRule) -> Option<(SignedDuration, i32)> {
    rule.fail_after.map(|after| (after, 1)).or(rule.complete_after.map(|after| (after, 0)))
}

fn is_of_job(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "Job"))
}

/// Parses a duration in Go's format: `1m30s`, `500ms`, `1.5h`.
pub fn duration(text: &str) -> Option<SignedDuration> {
    let mut total = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() && rest != "0" {
        let unit_at = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let amount: f64 = rest[..unit_at].parse().ok()?;
        let after = &rest[unit_at..];
        let unit_ends =
            after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let unit = match &after[..unit_ends] {
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            _ => return None,
        };
        total += amount * unit;
        rest = &after[unit_ends..];
    }
    // Limited to about a hundred years.
    Some(SignedDuration::from_millis(total.min(3.2e12) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Selector;
    use crate::program_behaviour::PodFilter;
    use serde_json::json;

    #[test]
    fn durations_as_go_writes_them() {
        let millis = |text| duration(text).map(|is| is.as_millis());
        assert_eq!(millis("2s"), Some(2_000));
        assert_eq!(millis("1m30s"), Some(90_000));
        assert_eq!(millis("1.5h"), Some(5_400_000));
        assert_eq!(millis("250ms"), Some(250));
        assert_eq!(millis("0"), Some(0));
        for wrong in ["", "5", "s", "1x", "1s2"] {
            assert_eq!(millis(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn annotations_before_rules_before_defaults() {
        let mut programs = ProgramBehaviour::default();
        let pods = PodFilter::Selected(Selector::named("db-*"));
        let five = SignedDuration::from_secs(5);
        programs.rules.push(BehaviourRule {
            pods,
            ready_after: Some(five),
            fail_after: Some(five),
            ..BehaviourRule::default()
        });
        let mut pod = json!({ "metadata": { "name": "db-0", "annotations": {} } });
        assert_eq!(of_pod(&pod, &programs).ready_after, Some(five));
        assert_eq!(of_container(&pod, "c", false, true, &programs).exit, Some((five, 1)));
        pod["metadata"]["annotations"] = json!({
            "testbed.rollcall.dev/ready-after": "2s",
            "testbed.rollcall.dev/c.exit-after": "3s",
            "testbed.rollcall.dev/c.exit-code": "7",
        });
        assert_eq!(of_pod(&pod, &programs).ready_after, Some(SignedDuration::from_secs(2)));
        let exit = Some((SignedDuration::from_secs(3), 7));
        assert_eq!(of_container(&pod, "c", false, true, &programs).exit, exit);
        assert_eq!(of_container(&pod, "other", false, false, &programs).exit, None);
    }
}
