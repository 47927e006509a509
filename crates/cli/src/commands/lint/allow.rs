//! What somebody has decided to live with: `--allow RC204`, and comments `# rollcall: allow RC204`.
//!
//! A comment counts on its own line, for the line below it, and at the head of a document for all of it.

use super::rules;
use crate::similar::suggestion;
use anyhow::{Result, anyhow};
use std::collections::{BTreeMap, BTreeSet};

const WORDS: &str = "# rollcall: allow ";

/// What the comments of one text allow, by line and by document.
#[derive(Debug, Default)]
pub struct Comments {
    by_line: BTreeMap<usize, BTreeSet<String>>,
    /// From this line up to the next entry.
    by_document: BTreeMap<usize, BTreeSet<String>>,
    /// Codes that there are not, and where.
    pub unknown: Vec<(usize, String)>,
}

impl Comments {
    pub fn of(text: &str) -> Comments {
        let mut comments = Comments::default();
        // Most texts have none, and some have megabytes.
        if !text.contains(WORDS) {
            return comments;
        }
        let (mut document, mut at_head) = (1, true);
        // Codes of the comment lines just above.
        let mut pending = BTreeSet::new();
        for (number, line) in text.lines().enumerate().map(|(number, line)| (number + 1, line)) {
            let codes = comments.codes(number, line);
            if line.starts_with("---") {
                (document, at_head) = (number, true);
                pending.clear();
            } else if line.trim_start().starts_with('#') {
                if at_head {
                    comments.by_document.entry(document).or_default().extend(codes.iter().cloned());
                }
                pending.extend(codes);
                continue;
            } else if !line.trim().is_empty() {
                at_head = false;
            }
            // Documents without a comment end the one before.
            comments.by_document.entry(document).or_default();
            let here = std::mem::take(&mut pending).into_iter().chain(codes);
            comments.by_line.entry(number).or_default().extend(here);
        }
        comments
    }

    fn codes(&mut self, number: usize, line: &str) -> Vec<String> {
        let Some((before, comment)) = line.rsplit_once(WORDS) else { return Vec::new() };
        // A `#` within a word begins no comment.
        let blank = before.is_empty() || before.ends_with([' ', '\t']);
        let words = comment.split([' ', ',', '\t']).filter(|word| !word.is_empty());
        let codes = words.take_while(|word| blank && word.starts_with("RC"));
        let (known, unknown): (Vec<&str>, Vec<&str>) = codes.partition(|code| rules::find(code).is_some());
        self.unknown.extend(unknown.into_iter().map(|code| (number, code.to_owned())));
        known.into_iter().map(str::to_owned).collect()
    }

    pub fn allow(&self, code: &str, line: usize) -> bool {
        let here = self.by_line.get(&line).is_some_and(|codes| codes.contains(code));
        let document = self.by_document.range(..=line).next_back();
        here || document.is_some_and(|(_, codes)| codes.contains(code))
    }
}

/// The rule of a code that was typed.
pub fn known(code: &str) -> Result<&'static super::rule::Rule> {
    rules::find(&code.to_uppercase()).ok_or_else(|| {
        let codes = rules::ALL.iter().map(|rule| rule.code);
        anyhow!("{code:?} is no rule{}", suggestion(code, codes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_count_on_their_line_above_a_line_and_at_the_head() {
        let text = "\
# rollcall: allow RC201
kind: A
a: 1 # rollcall: allow RC202, RC203
b: 2
# rollcall: allow RC204
# because of this and that
c: 3
---
d: '#' # rollcall: allow RC205 is fine
e: 5
";
        let comments = Comments::of(text);
        let allowed = |code: &str| (1..=10).filter(|line| comments.allow(code, *line)).collect::<Vec<_>>();
        assert_eq!(allowed("RC201"), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(allowed("RC202"), [3]);
        assert_eq!(allowed("RC203"), [3]);
        assert_eq!(allowed("RC204"), [7]);
        assert_eq!(allowed("RC205"), [9]);
        assert!(comments.unknown.is_empty());
    }

    #[test]
    fn unknown_codes_are_kept_for_a_word_about_them() {
        let comments = Comments::of("a: 1\nb: 2 # rollcall: allow RC999 RC201\n");
        assert_eq!(comments.unknown, [(2, "RC999".to_owned())]);
        assert!(comments.allow("RC201", 2));
        assert!(!Comments::of("a: x# rollcall: allow RC201\n").allow("RC201", 1), "no comment");
    }
}
