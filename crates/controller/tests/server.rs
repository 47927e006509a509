//! The server as untrusted clients meet it, over real sockets. Expected events have a deadline, and no test depends on the
//! speed of the machine.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Request, StatusCode};
use rollcall_controller::metrics::{ByServer, TurnedAway};
use rollcall_controller::server::limits::{HEADER, Limits};
use rollcall_controller::server::{self, Body, HttpAnswer, plain, serve, text};
use rollcall_controller::shared::Shared;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Deadline for events that must happen.
const LIMIT: Duration = Duration::from_secs(180);
/// Time limit of servers whose clients are meant to be too slow.
const SHORT_TIMEOUT: Duration = Duration::from_millis(100);
const LARGE_ANSWER: usize = 32 << 20;

/// Limits with generous times and few connections.
const PATIENT: Limits = Limits {
    server: "test",
    connections: 3,
    of_one_address: 3,
    longest_body: 64 << 10,
    bodies: 128 << 10,
    handshake: LIMIT,
    request: LIMIT,
    answer: LIMIT,
    idle: Some(LIMIT),
};

struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Answers `GET /` with ok, `/large` with a large body, and `/size` with the length of the request body.
async fn respond(request: Request<Body>) -> HttpAnswer {
    match request.uri().path() {
        "/size" => match request.into_body().read().await {
            Ok(body) => text(StatusCode::OK, body.len().to_string()),
            Err(answer) => answer,
        },
        "/large" => server::answer(StatusCode::OK, "text/plain", Bytes::from(vec![b'x'; LARGE_ANSWER])),
        _ => text(StatusCode::OK, "ok"),
    }
}

impl Server {
    async fn start(limits: Limits) -> Result<Server> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, shared, stop) =
            (listener.local_addr()?, Arc::new(Shared::default()), CancellationToken::new());
        let task = tokio::spawn(serve(listener, limits, shared.clone(), plain, respond, stop.clone()));
        Ok(Server { address, shared, stop, task })
    }

    async fn connect(&self) -> Result<TcpStream> {
        Ok(TcpStream::connect(self.address).await?)
    }

    /// Connects from another address of this machine.
    async fn connect_from(&self, last: u8) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
        Ok(socket.connect(self.address).await?)
    }

    fn open(&self) -> i64 {
        self.shared.metrics.connections.get_or_create(&ByServer { server: "test" }).get()
    }

    fn turned_away(&self, reason: &'static str) -> u64 {
        self.shared.metrics.turned_away.get_or_create(&TurnedAway { server: "test", reason }).get()
    }

    fn bytes_held(&self) -> i64 {
        self.shared.metrics.body_bytes.get()
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LIMIT, wait).await.with_context(|| format!("waited for: {what}"))
}

/// Reads until the server closes the connection.
async fn rest(mut stream: TcpStream) -> Result<String> {
    let mut answer = Vec::new();
    // A reset counts as closed.
    let _ = timeout(LIMIT, stream.read_to_end(&mut answer))
        .await
        .context("the server does not close the connection")?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Reads one answer on a connection that stays open: its status and body.
async fn next_answer(stream: &mut TcpStream) -> Result<(u16, String)> {
    let mut answer = Vec::new();
    loop {
        let read = timeout(LIMIT, stream.read_buf(&mut answer)).await.context("no answer")??;
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.context("a length")?.parse::<usize>()? {
                let status = head.split(' ').nth(1).context("a status")?.parse()?;
                return Ok((status, body.to_owned()));
            }
        }
        if read == 0 {
            bail!("closed after {text:?}");
        }
    }
}

async fn ask(stream: &mut TcpStream) -> Result<(u16, String)> {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await?;
    next_answer(stream).await
}

fn post(length: usize) -> String {
    format!("POST /size HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n")
}

#[tokio::test]
async fn who_says_nothing_or_half_of_it_goes() -> Result<()> {
    let server = Server::start(Limits { request: SHORT_TIMEOUT, ..PATIENT }).await?;
    for (times, said) in
        (1..).zip(["", "G", "GET / HTTP/1.1\r\nhost: a\r\nx", &post(10), &(post(10) + "half")])
    {
        let mut stream = server.connect().await?;
        stream.write_all(said.as_bytes()).await?;
        assert_eq!(rest(stream).await?, "", "{said:?}");
        until("it is counted", || server.turned_away("slow") == times).await?;
    }
    until("nothing is held", || server.bytes_held() == 0 && server.open() == 0).await
}

#[tokio::test]
async fn bytes_one_by_one_give_no_more_time() -> Result<()> {
    let server = Server::start(Limits { request: SHORT_TIMEOUT, ..PATIENT }).await?;
    for begin in ["GET / HTTP/1.1\r\nx: ".to_owned(), post(60_000)] {
        let mut stream = server.connect().await?;
        stream.write_all(begin.as_bytes()).await?;
        let drip = async {
            // Until the connection is reset.
            while stream.write_all(b"a").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LIMIT, drip).await.context("the server does not close the connection")?;
    }
    until("both are counted", || server.turned_away("slow") == 2).await
}

#[tokio::test]
async fn who_does_not_take_the_answer_goes() -> Result<()> {
    let server = Server::start(Limits { answer: SHORT_TIMEOUT, ..PATIENT }).await?;
    let mut stream = server.connect().await?;
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await?;
    until("it is closed", || server.turned_away("slow") == 1 && server.open() == 0).await?;
    assert!(rest(stream).await?.len() < LARGE_ANSWER);
    Ok(())
}

#[tokio::test]
async fn a_long_header_is_refused() -> Result<()> {
    let server = Server::start(PATIENT).await?;
    let mut stream = server.connect().await?;
    let fits = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(HEADER - 100));
    stream.write_all(fits.as_bytes()).await?;
    assert_eq!(next_answer(&mut stream).await?.0, 200);
    // A header whose end may never arrive.
    let endless = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(HEADER));
    stream.write_all(endless.as_bytes()).await?;
    assert!(rest(stream).await?.starts_with("HTTP/1.1 431"));
    until("it is counted", || server.turned_away("header") == 1).await
}

#[tokio::test]
async fn a_long_body_is_refused() -> Result<()> {
    let server = Server::start(PATIENT).await?;
    let longest = PATIENT.longest_body;
    let mut stream = server.connect().await?;
    stream.write_all((post(longest) + &"a".repeat(longest)).as_bytes()).await?;
    assert_eq!(next_answer(&mut stream).await?, (200, longest.to_string()));
    // Rejected before any of the body is sent.
    stream.write_all(post(longest + 1).as_bytes()).await?;
    assert_eq!(next_answer(&mut stream).await?.0, 413);
    // A body without an announced length.
    let mut stream = server.connect().await?;
    stream.write_all(b"POST /size HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").await?;
    let piece = format!("1000\r\n{}\r\n", "a".repeat(0x1000));
    for _ in 0..longest / 0x1000 + 1 {
        stream.write_all(piece.as_bytes()).await?;
    }
    assert_eq!(next_answer(&mut stream).await?.0, 413);
    until("both are counted", || server.turned_away("body") == 2 && server.bytes_held() == 0).await
}

#[tokio::test]
async fn all_bodies_together_have_their_limit() -> Result<()> {
    let server = Server::start(Limits { connections: 9, of_one_address: 9, ..PATIENT }).await?;
    let longest = PATIENT.longest_body;
    let unfinished = async || {
        let mut stream = server.connect().await?;
        stream.write_all((post(longest) + &"a".repeat(longest - 1)).as_bytes()).await?;
        anyhow::Ok(stream)
    };
    let (mut first, second) = (unfinished().await?, unfinished().await?);
    until("two fill it", || server.bytes_held() == PATIENT.bodies as i64).await?;
    let mut third = unfinished().await?;
    assert_eq!(next_answer(&mut third).await?.0, 503, "a body that is not smaller than the unfinished ones");
    // A smaller body takes the place of one of them.
    let mut small = server.connect().await?;
    stream_small(&mut small).await?;
    assert_eq!(server.turned_away("bytes"), 2);
    // One of the two unfinished bodies was rejected; the other one can still be completed.
    drop(small);
    first.write_all(b"a").await.ok();
    let first = next_answer(&mut first).await;
    let mut second = second;
    second.write_all(b"a").await.ok();
    let second = next_answer(&mut second).await;
    let mut statuses = [first?.0, second?.0];
    statuses.sort();
    assert_eq!(statuses, [200, 503]);
    until("nothing is held", || server.bytes_held() == 0).await
}

async fn stream_small(stream: &mut TcpStream) -> Result<()> {
    stream.write_all((post(1000) + &"a".repeat(1000)).as_bytes()).await?;
    assert_eq!(next_answer(stream).await?, (200, "1000".to_owned()));
    Ok(())
}

#[tokio::test]
async fn who_was_idle_for_longest_makes_room() -> Result<()> {
    let server = Server::start(PATIENT).await?;
    let (mut first, mut second, mut third) =
        (server.connect().await?, server.connect().await?, server.connect().await?);
    for stream in [&mut first, &mut second, &mut third] {
        assert_eq!(ask(stream).await?, (200, "ok".to_owned()));
    }
    assert_eq!(ask(&mut first).await?.0, 200);
    let mut fourth = server.connect().await?;
    assert_eq!(ask(&mut fourth).await?.0, 200);
    assert_eq!(rest(second).await?, "");
    assert_eq!((server.open(), server.turned_away("address")), (3, 1));
    assert_eq!((ask(&mut first).await?.0, ask(&mut third).await?.0), (200, 200));
    Ok(())
}

#[tokio::test]
async fn an_address_gives_of_its_own() -> Result<()> {
    let server = Server::start(Limits { of_one_address: 2, ..PATIENT }).await?;
    let mut other = server.connect_from(2).await?;
    assert_eq!(ask(&mut other).await?.0, 200);
    let first = server.connect_from(3).await?;
    until("it is seen", || server.open() == 2).await?;
    let (mut second, mut third) = (server.connect_from(3).await?, server.connect_from(3).await?);
    assert_eq!((ask(&mut second).await?.0, ask(&mut third).await?.0), (200, 200));
    assert_eq!(rest(first).await?, "");
    assert_eq!((server.open(), server.turned_away("address"), server.turned_away("full")), (3, 1, 0));
    // The server is full now, and this address has no other connection that could give way.
    let mut fourth = server.connect_from(4).await?;
    assert_eq!(ask(&mut fourth).await?.0, 200);
    assert_eq!(rest(other).await?, "");
    assert_eq!((server.open(), server.turned_away("full")), (3, 1));
    Ok(())
}

#[tokio::test]
async fn a_crowd_keeps_nobody_out() -> Result<()> {
    let server = Server::start(Limits { connections: 32, of_one_address: 32, ..PATIENT }).await?;
    let mut crowd = Vec::new();
    for _ in 0..10 {
        for _ in 0..40 {
            let mut stream = server.connect().await?;
            stream.write_all(b"GET / HT").await.ok();
            crowd.push(stream);
        }
        assert_eq!(ask(&mut server.connect().await?).await?.0, 200);
        assert!(server.open() <= 32, "{}", server.open());
    }
    Ok(())
}

#[tokio::test]
async fn connections_are_kept_where_that_is_meant() -> Result<()> {
    let server = Server::start(PATIENT).await?;
    let mut stream = server.connect().await?;
    for _ in 0..3 {
        stream_small(&mut stream).await?;
        assert_eq!((ask(&mut stream).await?.0, server.open()), (200, 1));
    }
    // Two pipelined requests are answered one after the other.
    stream.write_all((post(2) + "aa" + &post(3) + "aaa").as_bytes()).await?;
    let mut answers = String::new();
    while answers.matches("HTTP/1.1 200").count() < 2 {
        let mut piece = [0; 1000];
        let read = timeout(LIMIT, stream.read(&mut piece)).await??;
        assert!(read > 0, "{answers:?}");
        answers += &String::from_utf8_lossy(&piece[..read]);
    }
    assert!(answers.ends_with("\r\n\r\n3"), "{answers:?}");

    let server = Server::start(Limits { idle: None, longest_body: 0, bodies: 0, ..PATIENT }).await?;
    let mut stream = server.connect().await?;
    stream.write_all((post(0).replace("/size", "/") + "GET / HTTP/1.1\r\n").as_bytes()).await?;
    assert!(rest(stream).await?.ends_with("\r\n\r\nok"));
    // Unexpected bodies are not read.
    let mut stream = server.connect().await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\n\r\nabc").await?;
    assert!(rest(stream).await?.starts_with("HTTP/1.1 200"));
    Ok(())
}

#[tokio::test]
async fn who_keeps_a_connection_has_its_time_for_each_request() -> Result<()> {
    let server = Server::start(Limits { idle: Some(SHORT_TIMEOUT), ..PATIENT }).await?;
    let mut stream = server.connect().await?;
    assert_eq!(ask(&mut stream).await?.0, 200);
    assert_eq!(rest(stream).await?, "");
    assert_eq!(server.turned_away("slow"), 0, "idle connections are not slow");
    Ok(())
}

#[tokio::test]
async fn a_stop_lets_answers_end() -> Result<()> {
    let server = Server::start(PATIENT).await?;
    let (mut idle, mut asking) = (server.connect().await?, server.connect().await?);
    assert_eq!(ask(&mut idle).await?.0, 200);
    asking.write_all((post(4) + "ab").as_bytes()).await?;
    until("it is being read", || server.bytes_held() > 0).await?;
    server.stop.cancel();
    assert_eq!(rest(idle).await?, "");
    asking.write_all(b"cd").await?;
    assert_eq!(next_answer(&mut asking).await?, (200, "4".to_owned()));
    timeout(LIMIT, server.task).await.context("the server does not stop")??;
    assert!(TcpStream::connect(server.address).await.is_err());
    Ok(())
}

/// Checks the relations that the limits rely on.
#[test]
fn strangers_are_gone_before_an_api_server_gives_up() {
    let Limits { handshake, request, connections, bodies, longest_body, .. } = Limits::WEBHOOK;
    let patience = Duration::from_secs(2);
    assert!(handshake < patience && request < patience);
    assert!(longest_body < bodies && bodies / connections >= 32 << 10, "enough for an ordinary review");
}
