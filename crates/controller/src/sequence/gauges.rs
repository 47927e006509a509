//! Gauges of the held, released and arrived members of sequences.

use crate::metrics::{ByState, Metrics};
use rollcall_core::Uid;
use rollcall_core::sequence::Status;
use std::collections::BTreeMap;

/// Contribution of each sequence to the gauges: held, released, arrived.
#[derive(Default)]
pub struct Gauges {
    counted: BTreeMap<Uid, [i64; 3]>,
}

impl Gauges {
    pub fn count(&mut self, sequence: Uid, status: &Status, metrics: &Metrics) {
        let mut new = [0i64; 3];
        for group in &status.groups {
            new[0] += i64::from(group.present - group.released);
            new[1] += i64::from(group.released);
            new[2] += i64::from(group.arrived);
        }
        let old = self.counted.insert(sequence, new).unwrap_or_default();
        adjust(metrics, old, new);
    }

    pub fn forget(&mut self, sequence: Uid, metrics: &Metrics) {
        if let Some(old) = self.counted.remove(&sequence) {
            adjust(metrics, old, [0; 3]);
        }
    }
}

fn adjust(metrics: &Metrics, old: [i64; 3], new: [i64; 3]) {
    for (position, state) in ["held", "released", "arrived"].into_iter().enumerate() {
        metrics.pods.get_or_create(&ByState { state }).inc_by(new[position] - old[position]);
    }
}
