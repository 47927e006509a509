//! A controller behind a proxy that records, counts and disturbs its requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use http::Method;
use kube::api::ListParams;
use rollcall_testbed::{Fault, FaultProxy, Go, Held, Hold, RequestInfo, WatchFault, wait};
use serde_json::{Value, json};

use super::controller::{Controller, Options};
use super::lab::{Lab, OWN_NAMESPACE};
use super::make::{self, With};
use super::scene::{Scene, gates, is_ready, name_of};
use super::{GATE, LIMIT};

/// Longer than the delay of a status that is not urgent (10 s): a status not written by then is never written.
const QUIET: Duration = Duration::from_secs(12);

/// Time limit for recovery after the last fault (invariant L1).
pub const RECOVERY: Duration = Duration::from_secs(60);

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    NoteCreate,
    NotePatch,
    NoteDelete,
    Release,
    Status,
    Event,
    LeaseCreate,
    LeasePatch,
    /// A GET of one pod.
    Look,
    LeaseRead,
    List,
    Watch,
}

impl Sort {
    pub fn is_lease(self) -> bool {
        matches!(self, Sort::LeaseCreate | Sort::LeasePatch | Sort::LeaseRead)
    }

    pub fn is_write(self) -> bool {
        !matches!(self, Sort::Look | Sort::LeaseRead | Sort::List | Sort::Watch)
    }
}

/// A recorded request of the controller.
#[derive(Clone, Debug)]
pub struct Seen {
    pub sort: Sort,
    /// Its number among requests of its kind since the hooks were set, from 1.
    pub nth: usize,
    pub path: String,
    pub query: String,
    pub body: Value,
}

impl Seen {
    /// Whether the request is about this namespace, by its path or in the content of a note.
    pub fn is_about(&self, namespace: &str) -> bool {
        let noted = || self.body.to_string().contains(namespace);
        self.path.contains(&format!("/namespaces/{namespace}/"))
            || match self.sort {
                Sort::NoteCreate | Sort::NotePatch => noted(),
                // The path contains only the sequence's UID, but tests handle one sequence at a time.
                Sort::NoteDelete => true,
                _ => false,
            }
    }
}

fn sort(request: &RequestInfo, watch: bool) -> Sort {
    let (path, method) = (request.path.as_str(), &request.method);
    let of = |kind: &str| path.contains(&format!("/{kind}/")) || path.ends_with(&format!("/{kind}"));
    match () {
        () if watch => Sort::Watch,
        () if of("leases") && *method == Method::GET => Sort::LeaseRead,
        () if of("leases") && *method == Method::POST => Sort::LeaseCreate,
        () if of("leases") => Sort::LeasePatch,
        () if *method == Method::GET && path.contains("/pods/") => Sort::Look,
        () if *method == Method::GET => Sort::List,
        () if of("configmaps") && *method == Method::POST => Sort::NoteCreate,
        () if of("configmaps") && *method == Method::DELETE => Sort::NoteDelete,
        () if of("configmaps") => Sort::NotePatch,
        () if path.ends_with("/status") => Sort::Status,
        () if of("events") => Sort::Event,
        () => Sort::Release,
    }
}

#[derive(Default)]
struct Book {
    seen: Mutex<Vec<Seen>>,
    nth: Mutex<BTreeMap<Sort, usize>>,
    faults: AtomicU64,
}

impl Book {
    fn enter(&self, request: &RequestInfo, watch: bool) -> Seen {
        let sort = sort(request, watch);
        let nth = {
            let mut nth = lock(&self.nth);
            let nth = nth.entry(sort).or_default();
            *nth += 1;
            *nth
        };
        let body = serde_json::from_slice(&request.body).unwrap_or_default();
        let (path, query) = (request.path.clone(), request.query.clone());
        let seen = Seen { sort, nth, path, query, body };
        lock(&self.seen).push(seen.clone());
        seen
    }
}

/// Wraps a hook so that each request and each fault is recorded.
fn entered<F: 'static>(
    book: Arc<Book>,
    fault: impl Fn(&Seen) -> F + Send + Sync + 'static,
    watch: bool,
    harmless: fn(&F) -> bool,
) -> impl Fn(&RequestInfo) -> F + Send + Sync + 'static {
    move |request| {
        let fault = fault(&book.enter(request, watch));
        if !harmless(&fault) {
            book.faults.fetch_add(1, Ordering::SeqCst);
        }
        fault
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A recording proxy, and the controllers behind it.
pub struct Rig<'a> {
    pub lab: &'a Lab,
    pub proxy: FaultProxy,
    book: Arc<Book>,
}

/// The moment of a crash: before the API server receives the write, or before the controller receives the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Before,
    After,
}

impl<'a> Rig<'a> {
    pub fn new(lab: &'a Lab) -> Result<Rig<'a>> {
        let rig = Rig { lab, proxy: FaultProxy::start(lab.cluster())?, book: Arc::default() };
        rig.pass();
        Ok(rig)
    }

    /// Removes all faults and resets the counts.
    pub fn pass(&self) {
        self.proxy.clear();
        self.on_write(|_| Fault::Pass);
        self.on_read(|_| Fault::Pass);
        self.on_watch(|_| WatchFault::Pass);
        self.forget();
    }

    /// Resets the counts.
    pub fn forget(&self) {
        lock(&self.book.seen).clear();
        lock(&self.book.nth).clear();
        self.book.faults.store(0, Ordering::SeqCst);
    }

    pub fn on_write(&self, fault: impl Fn(&Seen) -> Fault + Send + Sync + 'static) {
        self.proxy.on_write(entered(self.book.clone(), fault, false, |fault| matches!(fault, Fault::Pass)));
    }

    pub fn on_read(&self, fault: impl Fn(&Seen) -> Fault + Send + Sync + 'static) {
        self.proxy.on_read(entered(self.book.clone(), fault, false, |fault| matches!(fault, Fault::Pass)));
    }

    pub fn on_watch(&self, fault: impl Fn(&Seen) -> WatchFault + Send + Sync + 'static) {
        self.proxy
            .on_watch(entered(self.book.clone(), fault, true, |fault| matches!(fault, WatchFault::Pass)));
    }

    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.book.seen).clone()
    }

    pub fn count(&self, wanted: impl Fn(&Seen) -> bool) -> usize {
        lock(&self.book.seen).iter().filter(|seen| wanted(seen)).count()
    }

    pub fn faults(&self) -> usize {
        self.book.faults.load(Ordering::SeqCst) as usize
    }

    pub fn options(&self, args: &[&str]) -> Options {
        Options { server_override: Some(self.proxy.url()), ..Options::args(args) }
    }

    /// Starts a controller behind the proxy and waits until it is ready.
    pub async fn controller(&self, args: &[&str]) -> Result<Controller> {
        Controller::start(self.lab, self.options(args)).await
    }

    /// Holds the next write that satisfies `wanted`.
    pub fn arm(&self, moment: Moment, wanted: impl Fn(&Seen) -> bool + Send + Sync + 'static) -> Held {
        let (hold, held) = Hold::new();
        let hold = Mutex::new(Some(hold));
        self.forget();
        self.on_write(move |seen| match wanted(seen).then(|| lock(&hold).take()).flatten() {
            Some(hold) if moment == Moment::Before => Fault::HoldBefore(hold),
            Some(hold) => Fault::HoldAfter(hold),
            None => Fault::Pass,
        });
        held
    }

    /// Kills the controller at the write that is held.
    pub async fn strike(&self, controller: &mut Controller, mut held: Held) -> Result<()> {
        let reached = tokio::time::timeout(LIMIT, held.reached()).await;
        reached.context("the write was not sent").and_then(|reached| reached).with_context(|| {
            let sorts: Vec<Sort> = self.seen().iter().map(|seen| seen.sort).collect();
            format!("seen: {sorts:?}\n{}", controller.log())
        })?;
        controller.kill()?;
        held.go(Go::Drop);
        self.pass();
        Ok(())
    }

    /// Waits until no write has occurred for longer than any write can be delayed (the second half of L1).
    pub async fn quiet(&self) -> Result<()> {
        let writes = || self.count(|seen| seen.sort.is_write() && !seen.sort.is_lease());
        let mut last = (writes(), Instant::now());
        wait::until("quiet", LIMIT, async || {
            if writes() != last.0 {
                last = (writes(), Instant::now());
            }
            Ok((last.1.elapsed() > QUIET).then_some(()))
        })
        .await
    }
}

/// Returns a predicate that is true for the nth request of a kind about a namespace.
pub fn nth(sort: Sort, nth: usize, namespace: &str) -> impl Fn(&Seen) -> bool + Send + Sync + 'static {
    let (namespace, met) = (namespace.to_owned(), AtomicU64::new(0));
    move |seen| {
        let meant = seen.sort == sort && seen.is_about(&namespace);
        meant && met.fetch_add(1, Ordering::SeqCst) + 1 == nth as u64
    }
}

/// The pods of three groups with four pods each.
pub const A: [&str; 4] = ["a-0", "a-1", "a-2", "a-3"];
pub const B: [&str; 4] = ["b-0", "b-1", "b-2", "b-3"];
pub const C: [&str; 4] = ["c-0", "c-1", "c-2", "c-3"];

/// Three groups of four pods, with both kinds of recorded times: a settle time and a timeout.
pub fn three_by_four(name: &str) -> Value {
    let groups = [
        make::named("a", &A).with(json!({"waitDuration": "300ms"})),
        make::named("b", &B).with(json!({"timeout": "10m"})),
        make::named("c", &C),
    ];
    make::sequence(name, &groups)
}

pub async fn twelve_pods(scene: &Scene<'_>) -> Result<()> {
    let names = [A, B, C].concat();
    create_all(scene, names.iter().map(|name| make::pod(name))).await
}

/// Creates the objects concurrently.
pub async fn create_all(scene: &Scene<'_>, objects: impl IntoIterator<Item = Value>) -> Result<()> {
    let objects: Vec<Value> = objects.into_iter().collect();
    for some in objects.chunks(16) {
        try_join_all(some.iter().map(|object| scene.create(object.clone()))).await?;
    }
    Ok(())
}

async fn pods(scene: &Scene<'_>) -> Result<Vec<Value>> {
    let list = scene.api("Pod").list(&ListParams::default()).await?;
    list.items.into_iter().map(|pod| Ok(serde_json::to_value(pod)?)).collect()
}

/// Returns the numbers of pods without and with Rollcall's gate.
pub async fn gone_and_held(scene: &Scene<'_>) -> Result<(usize, usize)> {
    let pods = pods(scene).await?;
    let held = pods.iter().filter(|pod| gates(pod).contains(&GATE)).count();
    Ok((pods.len() - held, held))
}

/// Fails unless some gates are removed and some are not.
pub async fn in_the_middle(scene: &Scene<'_>, what: &str) -> Result<()> {
    let (gone, held) = gone_and_held(scene).await?;
    ensure!(gone > 0 && held > 0, "{what}: not half-way: {gone} gates removed, {held} held");
    Ok(())
}

/// Returns the state that must be equal in all runs: gates and readiness of the pods, the status without times, and the
/// contents of the note.
pub async fn end_state(scene: &Scene<'_>, sequence: &str) -> Result<Value> {
    let mut status = scene.phase(sequence, "Completed").await?;
    without_times(&mut status);
    let mut told: Vec<(String, Value)> = Vec::new();
    for pod in pods(scene).await? {
        told.push((name_of(&pod), json!({"gates": gates(&pod), "ready": is_ready(&pod)})));
    }
    told.sort_by(|one, other| one.0.cmp(&other.0));
    let uid = scene.get("PodSequence", sequence).await?["metadata"]["uid"].clone();
    let notes = scene.api_in("ConfigMap", OWN_NAMESPACE).list(&ListParams::default()).await?;
    let mut note = Value::Null;
    for map in notes.items {
        let map = serde_json::to_value(map)?;
        let text = map["data"]["note"].as_str().unwrap_or_default();
        let said: Value = serde_json::from_str(text).unwrap_or_default();
        if said["uid"] == uid {
            note = said["members"].clone();
        }
    }
    Ok(json!({"status": status, "pods": told, "note": note}))
}

/// Counts the notes about the sequences of a scene.
pub async fn notes_about(scene: &Scene<'_>) -> Result<usize> {
    notes_with(scene, &format!("\"namespace\":\"{}\"", scene.namespace)).await
}

/// Counts the notes about one sequence.
pub async fn notes_of(scene: &Scene<'_>, sequence: &str) -> Result<usize> {
    notes_with(scene, &format!("\"namespace\":\"{}\",\"name\":\"{sequence}\"", scene.namespace)).await
}

async fn notes_with(scene: &Scene<'_>, part: &str) -> Result<usize> {
    let maps = scene.api_in("ConfigMap", OWN_NAMESPACE).list(&ListParams::default()).await?;
    let text =
        |map: &kube::api::DynamicObject| map.data["data"]["note"].as_str().unwrap_or_default().to_owned();
    Ok(maps.items.iter().filter(|map| text(map).contains(part)).count())
}

/// Waits until the end state equals `wanted`. Invariant L1 allows a minute after the last fault.
pub async fn ends_as(scene: &Scene<'_>, sequence: &str, wanted: &Value) -> Result<()> {
    let mut last = Value::Null;
    let reached = wait::until("the same end state", RECOVERY, async || {
        // A restarted API server may briefly reject requests of the test itself.
        last = end_state(scene, sequence).await.unwrap_or_else(|error| json!(format!("{error:#}")));
        Ok((last == *wanted).then_some(()))
    });
    let reached = reached.await;
    reached.with_context(|| format!("ended as {last}\nnot as {wanted}"))
}

pub fn without_times(value: &mut Value) {
    const TIMES: [&str; 5] = ["openedAt", "completedAt", "lastTransitionTime", "since", "resumedAt"];
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| !TIMES.contains(&key.as_str()));
            fields.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// The end state of a run without faults, and its number of writes by kind.
pub struct Calm {
    pub end: Value,
    pub writes: BTreeMap<Sort, usize>,
}

/// Runs three groups of four pods without faults, with a controller that is already running; once for all tests of a file.
pub async fn calm(rig: &Rig<'_>) -> Result<&'static Calm> {
    static CALM: tokio::sync::OnceCell<Calm> = tokio::sync::OnceCell::const_new();
    CALM.get_or_try_init(async || run_calmly(rig).await).await
}

async fn run_calmly(rig: &Rig<'_>) -> Result<Calm> {
    let scene = Scene::without_controller(rig.lab, "calm").await?;
    rig.pass();
    twelve_pods(&scene).await?;
    scene.create(three_by_four("calm")).await?;
    let end = end_state(&scene, "calm").await?;
    // The last event is written a second after the one before it.
    scene.event("calm", "is complete").await?;
    let mut writes = BTreeMap::new();
    for seen in rig.seen().iter().filter(|seen| seen.sort.is_write() && seen.is_about(&scene.namespace)) {
        *writes.entry(seen.sort).or_default() += 1;
    }
    ensure!(writes.get(&Sort::Release) == Some(&12), "a run without faults wrote {writes:?}");
    scene.done().await?;
    Ok(Calm { end, writes })
}
