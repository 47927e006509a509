//! The server, as an API server and as somebody worse meets it: real sockets, real TLS.

mod cases;
mod common;

use anyhow::{Context, Result};
use common::{facts, request, review_of, roster};
use rollcall_controller::shared::Shared;
use rollcall_webhook::certificates::Served;
use rollcall_webhook::certificates::make::{Made, make};
use rollcall_webhook::certificates::read::certificates;
use rollcall_webhook::server::serve;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "shop";

struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    served: Arc<Served>,
    stop: CancellationToken,
    task: JoinHandle<Result<()>>,
}

fn certificate() -> Made {
    let now = jiff::Timestamp::now();
    make(&["localhost".to_owned()], now, Duration::from_secs(3600)).expect("a certificate")
}

async fn start(made: &Made) -> Result<Server> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (shared, served, stop) =
        (Arc::new(Shared::default()), Arc::new(Served::default()), CancellationToken::new());
    served.serve(made.pair.certified()?);
    let task = tokio::spawn(serve(listener, served.clone(), shared.clone(), stop.clone()));
    Ok(Server { address, shared, served, stop, task })
}

impl Server {
    /// All sequences are known: one that claims `held`.
    fn knows(&self) {
        let spec = json!({ "podGroups": [{ "pods": ["held"] }] });
        let mut known = roster(&facts(&[cases::sequence(NAMESPACE, "s", spec)]));
        known.completed();
        *self.shared.roster_mut() = known;
    }

    async fn connect(&self, authority: &str) -> Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        certificates(authority).into_iter().try_for_each(|authority| roots.add(authority))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost")?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
    }
}

/// One request on a connection that is kept, and its status and body.
async fn send(stream: &mut TlsStream<TcpStream>, head: &str, body: &[u8]) -> Result<(u16, String)> {
    let length = body.len();
    let head = format!("{head} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    // A server that has had enough closes while we still write.
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
        anyhow::ensure!(stream.read_buf(&mut answer).await? > 0, "closed in the middle");
    }
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, String::from_utf8(answer[begin..].to_vec())?))
}

fn held() -> Vec<u8> {
    let pod = cases::pod(&json!({ "metadata": { "name": "held" } }));
    request("pods", NAMESPACE, pod).to_string().into_bytes()
}

#[tokio::test]
async fn reviews_are_answered_as_soon_as_all_sequences_are_known() -> Result<()> {
    let made = certificate();
    let server = start(&made).await?;
    let mut stream = server.connect(&made.authority).await?;
    let (status, said) = send(&mut stream, "POST /mutate", &held()).await?;
    assert_eq!(status, 503, "who does not know cannot say that nobody claims it: {said}");
    server.knows();
    let (status, answer) = send(&mut stream, "POST /mutate?timeout=2s", &held()).await?;
    let answer: Value = serde_json::from_str(&answer)?;
    assert_eq!((status, &answer["response"]["patchType"]), (200, &json!("JSONPatch")));
    assert_eq!(
        (&answer["response"]["uid"], &answer["response"]["allowed"]),
        (&json!("the-uid"), &json!(true))
    );
    Ok(())
}

#[tokio::test]
async fn what_is_no_review_gets_an_answer_all_the_same() -> Result<()> {
    let made = certificate();
    let server = start(&made).await?;
    server.knows();
    for (head, body, expected) in [
        ("GET /mutate", "", 405),
        ("POST /", "{}", 404),
        ("POST /mutate", "", 400),
        ("POST /mutate", "no JSON", 400),
        ("POST /mutate", "{\"kind\":", 400),
        ("POST /mutate", "\u{0}\u{1}", 400),
        ("POST /mutate", "{}", 200),
        ("POST /mutate", "[]", 200),
        ("POST /mutate", "null", 200),
        ("POST /mutate", &review_of(json!({ "uid": 7 })).to_string(), 200),
        ("POST /mutate", &request("pods", NAMESPACE, json!("pod")).to_string(), 200),
        ("POST /mutate", &request("pods", NAMESPACE, json!({ "spec": [] })).to_string(), 200),
        ("POST /mutate", &"[".repeat(1000), 400),
        ("POST /mutate", &format!("{{\"kind\": \"{}\"}}", "x".repeat(1 << 20)), 200),
    ] {
        let mut stream = server.connect(&made.authority).await?;
        let (status, said) = send(&mut stream, head, body.as_bytes()).await?;
        assert_eq!(status, expected, "{head} {}: {said}", body.chars().take(40).collect::<String>());
        if status == 200 {
            let answer: Value = serde_json::from_str(&said)?;
            assert_eq!(answer["response"]["allowed"], true, "{body}");
        }
    }
    // Larger than any review: it is told so, unless it still writes when the connection ends.
    let mut stream = server.connect(&made.authority).await?;
    let answer = send(&mut stream, "POST /mutate", &vec![b' '; 9 << 20]).await;
    assert!(answer.is_err() || answer.is_ok_and(|(status, _)| status == 400));
    let mut stream = server.connect(&made.authority).await?;
    assert_eq!(send(&mut stream, "POST /mutate", &held()).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn callers_that_say_nothing_or_nonsense_hold_up_nobody() -> Result<()> {
    let made = certificate();
    let server = start(&made).await?;
    server.knows();
    // No handshake, half of one, another protocol, a request that does not end.
    let _silent = TcpStream::connect(server.address).await?;
    let mut half = TcpStream::connect(server.address).await?;
    half.write_all(&[22, 3, 1, 2]).await?;
    let mut plain = TcpStream::connect(server.address).await?;
    plain.write_all(b"POST /mutate HTTP/1.1\r\n\r\n").await?;
    let mut endless = server.connect(&made.authority).await?;
    endless.write_all(b"POST /mutate HTTP/1.1\r\ncontent-length: 10\r\n\r\n{").await?;
    let stranger = certificate();
    assert!(server.connect(&stranger.authority).await.is_err(), "a caller that does not trust us");

    let mut stream = server.connect(&made.authority).await?;
    assert_eq!(send(&mut stream, "POST /mutate", &held()).await?.0, 200);
    let mut answer = Vec::new();
    // It is told off, by an alert, or the connection ends.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"));
    Ok(())
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() -> Result<()> {
    let (old, new) = (certificate(), certificate());
    let server = start(&old).await?;
    server.knows();
    let mut kept = server.connect(&old.authority).await?;
    server.served.serve(new.pair.certified()?);
    assert_eq!(send(&mut kept, "POST /mutate", &held()).await?.0, 200, "one that is open stays so");
    assert!(server.connect(&old.authority).await.is_err());
    let mut fresh = server.connect(&new.authority).await?;
    assert_eq!(send(&mut fresh, "POST /mutate", &held()).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn it_ends_in_order() -> Result<()> {
    let made = certificate();
    let server = start(&made).await?;
    server.knows();
    let mut idle = server.connect(&made.authority).await?;
    assert_eq!(send(&mut idle, "POST /mutate", &held()).await?.0, 200);
    server.stop.cancel();
    tokio::time::timeout(Duration::from_secs(30), server.task).await???;
    assert!(send(&mut idle, "POST /mutate", &held()).await.is_err());
    assert!(TcpStream::connect(server.address).await.is_err());
    Ok(())
}
