//! Reads request bodies, within a memory limit for all bodies together.

use super::seats::{Seats, TakenSeat};
use super::{HttpAnswer, text};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// First allocation for a body, so that a body that arrives in small pieces is not copied for each of them.
const FIRST_PIECE: usize = 4 << 10;

/// A body that has not been read yet.
pub struct Body {
    pub(super) incoming: Incoming,
    pub(super) longest: usize,
    pub(super) room: Arc<Room>,
    pub(super) place: Arc<TakenSeat>,
}

/// A complete body. Its bytes count against the limit until it is dropped.
pub struct Whole {
    bytes: Vec<u8>,
    _holding: Holding,
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body {
    /// Reads the complete body. On failure, returns the answer to send instead.
    pub async fn read(mut self) -> Result<Whole, HttpAnswer> {
        let announced =
            self.incoming.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if announced.is_some_and(|size| size > self.longest) {
            return Err(self.too_long());
        }
        // A body without an announced length may reach the maximum.
        let most = announced.unwrap_or(self.longest);
        let mut holding = self.room.clone().enter(most);
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece(&holding).await? {
            let length = bytes.len() + piece.len();
            if length > self.longest {
                return Err(self.too_long());
            }
            if length > bytes.capacity() {
                let capacity = length.max(2 * bytes.capacity()).max(FIRST_PIECE).min(most.max(length));
                holding.grow_to(capacity).await.map_err(|Full| self.no_room())?;
                bytes.reserve_exact(capacity - bytes.len());
            }
            bytes.extend_from_slice(&piece);
        }
        holding.is_whole();
        self.place.asked();
        Ok(Whole { bytes, _holding: holding })
    }

    /// Returns the next bytes, unless the body must give way to others.
    async fn piece(&mut self, holding: &Holding) -> Result<Option<Bytes>, HttpAnswer> {
        loop {
            let frame = tokio::select! {
                biased;
                () = holding.needed() => return Err(self.no_room()),
                frame = self.incoming.frame() => frame,
            };
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(text(StatusCode::BAD_REQUEST, format!("{error}\n"))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_trailers) => {}
                },
            }
        }
    }

    fn too_long(&self) -> HttpAnswer {
        self.room.seats.turned_away("body");
        text(StatusCode::PAYLOAD_TOO_LARGE, format!("the body exceeds the limit of {} bytes\n", self.longest))
    }

    fn no_room(&self) -> HttpAnswer {
        self.room.seats.turned_away("bytes");
        text(StatusCode::SERVICE_UNAVAILABLE, "the memory limit for request bodies is reached; retry later\n")
    }
}

/// The bytes that all bodies of a server may hold.
///
/// When they are used up, the largest unfinished body is rejected in favour of one that will be smaller. So a client that sends
/// a few large bodies, or many small ones, cannot block ordinary reviews. With `n` connections, a body smaller than an `n`th of
/// the limit is always accepted.
pub struct Room {
    seats: Arc<Seats>,
    free: Arc<Semaphore>,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    next: u64,
    /// Bodies that are still being received.
    unfinished: BTreeMap<u64, Unfinished>,
}

struct Unfinished {
    held: usize,
    leave: CancellationToken,
}

/// The bytes that one body holds.
pub struct Holding {
    number: u64,
    /// Upper bound of its final size.
    most: usize,
    held: usize,
    leave: CancellationToken,
    permits: Option<OwnedSemaphorePermit>,
    room: Arc<Room>,
}

/// The limit is reached, and no unfinished body is larger.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Room {
    pub fn new(bytes: usize, seats: Arc<Seats>) -> Room {
        Room { seats, free: Arc::new(Semaphore::new(bytes)), inside: Mutex::default() }
    }

    fn enter(self: Arc<Self>, most: usize) -> Holding {
        let leave = CancellationToken::new();
        let mut inside = self.inside();
        let number = inside.next;
        inside.next += 1;
        inside.unfinished.insert(number, Unfinished { held: 0, leave: leave.clone() });
        drop(inside);
        Holding { number, most, held: 0, leave, permits: None, room: self }
    }

    /// Rejects the largest unfinished body if it is larger than `most`. It frees more bytes than were missing.
    fn make_room(&self, most: usize) -> Result<(), Full> {
        let mut inside = self.inside();
        let largest = inside.unfinished.iter().max_by_key(|(_, body)| body.held);
        let number = largest.filter(|(_, body)| body.held > most).map(|(number, _)| *number).ok_or(Full)?;
        if let Some(body) = inside.unfinished.remove(&number) {
            body.leave.cancel();
        }
        Ok(())
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holding {
    /// Acquires the bytes that are missing to reach `size`.
    async fn grow_to(&mut self, size: usize) -> Result<(), Full> {
        let missing = u32::try_from(size - self.held).map_err(|_| Full)?;
        let free = self.room.free.clone();
        let permits = match free.clone().try_acquire_many_owned(missing) {
            Ok(permits) => permits,
            Err(_) => {
                self.room.make_room(self.most)?;
                tokio::select! {
                    biased;
                    () = self.leave.cancelled() => return Err(Full),
                    // Completes soon: a body that must leave does nothing else first.
                    permits = free.acquire_many_owned(missing) => permits.map_err(|_| Full)?,
                }
            }
        };
        match &mut self.permits {
            Some(held) => held.merge(permits),
            none => *none = Some(permits),
        }
        self.held = size;
        self.room.seats.metrics().body_bytes.inc_by(i64::from(missing));
        if let Some(body) = self.room.inside().unfinished.get_mut(&self.number) {
            body.held = size;
        }
        Ok(())
    }

    /// Completes when the body must give way to others.
    async fn needed(&self) {
        self.leave.cancelled().await;
    }

    /// Marks the body as complete. It is answered next, so it need not give way any more.
    fn is_whole(&self) {
        self.room.inside().unfinished.remove(&self.number);
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.is_whole();
        self.room.seats.metrics().body_bytes.dec_by(self.held as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::Limits;
    use super::*;
    use std::time::Duration;

    fn room(bytes: usize) -> Arc<Room> {
        Arc::new(Room::new(bytes, Arc::new(Seats::new(Limits::WEBHOOK, Arc::default()))))
    }

    async fn body(room: &Arc<Room>, size: usize) -> Result<Holding, Full> {
        let mut holding = room.clone().enter(size);
        holding.grow_to(size).await?;
        Ok(holding)
    }

    #[tokio::test]
    async fn the_largest_gives_way_to_a_smaller_one() -> Result<(), Full> {
        let room = room(100);
        let (small, large) = (body(&room, 40).await?, body(&room, 60).await?);
        assert_eq!(body(&room, 60).await.err(), Some(Full), "no other body is larger");
        let newcomer = tokio::spawn({
            let room = room.clone();
            async move { body(&room, 50).await }
        });
        tokio::time::timeout(Duration::from_secs(60), large.needed()).await.map_err(|_| Full)?;
        drop(large);
        let newcomer = newcomer.await.map_err(|_| Full)??;
        assert!(!small.leave.is_cancelled());
        assert_eq!((newcomer.held, room.free.available_permits()), (50, 10));
        assert_eq!(room.seats.metrics().body_bytes.get(), 90);
        drop((small, newcomer));
        assert_eq!((room.free.available_permits(), room.seats.metrics().body_bytes.get()), (100, 0));
        Ok(())
    }

    #[tokio::test]
    async fn what_has_come_in_whole_stays() -> Result<(), Full> {
        let room = room(100);
        let whole = body(&room, 100).await?;
        whole.is_whole();
        assert_eq!(body(&room, 1).await.err(), Some(Full));
        drop(whole);
        assert!(body(&room, 1).await.is_ok());
        Ok(())
    }
}
