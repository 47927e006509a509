//! Replaces names that differ in every run of a scenario.
//!
//! Template hashes are numbered per owner in order of appearance, and so are the Jobs of a CronJob, whose names contain a
//! time. Random suffixes become `*`. A uid is replaced with the name of its object.

use super::mask::{hide_uids, is_time};
use super::recorder::Event;
use rollcall_sim::kinds::Kind;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Length of random suffixes of names.
const SUFFIX: usize = 5;

pub struct Words {
    /// Longest first, so that a name is replaced before a part of it.
    texts: Vec<(String, String)>,
    uids: BTreeMap<String, String>,
    /// Name prefixes of the pods of ReplicaSets.
    starts: BTreeSet<String>,
    /// Whether the nodes of pods are ignored.
    anywhere: bool,
    /// Whether a real kubelet runs instead of kwok.
    pub kubelet: bool,
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

impl Words {
    pub fn new(events: &[Event], anywhere: bool, kubelet: bool) -> Words {
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        let mut numbers: BTreeMap<(Kind, String), usize> = BTreeMap::new();
        let mut number = |kind: Kind, owner: &str| {
            let number = numbers.entry((kind, owner.to_owned())).or_default();
            *number += 1;
            *number
        };
        for event in events {
            let object = &event.object;
            let name = text(object, "/metadata/name");
            let owner = text(object, "/metadata/ownerReferences/0/name");
            let owner_kind = text(object, "/metadata/ownerReferences/0/kind");
            match event.kind {
                Kind::ReplicaSet | Kind::ControllerRevision if !owner.is_empty() => {
                    let hash = name.strip_prefix(&format!("{owner}-")).unwrap_or(name);
                    if !texts.contains_key(hash) {
                        texts.insert(hash.to_owned(), format!("HASH{}", number(event.kind, owner)));
                    }
                }
                Kind::Job if owner_kind == "CronJob" && !texts.contains_key(name) => {
                    texts.insert(name.to_owned(), format!("{owner}-@{}", number(event.kind, owner)));
                }
                _ => {}
            }
        }
        let texts = texts.into_iter().collect();
        let mut words = Words { texts, uids: BTreeMap::new(), starts: BTreeSet::new(), anywhere, kubelet };
        words.sort();
        let sets = events.iter().filter(|event| event.kind == Kind::ReplicaSet);
        words.starts = sets.map(|event| format!("\"{}-", text(&event.object, "/metadata/name"))).collect();
        let mut generated = BTreeSet::new();
        for event in events {
            let start = text(&event.object, "/metadata/generateName");
            let name = text(&event.object, "/metadata/name");
            // StatefulSets set `generateName`, too, although they name their pods themselves.
            if !start.is_empty() && name.len() == start.len() + SUFFIX && name.starts_with(start) {
                generated.insert((name.to_owned(), format!("{}*", words.said(start))));
            }
        }
        words.texts.extend(generated);
        words.sort();
        for event in events {
            let uid = text(&event.object, "/metadata/uid").to_owned();
            let called = format!("uid of {}", words.said(text(&event.object, "/metadata/name")));
            words.uids.insert(uid, called);
        }
        words
    }

    fn sort(&mut self) {
        self.texts.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    }

    /// A text with all replacements.
    pub fn said(&self, text: &str) -> String {
        if is_time(text) {
            return "TIME".into();
        }
        let mut said = hide_uids(text, &self.uids);
        // A rejected pod is only known from the message of its rejection.
        for start in &self.starts {
            if let Some(at) = said.find(start.as_str()) {
                let from = at + start.len();
                if said[from..].find('"') == Some(SUFFIX) {
                    said.replace_range(from..from + SUFFIX, "*");
                }
            }
        }
        for (from, to) in &self.texts {
            if said.contains(from.as_str()) {
                said = said.replace(from.as_str(), to);
            }
        }
        if let Some(at) = said.find("kube-api-access-") {
            said.truncate(at);
            said.push_str("kube-api-access-*");
        }
        said
    }

    /// An object with all replacements.
    pub fn tell(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields
                    .iter()
                    .filter(|(name, _)| !matches!(name.as_str(), "resourceVersion" | "managedFields"));
                kept.map(|(name, value)| (self.said(name), self.tell_field(name, value))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.tell(item)).collect(),
            Value::String(text) => self.said(text).into(),
            plain => plain.clone(),
        }
    }

    fn tell_field(&self, name: &str, value: &Value) -> Value {
        match name {
            "podIP" | "hostIP" | "ip" | "clusterIP" if value.is_string() && value != "None" => {
                "ADDRESS".into()
            }
            "clusterIPs" if value[0] != "None" => "ADDRESSES".into(),
            "containerID" => "ID".into(),
            "nodeName" if self.anywhere && value.is_string() => "NODE".into(),
            _ => self.tell(value),
        }
    }
}
