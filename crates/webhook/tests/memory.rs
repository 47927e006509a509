//! The memory that a review can use. All cases are in one test, because the allocator counts for the whole process.

mod cases;
mod common;
mod dial;

use anyhow::Result;
use common::{facts, request, roster};
use dial::{Server, certificate, send};
use rollcall_controller::server::limits::Limits;
use rollcall_webhook::{Asked, review_text};
use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

const NAMESPACE: &str = dial::NAMESPACE;
const MIB: usize = 1 << 20;

/// An allocator that counts the memory in use and its peak.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code, reason = "an allocator is unsafe; this one passes every call on to the system's")]
// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Starts a measurement: resets the peak, and returns the memory that is already in use.
fn begin() -> usize {
    let now = NOW.load(Ordering::Relaxed);
    PEAK.store(now, Ordering::Relaxed);
    now
}

fn most_since(before: usize) -> usize {
    PEAK.load(Ordering::Relaxed).saturating_sub(before)
}

/// A list or a map that has about `size` bytes.
fn many(size: usize, open: char, item: impl Fn(usize) -> String, close: char) -> String {
    let mut text = String::from(open);
    for number in 0.. {
        text += &item(number);
        if text.len() >= size {
            break;
        }
        text.push(',');
    }
    text + &close.to_string()
}

/// A review of a member pod, with `text` as a field of its metadata or its spec.
fn review_with(part: &str, field: &str, text: &str) -> Vec<u8> {
    let mut pod = cases::pod(&json!({ "metadata": { "name": "held" } }));
    pod[part][field] = "BOMB".into();
    request("pods", NAMESPACE, pod).to_string().replace("\"BOMB\"", text).into_bytes()
}

#[test]
fn a_bomb_takes_no_more_than_itself() -> Result<()> {
    let taints = json!({ "scope": "Node", "nodeGuard": "Taints", "podGroups": [
        { "pods": ["held"] }, { "podSelector": { "matchLabels": { "app": "x" } } }] });
    let roster = roster(&facts(&[cases::sequence(NAMESPACE, "s", taints)]));
    let size = 2 * MIB;
    let list = |item: &str| many(size, '[', |_| item.to_owned(), ']');
    let numbered = |item: &str| many(size, '[', |number| item.replace('#', &number.to_string()), ']');
    let map = |item: &str| many(size, '{', |number| item.replace('#', &number.to_string()), '}');
    let deep = "[".repeat(size / 2) + &"]".repeat(size / 2);
    let little = 64 << 10;
    for (what, part, field, text, most) in [
        ("numbers", "spec", "unknown", list("0"), little),
        ("numbers where gates belong", "spec", "schedulingGates", list("0"), little),
        ("lists where labels belong", "metadata", "labels", list("[]"), little),
        ("keys", "spec", "unknown", map(r##""k#":0"##), little),
        ("labels", "metadata", "labels", map(r##""k#":"""##), little),
        ("labels with escapes", "metadata", "labels", map(r##""\u003c#":"\u003c""##), little),
        ("one label again and again", "metadata", "labels", map(r#""app":"x""#), little),
        ("annotations", "metadata", "annotations", map(r##""k#":"""##), little),
        ("gates", "spec", "schedulingGates", numbered(r##"{"name":"g#"}"##), little),
        ("tolerations", "spec", "tolerations", numbered(r##"{"operator":"Exists","key":"k#"}"##), little),
        ("owners", "metadata", "ownerReferences", numbered(r##"{"uid":"u#"}"##), little),
        // One byte per nesting level, in a buffer that grows by doubling.
        ("a deep list", "spec", "unknown", deep, 2 * size),
        // A copy of the string without its escapes.
        ("a name with escapes", "metadata", "name", format!("\"{}\"", "\\u003c".repeat(size / 6)), size),
    ] {
        let review = review_with(part, field, &text);
        let before = begin();
        let answer = review_text(Asked::Sequences, &review, &roster);
        let took = most_since(before);
        assert!(took <= most, "{what}: {took} bytes, but only {most} are allowed");
        assert_eq!(answer?["response"]["allowed"], true, "{what}");
    }
    for (what, field, text, most) in [
        ("containers", "containers", list("{}"), little),
        ("variables", "containers", format!("[{{\"env\":{}}}]", list(r#"{"name":"A"}"#)), little),
        (
            "values",
            "containers",
            format!("[{{\"env\":{}}}]", list(r#"{"name":"A","value":"xxxxxxxxxxxxxxxx"}"#)),
            little,
        ),
        (
            "priorities",
            "containers",
            format!("[{{\"env\":{}}}]", list(r#"{"name":"KRUISE_CONTAINER_PRIORITY"}"#)),
            little,
        ),
        (
            "containers with priorities",
            "containers",
            list(r#"{"env":[{"name":"KRUISE_CONTAINER_PRIORITY","value":"1"}]}"#),
            8 * little,
        ),
    ] {
        let review = review_with("spec", field, &text);
        let before = begin();
        let answer = review_text(Asked::Launch, &review, &roster);
        let took = most_since(before);
        assert!(took <= most, "{what}: {took} bytes, but only {most} are allowed");
        assert!(answer.is_ok(), "{what}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    runtime.block_on(together())
}

/// Many large reviews at once over TLS: together they use at most what the server's limits allow, and a valid review is
/// still answered.
async fn together() -> Result<()> {
    let made = certificate();
    // The timeouts are so long that no test machine is too slow.
    let long = Duration::from_secs(60);
    let limits = Limits { handshake: long, request: long, answer: long, ..Limits::WEBHOOK };
    let server = Server::start(&made, limits).await?;
    server.knows();
    let numbers = Arc::new(review_with("spec", "unknown", &many(8 * MIB, '[', |_| "0".into(), ']')));
    // Half as much again for the copy while a body grows, and some memory for the connections, on both sides.
    let most = limits.bodies * 3 / 2 + 12 * MIB;

    let before = begin();
    let mut senders = JoinSet::new();
    for _ in 0..16 {
        let (mut stream, numbers) = (server.connect(&made.authority).await?, numbers.clone());
        senders.spawn(async move { send(&mut stream, "POST /mutate", &numbers).await });
    }
    let mut answered = 0;
    while let Some(answer) = senders.join_next().await {
        // Senders beyond the limit get a 503, unless they are still writing when the server closes the connection.
        if let Ok((status, _)) = answer? {
            assert!(matches!(status, 200 | 503), "{status}");
            answered += u32::from(status == 200);
        }
    }
    assert!(answered > 0, "none of sixteen was answered");
    let took = most_since(before);
    assert!(took <= most, "bombs: {took} bytes, but only {most} are allowed");

    let before = begin();
    let mut unfinished = Vec::new();
    for _ in 0..12 {
        let mut stream = server.connect(&made.authority).await?;
        let head = format!("POST /mutate HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", numbers.len());
        stream.write_all(head.as_bytes()).await?;
        // The server may close the connection during the write, to make room for others.
        let _ = stream.write_all(&numbers[..numbers.len() - 1]).await;
        unfinished.push(stream);
        let mut stream = server.connect(&made.authority).await?;
        let (status, said) = send(&mut stream, "POST /mutate", &dial::held()).await?;
        assert_eq!(status, 200, "{said}");
    }
    let took = most_since(before);
    assert!(
        took > limits.bodies / 2 && took <= most,
        "unfinished: {took} bytes, but only {most} are allowed"
    );
    Ok(())
}
