//! Conditions, and the reasons why they do not hold yet.

mod file;
mod network;

use crate::marker;
use std::fmt;
use std::path::{Path, PathBuf};

pub use file::name_of;
pub use network::{Address, Trust, Url};

/// A condition to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A marker file of an agent. With `plain`, any existing file counts.
    Marker { path: PathBuf, plain: bool },
    /// A file or a device.
    File(PathBuf),
    /// A unix socket with a listening program.
    Socket(PathBuf),
    /// A port that accepts connections.
    Tcp(Address),
    /// A URL that answers with 2xx.
    Http(Url, Trust),
}

impl Condition {
    /// Checks the condition once. Network conditions take at most [`network::LIMIT`].
    pub fn probe(&self) -> Result<(), String> {
        match self {
            Condition::Marker { path, plain: false } => marker::judge(path),
            Condition::Marker { path, plain: true } | Condition::File(path) => file::is_there(path),
            Condition::Socket(path) => file::is_listened_on(path),
            Condition::Tcp(address) => address.accepts(),
            Condition::Http(url, trust) => url.answers(trust),
        }
    }

    /// The file whose creation triggers a check.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Condition::Marker { path, .. } | Condition::File(path) | Condition::Socket(path) => Some(path),
            Condition::Tcp(_) | Condition::Http(..) => None,
        }
    }

    /// A hint for a condition that does not become true.
    pub fn hint(&self) -> &'static str {
        match self {
            Condition::Marker { .. } => "check that the agent that writes this marker is ready on this node",
            Condition::File(_) => "check that the program that creates this file runs on this node",
            Condition::Socket(_) => "check that the program that listens there is ready on this node",
            Condition::Tcp(_) | Condition::Http(..) => "check that the server there is ready",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Marker { path, .. } => write!(f, "marker {}", path.display()),
            Condition::File(path) => write!(f, "file {}", path.display()),
            Condition::Socket(path) => write!(f, "socket {}", path.display()),
            Condition::Tcp(address) => write!(f, "tcp {address}"),
            Condition::Http(url, _) => write!(f, "{url}"),
        }
    }
}

/// The reason for a file that is not found.
pub fn unseen(path: &Path) -> String {
    file::unseen(path, &std::io::ErrorKind::NotFound.into())
}

/// A system error in few words, without "(os error 2)".
pub fn in_words(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "not found".into(),
        ErrorKind::PermissionDenied => "permission denied".into(),
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::TimedOut => "no answer".into(),
        _ => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            let mut letters = text.chars();
            let first = letters.next().map(|letter| letter.to_ascii_lowercase());
            first.into_iter().chain(letters).collect()
        }
    }
}
