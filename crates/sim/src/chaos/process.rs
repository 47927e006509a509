//! A controller as a process: it can be killed, paused, started anew.

use super::faulty::{Faults, Faulty};
use crate::server::{Server, Shared};
use crate::store::Author;
use jiff::SignedDuration;
use rollcall_controller::clock::Clock;
use rollcall_controller::{Config, run};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long it takes until an ended process is started again.
const START: Duration = Duration::from_millis(300);

/// Ends a process from within, at once: nothing of it runs on.
#[derive(Clone, Default)]
pub struct Crash(Arc<Notify>);

impl Crash {
    pub fn now(&self) {
        self.0.notify_one();
    }
}

/// What can be done to a process from outside.
#[derive(Clone, Default)]
pub struct Handle {
    pub crash: Crash,
    stop: Arc<Mutex<CancellationToken>>,
    freeze: Freeze,
    /// Milliseconds by which its clock is wrong, from its next start on.
    skew: Arc<Mutex<i64>>,
}

impl Handle {
    /// Asks it to end, as SIGTERM does.
    pub fn stop(&self) {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }

    pub fn pause(&self, paused: bool) {
        self.freeze.set(paused);
    }

    pub fn skew(&self, milliseconds: i64) {
        *self.skew.lock().unwrap_or_else(PoisonError::into_inner) = milliseconds;
    }
}

/// Runs a controller, and runs it again whenever it ends, until `last` is over: then it is not started any more.
pub async fn supervise(
    number: usize,
    shared: Arc<Shared>,
    faults: Faults,
    config: Config,
    clock: Clock,
    handle: Handle,
    last: Option<Instant>,
) {
    loop {
        let stop = CancellationToken::new();
        *handle.stop.lock().unwrap_or_else(PoisonError::into_inner) = stop.clone();
        let skew = SignedDuration::from_millis(*handle.skew.lock().unwrap_or_else(PoisonError::into_inner));
        let own_clock = Clock::starting_at(clock.now().checked_add(skew).unwrap_or(clock.now()));
        let server = Server::new(shared.clone(), Author::Controller(number));
        let way = Faulty::new(server, faults.clone(), handle.crash.clone());
        let client = kube::Client::new(way, "default");
        let inner = Box::pin(run(client, config.clone(), own_clock, stop));
        let running = Frozen { freeze: handle.freeze.clone(), inner };
        tokio::select! {
            biased;
            () = handle.crash.0.notified() => {}
            () = until(last) => return,
            _ended = running => {}
        }
        tokio::time::sleep(START).await;
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Whether a process gets any time at all.
#[derive(Clone, Default)]
struct Freeze(Arc<(AtomicBool, Mutex<Option<Waker>>)>);

impl Freeze {
    fn set(&self, frozen: bool) {
        let (is, waker) = &*self.0;
        is.store(frozen, Ordering::Relaxed);
        if let (false, Some(waker)) = (frozen, waker.lock().unwrap_or_else(PoisonError::into_inner).take()) {
            waker.wake();
        }
    }
}

struct Frozen<F> {
    freeze: Freeze,
    inner: Pin<Box<F>>,
}

impl<F: Future> Future for Frozen<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let (frozen, waker) = &*self.freeze.0;
        if frozen.load(Ordering::Relaxed) {
            *waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.inner.as_mut().poll(context)
    }
}
