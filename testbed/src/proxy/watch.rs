//! Forwards the events of a watch one by one, with faults between them.

use anyhow::{Error, Result, anyhow};
use futures::stream;
use http::StatusCode;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use serde_json::json;
use tokio::sync::watch as channel;

use super::forward::{Body, status_object};
use super::{Line, Shared, WatchFault};

/// An open watch.
struct Watch {
    body: Incoming,
    fault: WatchFault,
    /// Bytes from the server that do not form a whole event yet.
    buffer: Vec<u8>,
    /// Number of forwarded events.
    seen: u64,
    ended: bool,
    line: channel::Receiver<Line>,
    cuts: channel::Receiver<u64>,
}

/// The step before the next event.
enum Step {
    Read,
    Cut,
    End,
    Silence,
    Gone,
}

pub fn stream(body: Incoming, fault: WatchFault, shared: &Shared) -> Body {
    let (line, cuts) = (shared.line.subscribe(), shared.cuts.subscribe());
    let watch = Watch { body, fault, buffer: Vec::new(), seen: 0, ended: false, line, cuts };
    let frames = stream::unfold(watch, async |mut watch| {
        let next = watch.next().await.transpose()?;
        Some((next.map(Frame::data), watch))
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

impl Watch {
    /// The next bytes for the client; `None` at the end. An error breaks the connection.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let (mut line, mut cuts) = (self.line.clone(), self.cuts.clone());
        let result = tokio::select! {
            biased;
            _ = line.wait_for(|line| *line == Line::Cut) => Err(anyhow!("the line is cut")),
            _ = cuts.changed() => Err(anyhow!("the watches are cut")),
            next = self.advance() => next,
        };
        if result.is_err() {
            // hyper flushes the previous events only when the body is pending.
            tokio::task::yield_now().await;
        }
        result
    }

    /// Cancel-safe: keeps the bytes that it has read when it is dropped.
    async fn advance(&mut self) -> Result<Option<Bytes>> {
        loop {
            if self.ended {
                return Ok(None);
            }
            match self.step() {
                Step::Read => {}
                Step::Cut => return Err(anyhow!("cut after {} events", self.seen)),
                Step::End => return Ok(None),
                Step::Silence => std::future::pending().await,
                Step::Gone => {
                    self.ended = true;
                    let event = json!({"type": "ERROR", "object": status_object(StatusCode::GONE)});
                    return Ok(Some(format!("{event}\n").into()));
                }
            }
            self.line.wait_for(|line| *line != Line::Silent).await?;
            if let Some(event) = self.take_line() {
                self.seen += 1;
                return Ok(Some(self.rewrite(event)?));
            }
            // A silent line holds back events that arrive in the meantime.
            tokio::select! {
                biased;
                _ = self.line.changed() => {}
                frame = self.body.frame() => match frame.transpose().map_err(Error::from)? {
                    Some(frame) => self.buffer.extend(frame.into_data().unwrap_or_default()),
                    None => self.ended = true,
                },
            }
        }
    }

    fn step(&self) -> Step {
        match &self.fault {
            WatchFault::CutAfter(limit) if self.seen >= *limit => Step::Cut,
            WatchFault::EndAfter(limit) if self.seen >= *limit => Step::End,
            WatchFault::SilentAfter(limit) if self.seen >= *limit => Step::Silence,
            WatchFault::GoneAfter(limit) if self.seen >= *limit => Step::Gone,
            WatchFault::Pass
            | WatchFault::Drop
            | WatchFault::Status(_)
            | WatchFault::Rewrite(_)
            | WatchFault::CutAfter(_)
            | WatchFault::EndAfter(_)
            | WatchFault::SilentAfter(_)
            | WatchFault::GoneAfter(_) => Step::Read,
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
        let rest = self.buffer.split_off(end + 1);
        Some(std::mem::replace(&mut self.buffer, rest))
    }

    fn rewrite(&mut self, event: Vec<u8>) -> Result<Bytes> {
        let WatchFault::Rewrite(rewrite) = &mut self.fault else { return Ok(event.into()) };
        let mut out = String::new();
        for event in rewrite(serde_json::from_slice(&event)?) {
            out.push_str(&event.to_string());
            out.push('\n');
        }
        Ok(out.into())
    }
}
