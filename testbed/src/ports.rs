//! Ports that nobody else takes: not the kernel for an outgoing connection, and not another cluster that starts at the same time.

use crate::components::random;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Below the ports that the kernel gives to outgoing connections, so that nobody takes one while a restarting server has let
/// go of it.
const FIRST: u16 = 10_000;
const HOW_MANY: u16 = 20_000;

/// The locks of the ports that this process was given. They end with it.
static GIVEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A free port. Between the look whether it is free and the server that listens there, other processes look, too; so who was
/// given a port keeps a lock on it.
pub fn free_port() -> Result<u16> {
    let dir = std::env::temp_dir().join("rollcall-testbed-ports");
    fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
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
        assert!(!given.iter().any(again), "somebody else could take one");
    }
}
