//! The answer of the core, made to be pasted: container, namespace and program where commands need them.

use crate::cli;
use crate::connect::Connection;
use crate::load::Loaded;
use rollcall_core::sequence::explain::Line;
use serde::Serialize;

/// One line of the answer, with what it rests on below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Node>,
}

/// How commands have to be written for this caller.
pub struct Voice {
    program: &'static str,
    /// ` -n NAMESPACE`, where the context has another one.
    flag: String,
}

impl Voice {
    pub fn new(connection: &Connection, namespace: &str) -> Voice {
        let elsewhere = connection.elsewhere || namespace != connection.namespace;
        let flag = if elsewhere { format!(" -n {namespace}") } else { String::new() };
        Voice { program: cli::program(), flag }
    }

    /// For those who are in the right namespace.
    pub fn plain() -> Voice {
        Voice { program: "rollcall", flag: String::new() }
    }

    #[cfg(test)]
    pub fn plugin_elsewhere() -> Voice {
        Voice { program: "kubectl rollcall", flag: " -n staging".into() }
    }

    fn adapted(&self, hint: &str) -> String {
        let Voice { program, flag } = self;
        hint.replace("rollcall release ", &format!("{program} release{flag} "))
            .replace("kubectl logs ", &format!("kubectl logs{flag} "))
            .replace("kubectl describe pod ", &format!("kubectl describe pod{flag} "))
            // The controller is always where it is.
            .replace(&format!("kubectl logs{flag} -n "), "kubectl logs -n ")
    }
}

impl Node {
    pub fn new(line: Line, loaded: &Loaded, voice: &Voice) -> Node {
        let code = line.code();
        let Line { text, reason: _, hint, pod, below } = line;
        let container = pod.as_deref().and_then(|pod| troubled_container(loaded, pod));
        let hint = hint.filter(|hint| !hint.is_empty()).map(|hint| match (&pod, container) {
            (Some(pod), Some(container)) => {
                let logs = format!("kubectl logs {pod}");
                hint.replace(&logs, &format!("{logs} -c {container}"))
            }
            (_, _) => hint,
        });
        Node {
            text,
            code,
            pod: pod.map(|pod| pod.to_string()),
            hint: hint.map(|hint| voice.adapted(&hint)),
            below: below.into_iter().map(|line| Node::new(line, loaded, voice)).collect(),
        }
    }

    pub fn said(text: String) -> Node {
        Node { text, code: None, pod: None, hint: None, below: Vec::new() }
    }
}

fn troubled_container(loaded: &Loaded, pod: &str) -> Option<String> {
    let pod = loaded.index.cluster.pod_named(&loaded.namespace, pod)?;
    pod.trouble.as_ref()?.container.as_ref().map(|container| container.to_string())
}
