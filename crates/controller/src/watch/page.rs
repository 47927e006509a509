//! One page of a list, read while it arrives. Its size is unknown in advance: two hundred objects can be a few hundred
//! kilobytes, or a gigabyte if a user creates such objects. So a page that becomes too large or takes too long is abandoned,
//! and requested again with fewer objects. A page of one object is always read to its end.

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

/// Most objects in a page: enough to be quick, few enough not to leave holes of megabytes in the memory.
const MOST_OBJECTS: usize = 200;
/// A larger page is abandoned.
const MOST_BYTES: usize = 16 << 20;
/// Larger than any object can be: etcd stores up to 1.5 MiB, and JSON encodes some bytes as six.
const LONGEST_OBJECT: usize = 24 << 20;
/// A page that takes longer is abandoned.
const MOST_TIME: Duration = Duration::from_secs(15);
/// Objects that are passed on together, so that the loop does not wake for each one.
const TOGETHER: usize = 32;

/// The number of objects to request per page.
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

    /// Shrinks the size after a page was too large. The estimated length of the next page is half of the limit.
    pub fn shrink(&mut self, page: &Page) {
        let object = page.bytes / (page.objects + 1) + 1;
        self.0 = (MOST_BYTES / 2 / object).clamp(1, (self.0 / 2).max(1));
    }

    /// Grows the size after a complete page that was small and fast.
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
    /// Items that have been read but not passed on yet.
    items: Vec<Item>,
    ended: bool,
}

/// The reason why a page is not read to its end.
pub enum Stop {
    /// The page must be requested with fewer objects.
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

    /// An empty list, for a planted bug.
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

    /// The version of the list. Known once any items have been returned.
    pub fn version(&self) -> &str {
        self.metadata.as_ref().map_or("", |metadata| &metadata.resource_version)
    }

    pub fn next_token(&self) -> Option<String> {
        self.metadata.as_ref()?.continue_token.clone().filter(|token| !token.is_empty())
    }

    /// Puts items back, to be returned again.
    pub fn put_back(&mut self, items: Option<Vec<Item>>) {
        self.items = items.unwrap_or_default();
    }

    /// Returns some more items; `None` when all have been returned.
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
            Broken::NoList => failed("the answer is not a list".into()),
            Broken::TooLong => failed(format!("an object in the list exceeds {LONGEST_OBJECT} bytes")),
        })?;
        if let Some(unreadable) = unreadable {
            return Err(failed(format!("could not parse the list: {unreadable}")));
        }
        let versioned =
            self.metadata.is_none() || version(self.version()) > 0 || planted(Bug::GarbageIsEmpty);
        if !versioned || length == 0 && self.metadata.is_none() {
            // Treating it as an empty list would mean that all objects are deleted.
            return Err(failed("the answer is not a list: it has no resourceVersion".into()));
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
