//! Verifies the start order from the audit log of the API server: the committed writes in the order of their resourceVersions.
//! It uses neither clocks nor the output of the controller.
//!
//! ```text
//! audit log ─▶ History: every version of every pod and sequence ─▶ S1 S2 S6 S7 S9, the start limit
//! ```
//!
//! The rules are implemented here a second time, from the documentation of the API. Code shared with the controller could have
//! the same mistakes.

mod history;
mod judge;
mod placed;

pub use history::History;
pub use placed::Placed;

use std::collections::BTreeMap;
use std::fmt;

use rollcall_testbed::AuditEvent;

/// A violation of one of the invariants.
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

/// Facts that the audit log does not contain.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The user whose writes are checked.
    pub account: String,
    /// The namespace of the pods.
    pub namespace: String,
    /// Expected number of members by sequence and group, for groups with a selector: the number of pods that the owners want.
    /// Without an entry, all existing members must have arrived, and at least one.
    pub expected: BTreeMap<(String, String), u64>,
    /// Other namespaces whose sequences may release pods here.
    pub cross_namespace: Vec<Guest>,
    /// Whether sequences have Node scope. [`Placed`] checks where their pods run; this verifier only checks that writes change
    /// nothing but the gate and Rollcall's own node requirements.
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

/// Returns all violations in a log.
pub fn verify(events: &[AuditEvent], rules: &Rules) -> Vec<Violation> {
    judge::judge(&History::from_events(events, rules), rules)
}
