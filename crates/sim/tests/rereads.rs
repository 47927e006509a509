//! Labels are read on demand. If a selector uses a new key, the controller lists the pods of its namespace again, and
//! decides nothing there until this is done. The tests run the production controller in virtual time and delay lists of a
//! single namespace, which only occur when a namespace is read again.

use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use rollcall_api::names::{BEGIN_AGAIN, OWN_NAMESPACE, SEQUENCE_GATE};
use rollcall_controller::clock::Clock;
use rollcall_sim::cluster::Cluster;
use rollcall_sim::embedded::{Embedded, config};
use rollcall_sim::kinds::Kind;
use rollcall_sim::server::{Server, Shared};
use rollcall_sim::store::{Author, Key};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::Service;

const NAMESPACE: &str = "default";
/// Duration of a list of one namespace: longer than the grace period of a group without members.
const SLOW: Duration = Duration::from_secs(5);
/// How long pods of [`slow_pod`] take until ready: longer than several lists.
const READY_AFTER: &str = "60s";
const POLL: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(600);

/// The cluster, and the paths of all lists of one namespace.
struct World {
    shared: Arc<Shared>,
    read: Arc<Mutex<Vec<String>>>,
}

/// The behaviour of the pod watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PodNews {
    Comes,
    /// Only the first list is answered; the watch delivers nothing.
    Stays,
}

/// Runs a story with a controller that has seen all objects in `before`.
async fn play<F: Future<Output = ()>>(before: Vec<(Kind, Value)>, story: impl FnOnce(World) -> F) {
    play_with(PodNews::Comes, before, story).await;
}

async fn play_with<F: Future<Output = ()>>(
    news: PodNews,
    before: Vec<(Kind, Value)>,
    story: impl FnOnce(World) -> F,
) {
    let begin = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 55);
    let clock = Clock::starting_at(begin);
    let embedded = Embedded::new(clock, 1);
    let world = World { shared: embedded.shared.clone(), read: Arc::default() };
    world.create(Kind::Node, json!({ "metadata": { "name": "node-1" } }));
    for name in [OWN_NAMESPACE, "elsewhere"] {
        world.create(Kind::Namespace, json!({ "metadata": { "name": name } }));
    }
    before.into_iter().for_each(|(kind, object)| world.create(kind, object));
    let server = Server::new(embedded.shared.clone(), Author::Controller(0));
    let read = world.read.clone();
    let way = tower::service_fn(move |request: Request<Body>| {
        let (mut server, read) = (server.clone(), read.clone());
        async move {
            let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default());
            let of_namespace = path.contains("/namespaces/") && query.contains("limit=");
            if request.method() == Method::GET && of_namespace && !path.contains(OWN_NAMESPACE) {
                read.lock().expect("no thread has panicked").push(path.clone());
                sleep(SLOW).await;
            }
            if path == "/api/v1/pods" && query.contains("watch=true") && news == PodNews::Stays {
                return std::future::pending().await;
            }
            server.call(request).await
        }
    });
    let client = kube::Client::new(way, NAMESPACE);
    let controller = async {
        // Pods without a gate run by then.
        sleep(Duration::from_secs(5)).await;
        rollcall_controller::run(client, config("test", 1), clock, CancellationToken::new()).await
    };
    let story = async {
        // All existing objects have been listed by then.
        sleep(Duration::from_secs(10)).await;
        story(world).await;
    };
    tokio::select! {
        biased;
        () = story => {}
        () = embedded.run() => unreachable!("the cluster never ends"),
        ended = controller => panic!("the controller ended: {ended:?}"),
        () = sleep(LIMIT) => panic!("not there after {LIMIT:?}"),
    }
}

impl World {
    fn create(&self, kind: Kind, object: Value) {
        self.change(|cluster| {
            cluster.create(kind, object).unwrap_or_else(|refusal| panic!("{}", refusal.message));
        });
    }

    /// Performs an action as a user of the cluster.
    fn change(&self, change: impl FnOnce(&mut Cluster)) {
        change(&mut self.shared.lock());
        self.shared.notify();
    }

    fn get(&self, kind: Kind, name: &str) -> Value {
        let cluster = self.shared.lock();
        let found = cluster.store.find(kind, NAMESPACE, name).expect("the object exists");
        serde_json::from_slice(found.json()).expect("JSON")
    }

    async fn until(&self, is_so: impl Fn(&World) -> bool) {
        while !is_so(self) {
            sleep(POLL).await;
        }
    }

    fn is_held(&self, pod: &str) -> bool {
        self.get(Kind::Pod, pod)["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty())
    }

    fn is_ready(&self, pod: &str) -> bool {
        let pod = self.get(Kind::Pod, pod);
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|is| is["type"] == "Ready" && is["status"] == "True")
    }

    fn is_complete(&self, sequence: &str) -> bool {
        self.get(Kind::PodSequence, sequence)["status"]["phase"] == "Completed"
    }

    /// How often the pods of a namespace were read again.
    fn rereads(&self, namespace: &str) -> usize {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        self.read.lock().expect("no thread has panicked").iter().filter(|read| **read == path).count()
    }
}

/// A pod with the sequence gate.
fn pod(name: &str, labels: Value) -> (Kind, Value) {
    let spec = json!({
        "schedulingGates": [{ "name": SEQUENCE_GATE }], "containers": [{ "name": "main", "image": "main" }],
    });
    (
        Kind::Pod,
        json!({ "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels }, "spec": spec }),
    )
}

/// A pod that takes a while until ready.
fn slow_pod(name: &str, labels: Value) -> (Kind, Value) {
    let (kind, mut pod) = pod(name, labels);
    pod["metadata"]["annotations"] = json!({ "testbed.rollcall.dev/ready-after": READY_AFTER });
    (kind, pod)
}

fn sequence(name: &str, groups: Value) -> Value {
    json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "spec": { "podGroups": groups } })
}

/// A selector with a new key finds pods that were read before without their labels.
#[tokio::test(start_paused = true)]
async fn a_new_key_finds_pods_that_were_there_before() {
    let before = vec![pod("a", json!({ "team": "a" })), pod("b", json!({ "team": "b" }))];
    play(before, async |world| {
        let by = |team: &str| json!({ "podSelector": { "matchLabels": { "team": team } } });
        world.create(Kind::PodSequence, sequence("shop", json!([by("a"), by("b")])));
        world.until(|world| world.is_complete("shop")).await;
        assert_eq!((world.rereads(NAMESPACE), world.rereads("elsewhere")), (1, 0));
        // The same key in another sequence needs no further reading.
        world.create(Kind::PodSequence, sequence("other", json!([by("a")])));
        world.until(|world| world.is_complete("other")).await;
        assert_eq!(world.rereads(NAMESPACE), 1);
    })
    .await;
}

/// Without the wait for the reading, the group would seem empty and be passed over.
#[tokio::test(start_paused = true)]
async fn nothing_is_decided_before_the_namespace_is_read() {
    let before = vec![slow_pod("first", json!({ "team": "a" })), pod("second", json!({}))];
    play(before, async |world| {
        let groups = json!([
            { "podSelector": { "matchLabels": { "team": "a" } }, "optional": true },
            { "pods": ["second"] },
        ]);
        world.create(Kind::PodSequence, sequence("shop", groups));
        world.until(|world| !world.is_held("second")).await;
        assert!(world.is_ready("first"), "its group was passed, as if it had no members");
        assert_eq!(world.rereads(NAMESPACE), 1);
    })
    .await;
}

/// A key is requested while the namespace is read for another key. That read lacks the new key.
#[tokio::test(start_paused = true)]
async fn a_key_that_comes_meanwhile_is_read_afterwards() {
    let before = vec![slow_pod("first", json!({ "team": "a", "zone": "a" })), pod("second", json!({}))];
    play(before, async |world| {
        let by = |label: &str| json!({ "podSelector": { "matchLabels": { label: "a" } }, "optional": true });
        world.create(Kind::PodSequence, sequence("early", json!([by("team")])));
        world.until(|world| world.rereads(NAMESPACE) == 1).await;
        world.create(Kind::PodSequence, sequence("late", json!([by("zone"), { "pods": ["second"] }])));
        world.until(|world| !world.is_held("second")).await;
        assert!(world.is_ready("first"), "its group was passed, as if it had no members");
        assert_eq!(world.rereads(NAMESPACE), 2);
    })
    .await;
}

/// Pods deleted before a restart of the sequence do not count in it, even if the pod watch has not reported their deletion.
#[tokio::test(start_paused = true)]
async fn who_is_gone_does_not_count_in_a_second_start() {
    let (kind, mut first) = pod("first", json!({}));
    first["spec"]["schedulingGates"] = json!([]);
    let groups = json!([{ "pods": ["first"] }, { "pods": ["second"] }]);
    let before = vec![(kind, first), (Kind::PodSequence, sequence("shop", groups))];
    play_with(PodNews::Stays, before, async |world| {
        let state =
            |world: &World| world.get(Kind::PodSequence, "shop")["status"]["groups"][0]["state"].clone();
        world.until(|world| state(world) == "Complete").await;
        world.change(|cluster| {
            cluster.delete_now(&Key::new(Kind::Pod, NAMESPACE, "first")).expect("the object exists");
            let shop = Key::new(Kind::PodSequence, NAMESPACE, "shop");
            let again = |shop: &mut Value| shop["metadata"]["annotations"][BEGIN_AGAIN] = "once more".into();
            cluster.update(&shop, again).expect("the object exists");
        });
        let begun =
            |world: &World| world.get(Kind::PodSequence, "shop")["status"]["begunAgain"] == "once more";
        world.until(begun).await;
        assert_eq!(state(&world), "Open", "its pod is gone");
    })
    .await;
}
