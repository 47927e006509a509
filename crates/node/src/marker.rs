//! Marker files: reads them safely, and writes them atomically.

use crate::condition::in_words;
use rollcall_core::agent::marker::{Here, MAX_SIZE, Marker, Mount};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The id of the current boot.
pub fn boot() -> io::Result<String> {
    Ok(fs::read_to_string(BOOT_ID)?.trim().to_owned())
}

/// The device and inode numbers of a folder, which are the same in every mount namespace.
pub fn identity(folder: &Path) -> io::Result<Mount> {
    let found = fs::metadata(folder)?;
    Ok(Mount { device: found.dev(), inode: found.ino() })
}

/// The folder of a file; for `x` it is `.`.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Checks that a marker exists and is valid; the error is the reason if not.
pub fn judge(path: &Path) -> Result<(), String> {
    let Some((marker, folder)) = read(path)? else {
        return Err(crate::condition::unseen(path));
    };
    let boot = boot().map_err(|error| format!("{BOOT_ID}: {}", in_words(&error)))?;
    marker.judge(&Here { boot, folder }).map_err(|stale| stale.to_string())
}

/// The marker and the folder that contains it; `None` if there is no marker.
pub fn read(path: &Path) -> Result<Option<(Marker, Mount)>, String> {
    let folder = folder_of(path);
    let (file, folder) = match open(folder, path).and_then(|file| Ok((file, identity(folder)?))) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unopened(&error)),
    };
    let kind = file.metadata().map_err(|error| in_words(&error))?.file_type();
    if !kind.is_file() {
        return Err(format!("is {}, not a file", crate::condition::name_of(kind)));
    }
    let mut text = Vec::new();
    file.take(MAX_SIZE as u64).read_to_end(&mut text).map_err(|error| in_words(&error))?;
    let marker = Marker::parse(&String::from_utf8_lossy(&text)).map_err(|stale| stale.to_string())?;
    Ok(Some((marker, folder)))
}

/// Opens the file without blocking on a FIFO, and without following links out of its folder. Users with write
/// permission for the folder must not make us read, and print to the log, files that they cannot read.
fn open(folder: &Path, path: &Path) -> io::Result<File> {
    let name = path.file_name().ok_or_else(|| io::Error::from(Errno::ISDIR))?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let folder = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let opened = rustix::fs::openat2(&folder, name, flags, Mode::empty(), ResolveFlags::BENEATH);
    let opened: Result<OwnedFd, Errno> = match opened {
        // Kernels before 5.6, and seccomp filters that do not know `openat2`: no links are followed at all.
        Err(Errno::NOSYS | Errno::PERM) => {
            rustix::fs::openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())
        }
        opened => opened,
    };
    Ok(File::from(opened?))
}

fn unopened(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::XDEV | Errno::LOOP) => "is a symbolic link out of its folder".into(),
        // Opening a socket fails with `ENXIO`.
        Some(Errno::NXIO) => "is a socket, not a file".into(),
        _ => in_words(error),
    }
}

/// Keeps a marker: writes it while it should exist, and removes it while it should not.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    /// The marker that we have written, while it should exist.
    written: Option<Marker>,
}

/// The change that a [`Keeper`] has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    Written,
    Removed,
}

impl Keeper {
    pub fn new(path: PathBuf) -> Keeper {
        Keeper { path, written: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A marker with the identity of this program and the current time.
    pub fn identity(mount: Option<Mount>) -> io::Result<Marker> {
        let of = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        // The time has milliseconds, because two runs in one pod can start within a second.
        let time = jiff::Timestamp::now().round(jiff::Unit::Millisecond).ok().map(|time| time.to_string());
        Ok(Marker { boot: Some(boot()?), pod: of("POD_UID"), node: of("NODE_NAME"), time, mount })
    }

    /// Makes sure that a valid marker exists. A valid marker of another agent for the same mount is kept: during an
    /// update, two agents run at the same time.
    pub fn keep(&mut self, mount: Option<Mount>) -> Result<Change, String> {
        let fresh = match read(&self.path) {
            Ok(Some((marker, _))) => {
                marker.boot.is_some() && marker.mount == mount && judge(&self.path).is_ok()
            }
            // Anything else is replaced below; a failure is reported there.
            Ok(None) | Err(_) => false,
        };
        if fresh {
            return Ok(Change::None);
        }
        let trouble = |error: io::Error| format!("marker {}: {}", self.path.display(), unkept(&error));
        let marker = Keeper::identity(mount).map_err(trouble)?;
        write(&self.path, &marker).map_err(trouble)?;
        self.written = Some(marker);
        Ok(Change::Written)
    }

    /// Makes sure that no marker exists.
    pub fn clear(&mut self) -> Result<Change, String> {
        self.written = None;
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(Change::Removed),
            // On a read-only file system, the removal fails even if there is no marker.
            Err(_) if matches!(fs::symlink_metadata(&self.path), Err(e) if e.kind() == io::ErrorKind::NotFound) => {
                Ok(Change::None)
            }
            Err(error) => Err(format!("marker {}: not removed: {}", self.path.display(), in_words(&error))),
        }
    }

    /// Removes our own marker, but not one that a successor has written since.
    pub fn retire(&mut self) -> Result<Change, String> {
        let Some(ours) = self.written.take() else { return Ok(Change::None) };
        match read(&self.path) {
            Ok(Some((marker, _))) if marker != ours => Ok(Change::None),
            Ok(_) | Err(_) => self.clear(),
        }
    }
}

fn unkept(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "not written: its folder does not exist".into(),
        _ => format!("not written: {}", in_words(error)),
    }
}

/// Writes the marker atomically: a temporary file in the same folder, then a rename.
fn write(path: &Path, marker: &Marker) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::from(Errno::ISDIR))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(".tmp");
    let temporary = folder_of(path).join(temporary);
    // A temporary file that a killed run has left behind.
    match rustix::fs::unlinkat(CWD, &temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let written = File::create_new(&temporary).and_then(|mut file| {
        file.write_all(marker.to_string().as_bytes())?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // On a full disk, an empty file would remain.
        let _ = fs::remove_file(&temporary);
    }
    written
}
