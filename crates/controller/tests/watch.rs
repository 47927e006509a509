//! Watches against servers that misbehave, under virtual time: how often they are asked, and what is believed.

use futures::StreamExt;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use kube::Client;
use rollcall_controller::watch::{self, Message};
use rollcall_core::kind::Kind;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const EMPTY: &str = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;

/// What a pod watch told within `time`, and how many requests of which sort the server saw.
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
        async move { Ok::<Response<Full<bytes::Bytes>>, Infallible>(answer.expect("a response")) }
    });
    let client = Client::new(service, "default");
    let (_, stream) = watch::all(&client, &Kind::of_mode(false), "own", 7)
        .into_iter()
        .find(|(kind, _)| *kind == Kind::Pod)
        .expect("pods");
    let messages = stream.take_until(tokio::time::sleep(time)).collect().await;
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
