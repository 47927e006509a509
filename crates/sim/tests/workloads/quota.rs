use super::world::{World, selector, template};
use rollcall_sim::kinds::Kind;
use serde_json::{Value, json};

fn quota(hard: Value) -> Value {
    json!({ "metadata": { "name": "q" }, "spec": { "hard": hard } })
}

fn pod(name: &str, resources: Value) -> Value {
    let mut pod = template("x", "1");
    pod["metadata"]["name"] = name.into();
    pod["spec"]["containers"][0]["resources"] = resources;
    pod
}

#[tokio::test(start_paused = true)]
async fn refused_in_the_words_of_the_server() {
    let requests = |cpu: &str, memory: &str| json!({ "requests": { "cpu": cpu, "memory": memory } });
    for (hard, first, second, message) in [
        (
            json!({ "pods": "1" }),
            json!({}),
            json!({}),
            "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
        ),
        (
            json!({ "requests.cpu": "1", "requests.memory": "1Gi" }),
            requests("600m", "100Mi"),
            requests("500m", "100Mi"),
            "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1",
        ),
        (
            json!({ "memory": "1Gi", "cpu": "1" }),
            requests("1", "512Mi"),
            requests("1", "1Gi"),
            "pods \"b\" is forbidden: exceeded quota: q, requested: cpu=1,memory=1Gi, used: cpu=1,memory=512Mi, limited: cpu=1,memory=1Gi",
        ),
        (
            json!({ "limits.cpu": "1" }),
            json!({ "limits": { "cpu": "1" } }),
            json!({}),
            "pods \"b\" is forbidden: failed quota: q: must specify limits.cpu for: main",
        ),
    ] {
        let world = World::with_nodes(1);
        world.create(Kind::ResourceQuota, quota(hard));
        world.wait(1).await;
        world.create(Kind::Pod, pod("a", first));
        world.wait(1).await;
        let refusal = world.try_create(Kind::Pod, pod("b", second)).unwrap_err();
        assert_eq!((refusal.code, refusal.message.as_str()), (403, message));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_used_is_kept_up() {
    let world = World::with_nodes(1);
    world.create(Kind::ResourceQuota, quota(json!({ "pods": "5", "requests.cpu": "2" })));
    for name in ["a", "b"] {
        world.create(Kind::Pod, pod(name, json!({ "requests": { "cpu": "250m" } })));
    }
    world.wait(5).await;
    let status = |world: &World| world.status(Kind::ResourceQuota, "q");
    assert_eq!(
        status(&world),
        json!({ "hard": { "pods": "5", "requests.cpu": "2" }, "used": { "pods": "2", "requests.cpu": "500m" } })
    );
    world.end("a", "Succeeded");
    world.wait(1).await;
    assert_eq!(status(&world)["used"], json!({ "pods": "1", "requests.cpu": "250m" }));
    world.delete(Kind::Pod, "b");
    world.wait(60).await;
    assert_eq!(status(&world)["used"], json!({ "pods": "0", "requests.cpu": "0" }));
}

#[tokio::test(start_paused = true)]
async fn a_set_creates_what_it_may_and_the_rest_when_there_is_room() {
    let world = World::with_nodes(1);
    world.create(Kind::ResourceQuota, quota(json!({ "pods": "2" })));
    world.create(
        Kind::ReplicaSet,
        json!({
            "metadata": { "name": "web" },
            "spec": { "replicas": 3, "selector": selector("web"), "template": template("web", "1") },
        }),
    );
    world.wait(30).await;
    assert_eq!(world.only("+"), "+web-#1 +web-#2");
    assert_eq!(world.condition(Kind::ReplicaSet, "web", "ReplicaFailure"), "True FailedCreate");
    world.edit(Kind::ResourceQuota, "q", |quota| quota["spec"]["hard"]["pods"] = "3".into());
    world.wait(100).await;
    assert_eq!(world.only("+"), "+web-#3");
    assert_eq!(world.condition(Kind::ReplicaSet, "web", "ReplicaFailure"), "none");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_says_that_pods_were_refused() {
    let world = World::with_nodes(1);
    world.create(Kind::ResourceQuota, quota(json!({ "pods": "1" })));
    world.create(
        Kind::Deployment,
        json!({
            "metadata": { "name": "web" },
            "spec": { "replicas": 2, "selector": selector("web"), "template": template("web", "1") },
        }),
    );
    world.wait(30).await;
    assert_eq!(world.condition(Kind::Deployment, "web", "ReplicaFailure"), "True FailedCreate");
}
