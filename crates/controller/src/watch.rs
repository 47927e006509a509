//! List, then watch, for ever: one stream per kind.
//!
//! Our own instead of kube's `watcher`, because the index needs what that one does not tell: the resourceVersion of
//! the list (below what was seen means a restored cluster) and every sign of life, bookmarks included; and because
//! its back-off is not seeded. See docs/decisions.

use crate::backoff::Jitter;
use crate::client::{self, Failure};
use futures::stream::{self, BoxStream, StreamExt};
use kube::Client;
use kube::core::WatchEvent;
use rollcall_api::names;
use rollcall_api::resource::Resource;
use rollcall_api::sequence::{KnownSpec, PodSequenceStatus, SequenceObject, note::NoteObject};
use rollcall_api::watch::{
    CsiNodeObject, ListMeta, ListOf, NamespaceObject, NodeObject, OwnerObject, PodFacts, version,
};
use rollcall_core::Uid;
use rollcall_core::index::Object;
use rollcall_core::kind::Kind;
use rollcall_core::planted::{Bug, planted};
use rollcall_core::sequence::Sequence;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Objects of one page of a list: enough to be quick, little enough not to leave holes of megabytes in the memory.
const PAGE: usize = 200;
/// How long the server keeps one watch open.
pub const WATCH_SECONDS: u64 = 290;
/// API servers send a bookmark about every minute; a watch silent for half as long again is dead.
const SILENCE: Duration = Duration::from_secs(90);
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// A watch that cannot be opened is tried again at least this often.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A watch that breaks so often at one place will not get past it; a list does.
const LIST_AFTER: u32 = 3;

/// What a watch tells.
pub enum Message {
    /// A list begins, of this version.
    Begins {
        version: u64,
    },
    Page {
        items: Vec<Item>,
    },
    /// The list is whole.
    Ended,
    Applied {
        item: Item,
    },
    Deleted {
        item: Item,
    },
    /// Nothing changed up to this version, and the watch lives.
    Alive {
        version: u64,
    },
    /// It failed, and will be tried again.
    Failed {
        failure: Failure,
    },
}

/// An object, and of a sequence also what is needed to write its status.
pub struct Item {
    pub object: Object,
    pub written: Option<Box<Written>>,
}

/// What a `PodSequence` has in its status now.
#[derive(Clone, Debug)]
pub struct Written {
    pub uid: Uid,
    pub version: u64,
    pub status: Option<PodSequenceStatus>,
    pub resource_version: String,
    pub generation: i64,
}

/// What can be listed and watched.
pub trait Watched: DeserializeOwned + Clone + Send + 'static {
    /// Its resourceVersion; nothing if it has none.
    fn version(&self) -> String;
    fn uid(&self) -> Uid;
    /// `None` for what is not ours to understand.
    fn item(self, kind: Kind, specs: &mut Specs) -> Option<Item>;
}

/// The specs of the sequences as this watch saw them last, so that news of a status need not read a thousand groups.
#[derive(Debug, Default)]
pub struct Specs(BTreeMap<Uid, KnownSpec>);

impl Specs {
    fn facts(&mut self, object: &SequenceObject) -> Sequence {
        let uid = object.metadata.uid();
        let sequence = object.facts_knowing(self.0.get(&uid));
        self.0.insert(uid, KnownSpec::from(&sequence));
        sequence
    }
}

impl Item {
    pub fn plain(object: Object) -> Item {
        Item { object, written: None }
    }
}

fn plain(object: Object) -> Option<Item> {
    Some(Item::plain(object))
}

/// What every object has that is kept as it came.
macro_rules! by_metadata {
    () => {
        fn version(&self) -> String {
            self.metadata.resource_version.clone()
        }
        fn uid(&self) -> Uid {
            self.metadata.uid()
        }
    };
}

impl Watched for PodFacts {
    fn version(&self) -> String {
        self.0.version.to_string()
    }
    fn uid(&self) -> Uid {
        self.0.uid
    }
    fn item(self, _: Kind, _: &mut Specs) -> Option<Item> {
        plain(Object::Pod(self.0))
    }
}

impl Watched for NamespaceObject {
    by_metadata!();
    fn item(self, _: Kind, _: &mut Specs) -> Option<Item> {
        plain(Object::Namespace(self.facts()))
    }
}

impl Watched for OwnerObject {
    by_metadata!();
    fn item(self, kind: Kind, _: &mut Specs) -> Option<Item> {
        plain(Object::Owner(self.facts(kind.owner()?)))
    }
}

impl Watched for NodeObject {
    by_metadata!();
    fn item(self, _: Kind, _: &mut Specs) -> Option<Item> {
        plain(Object::Node(self.facts()))
    }
}

impl Watched for CsiNodeObject {
    by_metadata!();
    fn item(self, _: Kind, _: &mut Specs) -> Option<Item> {
        plain(Object::Drivers(self.facts()))
    }
}

impl Watched for SequenceObject {
    by_metadata!();
    fn item(self, _: Kind, specs: &mut Specs) -> Option<Item> {
        let facts = specs.facts(&self);
        Some(of_sequence(&self, facts))
    }
}

pub fn of_sequence(object: &SequenceObject, facts: Sequence) -> Item {
    let written = Written {
        uid: facts.uid,
        version: facts.version,
        status: object.status(),
        resource_version: object.metadata.resource_version.clone(),
        generation: object.metadata.generation.unwrap_or_default(),
    };
    Item { object: Object::Sequence(facts), written: Some(Box::new(written)) }
}

impl Watched for NoteObject {
    by_metadata!();
    fn item(self, _: Kind, _: &mut Specs) -> Option<Item> {
        plain(Object::Note(self.facts()?))
    }
}

/// The watches of the controller, each with its kind.
pub fn all(
    client: &Client,
    kinds: &[Kind],
    own_namespace: &str,
    seed: u64,
) -> Vec<(Kind, BoxStream<'static, Message>)> {
    let start = |kind: Kind| {
        let watch = Watch {
            client: client.clone(),
            kind,
            path: Resource::of(kind).path((kind == Kind::Note).then_some(own_namespace)),
            labels: (kind == Kind::Note)
                .then(|| format!("{}={}", names::NOTE_LABEL, names::NOTE_LABEL_VALUE)),
            jitter: Jitter::seeded(seed.wrapping_add(kind as u64 + 1)),
            failures: 0,
            opened: None,
            specs: Specs::default(),
        };
        match kind {
            Kind::Pod => watch.stream::<PodFacts>(),
            Kind::Deployment
            | Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::DaemonSet
            | Kind::Job
            | Kind::CronJob => watch.stream::<OwnerObject>(),
            Kind::Namespace => watch.stream::<NamespaceObject>(),
            Kind::Sequence => watch.stream::<SequenceObject>(),
            Kind::Note => watch.stream::<NoteObject>(),
            Kind::Node => watch.stream::<NodeObject>(),
            Kind::CsiNode => watch.stream::<CsiNodeObject>(),
        }
    };
    kinds.iter().map(|kind| (*kind, start(*kind))).collect()
}

struct Watch {
    client: Client,
    kind: Kind,
    path: String,
    labels: Option<String>,
    jitter: Jitter,
    /// Attempts in a row that brought nothing: neither an event nor a watch that lasted.
    failures: u32,
    opened: Option<Instant>,
    specs: Specs,
}

enum State<T> {
    /// List from the beginning.
    List,
    /// The first page has been taken; `next` continues, `None` ends the list.
    Listed {
        version: String,
        first: Option<Vec<Item>>,
        next: Option<String>,
    },
    /// Watch from here on.
    Watch {
        version: String,
    },
    Watching {
        version: String,
        events: BoxStream<'static, Result<WatchEvent<T>, Failure>>,
    },
    /// Something failed; go on with the inner state after a wait.
    Failed {
        then: Box<State<T>>,
    },
}

impl Watch {
    fn stream<T: Watched>(self) -> BoxStream<'static, Message> {
        let step = |(mut watch, state): (Watch, State<T>)| async move {
            let (message, state) = watch.step(state).await;
            Some((message, (watch, state)))
        };
        stream::unfold((self, State::<T>::List), step).boxed()
    }

    async fn step<T: Watched>(&mut self, mut state: State<T>) -> (Message, State<T>) {
        loop {
            state = match state {
                State::List => match self.list::<T>(None).await {
                    Ok(page) => return self.begin(page),
                    Err(failure) => return failed(failure, State::List),
                },
                State::Listed { version, first: Some(items), next } => {
                    return (Message::Page { items }, State::Listed { version, first: None, next });
                }
                State::Listed { version, first: None, next: None } => {
                    return (Message::Ended, State::Watch { version });
                }
                State::Listed { version, first: None, next: Some(token) } => {
                    match self.list::<T>(Some(&token)).await {
                        Ok(page) => {
                            let (next, items) = (page.metadata.continue_token, self.items(page.items));
                            let next = next.filter(|token| !token.is_empty());
                            return (Message::Page { items }, State::Listed { version, first: None, next });
                        }
                        Err(failure) if failure.is_gone() && planted(Bug::TokenEndsList) => {
                            return (Message::Ended, State::Watch { version });
                        }
                        // An expired continue token, or whatever else: the list is begun again.
                        Err(failure) => return failed(failure, State::List),
                    }
                }
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

    fn begin<T: Watched>(&mut self, page: ListOf<T>) -> (Message, State<T>) {
        // Of a cluster restored from a backup the same generation may say something else.
        self.specs = Specs::default();
        let listed = page.metadata.resource_version;
        let next = page.metadata.continue_token.filter(|token| !token.is_empty());
        let first = Some(self.items(page.items));
        (Message::Begins { version: version(&listed) }, State::Listed { version: listed, first, next })
    }

    fn items<T: Watched>(&mut self, objects: Vec<T>) -> Vec<Item> {
        objects.into_iter().filter_map(|object| object.item(self.kind, &mut self.specs)).collect()
    }

    async fn list<T: Watched>(&self, token: Option<&str>) -> Result<ListOf<T>, Failure> {
        let mut query = vec![("limit", PAGE.to_string())];
        query.extend(token.map(|token| ("continue", token.to_owned())));
        query.extend(self.labels.clone().map(|labels| ("labelSelector", labels)));
        let answer = client::get(&self.client, &client::with_query(&self.path, &query)).await;
        if planted(Bug::AbsentIsEmpty) && matches!(&answer, Err(Failure { code: Some(404), .. })) {
            let metadata = ListMeta { resource_version: u32::MAX.to_string(), continue_token: None };
            return Ok(ListOf { metadata, items: Vec::new() });
        }
        let page: ListOf<T> = answer?;
        // Whatever answered, it was no API server; to take it for an empty list would be to see everything deleted.
        match version(&page.metadata.resource_version) {
            0 if !planted(Bug::GarbageIsEmpty) => {
                Err(Failure { code: None, message: "the answer is no list: it has no version".into() })
            }
            _ => Ok(page),
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
        query.extend(self.labels.clone().map(|labels| ("labelSelector", labels)));
        let request = client::request("GET", &client::with_query(&self.path, &query), None, Vec::new());
        let opened = tokio::time::timeout(client::TIMEOUT, self.client.request_events::<T>(request)).await;
        let events = opened.map_err(|_| Failure::timeout(client::TIMEOUT))?.map_err(Failure::from)?;
        Ok(events.map(|event| event.map_err(Failure::from)).boxed())
    }

    /// The next message of an open watch, or only the state to go on with.
    async fn next<T: Watched>(
        &mut self,
        version: String,
        mut events: BoxStream<'static, Result<WatchEvent<T>, Failure>>,
    ) -> (Option<Message>, State<T>) {
        let event = match tokio::time::timeout(SILENCE, events.next()).await {
            Ok(Some(Ok(event))) => event,
            // The server ends each watch after a while, and a silent one is as good as ended.
            Ok(None) if planted(Bug::EventsSkipped) => {
                let version = (self::version(&version) + 5).to_string();
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
                let version = newer(version, &object.version());
                let item = object.item(self.kind, &mut self.specs);
                (item.map(|item| Message::Applied { item }), State::Watching { version, events })
            }
            WatchEvent::Deleted(object) => {
                let (version, uid) = (newer(version, &object.version()), object.uid());
                let item = object.item(self.kind, &mut self.specs);
                self.specs.0.remove(&uid);
                (item.map(|item| Message::Deleted { item }), State::Watching { version, events })
            }
            WatchEvent::Bookmark(bookmark) => {
                let version = newer(version, &bookmark.metadata.resource_version);
                (Some(alive(&version)), State::Watching { version, events })
            }
            WatchEvent::Error(status) => self.broken(Failure::from(*status), version),
        }
    }

    /// What is too old to be resumed has to be listed.
    fn after_gone<T>(&self, version: String) -> State<T> {
        if planted(Bug::GoneNotListed) { State::Watch { version } } else { State::List }
    }

    /// A watch broke off in the middle.
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

    /// Goes on at once the first time, with a growing wait while that brings nothing: a server that ends every watch
    /// as soon as it is open, or answers each with 410, must not be asked thousands of times a second.
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

    /// A watch that has lasted was none in vain.
    fn forgive(&mut self) {
        if self.opened.take().is_some_and(|opened| opened.elapsed() > LONGEST_WAIT) {
            self.failures = 0;
        }
    }
}

/// What to go on from: the version just seen, unless there is none.
fn newer(known: String, seen: &str) -> String {
    if matches!(seen, "" | "0") { known } else { seen.to_owned() }
}

/// A version that is no number says nothing.
fn alive(version: &str) -> Message {
    Message::Alive { version: version.parse().unwrap_or_default() }
}

fn failed<T>(failure: Failure, then: State<T>) -> (Message, State<T>) {
    (Message::Failed { failure }, State::Failed { then: Box::new(then) })
}
