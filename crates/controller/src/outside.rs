//! Probes and metrics, served on a separate thread. A step of the loop can take long; if probes got no answer meanwhile, the
//! kubelet would restart a working controller.

use crate::health::{probe, scrape};
use crate::server::limits::Limits;
use crate::server::{HttpAnswer, plain, serve};
use crate::shared::Shared;
use anyhow::Context;
use http::Method;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The serving thread. It ends when this is dropped, so probes are answered until the loop has drained.
pub struct Outside {
    stop: CancellationToken,
    ended: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

type Respond = fn(&Shared, &Method, &str) -> HttpAnswer;

impl Outside {
    /// Binds the addresses and starts the thread. An address that is not available is reported immediately.
    pub fn start(
        probes: Option<SocketAddr>,
        scrapes: Option<SocketAddr>,
        shared: &Arc<Shared>,
    ) -> anyhow::Result<Outside> {
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let probes = listen(probes)?.map(|listener| (listener, Limits::HEALTH, probe as Respond));
        let scrapes = listen(scrapes)?.map(|listener| (listener, Limits::METRICS, scrape as Respond));
        let servers: Vec<_> = probes.into_iter().chain(scrapes).collect();
        if servers.is_empty() {
            return Ok(Outside { stop, ended, thread: None });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (shared, until, end) = (shared.clone(), stop.clone(), ended.clone().drop_guard());
        let run = move || {
            let _end = end;
            runtime.block_on(async {
                let servers = servers.into_iter().map(|server| serve_one(server, shared.clone()));
                tokio::select! {
                    biased;
                    () = until.cancelled() => {}
                    failed = futures::future::try_join_all(servers) => {
                        if let Err(error) = failed {
                            tracing::error!(%error, "cannot serve probes and metrics");
                        }
                    }
                }
            });
        };
        let thread = std::thread::Builder::new().name("outside".into()).spawn(run)?;
        Ok(Outside { stop, ended, thread: Some(thread) })
    }

    /// Completes when the thread has ended, which only happens after an error.
    pub async fn ended(&mut self) {
        match self.thread {
            Some(_) => self.ended.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.stop.cancel();
        // A panic of the thread has already been reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn listen(address: Option<SocketAddr>) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}

async fn serve_one(server: (TcpListener, Limits, Respond), shared: Arc<Shared>) -> std::io::Result<()> {
    let (listener, limits, respond) = server;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let about = shared.clone();
    let handler = move |request: http::Request<_>| {
        let answer = respond(&about, request.method(), request.uri().path());
        async move { answer }
    };
    // The server is dropped without a graceful shutdown: no client waits for a probe to end.
    serve(listener, limits, shared, plain, handler, CancellationToken::new()).await;
    Ok(())
}
