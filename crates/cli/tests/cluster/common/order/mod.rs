//! Proof of order, from the audit log of the API server: what was committed, in the order of its resourceVersions.
//! Neither the clock nor the controller's own words count.
//!
//! ```text
//! audit log ─▶ History: every version of every pod and sequence ─▶ S1 S2 S6 S7 S9, the start limit
//! ```
//!
//! The rules are written down here a second time, from the documentation of the API, on purpose: what they share with
//! the controller would be wrong in both.

mod history;
mod judge;
mod placed;

pub use history::History;
pub use placed::Placed;

use std::collections::BTreeMap;
use std::fmt;

use rollcall_testbed::AuditEvent;

/// A breach of one of the invariants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

/// What cannot be read off the log.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whose writes are judged.
    pub account: String,
    /// The namespace of the pods.
    pub namespace: String,
    /// How many members a group with a selector must have, by sequence and group: what the owners of its pods ask
    /// for. Without a number, all that there are must have arrived, and at least one.
    pub expected: BTreeMap<(String, String), u64>,
    /// Other namespaces whose sequences are allowed here.
    pub cross_namespace: Vec<Guest>,
    /// The controller follows sequences of Node scope. Where their pods land is judged by [`Placed`]; here is seen to it that
    /// nothing but the gate and our own requirements on nodes has changed.
    pub by_node: bool,
}

/// A permission for sequences of another namespace, from one resourceVersion to another.
#[derive(Clone, Debug)]
pub struct Guest {
    pub namespace: String,
    pub since: u64,
    pub until: u64,
}

impl Rules {
    pub fn new(account: &str, namespace: &str) -> Rules {
        Rules {
            account: account.to_owned(),
            namespace: namespace.to_owned(),
            expected: BTreeMap::new(),
            cross_namespace: Vec::new(),
            by_node: false,
        }
    }
}

/// All breaches in a log, with what the rules say about it.
pub fn verify(events: &[AuditEvent], rules: &Rules) -> Vec<Violation> {
    judge::judge(&History::of(events, rules), rules)
}
