//! Messages on stderr: a line per event with the elapsed time, limited in frequency.

use jiff::SignedDuration;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Minimum time between lines of one topic: the log of a wait of a day stays below 1 MB.
pub const PAUSE: Duration = Duration::from_secs(10);

/// The topic of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The conditions and their state.
    State,
    /// A failure.
    Trouble,
    /// An oddity that does not stop the program.
    Remark,
}

/// Prints messages, limited in frequency, so that the end of the log shows the current state.
#[derive(Debug)]
pub struct Talk<W> {
    out: W,
    started: Instant,
    topics: BTreeMap<Topic, Said>,
}

#[derive(Debug)]
struct Said {
    at: Instant,
    text: String,
    /// The message to print after the pause.
    next: Option<String>,
}

impl Talk<std::io::Stderr> {
    pub fn new() -> Talk<std::io::Stderr> {
        Talk::to(std::io::stderr(), Instant::now())
    }
}

impl<W: std::io::Write> Talk<W> {
    pub fn to(out: W, started: Instant) -> Talk<W> {
        Talk { out, started, topics: BTreeMap::new() }
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    /// Prints a line immediately.
    pub fn line(&mut self, text: &str) {
        // A closed stderr must not end the program.
        let _ = writeln!(self.out, "rollcall-node: {text}");
    }

    /// Prints a message with the elapsed time: now, or when the topic has been silent for long enough. Only the latest
    /// pending message is printed, and a message is not repeated.
    pub fn report(&mut self, topic: Topic, text: String, now: Instant) {
        match self.topics.get_mut(&topic) {
            Some(said) if said.text == text => said.next = None,
            Some(said) if now.duration_since(said.at) < PAUSE => said.next = Some(text),
            Some(_) | None => self.speak(topic, text, now),
        }
    }

    /// Forgets the last message of a topic, so that it is printed again if the problem returns.
    pub fn forget(&mut self, topic: Topic) {
        if let Some(said) = self.topics.get_mut(&topic) {
            said.text.clear();
            said.next = None;
        }
    }

    /// Prints pending messages whose pause has ended.
    pub fn catch_up(&mut self, now: Instant) {
        let due = |said: &Said| now.duration_since(said.at) >= PAUSE;
        let topics = self.topics.iter_mut().filter(|(_, said)| due(said));
        let next: Vec<(Topic, String)> =
            topics.filter_map(|(topic, said)| Some((*topic, said.next.take()?))).collect();
        for (topic, text) in next {
            self.speak(topic, text, now);
        }
    }

    /// Repeats a message from time to time, so that it appears at the end of the log.
    pub fn repeat(&mut self, topic: Topic, text: String, now: Instant) {
        let silent = self.topics.get(&topic).is_none_or(|said| now.duration_since(said.at) >= PAUSE);
        if silent {
            self.speak(topic, text, now);
        }
    }

    fn speak(&mut self, topic: Topic, text: String, now: Instant) {
        self.line(&format!("{}: {text}", gone_by(now.duration_since(self.started))));
        self.topics.insert(topic, Said { at: now, text, next: None });
    }
}

/// A rounded duration: `4ms`, `2s 300ms`, `5m 12s`.
pub fn gone_by(duration: Duration) -> String {
    let unit = match duration.as_secs() {
        0 => Duration::from_millis(1),
        1..10 => Duration::from_millis(100),
        _ => Duration::from_secs(1),
    };
    let units = duration.as_nanos() / unit.as_nanos();
    let rounded = unit.saturating_mul(u32::try_from(units).unwrap_or(u32::MAX));
    exactly(rounded)
}

pub fn exactly(duration: Duration) -> String {
    SignedDuration::try_from(duration).map_or_else(|_| format!("{duration:?}"), |d| format!("{d:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let read = |millis| gone_by(Duration::from_millis(millis));
        let all = [0, 4, 2_345, 10_900, 312_000, 5_400_000].map(read);
        assert_eq!(all, ["0s", "4ms", "2s 300ms", "10s", "5m 12s", "1h 30m"]);
    }

    #[test]
    fn a_topic_is_silent_for_a_while_and_the_last_word_wins() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut talk = Talk::to(Vec::new(), start);
        talk.report(Topic::State, "a".into(), at(1));
        talk.report(Topic::State, "b".into(), at(2));
        talk.report(Topic::State, "c".into(), at(3));
        talk.report(Topic::Trouble, "t".into(), at(3));
        talk.catch_up(at(10));
        talk.catch_up(at(11));
        // Back to the last printed message: nothing new to print.
        talk.report(Topic::State, "d".into(), at(12));
        talk.report(Topic::State, "c".into(), at(13));
        talk.catch_up(at(30));
        talk.forget(Topic::Trouble);
        talk.report(Topic::Trouble, "t".into(), at(31));
        talk.repeat(Topic::Trouble, "t".into(), at(40));
        talk.repeat(Topic::Trouble, "t".into(), at(41));
        let said = String::from_utf8(talk.out).expect("text");
        let said: Vec<&str> = said.lines().map(|line| line.trim_start_matches("rollcall-node: ")).collect();
        assert_eq!(said, ["1s: a", "3s: t", "11s: c", "31s: t", "41s: t"]);
    }
}
