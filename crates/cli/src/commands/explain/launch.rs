//! Objects that `explain` reads for pods with a container start order: the barrier ConfigMap, and whether the pod requested an
//! order.

use crate::connect::Connection;
use crate::load::{Loaded, has_code};
use anyhow::Result;
use kube::api::GetParams;
use kube::core::Request;
use rollcall_api::launch::{BarrierObject, asks_for_order, written_pod};
use rollcall_api::resource::Resource;
use rollcall_core::cluster::Target;
use rollcall_core::index::Object;
use rollcall_core::launch::barrier_target;
use rollcall_core::launch::facts::{Launch, is_alive, is_gated};
use rollcall_core::launch::ranks::read;
use rollcall_core::line::{Hint, Line};
use serde_json::Value;

/// Loads the barrier ConfigMap of a pod whose containers wait.
pub async fn look(connection: &Connection, loaded: &mut Loaded, name: &str) -> Result<()> {
    let pod = loaded.pod(name)?;
    let stuck = |launch: &Launch| launch.current().is_some_and(|rank| launch.is_stuck(rank));
    let waits = pod.launch.as_deref().is_some_and(|launch| {
        is_alive(pod) && !launch.containers.is_empty() && (is_gated(pod) || stuck(launch))
    });
    if !waits {
        return Ok(());
    }
    let (uid, target) = (pod.uid, barrier_target(pod));
    match get::<BarrierObject>(connection, &target).await {
        Ok(found) => loaded.index.apply(Object::Barrier(found.facts(uid))),
        Err(error) if has_code(&error, 404) => loaded.index.barrier_absent(uid),
        Err(error) if has_code(&error, 403) => {
            loaded.gaps.push(format!("not allowed to get configmap {}: its owner is unknown", target.name))
        }
        Err(error) => return Err(connection.explained(error, &format!("get configmap {}", target.name))),
    }
    Ok(())
}

/// Returns a line for a pod that requests a container order but was created without one.
pub async fn unordered(connection: &Connection, loaded: &Loaded, name: &str) -> Result<Option<Line>> {
    let pod = loaded.pod(name)?;
    if pod.launch.as_deref().is_some_and(|launch| !launch.containers.is_empty()) {
        return Ok(None);
    }
    let target = Target::of_pod(pod);
    let object: Value = match get(connection, &target).await {
        Ok(object) => object,
        // Without permission to get the pod, the rest of the answer still holds.
        Err(error) if has_code(&error, 404) || has_code(&error, 403) => return Ok(None),
        Err(error) => return Err(connection.explained(error, &format!("get pod {name}"))),
    };
    let wants =
        asks_for_order(&object) && read(&written_pod(&object)).is_ok_and(|reading| reading.order.is_some());
    Ok(wants.then(|| {
        let text = format!(
            "{name} requests a container order but was created without one: the launch webhook did not process it"
        );
        let doctor = Hint::Advice("check the webhook with `rollcall doctor`, then re-create the pod".into());
        Line::new("NotOrdered", text, pod.created, target).hint(doctor)
    }))
}

async fn get<T: serde::de::DeserializeOwned>(connection: &Connection, target: &Target) -> kube::Result<T> {
    let resource = Resource::from_kind(target.kind);
    let request = Request::new(resource.path(Some(&target.namespace)))
        .get(&target.name, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    connection.client.request(request).await
}
