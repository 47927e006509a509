use super::world::{World, part, selector, template};
use rollcall_sim::kinds::Kind;
use serde_json::{Value, json};

fn deployment(replicas: i64, strategy: Value) -> Value {
    json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas, "selector": selector("web"), "template": template("web", "1"),
            "strategy": strategy,
        },
    })
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } })
}

fn image(world: &World, version: &str) {
    world.edit(Kind::Deployment, "web", |web| web["spec"]["template"] = template("web", version));
}

/// The ReplicaSets as `revision: wanted/ready`, by revision.
fn sets(world: &World) -> Vec<String> {
    let mut sets: Vec<(i64, String)> = world
        .all(Kind::ReplicaSet)
        .iter()
        .map(|set| {
            let revision =
                set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap();
            let ready = set["status"]["readyReplicas"].as_i64().unwrap_or_default();
            (revision.parse().unwrap(), format!("{revision}: {}/{ready}", set["spec"]["replicas"]))
        })
        .collect();
    sets.sort();
    sets.into_iter().map(|(_, text)| text).collect()
}

/// The maximum number of pods in the history, and the minimum number of ready pods after the beginning.
fn extremes(log: &str, (mut there, mut ready): (i64, i64)) -> (i64, i64) {
    let (mut most, mut fewest) = (there, ready);
    for note in log.split_whitespace() {
        match &note[..1] {
            "+" => there += 1,
            "!" => ready += 1,
            "~" => (there, ready) = (there - 1, ready - 1),
            _ => {}
        }
        most = most.max(there);
        fewest = fewest.min(ready);
    }
    (most, fewest)
}

#[tokio::test(start_paused = true)]
async fn the_first_roll_out() {
    let world = World::with_nodes(2);
    world.create(Kind::Deployment, deployment(3, json!(null)));
    world.wait(10).await;
    let status = world.status(Kind::Deployment, "web");
    assert_eq!(
        part(
            &status,
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
            ]
        ),
        json!({
            "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
            "availableReplicas": 3, "terminatingReplicas": 0,
        })
    );
    let types: Vec<&Value> =
        status["conditions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(types, ["Available", "Progressing"]);
    assert_eq!(world.condition(Kind::Deployment, "web", "Available"), "True MinimumReplicasAvailable");
    assert_eq!(world.condition(Kind::Deployment, "web", "Progressing"), "True NewReplicaSetAvailable");
    let web = world.get(Kind::Deployment, "web");
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let set = &world.all(Kind::ReplicaSet)[0];
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(set["spec"]["selector"]["matchLabels"], json!({ "app": "web", "pod-template-hash": hash }));
    assert_eq!(
        set["metadata"]["annotations"],
        json!({
            "deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_roll_out_stays_within_its_limits() {
    for (replicas, surge, unavailable, most, fewest) in [
        (4, json!(1), json!(0), 5, 4),
        (4, json!(0), json!(1), 4, 3),
        (4, json!("25%"), json!("25%"), 5, 3),
        (10, json!("30%"), json!("15%"), 13, 9),
        (3, json!("100%"), json!(0), 6, 3),
        (2, json!("1%"), json!("1%"), 3, 2),
        (1, json!(0), json!("25%"), 1, 0),
    ] {
        let world = World::with_nodes(2);
        world.create(Kind::Deployment, deployment(replicas, rolling(surge.clone(), unavailable.clone())));
        world.wait(30).await;
        world.log();
        image(&world, "2");
        world.wait(300).await;
        let found = extremes(&world.log(), (replicas, replicas));
        assert_eq!(found, (most, fewest), "{replicas} {surge} {unavailable}");
        assert_eq!(sets(&world), ["1: 0/0".to_owned(), format!("2: {replicas}/{replicas}")]);
        assert_eq!(world.condition(Kind::Deployment, "web", "Progressing"), "True NewReplicaSetAvailable");
    }
}

#[tokio::test(start_paused = true)]
async fn recreate_waits_until_the_last_old_pod_is_gone() {
    let world = World::with_nodes(1);
    world.create(Kind::Deployment, deployment(2, json!({ "type": "Recreate" })));
    world.wait(10).await;
    world.log();
    image(&world, "2");
    world.wait(60).await;
    let signs: String = world.only("+~-").split_whitespace().map(|note| &note[..1]).collect();
    assert_eq!(signs, "~~--++", "the last old pod is gone before the first new one comes");
    assert_eq!(sets(&world), ["1: 0/0", "2: 2/2"]);
}

#[tokio::test(start_paused = true)]
async fn going_back_uses_the_old_set_and_numbers_it_anew() {
    let world = World::with_nodes(1);
    world.create(Kind::Deployment, deployment(1, json!(null)));
    world.wait(10).await;
    image(&world, "2");
    world.wait(60).await;
    image(&world, "1");
    world.wait(60).await;
    assert_eq!(sets(&world), ["2: 0/0", "3: 1/1"]);
    let sets = world.all(Kind::ReplicaSet);
    let back = sets.iter().find(|set| set["spec"]["replicas"] == 1).unwrap();
    assert_eq!(back["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    let web = world.get(Kind::Deployment, "web");
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
}

#[tokio::test(start_paused = true)]
async fn old_sets_are_kept_up_to_a_limit() {
    let world = World::with_nodes(1);
    let mut web = deployment(1, json!(null));
    web["spec"]["revisionHistoryLimit"] = 2.into();
    world.create(Kind::Deployment, web);
    for version in ["2", "3", "4", "5"] {
        world.wait(60).await;
        image(&world, version);
    }
    world.wait(60).await;
    assert_eq!(sets(&world), ["3: 0/0", "4: 0/0", "5: 1/1"]);
}

#[tokio::test(start_paused = true)]
async fn a_roll_out_that_does_not_move_is_said_to_be_stuck() {
    let world = World::with_nodes(1);
    let mut web = deployment(2, rolling(json!(1), json!(0)));
    web["spec"]["progressDeadlineSeconds"] = 60.into();
    world.create(Kind::Deployment, web);
    world.wait(30).await;
    image(&world, "broken");
    world.wait(30).await;
    assert_eq!(world.condition(Kind::Deployment, "web", "Progressing"), "True ReplicaSetUpdated");
    world.wait(40).await;
    assert_eq!(world.condition(Kind::Deployment, "web", "Progressing"), "False ProgressDeadlineExceeded");
    assert_eq!(world.condition(Kind::Deployment, "web", "Available"), "True MinimumReplicasAvailable");
    assert_eq!(sets(&world), ["1: 2/2", "2: 1/0"]);
    image(&world, "3");
    world.wait(60).await;
    assert_eq!(world.condition(Kind::Deployment, "web", "Progressing"), "True NewReplicaSetAvailable");
    assert_eq!(sets(&world), ["1: 0/0", "2: 0/0", "3: 2/2"]);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_without_enough_pods_is_not_available() {
    let world = World::with_nodes(1);
    let mut web = deployment(2, json!(null));
    web["spec"]["template"] = template("web", "broken");
    world.create(Kind::Deployment, web);
    world.wait(10).await;
    assert_eq!(world.condition(Kind::Deployment, "web", "Available"), "False MinimumReplicasUnavailable");
    let status = world.status(Kind::Deployment, "web");
    let counts = part(&status, &["replicas", "updatedReplicas", "readyReplicas", "unavailableReplicas"]);
    assert_eq!(counts, json!({ "replicas": 2, "updatedReplicas": 2, "unavailableReplicas": 2 }));
}

#[tokio::test(start_paused = true)]
async fn while_paused_a_template_waits_and_a_size_does_not() {
    let world = World::with_nodes(1);
    world.create(Kind::Deployment, deployment(1, json!(null)));
    world.wait(10).await;
    world.edit(Kind::Deployment, "web", |web| {
        web["spec"]["paused"] = true.into();
        web["spec"]["template"] = template("web", "2");
        web["spec"]["replicas"] = 3.into();
    });
    world.wait(20).await;
    assert_eq!(sets(&world), ["1: 3/3"]);
    assert_eq!(world.condition(Kind::Deployment, "web", "Progressing"), "Unknown DeploymentPaused");
    world.edit(Kind::Deployment, "web", |web| web["spec"]["paused"] = false.into());
    world.wait(60).await;
    assert_eq!(sets(&world), ["1: 0/0", "2: 3/3"]);
}

#[tokio::test(start_paused = true)]
async fn scaling_in_the_middle_of_a_roll_out_is_proportional() {
    let world = World::with_nodes(1);
    world.create(Kind::Deployment, deployment(10, rolling(json!(3), json!(2))));
    world.wait(30).await;
    image(&world, "broken");
    world.wait(30).await;
    assert_eq!(sets(&world), ["1: 8/8", "2: 5/0"]);
    world.edit(Kind::Deployment, "web", |web| web["spec"]["replicas"] = 15.into());
    world.wait(30).await;
    // 13 pods become 18: one set grows from 8 to 11, the other from 5 to 7.
    assert_eq!(sets(&world), ["1: 11/11", "2: 7/0"]);
}

#[tokio::test(start_paused = true)]
async fn scaling_alone_makes_no_revision() {
    let world = World::with_nodes(1);
    world.create(Kind::Deployment, deployment(2, json!(null)));
    world.wait(10).await;
    for replicas in [5, 0, 1] {
        world.edit(Kind::Deployment, "web", |web| web["spec"]["replicas"] = replicas.into());
        world.wait(60).await;
        assert_eq!(sets(&world), [format!("1: {replicas}/{replicas}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn annotations_go_to_the_set_but_not_the_applied_configuration() {
    let world = World::with_nodes(1);
    let mut web = deployment(1, json!(null));
    web["metadata"]["annotations"] =
        json!({ "team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}" });
    world.create(Kind::Deployment, web);
    world.wait(10).await;
    let annotations = world.all(Kind::ReplicaSet)[0]["metadata"]["annotations"].clone();
    assert_eq!(annotations["team"], "a");
    assert!(annotations["kubectl.kubernetes.io/last-applied-configuration"].is_null());
}

#[tokio::test(start_paused = true)]
async fn deleting_a_deployment_deletes_everything_below_it() {
    let world = World::with_nodes(1);
    world.create(Kind::Deployment, deployment(2, json!(null)));
    world.wait(10).await;
    world.delete(Kind::Deployment, "web");
    world.wait(60).await;
    assert!(world.all(Kind::ReplicaSet).is_empty() && world.all(Kind::Pod).is_empty());
}
