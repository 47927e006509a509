//! Parses the values of `--nodes`, `--ready-after`, `--fail` and `--at` into the types of a plan.

use super::kind::{self, kind_named};
use anyhow::{Context, Result, anyhow, bail, ensure};
use rollcall_api::duration::GoDuration;
use rollcall_sim::kinds::Kind;
use rollcall_sim::plan::{
    Action, ActionTarget, At, Fail, Given, NodePool, Pattern, ReadyAfter, SelectBy, Selector,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of nodes that Kubernetes supports.
const MOST_NODES: usize = 5000;
/// Maximum size of one workload: more pods than a cluster with the maximum number of nodes holds.
const MOST_REPLICAS: u32 = 150_000;
/// Maximum length of an object name (RFC 1123 subdomain).
const LONGEST_NAME: usize = 253;

const SELECTORS: &str = "app=db (labels), pod=NAME or deployment/NAME; * matches any characters";
const ACTIONS: &str = "'scale KIND/NAME N', 'delete KIND/NAME', 'apply FILE', 'cordon NODE', 'drain NODE' or \
                       'add-node NAME'";

pub fn duration(text: &str) -> Result<Duration> {
    text.parse::<GoDuration>().map(GoDuration::get).map_err(|error| anyhow!("{text:?} {error}"))
}

/// Parses `3` or `3:cpu=4,memory=16Gi`.
pub fn nodes(text: &str) -> Result<NodePool> {
    let (count, capacity) = text.split_once(':').map_or((text, None), |(count, rest)| (count, Some(rest)));
    let count: usize = count
        .parse()
        .ok()
        .filter(|count| (1..=MOST_NODES).contains(count))
        .with_context(|| format!("{count:?} must be a number of nodes from 1 to {MOST_NODES}"))?;
    let capacity = capacity.map(resources).transpose()?.unwrap_or_default();
    Ok(NodePool { count, capacity })
}

fn resources(text: &str) -> Result<BTreeMap<String, String>> {
    let mut capacity = BTreeMap::new();
    for pair in text.split(',') {
        let (resource, quantity) = pair
            .split_once('=')
            .filter(|(resource, _)| !resource.is_empty())
            .with_context(|| format!("{pair:?} must be RESOURCE=QUANTITY, such as cpu=4 or memory=16Gi"))?;
        ensure!(is_quantity(quantity), "{quantity:?} must be a quantity such as 4, 500m or 16Gi");
        let before = capacity.insert(resource.to_owned(), quantity.to_owned());
        ensure!(before.is_none(), "{resource} is given twice");
    }
    Ok(capacity)
}

/// Whether the text is a plain decimal number with a suffix of Kubernetes; signs, exponents and suffixes such as `n` are
/// excluded.
fn is_quantity(text: &str) -> bool {
    const SUFFIXES: [&str; 14] = ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let number = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let digits = number.replacen('.', "", 1);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain && SUFFIXES.contains(&&text[number.len()..])
}

/// Parses `app=db:40s`.
pub fn ready_after(text: &str) -> Result<ReadyAfter> {
    let (pods, after) = text
        .rsplit_once(':')
        .with_context(|| format!("{text:?} must be SELECTOR:DURATION, such as app=db:40s"))?;
    Ok(ReadyAfter { pods: selector(pods)?, after: duration(after)? })
}

/// Parses `pod=web-0` or `pod=web-0:10s`.
pub fn fail(text: &str) -> Result<Fail> {
    match text.rsplit_once(':') {
        Some((pods, after)) => Ok(Fail { pods: selector(pods)?, after: Some(duration(after)?) }),
        None => Ok(Fail { pods: selector(text)?, after: None }),
    }
}

fn selector(text: &str) -> Result<Selector> {
    ensure!(!text.is_empty(), "a selector is missing: {SELECTORS}");
    let (mut namespace, mut by) = (None, None);
    let mut labels = BTreeMap::new();
    for part in text.split(',') {
        let Some((key, value)) = part.split_once('=') else {
            let (kind, name) =
                part.split_once('/').with_context(|| format!("{part:?} must be {SELECTORS}"))?;
            once(&mut by, workload(kind, name)?, text)?;
            continue;
        };
        match key {
            "pod" => once(&mut by, SelectBy::Name(pattern(value)?), text)?,
            "namespace" => once(&mut namespace, pattern(value)?, text)?,
            _ => {
                label(key, value)?;
                let before = labels.insert(key.to_owned(), value.to_owned());
                ensure!(before.is_none(), "{text:?} names the label {key} twice");
            }
        }
    }
    let by = match (by, labels.is_empty()) {
        (None, false) => SelectBy::Labels(labels),
        (Some(by), true) => by,
        (Some(_), false) => bail!("{text:?} mixes labels with a name; use one or the other"),
        (None, true) => SelectBy::Name(Pattern("*".into())),
    };
    Ok(Selector { namespace, by })
}

fn once<T>(place: &mut Option<T>, value: T, text: &str) -> Result<()> {
    ensure!(place.is_none(), "{text:?} selects more than one name; repeat the option instead");
    *place = Some(value);
    Ok(())
}

fn workload(kind: &str, name: &str) -> Result<SelectBy> {
    let pattern = pattern(name)?;
    match kind_named(kind)? {
        Kind::Pod => Ok(SelectBy::Name(pattern)),
        kind if kind::has_pods(kind) => Ok(SelectBy::Workload(kind, pattern)),
        other => bail!("a {} has no pods; select pods by {SELECTORS}", other.info().name),
    }
}

fn label(key: &str, value: &str) -> Result<()> {
    let name = |text: &str| {
        let inner = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
        let edge = |char: Option<char>| char.is_some_and(|char| char.is_ascii_alphanumeric());
        text.len() <= 63 && text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
    };
    let (prefix, rest) = key.split_once('/').map_or((None, key), |(prefix, rest)| (Some(prefix), rest));
    let known = name(rest) && prefix.is_none_or(is_name);
    ensure!(known, "{key:?} must be a label such as app or app.kubernetes.io/name");
    ensure!(
        value.is_empty() || name(value),
        "{value:?} must be the value of a label: letters, digits, -, _ and . (* works only in pod=NAME)"
    );
    Ok(())
}

fn pattern(text: &str) -> Result<Pattern> {
    let filled = text.replace('*', "x");
    ensure!(is_name(&filled), "{text:?} must be a name: lower-case letters, digits, -, . and the wildcard *");
    Ok(Pattern(text.to_owned()))
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let edge =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    bytes.len() <= LONGEST_NAME && text.bytes().all(inner) && edge(bytes.first()) && edge(bytes.last())
}

fn name(text: &str) -> Result<String> {
    ensure!(is_name(text), "{text:?} must be a name: lower-case letters, digits, - and .");
    Ok(text.to_owned())
}

/// Parses the TIME and ACTION pairs of all `--at` flags, sorted by time. `read` loads the file of an `apply`.
pub fn at(values: &[String], read: &dyn Fn(&str) -> Result<Vec<Given>>) -> Result<Vec<At>> {
    let mut all = Vec::new();
    for pair in values.chunks_exact(2) {
        let given = || format!("--at {} '{}'", pair[0], pair[1]);
        let time = duration(&pair[0]).with_context(given)?;
        all.push(At { time, action: action(&pair[1], read).with_context(given)? });
    }
    all.sort_by_key(|at| at.time);
    Ok(all)
}

fn action(text: &str, read: &dyn Fn(&str) -> Result<Vec<Given>>) -> Result<Action> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (words, namespace) = match words.as_slice() {
        [words @ .., "-n" | "--namespace", namespace] => (words, Some(name(namespace)?)),
        words => (words, None),
    };
    let anywhere = namespace.is_none();
    let action = match words {
        ["scale", place, replicas] => {
            let target = target(place, namespace)?;
            ensure!(
                kind::is_scaled(target.kind),
                "a {} cannot be scaled; expected a Deployment, StatefulSet or ReplicaSet",
                target.kind.info().name
            );
            let replicas = replicas.strip_prefix("--replicas=").unwrap_or(replicas);
            let count = replicas.parse().ok().filter(|count| *count <= MOST_REPLICAS);
            let count =
                count.with_context(|| format!("{replicas:?} must be a number from 0 to {MOST_REPLICAS}"))?;
            return Ok(Action::Scale { target, replicas: count });
        }
        ["delete", place] => return Ok(Action::Delete { target: target(place, namespace)? }),
        ["apply", "-f", file] | ["apply", file] => Action::Apply { objects: read(file)? },
        ["cordon", node] => Action::Cordon { node: name(node)? },
        ["drain", node] => Action::Drain { node: name(node)? },
        ["add-node", node] => Action::AddNode { name: name(node)? },
        [] => bail!("an action is missing: {ACTIONS}"),
        ["scale", ..] => bail!("must be 'scale KIND/NAME N', such as 'scale deployment/web 5'"),
        ["delete", ..] => bail!("must be 'delete KIND/NAME', such as 'delete pod/web-0'"),
        ["apply", ..] => bail!("must be 'apply FILE', such as 'apply more.yaml'"),
        [known @ ("cordon" | "drain" | "add-node"), ..] => {
            bail!("must be '{known} NAME', such as '{known} node-1'")
        }
        [unknown, ..] => bail!("{unknown:?} is not an action; expected {ACTIONS}"),
    };
    ensure!(anywhere, "-n is valid only with scale and delete");
    Ok(action)
}

fn target(text: &str, namespace: Option<String>) -> Result<ActionTarget> {
    let (kind, place) = text
        .split_once('/')
        .with_context(|| format!("{text:?} must be KIND/NAME, such as deployment/web"))?;
    Ok(ActionTarget { kind: kind_named(kind)?, namespace, name: name(place)? })
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
