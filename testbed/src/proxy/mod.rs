//! Faults between a client and the API server.
//!
//! A plain-HTTP/1.1 reverse proxy on the loopback address. It forwards the client's token, streams watches and asks
//! the test's hooks what to do with each request. Upgrades (`kubectl exec`) do not go through it.

mod forward;
mod watch;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use http::{Method, StatusCode};
use hyper::body::Bytes;
use serde_json::Value;
use tokio::sync::{oneshot, watch as channel};

use crate::cluster::Cluster;

/// A request as a hook sees it.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// The how-manieth of its sort (write, read, watch), from 1.
    pub n: u64,
    pub method: Method,
    pub path: String,
    pub query: String,
    pub body: Bytes,
}

/// What happens to a write or a plain read.
#[derive(Debug, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    Pass,
    /// The connection closes and the server never hears of the request.
    Drop,
    /// The server carries the request out; the client sees the connection close.
    LoseAnswer,
    /// The server carries the request out; the client gets half of the answer's body.
    CutAnswer,
    /// The request is late.
    Delay(Duration),
    /// The answer is late.
    DelayAnswer(Duration),
    /// This status with a Kubernetes `Status` as body, instead of asking the server.
    Status(StatusCode),
    /// This status and body, instead of asking the server.
    Raw(StatusCode, Bytes),
    /// Stand still before the server hears of it, until the test says how to go on.
    HoldBefore(Hold),
    /// Stand still after the server has carried it out and before the client hears of it.
    HoldAfter(Hold),
}

/// What happens to a watch. Events are counted per request, bookmarks included.
#[derive(Default)]
pub enum WatchFault {
    #[default]
    Pass,
    /// The connection closes and the server never hears of the request.
    Drop,
    /// This status instead of a watch: `410 Gone` for an expired resourceVersion.
    Status(StatusCode),
    /// The stream breaks after so many events.
    CutAfter(u64),
    /// The stream ends properly after so many events.
    EndAfter(u64),
    /// The stream stays open after so many events and says nothing more.
    SilentAfter(u64),
    /// After so many events comes an ERROR event with code 410, and the end.
    GoneAfter(u64),
    /// Every event is replaced by what this makes of it: nothing, itself twice, an older one.
    Rewrite(Rewrite),
}

/// Makes events out of one event.
pub type Rewrite = Box<dyn FnMut(Value) -> Vec<Value> + Send>;

/// The proxy's half of a point where a request stands still; see [`Hold::new`].
#[derive(Debug)]
pub struct Hold {
    reached: oneshot::Sender<()>,
    go: oneshot::Receiver<Go>,
}

/// The test's half.
#[derive(Debug)]
pub struct Held {
    reached: Option<oneshot::Receiver<()>>,
    go: oneshot::Sender<Go>,
}

/// How a held request goes on. When the [`Held`] is dropped, the connection closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    On,
    Drop,
}

impl Hold {
    pub fn new() -> (Hold, Held) {
        let ((reached, wait), (go, gone)) = (oneshot::channel(), oneshot::channel());
        (Hold { reached, go: gone }, Held { reached: Some(wait), go })
    }

    async fn stand_still(self) -> Go {
        let _ = self.reached.send(());
        self.go.await.unwrap_or(Go::Drop)
    }
}

impl Held {
    /// Waits until the request is at its point.
    pub async fn reached(&mut self) -> Result<()> {
        match self.reached.take() {
            Some(reached) => reached.await.context("the request was never held"),
            None => Ok(()),
        }
    }

    pub fn go(self, go: Go) {
        // The client may be gone by now, which is what tests do to it.
        let _ = self.go.send(go);
    }
}

/// The state of the line between client and server, for everything at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    Open,
    /// Open watches, new requests: nothing is answered, nothing is closed.
    Silent,
    /// Open watches break, new requests meet a closed connection.
    Cut,
}

type Hook<F> = Arc<dyn Fn(&RequestInfo) -> F + Send + Sync>;

/// What the serving tasks share with the test.
struct Shared {
    upstream: String,
    ca: Vec<u8>,
    line: channel::Sender<Line>,
    /// Counts up to break the watches that run.
    cuts: channel::Sender<u64>,
    writes: AtomicU64,
    reads: AtomicU64,
    watches: AtomicU64,
    on_write: Mutex<Option<Hook<Fault>>>,
    on_read: Mutex<Option<Hook<Fault>>>,
    on_watch: Mutex<Option<Hook<WatchFault>>>,
}

/// The proxy. It serves on a thread of its own until it is dropped.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultProxy({})", self.address)
    }
}

impl FaultProxy {
    pub fn start(cluster: &Cluster) -> Result<FaultProxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream: cluster.server(),
            ca: cluster.authority.der(),
            line: channel::Sender::new(Line::Open),
            cuts: channel::Sender::new(0),
            writes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            watches: AtomicU64::new(0),
            on_write: Mutex::new(None),
            on_read: Mutex::new(None),
            on_watch: Mutex::new(None),
        });
        let (stop, stopped) = oneshot::channel();
        let client = forward::client(&shared)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = shared.clone();
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    result = forward::serve(listener, serving, client) => {
                        if let Err(error) = result {
                            eprintln!("testbed: the fault proxy ended: {error:#}");
                        }
                    }
                    _ = stopped => {}
                }
            });
        });
        Ok(FaultProxy { address, shared, stop: Some(stop) })
    }

    /// For [`Cluster::service_account_kubeconfig_at`] and [`Cluster::kubeconfig_at`].
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks this for every POST, PUT, PATCH and DELETE from now on.
    pub fn on_write(&self, hook: impl Fn(&RequestInfo) -> Fault + Send + Sync + 'static) {
        *lock(&self.shared.on_write) = Some(Arc::new(hook));
    }

    /// Asks this for every GET that is not a watch.
    pub fn on_read(&self, hook: impl Fn(&RequestInfo) -> Fault + Send + Sync + 'static) {
        *lock(&self.shared.on_read) = Some(Arc::new(hook));
    }

    /// Asks this for every new watch; those that run are not touched (see [`FaultProxy::line`]).
    pub fn on_watch(&self, hook: impl Fn(&RequestInfo) -> WatchFault + Send + Sync + 'static) {
        *lock(&self.shared.on_watch) = Some(Arc::new(hook));
    }

    /// No more faults: hooks go, the line is open.
    pub fn clear(&self) {
        *lock(&self.shared.on_write) = None;
        *lock(&self.shared.on_read) = None;
        *lock(&self.shared.on_watch) = None;
        self.line(Line::Open);
    }

    /// Cuts, silences or opens the line, for watches that run as well.
    pub fn line(&self, line: Line) {
        self.shared.line.send_replace(line);
    }

    /// Breaks every watch that runs; new ones go through.
    pub fn cut_watches(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// How many writes came by.
    pub fn writes(&self) -> u64 {
        self.shared.writes.load(Ordering::SeqCst)
    }

    /// How many reads came by, watches not counted.
    pub fn reads(&self) -> u64 {
        self.shared.reads.load(Ordering::SeqCst)
    }

    /// How many watches were opened.
    pub fn watches(&self) -> u64 {
        self.shared.watches.load(Ordering::SeqCst)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
