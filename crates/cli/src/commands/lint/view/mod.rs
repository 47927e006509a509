//! Facts about the manifests that several rules use.

pub mod claims;
pub mod nodes;
pub mod pods;
pub mod schedule;

pub use claims::{Claims, Sequence};

use super::manifests::Manifests;
use std::cell::OnceCell;
use std::ops::Deref;

/// The manifests, with facts that are computed once for all rules.
pub struct ManifestFacts<'a> {
    manifests: &'a Manifests<'a>,
    claims: OnceCell<Claims<'a>>,
}

impl<'a> ManifestFacts<'a> {
    pub fn new(manifests: &'a Manifests<'a>) -> ManifestFacts<'a> {
        ManifestFacts { manifests, claims: OnceCell::new() }
    }

    pub fn claims(&self) -> &Claims<'a> {
        self.claims.get_or_init(|| Claims::from_manifests(self.manifests))
    }
}

impl<'a> Deref for ManifestFacts<'a> {
    type Target = Manifests<'a>;

    fn deref(&self) -> &Manifests<'a> {
        self.manifests
    }
}
