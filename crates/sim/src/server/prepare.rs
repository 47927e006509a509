//! What becomes of a new object before it is looked at: defaults, a first status, what admission adds.

use super::defaults;
use super::patch::drop_nulls;
use super::refusal::Refusal;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use serde_json::Value;

pub fn created(cluster: &Cluster, kind: Kind, object: &mut Value) -> Result<(), Refusal> {
    drop_nulls(object);
    defaults::fill(kind, object);
    defaults::initial_status(kind, object);
    if kind == Kind::Pod {
        admit_pod(cluster, object)?;
    }
    Ok(())
}

fn admit_pod(cluster: &Cluster, pod: &mut Value) -> Result<(), Refusal> {
    let _ = (cluster, pod);
    Ok(())
}
