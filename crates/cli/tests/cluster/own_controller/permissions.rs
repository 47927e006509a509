//! Checks that the used permissions are exactly the granted ones: no request is forbidden, and no permission is unused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::lab::OWN_NAMESPACE;
use crate::common::make::{deployment, job, named, selected};
use crate::common::permissions::{Permission, granted, used};
use crate::common::*;
use rollcall_testbed::{AuditEvent, Fault, FaultProxy, WatchFault};

const LITE: &str = "config/rbac/rbac-lite.yaml";

#[tokio::test]
async fn used_and_granted_are_the_same() -> Result<()> {
    let lab = &Lab::own(rollcall_testbed::Options::default()).await?;
    let scene = Scene::without_controller(lab, "permissions").await?;
    let proxy = FaultProxy::start(lab.cluster())?;
    // While this is set, the watch of pods is silent, so the controller has to ask for the result of a lost answer.
    let deaf = Arc::new(AtomicBool::new(false));
    proxy.on_watch({
        let deaf = deaf.clone();
        move |watch| {
            if watch.path != "/api/v1/pods" {
                return WatchFault::Pass;
            }
            let deaf = deaf.clone();
            let heard = move |event| if deaf.load(Ordering::SeqCst) { Vec::new() } else { vec![event] };
            WatchFault::Rewrite(Box::new(heard))
        }
    });
    let options = Options {
        server_override: Some(proxy.url()),
        args: ["--leader-elect", "--lease-duration", "3s"].map(str::to_owned).to_vec(),
        ..Options::default()
    };
    let mut controller = Controller::start(lab, options).await?;

    // Groups by name and by selector, and owners of each kind; a note that is created, patched and deleted.
    let groups =
        [named("first", &["a"]), selected("web", "web"), selected("job", "job"), named("last", &["b"])];
    scene.sequence("s", &groups).await?;
    scene.pods(&["a"]).await?;
    scene.create_all([deployment("web", 1), job("job")]).await?;
    scene.released("a").await?;
    scene.edit("s", json!({"podGroups": [groups[0].clone(), groups[1].clone(), groups[2].clone()]})).await?;
    scene.phase("s", "Completed").await?;
    scene.event("s", "groups are complete").await?;

    // The answer to a release is lost, and the watch is silent.
    let lost = Arc::new(AtomicBool::new(false));
    proxy.on_write({
        let (lost, deaf) = (lost.clone(), deaf.clone());
        move |write| {
            let release = write.method == http::Method::PATCH && write.path.ends_with("/pods/lost");
            if release && !lost.swap(true, Ordering::SeqCst) {
                deaf.store(true, Ordering::SeqCst);
                return Fault::LoseAnswer;
            }
            Fault::Pass
        }
    });
    scene.sequence("unsure", &[named("first", &["lost"])]).await?;
    scene.pods(&["lost"]).await?;
    let asked = |event: &AuditEvent| event.user == ACCOUNT && event.verb == "get" && event.name == "lost";
    lab.cluster().audit().wait_for(LIMIT, asked).await?;
    assert!(lost.load(Ordering::SeqCst));
    deaf.store(false, Ordering::SeqCst);
    // The watch resumes from the last event that it delivered, so the missed events follow.
    proxy.cut_watches();
    scene.phase("unsure", "Completed").await?;

    scene.delete_and_wait("PodSequence", "s").await?;
    let no_note = |event: &AuditEvent| {
        event.user == ACCOUNT
            && event.verb == "delete"
            && event.resource == "configmaps"
            && event.is_committed()
    };
    lab.cluster().audit().wait_for(LIMIT, no_note).await?;
    let renewals = |event: &&AuditEvent| event.resource == "leases" && event.verb == "patch";
    let renewed = async || Ok((lab.events(renewals)?.len() >= 2).then_some(()));
    wait::until("a renewal of the lease", LIMIT, renewed).await?;
    assert!(controller.stop().await?.success());

    let events = lab.events(|event| event.user == ACCOUNT)?;
    let refused: Vec<&AuditEvent> = events.iter().filter(|event| event.status_code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let (everywhere, own) = (granted(LITE, "ClusterRole")?, granted(LITE, "Role")?);
    assert!(everywhere.len() > 10 && own.len() > 5, "{everywhere:?} {own:?}");
    let all: BTreeSet<Permission> = events.iter().map(used).collect();
    assert_eq!(all, everywhere.union(&own).cloned().collect());
    // In its own namespace, the controller uses exactly the permissions of the Role, and none of the ClusterRole's.
    let mine: BTreeSet<Permission> =
        events.iter().filter(|event| event.namespace == OWN_NAMESPACE).map(used).collect();
    assert_eq!(mine, own);
    let lease = |event: &&AuditEvent| event.resource == "leases" && event.verb != "create";
    assert!(events.iter().filter(lease).all(|event| event.name == "pod-sequence-controller.example.com"));
    scene.done().await
}

#[tokio::test]
async fn what_is_not_needed_is_not_granted() -> Result<()> {
    let lab = Lab::bare().await?;
    let may = |verb: &str, resource: &str| -> Result<bool> {
        let account = format!("--as={ACCOUNT}");
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let subresource = format!("--subresource={subresource}");
        let args = ["auth", "can-i", verb, resource, &subresource, "--all-namespaces", &account];
        Ok(lab.cluster().kubectl(&args)?.status.success())
    };
    assert!(may("patch", "pods")? && may("patch", "podsequences/status")?);
    for (verb, resource) in [
        ("update", "pods"),
        ("delete", "pods"),
        ("create", "pods"),
        ("patch", "pods/status"),
        ("list", "nodes"),
        ("get", "secrets"),
        ("list", "secrets"),
        ("patch", "podsequences"),
        ("delete", "podsequences"),
        ("list", "configmaps"),
        ("patch", "deployments"),
    ] {
        assert!(!may(verb, resource)?, "{verb} {resource}");
    }
    Ok(())
}

#[test]
fn nothing_is_granted_by_wildcard() -> Result<()> {
    for file in [LITE, "config/rbac/rbac.yaml", "config/webhook/webhook.yaml", "config/webhook/launch.yaml"] {
        for (verb, group, resource) in granted(file, "ClusterRole")?.into_iter().chain(granted(file, "Role")?)
        {
            assert!(![&verb, &group, &resource].contains(&&"*".to_owned()), "{verb} {group} {resource}");
        }
    }
    Ok(())
}
