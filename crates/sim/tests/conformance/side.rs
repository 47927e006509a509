//! One of the two clusters, as its clients see it. The same code sends plain HTTP requests to both.

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use rollcall_sim::kinds::Kind;
use rollcall_sim::plan::Pattern;
use serde_json::{Value, json};

#[derive(Clone)]
pub struct Side {
    pub client: Client,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

/// The events of a watch, one per line.
pub type Lines = BoxStream<'static, Result<Value>>;

impl Side {
    pub async fn send(&self, method: &str, path: &str, content: &str, body: Vec<u8>) -> Result<Answer> {
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let response = self.client.send(request.body(Body::from(body))?).await;
        let response = response.with_context(|| format!("{method} {path}"))?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        // Some rejections of a real server are plain text.
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!({ "text": String::from_utf8_lossy(&bytes).trim() }));
        Ok(Answer { code, body })
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send("GET", path, "application/json", Vec::new()).await
    }

    /// Sends a request that must succeed.
    pub async fn done(&self, method: &str, path: &str, content: &str, body: &Value) -> Result<Value> {
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let answer = self.send(method, path, content, bytes).await?;
        ensure!(answer.code < 300, "{method} {path}: {} {}", answer.code, answer.body["message"]);
        Ok(answer.body)
    }

    /// Opens a watch. A rejection is returned as its only event.
    pub async fn watch(&self, path: &str) -> Result<Lines> {
        let response = self.client.send(Request::get(path).body(Body::empty())?).await?;
        let code = response.status().as_u16();
        let frames = response.into_body().into_data_stream();
        let state = (frames, Vec::<u8>::new());
        let lines = futures::stream::unfold(state, async |(mut frames, mut text)| {
            loop {
                if let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = text.drain(..=end).collect();
                    return Some((
                        serde_json::from_slice(&line).context("a line of a watch"),
                        (frames, text),
                    ));
                }
                match frames.next().await {
                    Some(Ok(bytes)) => text.extend_from_slice(&bytes),
                    Some(Err(error)) => return Some((Err(error.into()), (frames, Vec::new()))),
                    None if text.is_empty() => return None,
                    None => text.push(b'\n'),
                }
            }
        });
        let lines = lines.map(move |line: Result<Value>| match code {
            200 => line,
            code => Ok(json!({ "code": code, "body": line? })),
        });
        Ok(lines.boxed())
    }
}

/// The path of a kind, optionally of one namespace.
pub fn place(kind: Kind, namespace: Option<&str>) -> String {
    let info = kind.info();
    let group = match info.group {
        "" => format!("/api/{}", info.version),
        group => format!("/apis/{group}/{}", info.version),
    };
    match namespace.filter(|_| info.namespaced) {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{}", info.plural),
        None => format!("{group}/{}", info.plural),
    }
}

/// The kind with this name or plural.
pub fn kind(name: &str) -> Result<Kind> {
    let named = |kind: &Kind| kind.info().name == name || kind.info().plural == name;
    Kind::all().find(named).with_context(|| format!("no kind {name:?}"))
}

/// Whether a text matches a glob, where `*` stands for any text.
pub fn fits(glob: &str, text: &str) -> bool {
    Pattern(glob.into()).matches(text)
}
