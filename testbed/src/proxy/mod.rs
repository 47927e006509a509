//! Injects faults between a client and the API server.
//!
//! The proxy is a plain HTTP/1.1 reverse proxy on the loopback address. It forwards the client's token, streams
//! watches, and asks the test's hooks what to do with each request. It does not support upgrades (`kubectl exec`).

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

/// A request, as passed to a hook.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// The number of the request among those of its sort (write, read, watch), counted from 1.
    pub n: u64,
    pub method: Method,
    pub path: String,
    pub query: String,
    pub body: Bytes,
}

/// A fault of a write or of a read that is not a watch.
#[derive(Debug, Default)]
pub enum Fault {
    /// No fault.
    #[default]
    Pass,
    /// Closes the connection without forwarding the request.
    Drop,
    /// Forwards the request, but closes the connection instead of sending the response.
    LoseAnswer,
    /// Forwards the request, but sends only half of the response's body.
    CutAnswer,
    /// Delays the request.
    Delay(Duration),
    /// Delays the response.
    DelayAnswer(Duration),
    /// Responds with this status and a Kubernetes `Status`, without forwarding the request.
    Status(StatusCode),
    /// Responds with this status and body, without forwarding the request.
    Raw(StatusCode, Bytes),
    /// Holds the request before it is forwarded, until the test decides how to continue.
    HoldBefore(Hold),
    /// Holds the response after the server has executed the request, until the test decides how to continue.
    HoldAfter(Hold),
}

/// A fault of a watch. Events are counted per request, including bookmarks.
#[derive(Default)]
pub enum WatchFault {
    #[default]
    Pass,
    /// Closes the connection without forwarding the request.
    Drop,
    /// Responds with this status instead of a watch: `410 Gone` for an expired resourceVersion.
    Status(StatusCode),
    /// Breaks the connection after this many events.
    CutAfter(u64),
    /// Ends the stream properly after this many events.
    EndAfter(u64),
    /// Keeps the stream open without further events after this many events.
    SilentAfter(u64),
    /// Sends an ERROR event with code 410 after this many events, and ends the stream.
    GoneAfter(u64),
    /// Replaces every event with the events that this function returns: none, the event twice, an older event.
    Rewrite(Rewrite),
}

/// Returns the events that replace an event.
pub type Rewrite = Box<dyn FnMut(Value) -> Vec<Value> + Send>;

/// The proxy's half of a hold point; see [`Hold::new`].
#[derive(Debug)]
pub struct Hold {
    reached: oneshot::Sender<()>,
    go: oneshot::Receiver<Go>,
}

/// The test's half of a hold point.
#[derive(Debug)]
pub struct Held {
    reached: Option<oneshot::Receiver<()>>,
    go: oneshot::Sender<Go>,
}

/// How a held request continues. If the [`Held`] is dropped, the connection closes.
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
    /// Waits until the request is held.
    pub async fn reached(&mut self) -> Result<()> {
        match self.reached.take() {
            Some(reached) => reached.await.context("the request was never held"),
            None => Ok(()),
        }
    }

    pub fn go(self, go: Go) {
        // The client may have disconnected, which tests do on purpose.
        let _ = self.go.send(go);
    }
}

/// The state of the connection between client and server, for all requests together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    Open,
    /// No data passes, neither for open watches nor for new requests; nothing is closed.
    Silent,
    /// Open watches break, and connections of new requests are closed.
    Cut,
}

type Hook<F> = Arc<dyn Fn(&RequestInfo) -> F + Send + Sync>;

/// The state that the serving tasks share with the test.
struct Shared {
    upstream: String,
    ca: Vec<u8>,
    line: channel::Sender<Line>,
    /// A counter; a change breaks all open watches.
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

    /// The URL for [`Cluster::service_account_kubeconfig_at`] and [`Cluster::kubeconfig_at`].
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the hook for every POST, PUT, PATCH and DELETE.
    pub fn on_write(&self, hook: impl Fn(&RequestInfo) -> Fault + Send + Sync + 'static) {
        *lock(&self.shared.on_write) = Some(Arc::new(hook));
    }

    /// Sets the hook for every GET that is not a watch.
    pub fn on_read(&self, hook: impl Fn(&RequestInfo) -> Fault + Send + Sync + 'static) {
        *lock(&self.shared.on_read) = Some(Arc::new(hook));
    }

    /// Sets the hook for every new watch. Open watches are not affected (see [`FaultProxy::line`]).
    pub fn on_watch(&self, hook: impl Fn(&RequestInfo) -> WatchFault + Send + Sync + 'static) {
        *lock(&self.shared.on_watch) = Some(Arc::new(hook));
    }

    /// Removes all hooks and opens the line.
    pub fn clear(&self) {
        *lock(&self.shared.on_write) = None;
        *lock(&self.shared.on_read) = None;
        *lock(&self.shared.on_watch) = None;
        self.line(Line::Open);
    }

    /// Cuts, silences or opens the line, also for open watches.
    pub fn line(&self, line: Line) {
        self.shared.line.send_replace(line);
    }

    /// Breaks every open watch; new ones succeed.
    pub fn cut_watches(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// The number of writes so far.
    pub fn writes(&self) -> u64 {
        self.shared.writes.load(Ordering::SeqCst)
    }

    /// The number of reads so far, without watches.
    pub fn reads(&self) -> u64 {
        self.shared.reads.load(Ordering::SeqCst)
    }

    /// The number of watches opened so far.
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
