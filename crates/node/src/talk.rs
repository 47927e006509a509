//! What is said on stderr: a line per event, with the time that has gone by, and none too often.

use jiff::SignedDuration;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Lines of one topic come no more often: the log of a wait of a day stays below 1 MB.
pub const PAUSE: Duration = Duration::from_secs(10);

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// What is waited for, and what became of it.
    State,
    /// Something that could not be done.
    Trouble,
    /// Something that is odd and can go on.
    Remark,
}

/// Says things to a person, who may come late and reads from the end.
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
    /// What is to be said when the pause is over.
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

    /// Says it now.
    pub fn line(&mut self, text: &str) {
        // A closed stderr is no reason to stop.
        let _ = writeln!(self.out, "rollcall-node: {text}");
    }

    /// Says it with the time that has gone by: now, or when the topic has been silent for long enough. The last word wins,
    /// and what has been said already is not said again.
    pub fn say(&mut self, topic: Topic, text: String, now: Instant) {
        match self.topics.get_mut(&topic) {
            Some(said) if said.text == text => said.next = None,
            Some(said) if now.duration_since(said.at) < PAUSE => said.next = Some(text),
            Some(_) | None => self.speak(topic, text, now),
        }
    }

    /// Trouble is over: when it comes back, that is news.
    pub fn forget(&mut self, topic: Topic) {
        if let Some(said) = self.topics.get_mut(&topic) {
            said.text.clear();
            said.next = None;
        }
    }

    /// Says what is due.
    pub fn catch_up(&mut self, now: Instant) {
        let due = |said: &Said| now.duration_since(said.at) >= PAUSE;
        let topics = self.topics.iter_mut().filter(|(_, said)| due(said));
        let next: Vec<(Topic, String)> =
            topics.filter_map(|(topic, said)| Some((*topic, said.next.take()?))).collect();
        for (topic, text) in next {
            self.speak(topic, text, now);
        }
    }

    /// Repeats what stands, once in a while, so that the end of the log says it.
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

/// A duration as a person writes it, as exact as a person wants it: `4ms`, `2s 300ms`, `5m 12s`.
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
        talk.say(Topic::State, "a".into(), at(1));
        talk.say(Topic::State, "b".into(), at(2));
        talk.say(Topic::State, "c".into(), at(3));
        talk.say(Topic::Trouble, "t".into(), at(3));
        talk.catch_up(at(10));
        talk.catch_up(at(11));
        // Back to what was said last: there is no news.
        talk.say(Topic::State, "d".into(), at(12));
        talk.say(Topic::State, "c".into(), at(13));
        talk.catch_up(at(30));
        talk.forget(Topic::Trouble);
        talk.say(Topic::Trouble, "t".into(), at(31));
        talk.repeat(Topic::Trouble, "t".into(), at(40));
        talk.repeat(Topic::Trouble, "t".into(), at(41));
        let said = String::from_utf8(talk.out).expect("text");
        let said: Vec<&str> = said.lines().map(|line| line.trim_start_matches("rollcall-node: ")).collect();
        assert_eq!(said, ["1s: a", "3s: t", "11s: c", "31s: t", "41s: t"]);
    }
}
