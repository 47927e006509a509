//! What `explain` has to read for the order of containers: the ConfigMap of the pod, and whether the pod asked for an order.

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

/// Looks at the ConfigMap of a pod whose containers wait.
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
        Err(error) if has_code(&error, 403) => loaded
            .gaps
            .push(format!("not allowed to get configmap {}: whose it is, is not known", target.name)),
        Err(error) => return Err(connection.explained(error, &format!("get configmap {}", target.name))),
    }
    Ok(())
}

/// A line for a pod that asks for an order and was created without it.
pub async fn unordered(connection: &Connection, loaded: &Loaded, name: &str) -> Result<Option<Line>> {
    let pod = loaded.pod(name)?;
    if pod.launch.as_deref().is_some_and(|launch| !launch.containers.is_empty()) {
        return Ok(None);
    }
    let target = Target::of_pod(pod);
    let object: Value = match get(connection, &target).await {
        Ok(object) => object,
        // Who may only list pods is told the rest.
        Err(error) if has_code(&error, 404) || has_code(&error, 403) => return Ok(None),
        Err(error) => return Err(connection.explained(error, &format!("get pod {name}"))),
    };
    let wants =
        asks_for_order(&object) && read(&written_pod(&object)).is_ok_and(|reading| reading.order.is_some());
    Ok(wants.then(|| {
        let text = format!(
            "{name} asks for an order of its containers and was created without one: the webhook of launch order did not see it"
        );
        let doctor = Hint::Advice("see whether the webhook is there, and create the pod anew: rollcall doctor".into());
        Line::new("NotOrdered", text, pod.created, target).hint(doctor)
    }))
}

async fn get<T: serde::de::DeserializeOwned>(connection: &Connection, target: &Target) -> kube::Result<T> {
    let resource = Resource::of(target.kind);
    let request = Request::new(resource.path(Some(&target.namespace)))
        .get(&target.name, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    connection.client.request(request).await
}
