use super::world::{World, part, selector, template};
use rollcall_sim::kinds::Kind;
use serde_json::{Value, json};

fn set(name: &str, replicas: i64) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "replicas": replicas, "selector": selector(name), "template": template(name, "1") },
    })
}

#[tokio::test(start_paused = true)]
async fn creates_as_many_pods_as_are_wanted() {
    let world = World::with_nodes(2);
    world.create(Kind::ReplicaSet, set("web", 3));
    world.wait(10).await;
    let log = world.log();
    assert!(log.starts_with("+web-#1 +web-#2 +web-#3 !"), "{log}");
    assert_eq!(log.matches('!').count(), 3, "{log}");
    assert_eq!(
        world.status(Kind::ReplicaSet, "web"),
        json!({
            "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "terminatingReplicas": 0, "observedGeneration": 1,
        })
    );
    let pod = world.get(Kind::Pod, &world.pod("web-#1"));
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        part(owner, &["kind", "name", "controller", "blockOwnerDeletion"]),
        json!({
            "kind": "ReplicaSet", "name": "web", "controller": true, "blockOwnerDeletion": true,
        })
    );
    assert_eq!(pod["metadata"]["generateName"], "web-");
}

#[tokio::test(start_paused = true)]
async fn zeros_are_left_out_of_the_status() {
    let world = World::with_nodes(1);
    world.create(Kind::ReplicaSet, set("web", 0));
    world.wait(1).await;
    let expected = json!({ "replicas": 0, "terminatingReplicas": 0, "observedGeneration": 1 });
    assert_eq!(world.status(Kind::ReplicaSet, "web"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_or_failed_pod_is_replaced() {
    let world = World::with_nodes(1);
    world.create(Kind::ReplicaSet, set("web", 2));
    world.wait(10).await;
    world.log();
    world.delete(Kind::Pod, &world.pod("web-#1"));
    world.wait(40).await;
    assert_eq!(world.only("+~!"), "~web-#1 +web-#3 !web-#3");
    world.end("web-#2", "Failed");
    world.wait(10).await;
    assert_eq!(world.only("+~!"), "+web-#4 !web-#4");
    assert_eq!(world.status(Kind::ReplicaSet, "web")["replicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn who_is_deleted_first() {
    // In each case one of two pods is deleted.
    for (case, expected) in [("unready", "~web-#1"), ("cost", "~web-#1"), ("newer", "~web-#2")] {
        let world = World::with_nodes(2);
        world.create(Kind::ReplicaSet, set("web", if case == "newer" { 1 } else { 2 }));
        world.wait(10).await;
        let first = world.pod("web-#1");
        match case {
            "unready" => world.set_ready("web-#1", false),
            "cost" => world.edit(Kind::Pod, &first, |pod| {
                pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] = "-5".into();
            }),
            "newer" => {
                world.wait(100).await;
                world.edit(Kind::ReplicaSet, "web", |set| set["spec"]["replicas"] = 2.into());
                world.wait(5).await;
            }
            _ => unreachable!("{case}"),
        }
        world.wait(5).await;
        world.log();
        world.edit(Kind::ReplicaSet, "web", |set| set["spec"]["replicas"] = 1.into());
        world.wait(40).await;
        assert_eq!(world.only("+~"), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_without_a_node_goes_before_one_that_runs() {
    let world = World::with_nodes(1);
    world.create(Kind::ReplicaSet, set("web", 2));
    world.wait(10).await;
    world.edit(Kind::ReplicaSet, "web", |set| {
        set["spec"]["template"] = template("web", "broken");
        set["spec"]["replicas"] = 3.into();
    });
    world.wait(10).await;
    world.log();
    world.edit(Kind::ReplicaSet, "web", |set| set["spec"]["replicas"] = 2.into());
    world.wait(5).await;
    assert_eq!(world.only("+-"), "-web-#3");
}

#[tokio::test(start_paused = true)]
async fn available_after_the_time_that_is_asked() {
    let world = World::with_nodes(1);
    let mut slow = set("web", 1);
    slow["spec"]["minReadySeconds"] = 20.into();
    world.create(Kind::ReplicaSet, slow);
    world.wait(15).await;
    let counts =
        |world: &World| part(&world.status(Kind::ReplicaSet, "web"), &["readyReplicas", "availableReplicas"]);
    assert_eq!(counts(&world), json!({ "readyReplicas": 1 }));
    world.wait(15).await;
    assert_eq!(counts(&world), json!({ "readyReplicas": 1, "availableReplicas": 1 }));
}

#[tokio::test(start_paused = true)]
async fn adopts_what_matches_and_lets_go_what_does_not() {
    let world = World::with_nodes(1);
    let mut orphan = template("web", "1");
    orphan["metadata"]["name"] = "alone".into();
    world.create(Kind::Pod, orphan);
    world.create(Kind::ReplicaSet, set("web", 2));
    world.wait(10).await;
    assert_eq!(world.only("+"), "+alone +web-#1");
    assert_eq!(world.get(Kind::Pod, "alone")["metadata"]["ownerReferences"][0]["name"], "web");
    world.edit(Kind::Pod, "alone", |pod| pod["metadata"]["labels"]["app"] = "else".into());
    world.wait(10).await;
    assert_eq!(world.only("+~"), "+web-#2");
    assert!(world.get(Kind::Pod, "alone")["metadata"]["ownerReferences"].is_null());
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_comes_later_is_adopted_and_one_too_many_goes() {
    let world = World::with_nodes(1);
    world.create(Kind::ReplicaSet, set("web", 1));
    world.wait(10).await;
    let mut orphan = template("web", "1");
    orphan["metadata"]["name"] = "late".into();
    world.create(Kind::Pod, orphan);
    world.wait(10).await;
    assert_eq!(world.only("+-"), "+web-#1 +late -late");
}

#[tokio::test(start_paused = true)]
async fn labels_beyond_the_template_count_as_fully_labelled() {
    let world = World::with_nodes(1);
    let mut labelled = set("web", 2);
    labelled["spec"]["template"]["metadata"]["labels"]["tier"] = "front".into();
    world.create(Kind::ReplicaSet, labelled);
    world.wait(10).await;
    let name = world.pod("web-#1");
    world.edit(Kind::Pod, &name, |pod| {
        drop(pod["metadata"]["labels"].as_object_mut().unwrap().remove("tier"))
    });
    world.wait(1).await;
    let counts = part(&world.status(Kind::ReplicaSet, "web"), &["replicas", "fullyLabeledReplicas"]);
    assert_eq!(counts, json!({ "replicas": 2, "fullyLabeledReplicas": 1 }));
}

#[tokio::test(start_paused = true)]
async fn deleting_the_set_deletes_its_pods() {
    let world = World::with_nodes(1);
    world.create(Kind::ReplicaSet, set("web", 2));
    world.wait(10).await;
    world.log();
    world.delete(Kind::ReplicaSet, "web");
    world.wait(60).await;
    assert!(world.all(Kind::Pod).is_empty());
    assert!(!world.log().contains('+'));
}
