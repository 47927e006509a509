//! The mount table of our mount namespace.

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

pub struct Mounts(Vec<Entry>);

struct Entry {
    point: PathBuf,
    /// Whether mounts and unmounts here propagate to other mount namespaces.
    shared: bool,
}

impl Mounts {
    pub fn read() -> io::Result<Mounts> {
        Ok(Mounts::parse(&fs::read("/proc/self/mountinfo")?))
    }

    /// Parses lines such as `36 35 98:0 /root /point options shared:1 - ext4 /dev/vda rw`. There can be several fields
    /// such as `shared:1`, or none.
    fn parse(table: &[u8]) -> Mounts {
        let lines = table.split(|byte| *byte == b'\n');
        let entries = lines.filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ');
            let point = PathBuf::from(OsString::from_vec(unescaped(fields.nth(4)?)));
            let shared =
                fields.skip(1).take_while(|field| *field != b"-").any(|field| field.starts_with(b"shared:"));
            Some(Entry { point, shared })
        });
        Mounts(entries.collect())
    }

    /// The number of mounts that are stacked at this path.
    pub fn at(&self, target: &Path) -> usize {
        let target = resolved(target);
        self.0.iter().filter(|entry| entry.point == target).count()
    }

    /// Whether the mount at the target propagates to other mount namespaces.
    pub fn is_shared(&self, target: &Path) -> bool {
        let target = resolved(target);
        self.0.iter().rfind(|entry| entry.point == target).is_some_and(|entry| entry.shared)
    }
}

/// The kernel lists mount points by paths without links.
fn resolved(target: &Path) -> PathBuf {
    fs::canonicalize(target).unwrap_or_else(|_| target.to_owned())
}

/// The kernel escapes spaces, tabs, newlines and backslashes as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\');
        text.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    text
}

/// Unmounts the top mount. If it is in use, open files stay usable, but the mount disappears from the file tree.
pub fn unmount(target: &Path) -> io::Result<()> {
    match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW) {
        Err(Errno::BUSY) => rustix::mount::unmount(target, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?,
        result => result?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let table = br"24 30 0:22 / /proc rw,nosuid - proc proc rw
36 35 98:0 /data /no\040such\134place rw,noatime master:1 shared:7 - ext4 /dev/vda rw
37 35 98:0 /data /no\040such\134place rw - ext4 /dev/shared:8 rw
38 35 98:0 /mnt /no-such-mnt rw shared:9 propagate_from:2 - ext4 /dev/vda rw
";
        let mounts = Mounts::parse(table);
        let (twice, once) = (Path::new(r"/no such\place"), Path::new("/no-such-mnt"));
        assert_eq!((mounts.at(twice), mounts.at(once), mounts.at(Path::new("/no-such-mnt/x"))), (2, 1, 0));
        // The mount on top is not shared.
        assert_eq!((mounts.is_shared(twice), mounts.is_shared(once)), (false, true));
    }
}
