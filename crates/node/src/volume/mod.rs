//! `rollcall-node volume`: keeps a folder mounted at another place, with a marker in it.

mod mounts;

use crate::Outcome;
use crate::arguments::Volume;
use crate::condition::{in_words, name_of};
use crate::marker::{self, Change, Keeper, folder_of, identity};
use crate::talk::{Talk, Topic};
use crate::watch::{Event, Events};
use mounts::Mounts;
use rollcall_core::agent::marker::Mount;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub fn run(options: &Volume) -> io::Result<Outcome> {
    let events = Events::new()?;
    let mut talk = Talk::new();
    let mut manager = Manager::new(options);
    // A marker of an earlier run must not count, so it is removed first.
    for trouble in manager.forget_old_markers() {
        talk.line(&trouble);
    }
    events.watch_mounts()?;
    talk.line(&format!("mounting {} at {}", options.source.display(), options.target.display()));
    loop {
        let now = Instant::now();
        match manager.step() {
            Ok(done) => {
                talk.forget(Topic::Trouble);
                if let Some(done) = done {
                    talk.report(Topic::State, done, now);
                }
            }
            Err(trouble) => talk.repeat(Topic::Trouble, trouble, now),
        }
        if let Some(remark) = manager.remark.take() {
            talk.report(Topic::Remark, remark, now);
        }
        talk.catch_up(now);
        match events.next(now + options.interval) {
            Some(Event::Signal(signal)) => {
                let end = manager.end().unwrap_or_else(|trouble| trouble);
                talk.line(&format!("terminated by signal {signal}: {end}"));
                return Ok(Outcome::Ended(signal));
            }
            Some(Event::Mounts | Event::ReadNodes | Event::Gone | Event::Command(_)) | None => {}
        }
    }
}

/// The readiness probe: checks the mount and its marker.
pub fn check(options: &Volume) -> Outcome {
    let checked = Manager::new(options).look().and_then(|found| match found {
        Found::Mounted(_) => marker::judge(&options.marker)
            .map_err(|why| format!("marker {}: {why}", options.marker.display())),
        Found::NotMounted(_) => Err(format!("{} is not mounted", options.target.display())),
    });
    match checked {
        Ok(()) => Outcome::Done,
        Err(why) => {
            eprintln!("rollcall-node: not ready: {why}");
            Outcome::Failed
        }
    }
}

/// The state of the target; the value identifies the source.
enum Found {
    NotMounted(Mount),
    Mounted(Mount),
}

struct Manager<'a> {
    source: &'a Path,
    target: &'a Path,
    keeper: Keeper,
    /// The path of the marker inside the source, if the marker is in the volume.
    in_source: Option<PathBuf>,
    /// The mount that we have made or taken over.
    mounted: Option<Mount>,
    remark: Option<String>,
}

impl<'a> Manager<'a> {
    fn new(options: &'a Volume) -> Manager<'a> {
        let Volume { source, target, marker, interval: _ } = options;
        let in_source = marker.strip_prefix(target).ok().map(|rest| source.join(rest));
        let keeper = Keeper::new(marker.clone());
        Manager { source, target, keeper, in_source, mounted: None, remark: None }
    }

    /// Removes markers of earlier runs from the unmounted target, and from the source, where the mount would show them.
    /// A foreign mount is not touched.
    fn forget_old_markers(&mut self) -> Vec<String> {
        let mut trouble = Vec::new();
        if !(self.in_source.is_some() && self.is_foreign()) {
            trouble.extend(self.keeper.clear().err());
        }
        if let Some(path) = self.in_source.clone() {
            trouble.extend(Keeper::new(path).clear().err());
        }
        trouble
    }

    /// Whether the mount at the target is foreign: neither the source nor our mount.
    fn is_foreign(&self) -> bool {
        let mounted = Mounts::read().is_ok_and(|mounts| mounts.at(self.target) > 0);
        let top = identity(self.target).ok();
        mounted && top.is_some() && top != self.mounted && top != self.source_identity().ok()
    }

    /// Checks the state and makes one step. Returns a message about a change, or the obstacle as an error.
    fn step(&mut self) -> Result<Option<String>, String> {
        let found = self.look();
        if !matches!(found, Ok(Found::Mounted(_))) {
            // Without the mount, there must be no marker: neither in the bare target nor in the source.
            self.forget_old_markers();
        }
        let source = match found {
            Ok(Found::Mounted(source)) => source,
            Ok(Found::NotMounted(source)) => self.mount(source)?,
            Err(trouble) => return Err(trouble),
        };
        let taken_over = self.mounted.replace(source).is_none();
        let mount = self.in_source.is_some().then(|| identity(folder_of(self.keeper.path()))).transpose();
        let mount = mount.map_err(|error| format!("{}: {}", self.target.display(), in_words(&error)))?;
        let change = self.keeper.keep(mount)?;
        let (source, target, marker) =
            (self.source.display(), self.target.display(), self.keeper.path().display());
        Ok(match change {
            Change::Written => {
                Some(format!("ready: {source} is mounted at {target}; marker {marker} written"))
            }
            Change::None | Change::Removed if taken_over => {
                Some(format!("ready: {source} was mounted at {target}"))
            }
            Change::None | Change::Removed => None,
        })
    }

    /// The state of the target. An error requires action by the user.
    fn look(&mut self) -> Result<Found, String> {
        let source = self.source_identity();
        let mounts = Mounts::read().map_err(|error| format!("mounts: {}", in_words(&error)))?;
        let top = match mounts.at(self.target) {
            0 => None,
            _ => Some(identity(self.target).map_err(|error| self.at_target(&in_words(&error)))?),
        };
        match (source, top) {
            (Ok(source), Some(top)) if source == top => Ok(Found::Mounted(source)),
            (Ok(source), None) => {
                self.mounted = None;
                Ok(Found::NotMounted(source))
            }
            // The source was replaced or removed: our mount still shows the old one.
            (source, Some(top)) if self.mounted == Some(top) => {
                self.forget_old_markers();
                self.unmount()?;
                source.map(Found::NotMounted)
            }
            (Ok(source), Some(top)) => Err(self.at_target(&format!(
                "something else is mounted there ({top}, but the source {} is {source}); Rollcall neither replaces nor covers it. \
                 If it is not needed: umount {}",
                self.source.display(),
                self.target.display(),
            ))),
            (Err(trouble), _) => Err(trouble),
        }
    }

    fn source_identity(&self) -> Result<Mount, String> {
        let trouble = |why: &str| format!("source {}: {why}", self.source.display());
        let found = fs::metadata(self.source).map_err(|error| trouble(&in_words(&error)))?;
        match found.is_dir() {
            true => identity(self.source).map_err(|error| trouble(&in_words(&error))),
            false => Err(trouble(&format!("is {}, not a folder", name_of(found.file_type())))),
        }
    }

    fn mount(&mut self, source: Mount) -> Result<Mount, String> {
        let trouble = |why: &str| self.at_target(why);
        match fs::symlink_metadata(self.target) {
            Ok(found) if found.is_dir() => {}
            // A link may lead to another folder in this container than on the host.
            Ok(found) => return Err(trouble(&format!("is {}, not a folder", name_of(found.file_type())))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(self.target)
                    .map_err(|error| trouble(&format!("not created: {}", in_words(&error))))?;
            }
            Err(error) => return Err(trouble(&in_words(&error))),
        }
        rustix::mount::mount_bind(self.source, self.target).map_err(|error| {
            let why = in_words(&error.into());
            trouble(&format!("{} not mounted: {why}; expected a privileged container", self.source.display()))
        })?;
        // Check the result, because another program may have mounted something first.
        let mounts = Mounts::read().map_err(|error| format!("mounts: {}", in_words(&error)))?;
        let top = identity(self.target).map_err(|error| trouble(&in_words(&error)))?;
        if mounts.at(self.target) != 1 || top != source {
            return Err(trouble(&format!(
                "found {} mounts there, the top one is {top}; expected one mount of {source}",
                mounts.at(self.target)
            )));
        }
        if !mounts.is_shared(self.target) {
            self.remark = Some(self.at_target(
                "this mount is visible only in this container; expected mountPropagation: Bidirectional on the volume above it",
            ));
        }
        Ok(top)
    }

    fn unmount(&mut self) -> Result<(), String> {
        self.mounted = None;
        mounts::unmount(self.target)
            .map_err(|error| self.at_target(&format!("not unmounted: {}", in_words(&error))))
    }

    fn at_target(&self, why: &str) -> String {
        format!("target {}: {why}", self.target.display())
    }

    /// Removes our own marker and mount.
    fn end(&mut self) -> Result<String, String> {
        let ours = self.mounted.is_some() && matches!(self.look(), Ok(Found::Mounted(_)));
        self.keeper.retire()?;
        if !ours {
            self.forget_old_markers();
            return Ok("no mount to remove".into());
        }
        self.unmount()?;
        Ok(format!("the marker has been removed, {} has been unmounted", self.target.display()))
    }
}
