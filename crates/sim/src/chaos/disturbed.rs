//! Applies faults to watches.

use super::fault::Fault;
use crate::server::{Broken, Frames};
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use serde_json::json;
use std::time::Duration;

/// Longer than the silence after which the controller replaces a watch.
const SILENT: Duration = Duration::from_secs(120);
/// Delay of one kind against the others.
const BEHIND: Duration = Duration::from_millis(700);
/// Number of events before a fault within a watch strikes.
const SOON: usize = 3;

pub fn disturbed(fault: Fault, frames: Frames) -> Frames {
    let ending = |last: Option<Result<Bytes, Broken>>, frames: Frames| {
        frames.take(SOON).chain(stream::iter(last)).boxed()
    };
    match fault {
        Fault::GoneEvent => ending(Some(Ok(expired())), frames),
        Fault::Close => ending(None, frames),
        Fault::WatchGarbage => ending(Some(Ok(Bytes::from_static(b"{\"type\":\"MODI\n"))), frames),
        Fault::Hang => stream::pending().boxed(),
        Fault::Silence => {
            let silent = stream::once(async {
                tokio::time::sleep(SILENT).await;
                Ok(Bytes::new())
            });
            frames.take(SOON).chain(silent).boxed()
        }
        Fault::Duplicate => frames
            .flat_map(|frame| match frame {
                Ok(frame) => stream::iter(vec![Ok(frame.clone()), Ok(frame)]),
                Err(broken) => stream::iter(vec![Err(broken)]),
            })
            .boxed(),
        Fault::Behind => frames
            .then(|frame| async {
                tokio::time::sleep(BEHIND).await;
                frame
            })
            .boxed(),
        Fault::OlderEvents => {
            // Each event is followed by a repetition of an earlier one.
            let older = move |seen: &mut Vec<Bytes>, frame: Result<Bytes, Broken>| {
                let frame = match frame {
                    Ok(frame) => frame,
                    Err(broken) => return futures::future::ready(Some(vec![Err(broken)])),
                };
                seen.push(frame.clone());
                let again = (seen.len() > SOON).then(|| Ok(seen.remove(0)));
                futures::future::ready(Some([Ok(frame)].into_iter().chain(again).collect()))
            };
            frames.scan(Vec::new(), older).flat_map(stream::iter).boxed()
        }
        _ => frames,
    }
}

fn expired() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
        "message": "The resourceVersion for the provided watch is too old.",
    });
    format!("{}\n", json!({ "type": "ERROR", "object": status })).into()
}
