//! One page of a list, read while it arrives. Nobody knows beforehand how long it will be: two hundred objects can be a few
//! hundred kilobytes, or a gigabyte if somebody wants them to be. So a page that becomes too long, or takes too long, is given up
//! and asked for with fewer objects; a page of one object is always read to its end.

use super::list_text::{Broken, ListText, Part};
use super::objects::{Item, Known, Watched};
use crate::client::{self, Failure};
use futures::io::{AsyncBufRead, AsyncBufReadExt, Cursor};
use kube::Client;
use rollcall_api::watch::{ListMeta, version};
use rollcall_core::planted::{Bug, planted};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;

/// Objects of one page at most: enough to be quick, little enough not to leave holes of megabytes in the memory.
const MOST_OBJECTS: usize = 200;
/// A page that becomes longer is given up.
const MOST_BYTES: usize = 16 << 20;
/// Longer than any object can be: etcd keeps 1.5 MiB, and JSON writes some bytes as six.
const LONGEST_OBJECT: usize = 24 << 20;
/// A page that takes longer is given up.
const MOST_TIME: Duration = Duration::from_secs(15);
/// Objects that are handed on together: enough not to bother the loop with each of them.
const TOGETHER: usize = 32;

/// How many objects a page is asked to have.
#[derive(Clone, Copy, Debug)]
pub struct PageSize(usize);

impl Default for PageSize {
    fn default() -> Self {
        PageSize(MOST_OBJECTS)
    }
}

impl PageSize {
    pub fn get(self) -> usize {
        self.0
    }

    /// A page was too much: the next one is to be half as long as allowed, as far as can be told from what was read of it.
    pub fn shrink(&mut self, page: &Page) {
        let object = page.bytes / (page.objects + 1) + 1;
        self.0 = (MOST_BYTES / 2 / object).clamp(1, (self.0 / 2).max(1));
    }

    /// A page was whole: if it was short, the next one may be longer.
    pub fn grow(&mut self, page: &Page) {
        if page.bytes < MOST_BYTES / 4 && page.begun.elapsed() < MOST_TIME / 4 {
            self.0 = (self.0 * 2).min(MOST_OBJECTS);
        }
    }
}

pub struct Page {
    answer: Pin<Box<dyn AsyncBufRead + Send>>,
    asked: usize,
    begun: Instant,
    text: ListText,
    bytes: usize,
    objects: usize,
    metadata: Option<ListMeta>,
    /// Read, and not handed on.
    items: Vec<Item>,
    ended: bool,
}

/// Why a page is not read to its end.
pub enum Stop {
    /// It is to be asked for with fewer objects.
    TooMuch,
    Failed(Failure),
}

impl Page {
    pub async fn open(client: &Client, path: &str, asked: usize) -> Result<Page, Failure> {
        let request = client::request("GET", path, None, Vec::new());
        let opened = tokio::time::timeout(client::TIMEOUT, client.request_stream(request)).await;
        let answer = opened.map_err(|_| Failure::timeout(client::TIMEOUT))?.map_err(Failure::from)?;
        Ok(Page::reading(Box::pin(answer), asked))
    }

    /// A list of nothing, for a bug on purpose.
    pub fn empty() -> Page {
        let text = r#"{"metadata":{"resourceVersion":"4294967295"},"items":[]}"#;
        Page::reading(Box::pin(Cursor::new(text.as_bytes())), 1)
    }

    fn reading(answer: Pin<Box<dyn AsyncBufRead + Send>>, asked: usize) -> Page {
        Page {
            answer,
            asked,
            begun: Instant::now(),
            text: ListText::new(LONGEST_OBJECT),
            bytes: 0,
            objects: 0,
            metadata: None,
            items: Vec::new(),
            ended: false,
        }
    }

    /// The version of the list; known as soon as anything has been handed on.
    pub fn version(&self) -> &str {
        self.metadata.as_ref().map_or("", |metadata| &metadata.resource_version)
    }

    pub fn next_token(&self) -> Option<String> {
        self.metadata.as_ref()?.continue_token.clone().filter(|token| !token.is_empty())
    }

    /// To be handed on once more.
    pub fn put_back(&mut self, items: Option<Vec<Item>>) {
        self.items = items.unwrap_or_default();
    }

    /// Some more items; `None` when all have been handed on.
    pub async fn next<T: Watched>(&mut self, known: &mut Known) -> Result<Option<Vec<Item>>, Stop> {
        while !self.ended && (self.metadata.is_none() || self.items.len() < TOGETHER) {
            self.read::<T>(known).await?;
        }
        let items = std::mem::take(&mut self.items);
        Ok((!items.is_empty()).then_some(items))
    }

    async fn read<T: Watched>(&mut self, known: &mut Known) -> Result<(), Stop> {
        let Page { answer, text, items, objects, metadata, .. } = self;
        let arrived = tokio::time::timeout(client::TIMEOUT, answer.fill_buf()).await;
        let bytes = match arrived {
            Ok(bytes) => bytes.map_err(|broken| failed(format!("the answer broke off: {broken}")))?,
            Err(_) if self.asked > 1 => return Err(Stop::TooMuch),
            Err(_) => return Err(Stop::Failed(Failure::timeout(client::TIMEOUT))),
        };
        let length = bytes.len();
        let mut unreadable = None;
        let whole = |part: Part, text: &[u8]| {
            let read = match part {
                Part::Metadata => serde_json::from_slice(text).map(|read| *metadata = Some(read)),
                Part::Item => serde_json::from_slice::<T>(text).map(|object| {
                    *objects += 1;
                    items.extend(object.item(known));
                }),
            };
            unreadable = unreadable.take().or(read.err());
        };
        let pushed = text.push(bytes, whole);
        answer.consume_unpin(length);
        self.bytes += length;
        pushed.map_err(|broken| match broken {
            Broken::NoList => failed("the answer is no list".into()),
            Broken::TooLong => failed(format!("an object in the list is longer than {LONGEST_OBJECT} bytes")),
        })?;
        if let Some(unreadable) = unreadable {
            return Err(failed(format!("the list cannot be read: {unreadable}")));
        }
        let versioned =
            self.metadata.is_none() || version(self.version()) > 0 || planted(Bug::GarbageIsEmpty);
        if !versioned || length == 0 && self.metadata.is_none() {
            // To take it for an empty list would be to see everything deleted.
            return Err(failed("the answer is no list: it has no version".into()));
        }
        if length == 0 && !self.text.is_whole() {
            return Err(failed("the answer broke off in the middle of the list".into()));
        }
        self.ended = length == 0;
        let too_much = self.bytes > MOST_BYTES || self.begun.elapsed() > MOST_TIME;
        if too_much && self.asked > 1 && !self.ended { Err(Stop::TooMuch) } else { Ok(()) }
    }
}

fn failed(message: String) -> Stop {
    Stop::Failed(Failure { code: None, message })
}
