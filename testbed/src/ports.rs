//! Free ports that no other process takes: neither the kernel for an outgoing connection, nor another cluster that
//! starts at the same time.

use crate::components::random;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// The range is below the ports that the kernel uses for outgoing connections. Otherwise such a connection could take
/// the port of a server while the server restarts.
const FIRST: u16 = 10_000;
const HOW_MANY: u16 = 20_000;

/// Locked files, one for each port that this process has been given. The locks end with the process.
static GIVEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A free port. Other processes look for ports, too, between this check and the time when the server listens. So each
/// port has a file, which the process keeps locked.
pub fn free_port() -> Result<u16> {
    let dir = std::env::temp_dir().join("rollcall-testbed-ports");
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    loop {
        let port = FIRST + u16::from_le_bytes(random::<2>()?) % HOW_MANY;
        let path = dir.join(port.to_string());
        let lock = File::create(&path).with_context(|| format!("make {}", path.display()))?;
        if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            GIVEN.lock().unwrap_or_else(PoisonError::into_inner).push(lock);
            return Ok(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn nobody_is_given_a_port_twice() {
        let given: BTreeSet<u16> = (0..500).map(|_| free_port().expect("there are enough")).collect();
        assert_eq!(given.len(), 500);
        let again = |port: &u16| {
            let path = std::env::temp_dir().join("rollcall-testbed-ports").join(port.to_string());
            File::create(path).expect("it is there").try_lock().is_ok()
        };
        assert!(!given.iter().any(again), "another process could take one of the ports");
    }
}
