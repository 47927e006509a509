//! Probes and metrics beside a loop that is busy for a long time.

use anyhow::{Context, Result};
use http::{Request, Response};
use http_body_util::Full;
use kube::Client;
use rollcall_controller::clock::Clock;
use rollcall_controller::{Config, run};
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(180);

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn config(probes: SocketAddr, metrics: SocketAddr) -> Config {
    Config {
        namespace: "own".into(),
        full: false,
        taint_prefix: rollcall_core::sequence::keys::PREFIX,
        metrics_bind_address: Some(metrics),
        health_probe_bind_address: Some(probes),
        leader_elect: false,
        lease_duration: Duration::from_secs(15),
        identity: "test".into(),
        max_in_flight: 8,
        reservations: false,
        guardians: rollcall_controller::plain_guardians(),
        dry_run: false,
        seed: 1,
    }
}

fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
    Ok((head.split(' ').nth(1).context("a status")?.parse()?, body.to_owned()))
}

/// A client whose first request blocks its thread until `go` is dropped, like a long step of the loop.
fn blocking(blocked: std::sync::mpsc::Sender<()>, go: Receiver<()>) -> Client {
    let go = Arc::new(Mutex::new(go));
    let service = tower::service_fn(move |_: Request<kube::client::Body>| {
        let (blocked, go) = (blocked.clone(), go.clone());
        async move {
            let _ = blocked.send(());
            // Returns immediately when the test has ended.
            let _ = go.lock().map(|go| go.recv_timeout(LIMIT));
            let list = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;
            Ok::<_, Infallible>(Response::new(Full::new(bytes::Bytes::from_static(list.as_bytes()))))
        }
    });
    Client::new(service, "default")
}

#[test]
fn probes_are_answered_while_the_loop_is_busy() -> Result<()> {
    let (probes, metrics) = (free_address()?, free_address()?);
    let (blocked, is_blocked) = channel();
    let (go, until) = channel();
    let stop = CancellationToken::new();
    let controller = std::thread::spawn({
        let stop = stop.clone();
        move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let client = runtime.block_on(async { blocking(blocked, until) });
            let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
            runtime.block_on(run(client, config(probes, metrics), clock, stop))
        }
    });
    is_blocked.recv_timeout(LIMIT).context("the loop has not started")?;
    assert_eq!(get(probes, "/livez")?, (200, "ok\n".into()));
    assert_eq!((get(probes, "/readyz")?.0, get(probes, "/startupz")?.0), (503, 503));
    let (status, text) = get(metrics, "/metrics")?;
    assert_eq!(status, 200);
    assert!(text.contains("rollcall_connections{server=\"metrics\"} 1\n"), "{text}");
    assert_eq!((get(metrics, "/")?.0, get(probes, "/metrics")?.0), (404, 404));
    drop(go);
    stop.cancel();
    controller.join().map_err(|_| anyhow::anyhow!("the controller panicked"))??;
    assert!(TcpStream::connect(probes).is_err() && TcpStream::connect(metrics).is_err());
    Ok(())
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error_at_once() -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let (blocked, _is_blocked) = channel();
    let client = blocking(blocked, channel().1);
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let config = config(free_address()?, taken.local_addr()?);
    let ended = tokio::time::timeout(LIMIT, run(client, config, clock, CancellationToken::new())).await?;
    assert!(ended.is_err_and(|error| format!("{error:#}").contains("cannot listen on")));
    Ok(())
}
