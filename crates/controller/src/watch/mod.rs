//! List and watch: one endless stream per kind.
//!
//! Not kube's `watcher`, because it does not expose two things that the index needs. One is the resourceVersion of the list: a
//! lower one than before means a restored cluster. The other is every sign of life, including bookmarks. Its back-off is not
//! seeded either. See docs/decisions.

mod list_text;
mod objects;
mod page;

pub use objects::{AnyWritten, Item, WrittenStatus, of_order, of_sequence};

use crate::backoff::Jitter;
use crate::client::{self, Failure};
use futures::future::ready;
use futures::stream::{self, BoxStream, SelectAll, StreamExt};
use kube::Client;
use kube::core::WatchEvent;
use objects::{Known, Watched};
use page::{Page, PageSize, Stop};
use rollcall_api::names;
use rollcall_api::reservation::{OrderObject, PriorityClassObject, TicketObject};
use rollcall_api::resource::Resource;
use rollcall_api::sequence::{SequenceObject, note::NoteObject};
use rollcall_api::watch::{CsiNodeObject, KeptLabels, NamespaceObject, NodeObject, OwnerObject, PodObject};
use rollcall_core::kind::Kind;
use rollcall_core::planted::{Bug, planted};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the server keeps one watch open.
pub const WATCH_SECONDS: u64 = 290;
/// API servers send a bookmark about every minute; a watch that is silent for 90 s is dead.
const SILENCE: Duration = Duration::from_secs(90);
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Longest wait between two attempts to open a watch.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Number of failures after which a list replaces the watch, which would probably fail again at the same version.
const LIST_AFTER: u32 = 3;

/// A message of a watch.
pub enum Message {
    /// A list of this version begins.
    Begins {
        version: u64,
    },
    Page {
        items: Vec<Item>,
    },
    /// The list is complete.
    Ended,
    Applied {
        item: Item,
    },
    Deleted {
        item: Item,
    },
    /// All changes up to this version have been reported, and the watch is alive.
    Alive {
        version: u64,
    },
    /// The watch failed, and will be retried.
    Failed {
        failure: Failure,
    },
}

/// The common configuration of all watches.
#[derive(Clone)]
pub struct Watches {
    pub client: Client,
    pub own_namespace: String,
    pub seed: u64,
    pub labels: KeptLabels,
    /// Cancelled when the sequences are listed. Before that, the labels that selectors use are unknown.
    pub sequences_listed: CancellationToken,
}

impl Watches {
    /// Returns the watches of all kinds that the controller needs.
    pub fn all(&self, kinds: &[Kind]) -> SelectAll<BoxStream<'static, (Kind, Message)>> {
        let start = |kind: Kind| {
            let namespace = (kind == Kind::Note).then_some(self.own_namespace.as_str());
            self.watch(kind, namespace).messages(kind).map(move |message| (kind, message)).boxed()
        };
        kinds.iter().map(|kind| start(*kind)).collect()
    }

    /// Reads the objects of a namespace again whose labels matter, kind by kind. Ends when all of them have been read.
    pub fn read_again(&self, namespace: &Arc<str>) -> BoxStream<'static, (Kind, Message)> {
        let (watches, namespace) = (self.clone(), namespace.clone());
        let list = move |kind: Kind| {
            let ended = |message: &Message| matches!(message, Message::Ended);
            let messages = watches.watch(kind, Some(&namespace)).messages(kind);
            let listed = messages.take_while(move |message| ready(!ended(message)));
            // Without this end, the stream would continue with a watch.
            listed.chain(stream::once(ready(Message::Ended))).map(move |message| (kind, message))
        };
        let kinds = Kind::ALL.iter().copied().filter(|kind| kind.has_selected_labels());
        stream::iter(kinds).flat_map(list).boxed()
    }

    fn watch(&self, kind: Kind, namespace: Option<&str>) -> Watch {
        let waits = kind.has_selected_labels();
        Watch {
            client: self.client.clone(),
            path: Resource::from_kind(kind).path(namespace),
            selector: (kind == Kind::Note)
                .then(|| format!("{}={}", names::NOTE_LABEL, names::NOTE_LABEL_VALUE)),
            jitter: Jitter::seeded(self.seed.wrapping_add(kind as u64 + 1)),
            failures: 0,
            opened: None,
            begins_after: waits.then(|| self.sequences_listed.clone()),
            page_size: PageSize::default(),
            known: Known { kind, labels: self.labels.clone(), specs: BTreeMap::new() },
        }
    }
}

struct Watch {
    client: Client,
    path: String,
    selector: Option<String>,
    jitter: Jitter,
    /// Consecutive attempts without any event and without a watch that lasted.
    failures: u32,
    opened: Option<Instant>,
    begins_after: Option<CancellationToken>,
    page_size: PageSize,
    known: Known,
}

enum State<T> {
    /// List from the beginning.
    List,
    /// Continue a list.
    NextPage {
        version: String,
        token: String,
    },
    /// Reading a page: the first one, or that of `token`. `version` is that of the list, once it was reported.
    Reading {
        page: Box<Page>,
        version: Option<String>,
        token: Option<String>,
    },
    /// Open a watch from this version.
    Watch {
        version: String,
    },
    Watching {
        version: String,
        events: BoxStream<'static, Result<WatchEvent<T>, Failure>>,
    },
    /// Wait, then continue with the inner state.
    Failed {
        then: Box<State<T>>,
    },
}

impl Watch {
    fn messages(self, kind: Kind) -> BoxStream<'static, Message> {
        match kind {
            Kind::Pod => self.stream::<PodObject>(),
            Kind::Deployment
            | Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::DaemonSet
            | Kind::Job
            | Kind::CronJob => self.stream::<OwnerObject>(),
            Kind::Namespace => self.stream::<NamespaceObject>(),
            Kind::Sequence => self.stream::<SequenceObject>(),
            Kind::Note => self.stream::<NoteObject>(),
            Kind::Node => self.stream::<NodeObject>(),
            Kind::CsiNode => self.stream::<CsiNodeObject>(),
            Kind::Barrier => stream::empty().boxed(),
            Kind::Order => self.stream::<OrderObject>(),
            Kind::Ticket => self.stream::<TicketObject>(),
            Kind::PriorityClass => self.stream::<PriorityClassObject>(),
        }
    }

    fn stream<T: Watched>(self) -> BoxStream<'static, Message> {
        let step = |(mut watch, state): (Watch, State<T>)| async move {
            if let Some(begin) = watch.begins_after.take() {
                begin.cancelled().await;
            }
            let (message, state) = watch.step(state).await;
            Some((message, (watch, state)))
        };
        stream::unfold((self, State::<T>::List), step).boxed()
    }

    async fn step<T: Watched>(&mut self, mut state: State<T>) -> (Message, State<T>) {
        loop {
            state = match state {
                State::List => match self.page(None).await {
                    Ok(page) => State::Reading { page, version: None, token: None },
                    Err(failure) => return failed(failure, State::List),
                },
                State::NextPage { version, token } => match self.page(Some(&token)).await {
                    Ok(page) => State::Reading { page, version: Some(version), token: Some(token) },
                    Err(failure) if failure.is_gone() && planted(Bug::TokenEndsList) => {
                        return (Message::Ended, State::Watch { version });
                    }
                    // For an expired continue token or any other failure, the list starts again.
                    Err(failure) => return failed(failure, State::List),
                },
                State::Reading { page, version, token } => match self.read::<T>(page, version, token).await {
                    (Some(message), next) => return (message, next),
                    (None, next) => next,
                },
                State::Watch { version } => match self.open::<T>(&version).await {
                    Ok(events) => {
                        self.opened = Some(Instant::now());
                        return (alive(&version), State::Watching { version, events });
                    }
                    Err(failure) if failure.is_gone() => self.again(self.after_gone(version)),
                    Err(failure) => return failed(failure, State::Watch { version }),
                },
                State::Watching { version, events } => match self.next(version, events).await {
                    (Some(message), next) => return (message, next),
                    (None, next) => next,
                },
                State::Failed { .. } if planted(Bug::WatchDies) => std::future::pending().await,
                State::Failed { then } => {
                    let wait = self.jitter.wait(self.failures, FIRST_WAIT, LONGEST_WAIT);
                    self.failures += 1;
                    tokio::time::sleep(wait).await;
                    *then
                }
            }
        }
    }

    async fn page(&mut self, token: Option<&str>) -> Result<Box<Page>, Failure> {
        let mut query = vec![("limit", self.page_size.get().to_string())];
        query.extend(token.map(|token| ("continue", token.to_owned())));
        query.extend(self.selector.clone().map(|selector| ("labelSelector", selector)));
        let path = client::with_query(&self.path, &query);
        match Page::open(&self.client, &path, self.page_size.get()).await {
            Err(Failure { code: Some(404), .. }) if planted(Bug::AbsentIsEmpty) => {
                Ok(Box::new(Page::empty()))
            }
            page => page.map(Box::new),
        }
    }

    /// Returns the next message of a page, or only the next state.
    async fn read<T: Watched>(
        &mut self,
        mut page: Box<Page>,
        version: Option<String>,
        token: Option<String>,
    ) -> (Option<Message>, State<T>) {
        if version.is_none() {
            // In a restored cluster, the same generation may have a different spec.
            self.known.specs.clear();
        }
        let items = match page.next::<T>(&mut self.known).await {
            Ok(items) => items,
            // All of the page is read again: the token marks its start, independently of its size.
            Err(Stop::TooMuch) => {
                self.page_size.shrink(&page);
                let again = version.zip(token).map(|(version, token)| State::NextPage { version, token });
                return (None, again.unwrap_or(State::List));
            }
            Err(Stop::Failed(failure)) => {
                let (message, state) = failed(failure, State::List);
                return (Some(message), state);
            }
        };
        let Some(version) = version else {
            let listed = page.version().to_owned();
            page.put_back(items);
            let begins = Message::Begins { version: rollcall_api::watch::version(&listed) };
            return (Some(begins), State::Reading { page, version: Some(listed), token });
        };
        match items {
            Some(items) => {
                (Some(Message::Page { items }), State::Reading { page, version: Some(version), token })
            }
            None => {
                self.page_size.grow(&page);
                match page.next_token() {
                    Some(token) => (None, State::NextPage { version, token }),
                    None => (Some(Message::Ended), State::Watch { version }),
                }
            }
        }
    }

    async fn open<T: Watched>(
        &self,
        version: &str,
    ) -> Result<BoxStream<'static, Result<WatchEvent<T>, Failure>>, Failure> {
        let mut query = vec![
            ("watch", "true".to_owned()),
            ("allowWatchBookmarks", "true".to_owned()),
            ("resourceVersion", version.to_owned()),
            ("timeoutSeconds", WATCH_SECONDS.to_string()),
        ];
        query.extend(self.selector.clone().map(|selector| ("labelSelector", selector)));
        let request = client::request("GET", &client::with_query(&self.path, &query), None, Vec::new());
        let opened = tokio::time::timeout(client::TIMEOUT, self.client.request_events::<T>(request)).await;
        let events = opened.map_err(|_| Failure::timeout(client::TIMEOUT))?.map_err(Failure::from)?;
        Ok(events.map(|event| event.map_err(Failure::from)).boxed())
    }

    /// Returns the next message of an open watch, or only the next state.
    async fn next<T: Watched>(
        &mut self,
        version: String,
        mut events: BoxStream<'static, Result<WatchEvent<T>, Failure>>,
    ) -> (Option<Message>, State<T>) {
        let event = match tokio::time::timeout(SILENCE, events.next()).await {
            Ok(Some(Ok(event))) => event,
            // The server ends each watch after a while; a silent watch counts as ended.
            Ok(None) if planted(Bug::EventsSkipped) => {
                let version = (rollcall_api::watch::version(&version) + 5).to_string();
                return (None, self.again(State::Watch { version }));
            }
            Ok(None) | Err(_) => return (None, self.again(State::Watch { version })),
            Ok(Some(Err(failure))) => return self.broken(failure, version),
        };
        if !matches!(event, WatchEvent::Error(_)) {
            self.failures = 0;
        }
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let version = newer(version, &object.metadata().resource_version);
                let item = object.item(&mut self.known);
                (item.map(|item| Message::Applied { item }), State::Watching { version, events })
            }
            WatchEvent::Deleted(object) => {
                let (version, uid) =
                    (newer(version, &object.metadata().resource_version), object.metadata().uid());
                let item = object.item(&mut self.known);
                self.known.specs.remove(&uid);
                (item.map(|item| Message::Deleted { item }), State::Watching { version, events })
            }
            WatchEvent::Bookmark(bookmark) => {
                let version = newer(version, &bookmark.metadata.resource_version);
                (Some(alive(&version)), State::Watching { version, events })
            }
            WatchEvent::Error(status) => self.broken(Failure::from(*status), version),
        }
    }

    /// A version that is too old for a watch requires a new list.
    fn after_gone<T>(&self, version: String) -> State<T> {
        if planted(Bug::GoneNotListed) { State::Watch { version } } else { State::List }
    }

    /// Handles a watch that broke off.
    fn broken<T>(&mut self, failure: Failure, version: String) -> (Option<Message>, State<T>) {
        if failure.is_gone() {
            let then = self.after_gone(version);
            return (None, self.again(then));
        }
        self.forgive();
        let then = if self.failures >= LIST_AFTER { State::List } else { State::Watch { version } };
        let (message, state) = failed(failure, then);
        (Some(message), state)
    }

    /// Continues immediately the first time, then with back-off while attempts bring nothing. So a server that ends every watch
    /// immediately, or answers each with 410, does not get thousands of requests per second.
    fn again<T>(&mut self, then: State<T>) -> State<T> {
        self.forgive();
        match self.failures {
            0 => {
                self.failures = 1;
                then
            }
            _ => State::Failed { then: Box::new(then) },
        }
    }

    /// Resets the failures after a watch that lasted.
    fn forgive(&mut self) {
        if self.opened.take().is_some_and(|opened| opened.elapsed() > LONGEST_WAIT) {
            self.failures = 0;
        }
    }
}

/// The version to continue from: the latest one seen, unless it is missing.
fn newer(known: String, seen: &str) -> String {
    if matches!(seen, "" | "0") { known } else { seen.to_owned() }
}

/// A version that is not a number counts as 0.
fn alive(version: &str) -> Message {
    Message::Alive { version: version.parse().unwrap_or_default() }
}

fn failed<T>(failure: Failure, then: State<T>) -> (Message, State<T>) {
    (Message::Failed { failure }, State::Failed { then: Box::new(then) })
}
