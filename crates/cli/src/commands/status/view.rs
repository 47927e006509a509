//! The data shown for a sequence.

use jiff::Timestamp;
use rollcall_api::sequence::{Phase, PodSequenceStatus, SequenceObject};
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SequenceView {
    pub namespace: String,
    pub name: String,
    pub created: Timestamp,
    pub generation: i64,
    pub status: PodSequenceStatus,
}

impl SequenceView {
    pub fn new(object: &SequenceObject) -> SequenceView {
        let meta = &object.metadata;
        SequenceView {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            created: meta.created(),
            generation: meta.generation.unwrap_or_default(),
            status: object.status().unwrap_or_default(),
        }
    }

    /// The final phase, if the sequence has reached one. A phase that describes an older spec does not count.
    pub fn settled(&self) -> Option<Phase> {
        let current = self.status.observed_generation.unwrap_or_default() >= self.generation;
        match self.status.phase {
            Some(phase @ (Phase::Completed | Phase::Failed)) if current => Some(phase),
            Some(_) | None => None,
        }
    }

    pub fn phase(&self) -> &'static str {
        self.status.phase.map_or("", Phase::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn an_end_of_an_older_spec_is_none() {
        let settled = |phase: &str, observed: i64| {
            let mut shop = testing::shop_in_progress();
            shop["metadata"]["generation"] = 2.into();
            shop["status"]["phase"] = phase.into();
            shop["status"]["observedGeneration"] = observed.into();
            SequenceView::new(&testing::sequence(shop)).settled()
        };
        assert_eq!(settled("Completed", 2), Some(Phase::Completed));
        assert_eq!(settled("Failed", 2), Some(Phase::Failed));
        assert_eq!(settled("Completed", 1), None);
        assert_eq!(settled("InProgress", 2), None);
    }
}
