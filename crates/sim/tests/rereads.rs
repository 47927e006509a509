//! Labels are read by need: a selector that names a key which none named before has its namespace read once more, and until that is
//! done nothing is decided there. The production controller in the embedded cluster, under virtual time, with slow lists of a namespace:
//! only a namespace that is read again is listed by itself.

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
/// How long a list of one namespace takes: longer than the grace in which a group without members is waited for.
const SLOW: Duration = Duration::from_secs(5);
/// How long pods of [`slow_pod`] take until they are ready: longer than several lists.
const READY_AFTER: &str = "60s";
const POLL: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(600);

/// The cluster, and the paths of the lists of one namespace.
struct World {
    shared: Arc<Shared>,
    read: Arc<Mutex<Vec<String>>>,
}

/// What comes of the watch of pods.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PodNews {
    Comes,
    /// Nothing but the first list.
    Stays,
}

/// Runs a story beside a controller that has seen everything in `before`.
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
                read.lock().expect("nobody panics").push(path.clone());
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
        // Whoever is not held runs by then.
        sleep(Duration::from_secs(5)).await;
        rollcall_controller::run(client, config("test", 1), clock, CancellationToken::new()).await
    };
    let story = async {
        // Everything there is has been listed.
        sleep(Duration::from_secs(10)).await;
        story(world).await;
    };
    tokio::select! {
        biased;
        () = story => {}
        () = embedded.run() => unreachable!("it runs for ever"),
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

    /// Does something as a user of the cluster.
    fn change(&self, change: impl FnOnce(&mut Cluster)) {
        change(&mut self.shared.lock());
        self.shared.notify();
    }

    fn get(&self, kind: Kind, name: &str) -> Value {
        let cluster = self.shared.lock();
        let found = cluster.store.find(kind, NAMESPACE, name).expect("it is there");
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

    /// How often the pods of a namespace were read once more.
    fn rereads(&self, namespace: &str) -> usize {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        self.read.lock().expect("nobody panics").iter().filter(|read| **read == path).count()
    }
}

/// A pod that our gate holds.
fn pod(name: &str, labels: Value) -> (Kind, Value) {
    let spec = json!({
        "schedulingGates": [{ "name": SEQUENCE_GATE }], "containers": [{ "name": "main", "image": "main" }],
    });
    (
        Kind::Pod,
        json!({ "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels }, "spec": spec }),
    )
}

/// One that takes its time until it is ready.
fn slow_pod(name: &str, labels: Value) -> (Kind, Value) {
    let (kind, mut pod) = pod(name, labels);
    pod["metadata"]["annotations"] = json!({ "testbed.rollcall.dev/ready-after": READY_AFTER });
    (kind, pod)
}

fn sequence(name: &str, groups: Value) -> Value {
    json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "spec": { "podGroups": groups } })
}

/// Pods that were read before anybody asked for their label are found by it.
#[tokio::test(start_paused = true)]
async fn a_new_key_finds_pods_that_were_there_before() {
    let before = vec![pod("a", json!({ "team": "a" })), pod("b", json!({ "team": "b" }))];
    play(before, async |world| {
        let by = |team: &str| json!({ "podSelector": { "matchLabels": { "team": team } } });
        world.create(Kind::PodSequence, sequence("shop", json!([by("a"), by("b")])));
        world.until(|world| world.is_complete("shop")).await;
        assert_eq!((world.rereads(NAMESPACE), world.rereads("elsewhere")), (1, 0));
        // The same key once more is nothing new.
        world.create(Kind::PodSequence, sequence("other", json!([by("a")])));
        world.until(|world| world.is_complete("other")).await;
        assert_eq!(world.rereads(NAMESPACE), 1);
    })
    .await;
}

/// A group without members would be passed, if nobody waited until it is known whether it has any.
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

/// A key that comes while the namespace is read for another one: what is read lacks it.
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

/// Whoever was deleted before the second start does not count in it, also where the watch of pods has not told of it.
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
            cluster.delete_now(&Key::new(Kind::Pod, NAMESPACE, "first")).expect("it is there");
            let shop = Key::new(Kind::PodSequence, NAMESPACE, "shop");
            let again = |shop: &mut Value| shop["metadata"]["annotations"][BEGIN_AGAIN] = "once more".into();
            cluster.update(&shop, again).expect("it is there");
        });
        let begun =
            |world: &World| world.get(Kind::PodSequence, "shop")["status"]["begunAgain"] == "once more";
        world.until(begun).await;
        assert_eq!(state(&world), "Open", "its pod is gone");
    })
    .await;
}
