//! The object that a command is about: `pod/web`, `podseq/shop`, `order/agents` or `ticket/a`; and the groups of a sequence.

use anyhow::{Result, bail};
use rollcall_api::names;
use rollcall_core::sequence::Spec;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandTarget {
    Pod(String),
    Sequence(String),
    Order(String),
    Ticket(String),
}

impl CommandTarget {
    /// Parses `KIND/NAME`, or `KIND` and `NAME`, in the forms that kubectl accepts.
    pub fn parse(words: &[String]) -> std::result::Result<CommandTarget, String> {
        let (kind, name) = match words {
            [one] => one.split_once('/').ok_or_else(|| {
                format!("\"{one}\" has no kind; expected for example pod/{one} or podseq/{one}")
            })?,
            [kind, name] if !kind.contains('/') && !name.contains('/') => (kind.as_str(), name.as_str()),
            _ => return Err(format!("expected KIND/NAME or KIND NAME, not \"{}\"", words.join(" "))),
        };
        if name.is_empty() || name.contains('/') {
            return Err(format!("\"{name}\" is not an object name; expected KIND/NAME"));
        }
        let kind = kind.to_ascii_lowercase();
        // The API group may follow the kind, as in `order.core.korder.dev`.
        let (word, group) = kind.split_once('.').map_or((&*kind, None), |(word, group)| (word, Some(group)));
        let of = |ours: &str| group.is_none_or(|group| group == ours);
        match word {
            "pod" | "pods" | "po" if group.is_none() => Ok(CommandTarget::Pod(name.into())),
            "podseq" | "podsequence" | "podsequences" if of(names::SEQUENCE_GROUP) => {
                Ok(CommandTarget::Sequence(name.into()))
            }
            "order" | "orders" if of(names::KORDER_GROUP) => Ok(CommandTarget::Order(name.into())),
            "ticket" | "tickets" if of(names::KORDER_GROUP) => Ok(CommandTarget::Ticket(name.into())),
            _ => Err(format!("unknown kind \"{kind}\"; expected pod, podseq, order or ticket")),
        }
    }
}

/// Returns the position of the group that a flag names, by its title or as `Group N`.
pub fn group(spec: &Spec, sequence: &str, option: &str, name: &str) -> Result<usize> {
    let by_title = spec.groups.iter().position(|group| *group.title == *name);
    let number = name.strip_prefix("Group ").and_then(|number| number.parse::<usize>().ok());
    let by_number = || number?.checked_sub(1).filter(|position| *position < spec.groups.len());
    match by_title.or_else(by_number) {
        Some(position) => Ok(position),
        None => bail!("{option}: podsequence {sequence} has no group \"{name}\"; it has {}", titles(spec)),
    }
}

/// Lists the groups of a sequence for messages.
pub fn titles(spec: &Spec) -> String {
    spec.groups.iter().map(|group| format!("\"{}\"", group.title)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::CommandTarget;

    #[test]
    fn as_kubectl_takes_them() {
        let parse = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            match CommandTarget::parse(&words) {
                Ok(target) => format!("{target:?}"),
                Err(error) => error,
            }
        };
        let lines = [
            "pod/web",
            "pod web",
            "PODS/web",
            "podseq/shop",
            "podsequence.scheduling.example.com/shop",
            "pod.scheduling.example.com/web",
            "order/agents",
            "tickets.core.korder.dev/agents-n1",
            "order.example.com/agents",
            "web",
            "deployment/web",
            "pod/",
            "pod/web/x",
            "pod/a pod/b",
        ];
        let answers: String = lines.iter().map(|line| format!("{line} → {}\n", parse(line))).collect();
        insta::assert_snapshot!(answers);
    }
}
