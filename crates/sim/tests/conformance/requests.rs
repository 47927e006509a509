//! Requests, grouped by topic. Each topic is a file in `requests/` and has its own namespace.
//!
//! A request is a line, with an optional body:
//!
//! | line | |
//! |---|---|
//! | `GET pods/a` | in the namespace of the topic, or cluster-scoped for such kinds; `/api/…` is used as it is |
//! | `POST pods: {…}` | as JSON; `like: NAME` in an object merges it into the object NAME in `given` |
//! | `PATCH merge pods/a: {…}` | or `json`, `strategic`, `apply`, `nonsense` |
//! | `POST raw pods: text` | sends the text unchanged |
//! | `WATCH 2 pods?…` | reads this many events of a watch, or `all` until it ends |
//! | `AWAIT 403 POST pods?dryRun=All: {…}` | repeats the request until the answer has this code, because admission sees
//! some objects later |
//! | `COMPACT` | compacts the history that watches can resume from |
//!
//! In lines and bodies, `$uid(pods/a)` and `$version(pods/a)` stand for the values in the last answer with this object.
//! `$name(pods/a-)` is the generated name, `$list` and `$token` are the version and the token of the last list, and `$ns`
//! is the namespace.

use super::mask::Names;
use super::side::{Answer, Side, kind, place};
use anyhow::{Context, Result, bail};
use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Time limit of a watch. Expected events arrive immediately; watches that end do so after some seconds.
const WATCH_LIMIT: Duration = Duration::from_secs(20);
/// Time limit and interval of repeated requests.
const AWAIT_LIMIT: Duration = Duration::from_secs(60);
const AWAIT_POLL: Duration = Duration::from_millis(20);
const COMPACT: &str = "COMPACT";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Whether no other topic may run at the same time, because it uses objects outside its namespace.
    #[serde(default)]
    alone: bool,
    #[serde(default)]
    given: Map<String, Value>,
    requests: Vec<Value>,
}

#[derive(Clone)]
pub struct Topic {
    pub name: String,
    pub alone: bool,
    given: Map<String, Value>,
    requests: Vec<(String, Value)>,
}

impl Topic {
    pub fn parse(name: &str, text: &str) -> Result<Topic> {
        let file: File = serde_saphyr::from_str(text).with_context(|| format!("requests/{name}.yaml"))?;
        let parse = |request: Value| match request {
            Value::String(line) => Ok((line, Value::Null)),
            Value::Object(fields) if fields.len() == 1 => {
                fields.into_iter().next().context("a request is a line, and its body")
            }
            other => bail!("requests/{name}.yaml: a request is a line, and its body: {other}"),
        };
        let requests = file.requests.into_iter().map(parse).collect::<Result<_>>()?;
        Ok(Topic { name: name.to_owned(), alone: file.alone, given: file.given, requests })
    }

    pub fn namespace(&self) -> String {
        format!("topic-{}", self.name)
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.requests.iter().filter(|(line, _)| line != COMPACT).count()
    }

    /// Sends all requests in order. Returns each answer with its line.
    pub async fn run(&self, side: &Side, compact: &dyn Fn()) -> Result<Vec<(String, Value)>> {
        let mut seen = Seen { namespace: self.namespace(), ..Seen::default() };
        let mut answers = Vec::new();
        for (number, (line, body)) in self.requests.iter().enumerate() {
            let at = format!("requests/{} {}: {line}", self.name, number + 1);
            if line == COMPACT {
                compact();
                continue;
            }
            let body = filled_in(&self.given, body);
            let answer = awaited(side, &mut seen, line, &body).await.with_context(|| at.clone())?;
            answers.push((at, answer));
        }
        let mut names = Names::default();
        answers.iter().for_each(|(_, answer)| names.learn(answer));
        answers.iter_mut().for_each(|(_, answer)| names.mask(answer));
        Ok(answers)
    }
}

/// Merges objects with a `like` field into the given object of that name.
pub fn filled_in(given: &Map<String, Value>, value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let model = fields.get("like").and_then(Value::as_str).and_then(|name| given.get(name));
            let mut whole = model.map(|model| filled_in(given, model)).unwrap_or_else(|| json!({}));
            for (name, value) in fields.iter().filter(|(name, _)| model.is_none() || *name != "like") {
                merge(&mut whole[name], filled_in(given, value));
            }
            whole
        }
        Value::Array(items) => items.iter().map(|item| filled_in(given, item)).collect(),
        plain => plain.clone(),
    }
}

pub fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            more.into_iter().for_each(|(name, value)| merge(into.entry(name).or_insert(Value::Null), value));
        }
        (into, more) => *into = more,
    }
}

/// Sends a request once, or until the answer has the expected code.
async fn awaited(side: &Side, seen: &mut Seen, line: &str, body: &Value) -> Result<Value> {
    let Some((code, line)) = line.strip_prefix("AWAIT ").and_then(|rest| rest.split_once(' ')) else {
        return ask(side, seen, line, body).await;
    };
    let code: u16 = code.parse().context("a code")?;
    let deadline = Instant::now() + AWAIT_LIMIT;
    loop {
        let answer = ask(side, seen, line, body).await?;
        if answer["code"] == code || Instant::now() > deadline {
            return Ok(answer);
        }
        tokio::time::sleep(AWAIT_POLL).await;
    }
}

async fn ask(side: &Side, seen: &mut Seen, line: &str, body: &Value) -> Result<Value> {
    let line = seen.in_words(line)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let (verb, how, path) = match words[..] {
        [verb, path] => (verb, "", path),
        [verb, how, path] => (verb, how, path),
        _ => bail!("a verb and a path"),
    };
    let path = seen.path(path)?;
    if verb == "WATCH" {
        return watch(side, seen, how, &path).await;
    }
    let content = match how {
        "" | "raw" => "application/json",
        "json" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        "nonsense" => "application/nonsense",
        other => bail!("no way to send {other:?}"),
    };
    let bytes = match body {
        Value::Null => Vec::new(),
        Value::String(text) if how == "raw" => text.clone().into_bytes(),
        body => seen.in_words(&body.to_string())?.into_bytes(),
    };
    let Answer { code, body } = side.send(verb, &path, content, bytes).await?;
    seen.note(&body);
    Ok(json!({ "code": code, "body": body }))
}

async fn watch(side: &Side, seen: &mut Seen, how_many: &str, path: &str) -> Result<Value> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let mut lines = side.watch(&format!("{path}{separator}watch=true")).await?;
    let wanted = how_many.parse().unwrap_or(usize::MAX);
    let mut events = Vec::new();
    while events.len() < wanted {
        let next = tokio::time::timeout(WATCH_LIMIT, lines.next()).await;
        match next.with_context(|| format!("no more than {events:?}"))? {
            Some(event) => events.push(event?),
            None => break,
        }
    }
    events.iter().for_each(|event| seen.note(&event["object"]));
    Ok(json!({ "events": events }))
}

/// The objects in the answers so far.
#[derive(Default)]
struct Seen {
    namespace: String,
    /// `pods/a` → its metadata.
    objects: BTreeMap<String, Value>,
    list: String,
    token: String,
}

impl Seen {
    fn note(&mut self, answer: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &answer["metadata"];
        if answer["items"].is_array() {
            self.list = text(&metadata["resourceVersion"]);
            self.token = text(&metadata["continue"]);
            return;
        }
        let Ok(kind) = kind(&text(&answer["kind"])) else { return };
        for name in [&metadata["name"], &metadata["generateName"]] {
            self.objects.insert(format!("{}/{}", kind.info().plural, text(name)), metadata.clone());
        }
    }

    fn path(&self, path: &str) -> Result<String> {
        if path.starts_with('/') {
            return Ok(path.to_owned());
        }
        let end = path.find(['/', '?']).unwrap_or(path.len());
        Ok(format!("{}{}", place(kind(&path[..end])?, Some(&self.namespace)), &path[end..]))
    }

    fn in_words(&self, text: &str) -> Result<String> {
        let mut out = text.replace("$ns", &self.namespace);
        out = out.replace("$list", &self.list).replace("$token", &escaped(&self.token));
        for (sign, field) in [("$uid(", "uid"), ("$version(", "resourceVersion"), ("$name(", "name")] {
            while let Some(at) = out.find(sign) {
                let end = at + out[at..].find(')').context("a bracket that is not closed")?;
                let object = &out[at + sign.len()..end];
                let metadata =
                    self.objects.get(object).with_context(|| format!("nothing was seen of {object}"))?;
                let value = metadata[field].as_str().unwrap_or_default().to_owned();
                out.replace_range(at..=end, &value);
            }
        }
        Ok(out)
    }
}

fn escaped(token: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => (byte as char).to_string(),
        byte => format!("%{byte:02X}"),
    };
    token.bytes().map(escape).collect()
}
