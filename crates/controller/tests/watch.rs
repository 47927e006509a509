//! Watches against misbehaving servers, under virtual time: the number of requests, and which answers are believed.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use kube::Client;
use rollcall_api::watch::KeptLabels;
use rollcall_controller::watch::{Message, Watches};
use rollcall_core::kind::Kind;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const EMPTY: &str = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;

/// Returns the messages of a pod watch.
fn pods<S, B>(service: S) -> impl futures::Stream<Item = Message> + Unpin
where
    S: tower::Service<Request<kube::client::Body>, Response = Response<B>> + Send + Clone + 'static,
    S::Future: Send,
    S::Error: Into<tower::BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    let watches = Watches {
        client: Client::new(service, "default"),
        own_namespace: "own".into(),
        seed: 7,
        labels: KeptLabels::by_need(),
        sequences_listed: CancellationToken::new(),
    };
    watches.sequences_listed.cancel();
    watches.all(&[Kind::Pod]).map(|(_, message)| message)
}

/// Returns the messages of a pod watch within `time`, and the numbers of list and watch requests.
async fn watched(
    time: Duration,
    list: &'static str,
    watch: impl Fn(u32) -> (StatusCode, &'static str) + Clone + Send + 'static,
) -> (Vec<Message>, u32, u32) {
    let (lists, watches) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (lists.clone(), watches.clone());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
        let (status, body) = match is_watch {
            true => watch(counts.1.fetch_add(1, Ordering::SeqCst)),
            false => {
                counts.0.fetch_add(1, Ordering::SeqCst);
                (StatusCode::OK, list)
            }
        };
        let answer = Response::builder().status(status).body(Full::new(body.as_bytes().into()));
        async move { Ok::<Response<Full<Bytes>>, Infallible>(answer.expect("a response")) }
    });
    let messages = pods(service).take_until(tokio::time::sleep(time)).collect().await;
    (messages, lists.load(Ordering::SeqCst), watches.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn one_410_costs_a_list_at_once_and_many_do_not_cost_many() {
    let minute = Duration::from_secs(60);
    let gone = (
        StatusCode::GONE,
        r#"{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":""}"#,
    );
    let (messages, lists, _) = watched(minute, EMPTY, move |_| gone).await;
    assert!((5..40).contains(&lists), "{lists} lists in a minute");
    assert!(messages.iter().all(|message| !matches!(message, Message::Failed { .. })));
    let event = (
        StatusCode::OK,
        "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"message\":\"\",\"reason\":\"Expired\",\"status\":\"Failure\"}}\n",
    );
    let (_, lists, _) = watched(minute, EMPTY, move |_| event).await;
    assert!((5..40).contains(&lists), "{lists} lists in a minute, 410 as event");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_not_opened_without_end() {
    let (_, lists, watches) = watched(Duration::from_secs(60), EMPTY, |_| (StatusCode::OK, "")).await;
    assert_eq!(lists, 1);
    assert!((5..40).contains(&watches), "{watches} watches in a minute");
}

#[tokio::test(start_paused = true)]
async fn garbage_that_stays_is_passed_by_a_list() {
    let (messages, lists, watches) =
        watched(Duration::from_secs(60), EMPTY, |_| (StatusCode::OK, "not JSON\n")).await;
    assert!((2..40).contains(&lists) && watches < 40, "{lists} lists, {watches} watches in a minute");
    assert!(messages.iter().any(|message| matches!(message, Message::Failed { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_version_is_no_list() {
    for list in ["{}", r#"{"metadata":{},"items":[]}"#, "<html>"] {
        let (messages, lists, watches) =
            watched(Duration::from_secs(60), list, |_| (StatusCode::OK, "")).await;
        assert!(messages.iter().all(|message| matches!(message, Message::Failed { .. })), "{list}");
        assert!((5..40).contains(&lists) && watches == 0, "{lists} lists in a minute");
    }
}

/// Lists this many pods of this length, with a delay of `slow` per pod. Returns the number of known pods, the requested page
/// sizes, and whether the list failed.
async fn listed(pods: usize, length: usize, slow: Duration) -> (usize, Vec<usize>, bool) {
    let asked: Arc<Mutex<Vec<usize>>> = Arc::default();
    let of_service = asked.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let of = |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        let asked = of_service.clone();
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<usize>().ok());
        let (limit, begin) = (number(of("limit")), number(of("continue")).unwrap_or_default());
        async move {
            let frames: BoxStream<'static, Result<Frame<Bytes>, Infallible>> = match limit {
                // The request of the watch.
                None => futures::stream::pending().boxed(),
                Some(limit) => {
                    asked.lock().expect("no other thread panics").push(limit);
                    let end = pods.min(begin + limit);
                    let next = if end < pods { end.to_string() } else { String::new() };
                    let head =
                        format!(r#"{{"metadata":{{"resourceVersion":"5","continue":"{next}"}},"items":["#);
                    let item = move |number: usize| {
                        let comma = if number > begin { "," } else { "" };
                        let text = "<".repeat(length);
                        format!(
                            r#"{comma}{{"metadata":{{"name":"p{number}","namespace":"n","uid":"{number}","resourceVersion":"4"}},"x":"{text}"}}"#
                        )
                    };
                    let items = futures::stream::iter(begin..end).then(move |number| async move {
                        tokio::time::sleep(slow).await;
                        item(number)
                    });
                    let texts = futures::stream::iter([head])
                        .chain(items)
                        .chain(futures::stream::iter(["]}".into()]));
                    texts.map(|text: String| Ok(Frame::data(text.into()))).boxed()
                }
            };
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
        }
    });
    let (mut names, mut failed) = (BTreeSet::new(), false);
    let mut messages = self::pods(service);
    loop {
        match messages.next().await.expect("a watch never ends") {
            Message::Page { items } => names.extend(items.iter().map(|item| item.object.listed())),
            Message::Ended => break,
            Message::Failed { .. } => failed = true,
            _ => {}
        }
    }
    let asked = asked.lock().expect("nobody panics").clone();
    (names.len(), asked, failed)
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_long_is_asked_for_with_fewer_objects() {
    let (known, asked, failed) = listed(30, 4 << 20, Duration::ZERO).await;
    assert_eq!((known, failed), (30, false));
    assert_eq!(asked[0], 200);
    assert!(asked[1] <= 3, "shrinks at once to a size that fits, not by halves: {asked:?}");
    assert!(asked.len() < 40, "{asked:?}");
    let (known, asked, failed) = listed(1000, 100, Duration::ZERO).await;
    assert_eq!((known, asked, failed), (1000, vec![200; 5], false), "pages of the usual length");
    let (known, _, failed) = listed(3, 20 << 20, Duration::ZERO).await;
    assert_eq!((known, failed), (3, false), "a page of one object is always read to its end");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_slow_is_asked_for_with_fewer_objects_and_not_begun_again() {
    let (known, asked, failed) = listed(300, 10, Duration::from_millis(500)).await;
    assert_eq!((known, failed), (300, false));
    assert!(asked.iter().filter(|limit| **limit > 30).count() < 5, "{asked:?}");
}
