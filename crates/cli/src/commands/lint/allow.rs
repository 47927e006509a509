//! Findings that the user allows, by `--allow RC204` or by comments such as `# rollcall: allow RC204`.
//!
//! A comment applies to its own line and the line below it; at the head of a document, to the whole document.

use super::rules;
use crate::similar::suggestion;
use anyhow::{Result, anyhow};
use std::collections::{BTreeMap, BTreeSet};

const WORDS: &str = "# rollcall: allow ";

/// Codes that the comments of one text allow, by line and by document.
#[derive(Debug, Default)]
pub struct Comments {
    by_line: BTreeMap<usize, BTreeSet<String>>,
    /// Keyed by the first line of the document.
    by_document: BTreeMap<usize, BTreeSet<String>>,
    /// Unknown codes, with their line numbers.
    pub unknown: Vec<(usize, String)>,
}

impl Comments {
    pub fn parse(text: &str) -> Comments {
        let mut comments = Comments::default();
        // Fast path: most texts have no such comments, and some are megabytes long.
        if !text.contains(WORDS) {
            return comments;
        }
        let (mut document, mut at_head) = (1, true);
        // Codes from the comment lines directly above.
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
            // An entry for every document, so that the codes of the previous one do not extend to it.
            comments.by_document.entry(document).or_default();
            let here = std::mem::take(&mut pending).into_iter().chain(codes);
            comments.by_line.entry(number).or_default().extend(here);
        }
        comments
    }

    fn codes(&mut self, number: usize, line: &str) -> Vec<String> {
        let Some((before, comment)) = line.rsplit_once(WORDS) else { return Vec::new() };
        // A `#` inside a word does not start a comment.
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

/// Returns the rule with a code that the user typed, in any case.
pub fn find_rule(code: &str) -> Result<&'static super::rule::Rule> {
    rules::find(&code.to_uppercase()).ok_or_else(|| {
        let codes = rules::ALL.iter().map(|rule| rule.code);
        anyhow!("unknown rule {code:?}{}", suggestion(code, codes))
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
        let comments = Comments::parse(text);
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
        let comments = Comments::parse("a: 1\nb: 2 # rollcall: allow RC999 RC201\n");
        assert_eq!(comments.unknown, [(2, "RC999".to_owned())]);
        assert!(comments.allow("RC201", 2));
        assert!(!Comments::parse("a: x# rollcall: allow RC201\n").allow("RC201", 1), "no comment");
    }
}
