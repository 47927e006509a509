//! The webhook's server on this machine, and a client for it: real sockets, real TLS.

// Each test file is a crate of its own and uses only a part of this module.
#![allow(dead_code)]

use crate::cases;
use crate::common::{facts, request, roster};
use anyhow::{Context, Result};
use rollcall_controller::server::limits::Limits;
use rollcall_controller::shared::Shared;
use rollcall_webhook::certificates::Served;
use rollcall_webhook::certificates::make::{Made, make};
use rollcall_webhook::certificates::read::certificates;
use rollcall_webhook::server::serve_within;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

pub const NAMESPACE: &str = "shop";

pub struct Server {
    pub address: SocketAddr,
    pub shared: Arc<Shared>,
    pub served: Arc<Served>,
    pub stop: CancellationToken,
    pub task: JoinHandle<Result<()>>,
}

pub fn certificate() -> Made {
    let now = jiff::Timestamp::now();
    make(&["localhost".to_owned()], now, Duration::from_secs(3600)).expect("a certificate")
}

impl Server {
    pub async fn start(made: &Made, limits: Limits) -> Result<Server> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (shared, served, stop) =
            (Arc::new(Shared::default()), Arc::new(Served::default()), CancellationToken::new());
        served.serve(made.pair.certified()?);
        let task = tokio::spawn(serve_within(limits, listener, served.clone(), shared.clone(), stop.clone()));
        Ok(Server { address, shared, served, stop, task })
    }

    /// Makes all sequences known: one sequence, which selects the pod `held`.
    pub fn knows(&self) {
        let spec = json!({ "podGroups": [{ "pods": ["held"] }] });
        let mut known = roster(&facts(&[cases::sequence(NAMESPACE, "s", spec)]));
        known.completed();
        *self.shared.roster_mut() = known;
    }

    pub async fn connect(&self, authority: &str) -> Result<TlsStream<TcpStream>> {
        self.connect_from(1, authority).await
    }

    /// Connects from the loopback address with this last byte.
    pub async fn connect_from(&self, last: u8, authority: &str) -> Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        certificates(authority).into_iter().try_for_each(|authority| roots.add(authority))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
        let stream = socket.connect(self.address).await?;
        let name = ServerName::try_from("localhost")?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
    }
}

/// Sends a request on an open connection, and returns status and body.
pub async fn send(stream: &mut TlsStream<TcpStream>, head: &str, body: &[u8]) -> Result<(u16, String)> {
    let length = body.len();
    let head = format!("{head} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    // The server may close the connection during the write.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let (head, length) = loop {
        anyhow::ensure!(stream.read_buf(&mut answer).await? > 0, "closed: {answer:?}");
        let text = String::from_utf8_lossy(&answer).into_owned();
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        break (head.to_owned(), length.context("a length")?.parse::<usize>()?);
    };
    let begin = head.len() + 4;
    while answer.len() < begin + length {
        anyhow::ensure!(stream.read_buf(&mut answer).await? > 0, "closed before the end of the body");
    }
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, String::from_utf8(answer[begin..].to_vec())?))
}

pub fn held() -> Vec<u8> {
    let pod = cases::pod(&json!({ "metadata": { "name": "held" } }));
    request("pods", NAMESPACE, pod).to_string().into_bytes()
}
