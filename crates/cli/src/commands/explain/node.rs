//! The core's explanation, prepared for output: commands include the program name and the namespace that the user has to type.

use crate::cli;
use crate::connect::Connection;
use jiff::Timestamp;
use rollcall_api::resource::Resource;
use rollcall_core::Uid;
use rollcall_core::cluster::Target;
use rollcall_core::kind::Kind;
use rollcall_core::line::{Command, Hint, Line, Program};
use serde::Serialize;

/// One line of the explanation, with its causes below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    pub code: &'static str,
    pub text: String,
    pub since: Timestamp,
    pub object: ObjectReference,
    pub hints: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Node>,
    /// Whether the cause lies in this pod, so that its events are worth reading.
    #[serde(skip)]
    pub blames_pod: bool,
}

/// The object of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectReference {
    pub kind: &'static str,
    /// Empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// Missing if the object does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// How to write commands for this caller.
pub struct CommandStyle {
    program: &'static str,
    /// Namespace that commands need not name, because it is the default of the caller's context.
    namespace: Option<String>,
}

impl CommandStyle {
    pub fn new(connection: &Connection) -> CommandStyle {
        let namespace = (!connection.elsewhere).then(|| connection.namespace.clone());
        CommandStyle { program: cli::program(), namespace }
    }

    /// The style for a caller whose default namespace is this one.
    pub fn of_namespace(namespace: &str) -> CommandStyle {
        CommandStyle { program: "rollcall", namespace: Some(namespace.to_owned()) }
    }

    #[cfg(test)]
    pub fn plugin_elsewhere() -> CommandStyle {
        CommandStyle { program: "kubectl rollcall", namespace: None }
    }

    fn written(&self, hint: Hint) -> String {
        let (purpose, command) = match hint {
            Hint::Advice(text) => return text,
            Hint::Command { purpose, command } => (purpose, command),
        };
        let Command { program, verb, namespace, arguments } = command;
        let program = match program {
            Program::Kubectl => "kubectl",
            Program::Rollcall => self.program,
        };
        let elsewhere = namespace.filter(|namespace| self.namespace.as_deref() != Some(&**namespace));
        let flag = elsewhere.map_or(String::new(), |namespace| format!(" -n {namespace}"));
        let purpose = purpose.map_or(String::new(), |purpose| format!("{purpose}: "));
        format!("{purpose}{program} {verb}{flag} {arguments}")
    }
}

impl Node {
    pub fn new(line: Line, style: &CommandStyle) -> Node {
        let Line { code, text, since, object, hints, reason, below } = line;
        let blames_pod = reason.is_some() && object.kind == Kind::Pod;
        Node {
            code,
            text,
            since,
            object: ObjectReference::from(object),
            hints: hints.into_iter().map(|hint| style.written(hint)).collect(),
            below: below.into_iter().map(|line| Node::new(line, style)).collect(),
            blames_pod,
        }
    }

    /// Creates a line for an event about this line's object.
    pub fn event(&self, text: String, at: Timestamp) -> Node {
        let (object, hints, below) = (self.object.clone(), Vec::new(), Vec::new());
        Node { code: "Event", text, since: at, object, hints, below, blames_pod: false }
    }
}

impl From<Target> for ObjectReference {
    fn from(target: Target) -> ObjectReference {
        let Target { kind, namespace, name, uid } = target;
        let (namespace, name) = (namespace.to_string(), name.to_string());
        let uid = uid.as_ref().map(Uid::to_string);
        ObjectReference { kind: Resource::from_kind(kind).kind, namespace, name, uid }
    }
}
