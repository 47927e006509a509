//! Checks of conditions, and the events that trigger them: a thread for each condition, and one each for file, mount
//! and signal events.
//!
//! A check can hang: because of an unresponsive name server, a network file system without its server, or a peer that
//! never answers. So no check runs in the main thread, which must obey a timeout and SIGTERM.

use crate::condition::Condition;
use crate::marker::folder_of;
use crate::talk::gone_by;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum interval between checks of files. inotify cannot report a folder that does not exist yet, nor a mount over a
/// folder.
const FILES: Duration = Duration::from_secs(1);
/// A check that takes longer is reported as "no answer", and its previous result does not count any more.
const PATIENCE: Duration = Duration::from_secs(1);
/// Delay before a folder is watched. Most waits end earlier, and removing an inotify watch takes the kernel 10 ms.
const BEFORE_WATCH: Duration = Duration::from_millis(50);
/// Stack size: enough for TLS and for the name resolution of glibc. Unused stack takes no memory.
const STACK: usize = 512 * 1024;
/// The largest inotify event has 272 bytes.
const BUFFER: usize = 4096;

/// Events for the main thread.
#[derive(Debug)]
pub enum Event {
    /// A condition has been checked.
    ReadNodes,
    /// A file was removed, even if it exists again.
    Gone,
    /// A file system was mounted or unmounted.
    Mounts,
    Signal(i32),
    /// A command has exited; the error is the reason of its failure.
    Command(Result<(), String>),
}

/// A queue of [`Event`]s, including signals.
pub struct Events {
    pub sender: Sender<Event>,
    receiver: Receiver<Event>,
}

impl Events {
    /// Creates the queue. From then on, SIGTERM and SIGINT are events.
    pub fn new() -> io::Result<Events> {
        let (sender, receiver) = channel();
        let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
        let to = sender.clone();
        spawn("signals", move || {
            for signal in signals.forever() {
                // The send fails only while the program ends.
                let _ = to.send(Event::Signal(signal));
            }
        })?;
        Ok(Events { sender, receiver })
    }

    /// The next event; `None` after the given time.
    pub fn next(&self, until: Instant) -> Option<Event> {
        let left = until.saturating_duration_since(Instant::now());
        // We hold a sender, so the only possible error is the timeout.
        self.receiver.recv_timeout(left).ok()
    }

    /// Sends an event whenever a file system is mounted or unmounted in our mount namespace.
    pub fn watch_mounts(&self) -> io::Result<()> {
        let to = self.sender.clone();
        on_mounts(move || to.send(Event::Mounts).is_ok())
    }
}

/// Conditions that are checked continuously.
pub struct Watch {
    conditions: Vec<(Condition, Arc<Mutex<Look>>)>,
}

/// The state of a condition.
#[derive(Debug, Default)]
struct Look {
    /// The start of the check that is in progress.
    begun: Option<Instant>,
    /// The result of the last check.
    found: Option<Result<(), String>>,
}

impl Watch {
    pub fn start(conditions: &[Condition], interval: Duration, events: &Events) -> io::Result<Watch> {
        let files = conditions.iter().any(|condition| condition.path().is_some());
        let folders = files.then(Folders::start).transpose()?;
        let mut watch = Watch { conditions: Vec::new() };
        let mut mounted = Vec::new();
        for condition in conditions {
            let look = Arc::new(Mutex::new(Look::default()));
            let (wake, woken) = channel();
            let mut prober = Prober {
                condition: condition.clone(),
                look: look.clone(),
                interval,
                folder: None,
                woken,
                events: events.sender.clone(),
            };
            if let (Some(path), Some(folders)) = (condition.path(), &folders) {
                mounted.push(wake.clone());
                prober.interval = interval.min(FILES);
                let name = path.file_name().unwrap_or_default().to_owned();
                prober.folder = Some(folders.subscribe(folder_of(path), name, wake, &events.sender));
            }
            spawn("look", move || prober.run())?;
            watch.conditions.push((condition.clone(), look));
        }
        // Wakes the checks after a mount over a watched folder. Without /proc, only the interval remains.
        if files {
            let _ = on_mounts(move || mounted.iter().all(|wake| wake.send(()).is_ok()));
        }
        Ok(watch)
    }

    /// The conditions that do not hold, with the reasons.
    pub fn missing(&self, now: Instant) -> Vec<(&Condition, String)> {
        let missing = self.conditions.iter().filter_map(|(condition, look)| {
            let look = lock(look);
            let taken = look.begun.map(|begun| now.saturating_duration_since(begun));
            let why = match (taken, &look.found) {
                (Some(taken), _) if taken > PATIENCE => format!("no answer for {}", gone_by(taken)),
                (_, Some(Ok(()))) => return None,
                (_, Some(Err(why))) => why.clone(),
                (_, None) => "not checked yet".into(),
            };
            Some((condition, why))
        });
        missing.collect()
    }
}

/// Checks one condition repeatedly.
struct Prober {
    condition: Condition,
    look: Arc<Mutex<Look>>,
    interval: Duration,
    folder: Option<Subscription>,
    woken: Receiver<()>,
    events: Sender<Event>,
}

impl Prober {
    fn run(mut self) {
        let mut first = true;
        loop {
            lock(&self.look).begun = Some(Instant::now());
            // The subscription comes before the check, so that no change between the two is missed.
            if let Some(folder) = self.folder.as_mut().filter(|_| !first) {
                folder.renew();
            }
            let found = self.condition.probe();
            let pause = match (first && self.folder.is_some(), &found) {
                (true, Ok(())) => BEFORE_WATCH,
                (true, Err(_)) => Duration::ZERO,
                (false, _) => self.interval,
            };
            first = false;
            *lock(&self.look) = Look { begun: None, found: Some(found) };
            if self.events.send(Event::ReadNodes).is_err() {
                return;
            }
            match self.woken.recv_timeout(pause) {
                // One check answers all pending wake-ups.
                Ok(()) => while self.woken.try_recv().is_ok() {},
                Err(RecvTimeoutError::Timeout) => {}
                // Conditions without a file are never woken.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(pause),
            }
        }
    }
}

/// An inotify instance that all conditions share.
#[derive(Clone)]
struct Folders {
    inotify: Arc<OwnedFd>,
    /// For each watch and subscriber: the file name to wait for, and the channel to notify.
    subscribers: Arc<Mutex<BTreeMap<(i32, usize), Subscriber>>>,
}

#[derive(Clone)]
struct Subscriber {
    name: OsString,
    wake: Sender<()>,
    events: Sender<Event>,
}

/// The subscription of one condition to one file name in one folder.
struct Subscription {
    folders: Folders,
    folder: std::path::PathBuf,
    id: usize,
    subscriber: Subscriber,
    watch: Option<i32>,
}

impl Folders {
    fn start() -> io::Result<Folders> {
        let inotify = Arc::new(inotify::init(inotify::CreateFlags::CLOEXEC)?);
        let folders = Folders { inotify, subscribers: Arc::default() };
        let reading = folders.clone();
        spawn("files", move || reading.read())?;
        Ok(folders)
    }

    fn subscribe(
        &self,
        folder: &Path,
        name: OsString,
        wake: Sender<()>,
        events: &Sender<Event>,
    ) -> Subscription {
        static IDS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let id = IDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let subscriber = Subscriber { name, wake, events: events.clone() };
        Subscription { folders: self.clone(), folder: folder.to_owned(), id, subscriber, watch: None }
    }

    fn read(&self) {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = inotify::Reader::new(&*self.inotify, &mut buffer);
        // The thread ends with the program. After an error, only the interval remains.
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| name.to_bytes().to_owned());
            let gone = event.events().intersects(inotify::ReadFlags::DELETE | inotify::ReadFlags::MOVED_FROM);
            let subscribers = lock(&self.subscribers);
            let of_folder = subscribers.range((event.wd(), 0)..=(event.wd(), usize::MAX));
            for (_, subscriber) in of_folder {
                // An event without a name concerns the folder itself.
                let about = name.as_ref().is_none_or(|name| *name == subscriber.name.as_encoded_bytes());
                if about {
                    let _ = subscriber.wake.send(());
                }
                if about && gone {
                    let _ = subscriber.events.send(Event::Gone);
                }
            }
        }
    }
}

impl Subscription {
    /// Watches the current folder at this path: it may have been created, or mounted over, since the last call.
    fn renew(&mut self) {
        use inotify::WatchFlags as On;
        let on = On::CREATE | On::MOVED_TO | On::CLOSE_WRITE | On::ATTRIB | On::DELETE | On::MOVED_FROM;
        let on = on | On::DELETE_SELF | On::MOVE_SELF | On::ONLYDIR;
        // inotify returns the same number for the same folder. If the limit of watches is reached, only the interval
        // remains.
        let watch = inotify::add_watch(&*self.folders.inotify, &self.folder, on).ok();
        if watch == self.watch {
            return;
        }
        let mut subscribers = lock(&self.folders.subscribers);
        if let Some(old) = self.watch.take() {
            subscribers.remove(&(old, self.id));
            if subscribers.range((old, 0)..=(old, usize::MAX)).next().is_none() {
                // The kernel has already removed the watch if the folder was deleted.
                let _ = inotify::remove_watch(&*self.folders.inotify, old);
            }
        }
        if let Some(watch) = watch {
            subscribers.insert((watch, self.id), self.subscriber.clone());
        }
        self.watch = watch;
    }
}

/// Calls `call` whenever the mount table has changed, until it returns false.
fn on_mounts(mut call: impl FnMut() -> bool + Send + 'static) -> io::Result<()> {
    let mut table = File::open("/proc/self/mountinfo")?;
    spawn("mounts", move || {
        loop {
            // The kernel reports changes since the last read.
            if table.rewind().is_err() || table.read_to_end(&mut Vec::new()).is_err() {
                return;
            }
            let mut changes = [PollFd::new(&table, PollFlags::PRI | PollFlags::ERR)];
            match poll(&mut changes, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            if !call() {
                return;
            }
        }
    })
}

pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).stack_size(STACK).spawn(work).map(drop)
}

/// Locks a mutex, even if a thread panicked while holding it: each value is written in one step, so it is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
