//! A controller process, which can be killed, paused and restarted.

use super::faults::Faults;
use super::faulty::Faulty;
use super::seen::Seen;
use crate::server::Shared;
use jiff::SignedDuration;
use rollcall_controller::clock::Clock;
use rollcall_controller::shared::Shared as Controller;
use rollcall_controller::{Config, run_with};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Time until an ended process is restarted.
const START: Duration = Duration::from_millis(300);
/// Interval of the kubelet's `/livez` probe. If the probe fails, the process is restarted.
const PROBE: Duration = Duration::from_secs(10);

/// Ends a process immediately from within, as a crash does.
#[derive(Clone, Default)]
pub struct Crash(Arc<Notify>);

impl Crash {
    pub fn now(&self) {
        self.0.notify_one();
    }
}

/// Controls a process from outside.
#[derive(Clone, Default)]
pub struct Handle {
    pub crash: Crash,
    freeze: Freeze,
    state: Arc<Mutex<ProcessState>>,
}

#[derive(Default)]
struct ProcessState {
    stop: CancellationToken,
    /// Clock error in milliseconds, effective from the next start.
    skew: i64,
    /// Additional delay of the next restart.
    away: Duration,
    /// The controllers of this process, one for each start.
    controllers: Vec<Arc<Controller>>,
}

impl Handle {
    fn state(&self) -> MutexGuard<'_, ProcessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process gracefully, as SIGTERM does.
    pub fn stop(&self) {
        self.state().stop.cancel();
    }

    pub fn pause(&self, paused: bool) {
        self.freeze.set(paused);
    }

    pub fn skew(&self, milliseconds: i64) {
        self.state().skew = milliseconds;
    }

    /// Ends the process immediately, and delays its restart by this time.
    pub fn kill_for(&self, time: Duration) {
        self.state().away = time;
        self.crash.now();
    }

    pub fn controllers(&self) -> Vec<Arc<Controller>> {
        self.state().controllers.clone()
    }
}

/// A controller that is restarted whenever it ends.
pub struct Process {
    pub number: usize,
    pub shared: Arc<Shared>,
    pub faults: Faults,
    pub seen: Seen,
    pub config: Config,
    pub clock: Clock,
    pub handle: Handle,
}

impl Process {
    pub async fn run_for_ever(self) {
        loop {
            self.run_once().await;
            let away = std::mem::take(&mut self.handle.state().away);
            tokio::time::sleep(START + away).await;
        }
    }

    async fn run_once(&self) {
        let Process { number, shared, faults, seen, config, clock, handle } = self;
        faults.begins(*number);
        seen.begins(*number);
        let (stop, controller) = (CancellationToken::new(), Arc::<Controller>::default());
        let skew = {
            let mut state = handle.state();
            state.stop = stop.clone();
            state.controllers.push(controller.clone());
            SignedDuration::from_millis(state.skew)
        };
        let own_clock = Clock::starting_at(clock.now().checked_add(skew).unwrap_or(clock.now()));
        let way = Faulty::new(*number, shared.clone(), faults.clone(), seen.clone(), handle.crash.clone());
        let client = kube::Client::new(way, "default");
        let inner = Box::pin(run_with(client, config.clone(), own_clock, controller.clone(), stop));
        tokio::select! {
            biased;
            () = handle.crash.0.notified() => {}
            () = liveness_failed(&controller) => {}
            _ended = Frozen { freeze: handle.freeze.clone(), inner } => {}
        }
    }
}

/// Completes when `/livez` fails.
async fn liveness_failed(controller: &Controller) {
    loop {
        tokio::time::sleep(PROBE).await;
        if controller.health.dead().is_some() {
            return;
        }
    }
}

/// Whether a process is paused. The future of a paused process is not polled.
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
