//! Sets of completion indexes in the notation of the API: `0-2,4`.

use std::collections::BTreeSet;
use std::fmt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(pub BTreeSet<i64>);

impl Indexes {
    /// Parses a set, without the indexes from `completions` on.
    pub fn parse(text: &str, completions: i64) -> Indexes {
        let mut set = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
                set.extend(first..=last.min(completions - 1));
            }
        }
        Indexes(set)
    }

    pub fn has(&self, index: i64) -> bool {
        self.0.contains(&index)
    }

    pub fn len(&self) -> i64 {
        self.0.len() as i64
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for index in &self.0 {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == *index => *last = *index,
                _ => runs.push((*index, *index)),
            }
        }
        for (at, (first, last)) in runs.into_iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                // Two neighbours are listed separately; three or more form a range.
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read_back() {
        for (indexes, text) in [
            (vec![], ""),
            (vec![0], "0"),
            (vec![0, 1], "0,1"),
            (vec![0, 1, 2, 4], "0-2,4"),
            (vec![1, 3, 4, 5, 9, 10], "1,3-5,9,10"),
        ] {
            let set = Indexes(indexes.into_iter().collect());
            assert_eq!(set.to_string(), text);
            assert_eq!(Indexes::parse(text, 100), set);
        }
        assert_eq!(Indexes::parse("0-9", 3).to_string(), "0-2");
    }
}
