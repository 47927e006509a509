//! The server, as the API server and malicious clients use it: real sockets, real TLS.

use crate::common::{request, review_of};
use crate::dial::{NAMESPACE, Server, certificate, held, send};
use anyhow::Result;
use rollcall_controller::metrics::{ByServer, TurnedAway};
use rollcall_controller::server::limits::Limits;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn reviews_are_answered_as_soon_as_all_sequences_are_known() -> Result<()> {
    let made = certificate();
    let server = Server::start(&made, Limits::WEBHOOK).await?;
    let mut stream = server.connect(&made.authority).await?;
    let (status, said) = send(&mut stream, "POST /mutate", &held()).await?;
    assert_eq!(status, 503, "must not answer before the sequences are known: {said}");
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
    let server = Server::start(&made, Limits::WEBHOOK).await?;
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
    // A body larger than any review: the client gets a 413, unless it is still writing when the server closes the
    // connection.
    let mut stream = server.connect(&made.authority).await?;
    let answer = send(&mut stream, "POST /mutate", &vec![b' '; 11 << 20]).await;
    assert!(answer.is_err() || answer.is_ok_and(|(status, _)| status == 413));
    let mut stream = server.connect(&made.authority).await?;
    assert_eq!(send(&mut stream, "POST /mutate", &held()).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn callers_that_say_nothing_or_nonsense_hold_up_nobody() -> Result<()> {
    let made = certificate();
    let server = Server::start(&made, Limits::WEBHOOK).await?;
    server.knows();
    // No handshake, half a handshake, another protocol, a request that never ends.
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
    // The server sends a TLS alert, or closes the connection.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"));
    Ok(())
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() -> Result<()> {
    let (old, new) = (certificate(), certificate());
    let server = Server::start(&old, Limits::WEBHOOK).await?;
    server.knows();
    let mut kept = server.connect(&old.authority).await?;
    server.served.serve(new.pair.certified()?);
    assert_eq!(send(&mut kept, "POST /mutate", &held()).await?.0, 200, "an open connection stays open");
    assert!(server.connect(&old.authority).await.is_err());
    let mut fresh = server.connect(&new.authority).await?;
    assert_eq!(send(&mut fresh, "POST /mutate", &held()).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn it_ends_in_order() -> Result<()> {
    let made = certificate();
    let server = Server::start(&made, Limits::WEBHOOK).await?;
    server.knows();
    let mut idle = server.connect(&made.authority).await?;
    assert_eq!(send(&mut idle, "POST /mutate", &held()).await?.0, 200);
    server.stop.cancel();
    tokio::time::timeout(Duration::from_secs(30), server.task).await???;
    assert!(send(&mut idle, "POST /mutate", &held()).await.is_err());
    assert!(TcpStream::connect(server.address).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_review_gets_through_a_crowd_that_says_nothing() -> Result<()> {
    let made = certificate();
    // The crowd has no time limit, so that it stays connected even on a slow machine.
    let limits = Limits { request: Duration::from_secs(600), ..Limits::WEBHOOK };
    let server = Server::start(&made, limits).await?;
    server.knows();
    let mut kept = server.connect(&made.authority).await?;
    assert_eq!(send(&mut kept, "POST /mutate", &held()).await?.0, 200);
    let mut crowd = Vec::new();
    while crowd.len() < limits.connections {
        let address = 2 + crowd.len() / limits.of_one_address;
        crowd.push(server.connect_from(u8::try_from(address)?, &made.authority).await?);
    }
    let open =
        || server.shared.metrics.connections.get_or_create(&ByServer { server: "webhook" }).get() as usize;
    let turned_away = |reason: &'static str| {
        let key = TurnedAway { server: "webhook", reason };
        server.shared.metrics.turned_away.get_or_create(&key).get()
    };
    // The last connection of the crowd has replaced the one that was idle for longest.
    assert_eq!((open(), turned_away("full")), (limits.connections, 1));
    assert!(send(&mut kept, "POST /mutate", &held()).await.is_err());
    let mut caller = server.connect(&made.authority).await?;
    assert_eq!(send(&mut caller, "POST /mutate", &held()).await?.0, 200);
    assert_eq!((open(), turned_away("full")), (limits.connections, 2));
    // An address that has used up its share of connections loses one of its own connections instead.
    let mut caller = server.connect_from(9, &made.authority).await?;
    assert_eq!(send(&mut caller, "POST /mutate", &held()).await?.0, 200);
    assert_eq!((open(), turned_away("address")), (limits.connections, 1));
    Ok(())
}

/// Uses the real limits.
#[tokio::test]
async fn who_says_nothing_is_gone_soon() -> Result<()> {
    let made = certificate();
    let server = Server::start(&made, Limits::WEBHOOK).await?;
    let begun = tokio::time::Instant::now();
    let mut without_tls = TcpStream::connect(server.address).await?;
    let mut with_tls = server.connect(&made.authority).await?;
    let mut rest = Vec::new();
    let both = async { (without_tls.read_to_end(&mut rest).await, with_tls.read_u8().await) };
    let (_, with_tls) = tokio::time::timeout(Duration::from_secs(60), both).await?;
    assert!(with_tls.is_err());
    assert!(begun.elapsed() >= Duration::from_secs(1), "closed before the client could send a request");
    Ok(())
}
