//! Files, devices and unix sockets.

use super::in_words;
use std::fs::{self, FileType};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Checks that a file or a device exists. Links are followed, as by `test -f`.
pub fn is_there(path: &Path) -> Result<(), String> {
    let kind = fs::metadata(path).map_err(|error| unseen(path, &error))?.file_type();
    match kind.is_file() || kind.is_char_device() || kind.is_block_device() {
        true => Ok(()),
        false => Err(format!("is {}, not a file", name_of(kind))),
    }
}

/// Checks that a program listens on the socket, by opening and closing a connection.
pub fn is_listened_on(path: &Path) -> Result<(), String> {
    let kind = fs::metadata(path).map_err(|error| unseen(path, &error))?.file_type();
    if !kind.is_socket() {
        return Err(format!("is {}, not a socket", name_of(kind)));
    }
    UnixStream::connect(path).map(drop).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::PROTOTYPE.raw_os_error() => "is not a stream socket".into(),
        _ => in_words(&error),
    })
}

/// The reason for a file that is not found: the file or its folder is missing.
pub fn unseen(path: &Path, error: &std::io::Error) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match (error.kind(), folder) {
        (ErrorKind::NotFound, Some(folder)) if matches!(fs::metadata(folder), Err(e) if e.kind() == ErrorKind::NotFound) =>
        {
            format!("not found; the folder {} does not exist either", folder.display())
        }
        (ErrorKind::NotFound, _) if path.is_symlink() => "is a dangling symbolic link".into(),
        _ => in_words(error),
    }
}

pub fn name_of(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_file() {
        "a file"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
