//! ReplicaSets: as many pods as are wanted.

use super::Actor;
use crate::cluster::Cluster;
use crate::store::Change;
use jiff::Timestamp;

#[derive(Default)]
pub struct ReplicaSets;

impl Actor for ReplicaSets {
    fn heard(&mut self, _: &Change, _: &Cluster) {}

    fn act(&mut self, _: &mut Cluster) -> Option<Timestamp> {
        None
    }
}
