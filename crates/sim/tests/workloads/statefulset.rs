use super::world::{World, part, selector, template};
use rollcall_sim::kinds::Kind;
use serde_json::{Value, json};

fn set(replicas: i64) -> Value {
    json!({
        "metadata": { "name": "db" },
        "spec": {
            "replicas": replicas, "serviceName": "db", "selector": selector("db"),
            "template": template("db", "1"), "podManagementPolicy": "OrderedReady",
            "updateStrategy": { "type": "RollingUpdate" },
        },
    })
}

fn with_claims(mut set: Value, deleted: &str, scaled: &str) -> Value {
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({ "whenDeleted": deleted, "whenScaled": scaled });
    set
}

fn image(world: &World, version: &str) {
    world.edit(Kind::StatefulSet, "db", |db| db["spec"]["template"] = template("db", version));
}

fn scale(world: &World, replicas: i64) {
    world.edit(Kind::StatefulSet, "db", |db| db["spec"]["replicas"] = replicas.into());
}

/// The images of the pods, ordered by pod name.
fn images(world: &World) -> Vec<String> {
    let pods = world.all(Kind::Pod);
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    pods.iter().map(image).collect()
}

#[tokio::test(start_paused = true)]
async fn one_after_the_other() {
    let world = World::with_nodes(2);
    world.create(Kind::StatefulSet, set(3));
    world.wait(30).await;
    assert_eq!(world.log(), "+db-0 !db-0 +db-1 !db-1 +db-2 !db-2");
    let status = world.status(Kind::StatefulSet, "db");
    let revision = world.names(Kind::ControllerRevision).remove(0);
    assert_eq!(
        status,
        json!({
            "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
            "currentRevision": revision, "updateRevision": revision, "collisionCount": 0, "availableReplicas": 3,
        })
    );
    let pod = world.get(Kind::Pod, "db-1");
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "db", "statefulset.kubernetes.io/pod-name": "db-1", "apps.kubernetes.io/pod-index": "1",
            "controller-revision-hash": revision,
        })
    );
    assert_eq!(
        part(&pod["spec"], &["hostname", "subdomain"]),
        json!({ "hostname": "db-1", "subdomain": "db" })
    );
}

#[tokio::test(start_paused = true)]
async fn all_at_once_where_order_is_not_asked() {
    let world = World::with_nodes(2);
    let mut db = set(3);
    db["spec"]["podManagementPolicy"] = "Parallel".into();
    world.create(Kind::StatefulSet, db);
    world.wait(30).await;
    assert_eq!(world.log(), "+db-0 +db-1 +db-2 !db-0 !db-1 !db-2");
}

#[tokio::test(start_paused = true)]
async fn ordinals_may_start_elsewhere() {
    let world = World::with_nodes(1);
    let mut db = set(2);
    db["spec"]["ordinals"] = json!({ "start": 5 });
    world.create(Kind::StatefulSet, db);
    world.wait(30).await;
    assert_eq!(world.log(), "+db-5 !db-5 +db-6 !db-6");
    world.edit(Kind::StatefulSet, "db", |db| db["spec"]["ordinals"]["start"] = 6.into());
    world.wait(60).await;
    assert_eq!(world.only("+~!"), "+db-7 !db-7 ~db-5");
}

#[tokio::test(start_paused = true)]
async fn the_next_waits_until_the_first_has_been_ready_long_enough() {
    let world = World::with_nodes(1);
    let mut db = set(2);
    db["spec"]["minReadySeconds"] = 20.into();
    world.create(Kind::StatefulSet, db);
    world.wait(15).await;
    assert_eq!(world.log(), "+db-0 !db-0");
    let counts = part(&world.status(Kind::StatefulSet, "db"), &["readyReplicas", "availableReplicas"]);
    assert_eq!(counts, json!({ "readyReplicas": 1, "availableReplicas": 0 }));
    world.wait(30).await;
    assert_eq!(world.log(), "+db-1 !db-1");
}

#[tokio::test(start_paused = true)]
async fn scaled_down_from_the_top_each_fully_gone_before_the_next() {
    let world = World::with_nodes(1);
    world.create(Kind::StatefulSet, set(3));
    world.wait(30).await;
    world.log();
    world.hold("db-2", true);
    scale(&world, 0);
    world.wait(60).await;
    assert_eq!(world.log(), "~db-2");
    world.hold("db-2", false);
    world.wait(120).await;
    assert_eq!(world.log(), "-db-2 ~db-1 -db-1 ~db-0 -db-0");
    assert_eq!(
        part(&world.status(Kind::StatefulSet, "db"), &["replicas", "availableReplicas"]),
        json!({ "replicas": 0, "availableReplicas": 0 })
    );
}

#[tokio::test(start_paused = true)]
async fn scaled_down_at_once_where_order_is_not_asked() {
    let world = World::with_nodes(1);
    let mut db = set(3);
    db["spec"]["podManagementPolicy"] = "Parallel".into();
    world.create(Kind::StatefulSet, db);
    world.wait(30).await;
    world.log();
    scale(&world, 1);
    world.wait(60).await;
    assert_eq!(world.only("~"), "~db-2 ~db-1");
}

#[tokio::test(start_paused = true)]
async fn scaling_down_waits_for_those_below() {
    let world = World::with_nodes(1);
    world.create(Kind::StatefulSet, set(3));
    world.wait(30).await;
    world.log();
    world.set_ready("db-0", false);
    world.wait(1).await;
    scale(&world, 2);
    world.wait(30).await;
    assert_eq!(world.log(), "");
    world.set_ready("db-0", true);
    world.wait(60).await;
    assert_eq!(world.only("~"), "~db-2");
}

#[tokio::test(start_paused = true)]
async fn updated_from_the_highest_ordinal() {
    let world = World::with_nodes(1);
    world.create(Kind::StatefulSet, set(3));
    world.wait(30).await;
    world.log();
    image(&world, "2");
    world.wait(300).await;
    assert_eq!(world.log(), "~db-2 -db-2 +db-2 !db-2 ~db-1 -db-1 +db-1 !db-1 ~db-0 -db-0 +db-0 !db-0");
    let status = world.status(Kind::StatefulSet, "db");
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(
        part(&status, &["currentReplicas", "updatedReplicas"]),
        json!({ "currentReplicas": 3, "updatedReplicas": 3 })
    );
    assert_eq!(images(&world), ["db:2"; 3]);
}

#[tokio::test(start_paused = true)]
async fn below_the_partition_the_old_revision_stays() {
    let world = World::with_nodes(1);
    let mut db = set(3);
    db["spec"]["updateStrategy"]["rollingUpdate"] = json!({ "partition": 2 });
    world.create(Kind::StatefulSet, db);
    world.wait(30).await;
    image(&world, "2");
    world.wait(100).await;
    assert_eq!(images(&world), ["db:1", "db:1", "db:2"]);
    let status = world.status(Kind::StatefulSet, "db");
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(
        part(&status, &["currentReplicas", "updatedReplicas"]),
        json!({ "currentReplicas": 2, "updatedReplicas": 1 })
    );
    // A re-created pod below the partition gets the old revision.
    world.delete(Kind::Pod, "db-0");
    world.wait(60).await;
    assert_eq!(images(&world), ["db:1", "db:1", "db:2"]);
    world.edit(Kind::StatefulSet, "db", |db| {
        db["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0.into();
    });
    world.wait(200).await;
    assert_eq!(images(&world), ["db:2"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_update_is_stuck_until_the_pod_is_deleted_by_hand() {
    let world = World::with_nodes(1);
    world.create(Kind::StatefulSet, set(2));
    world.wait(30).await;
    image(&world, "broken");
    world.wait(100).await;
    world.log();
    image(&world, "3");
    world.wait(300).await;
    assert_eq!(world.log(), "", "the broken pod is not replaced");
    world.delete(Kind::Pod, "db-1");
    world.wait(100).await;
    assert_eq!(images(&world), ["db:3"; 2]);
}

#[tokio::test(start_paused = true)]
async fn on_delete_only_what_is_deleted_is_updated() {
    let world = World::with_nodes(1);
    let mut db = set(2);
    db["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
    world.create(Kind::StatefulSet, db);
    world.wait(30).await;
    world.log();
    image(&world, "2");
    world.wait(60).await;
    assert_eq!(world.log(), "");
    world.delete(Kind::Pod, "db-0");
    world.wait(60).await;
    assert_eq!(images(&world), ["db:2", "db:1"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_made_again() {
    let world = World::with_nodes(1);
    world.create(Kind::StatefulSet, set(2));
    world.wait(30).await;
    world.log();
    for phase in ["Failed", "Succeeded"] {
        world.end("db-0", phase);
        world.wait(60).await;
        assert_eq!(world.only("+-!"), "-db-0 +db-0 !db-0", "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn claims_are_made_bound_and_kept() {
    let world = World::with_nodes(1);
    world.create(Kind::StatefulSet, with_claims(set(2), "Retain", "Retain"));
    world.wait(30).await;
    assert_eq!(world.names(Kind::PersistentVolumeClaim), ["data-db-0", "data-db-1"]);
    let claim = world.get(Kind::PersistentVolumeClaim, "data-db-1");
    assert_eq!(
        (&claim["status"]["phase"], &claim["metadata"]["labels"]),
        (&json!("Bound"), &json!({ "app": "db" }))
    );
    let volumes = world.get(Kind::Pod, "db-1")["spec"]["volumes"].clone();
    assert_eq!(volumes[0]["persistentVolumeClaim"]["claimName"], "data-db-1");
    scale(&world, 0);
    world.wait(100).await;
    world.delete(Kind::StatefulSet, "db");
    world.wait(30).await;
    assert_eq!(world.names(Kind::PersistentVolumeClaim).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_the_pods_that_are_scaled_away() {
    let world = World::with_nodes(1);
    world.create(Kind::StatefulSet, with_claims(set(2), "Retain", "Delete"));
    world.wait(30).await;
    scale(&world, 1);
    world.wait(60).await;
    assert_eq!(world.names(Kind::PersistentVolumeClaim), ["data-db-0"]);
    // A re-created pod keeps its claim.
    let uid = world.get(Kind::PersistentVolumeClaim, "data-db-0")["metadata"]["uid"].clone();
    world.delete(Kind::Pod, "db-0");
    world.wait(60).await;
    assert_eq!(world.get(Kind::PersistentVolumeClaim, "data-db-0")["metadata"]["uid"], uid);
    scale(&world, 2);
    world.wait(60).await;
    assert_eq!(world.names(Kind::PersistentVolumeClaim).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_the_set() {
    let world = World::with_nodes(1);
    world.create(Kind::StatefulSet, with_claims(set(2), "Delete", "Retain"));
    world.wait(30).await;
    scale(&world, 1);
    world.wait(60).await;
    assert_eq!(world.names(Kind::PersistentVolumeClaim).len(), 2);
    world.delete(Kind::StatefulSet, "db");
    world.wait(60).await;
    assert!(world.all(Kind::PersistentVolumeClaim).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_deleted_takes_no_order() {
    let world = World::with_nodes(1);
    world.create(Kind::StatefulSet, set(3));
    world.wait(30).await;
    world.log();
    world.delete(Kind::StatefulSet, "db");
    world.wait(1).await;
    assert_eq!(world.only("~").split_whitespace().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn revisions_are_kept_up_to_a_limit_and_found_again() {
    let world = World::with_nodes(1);
    let mut db = set(1);
    db["spec"]["revisionHistoryLimit"] = 1.into();
    world.create(Kind::StatefulSet, db);
    for version in ["2", "3", "2"] {
        world.wait(60).await;
        image(&world, version);
    }
    world.wait(60).await;
    let mut numbers: Vec<i64> =
        world.all(Kind::ControllerRevision).iter().map(|one| one["revision"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [3, 4]);
}
