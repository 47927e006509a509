//! Imports that most rules need.

pub use crate::commands::lint::field::Field;
pub use crate::commands::lint::manifests::{Manifests, Object};
pub use crate::commands::lint::rule::{Findings, Rule, Severity};
pub use crate::commands::lint::view::claims::gets_gate_at_admission;
pub use crate::commands::lint::view::pods::{PodTemplate, templates, templates_of};
pub use crate::commands::lint::view::{Claims, ManifestFacts, Sequence};
pub use rollcall_sim::kinds::Kind;
