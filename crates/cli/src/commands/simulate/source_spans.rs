//! Positions of values in the text of a source, for error messages and for the items of lists.

use super::documents::options;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};
use std::cell::OnceCell;
use std::fmt;
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpan {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// The bytes to highlight, within one line.
    pub range: Range<usize>,
}

/// One step of the path to a value.
#[derive(Clone, Debug)]
pub enum PathSegment {
    Document(usize),
    Key(String),
    Item(usize),
}

impl SourceSpan {
    pub const START: SourceSpan = SourceSpan { line: 1, column: 1, range: 0..0 };
}

/// Finds the positions of values in one text; parses the text at the first lookup.
pub struct SourceSpans<'a> {
    text: &'a str,
    /// Byte offsets of the beginnings of lines.
    lines: OnceCell<Vec<usize>>,
    documents: OnceCell<Vec<Spanned<Tree>>>,
}

impl<'a> SourceSpans<'a> {
    pub fn new(text: &'a str) -> SourceSpans<'a> {
        SourceSpans { text, lines: OnceCell::new(), documents: OnceCell::new() }
    }

    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the byte offset of a line, counted from 1, and its text without the line break.
    pub fn line(&self, line: usize) -> (usize, &'a str) {
        let after = |(at, _): (usize, &str)| at + 1;
        let lines = || std::iter::once(0).chain(self.text.match_indices('\n').map(after)).collect();
        let starts: &Vec<usize> = self.lines.get_or_init(lines);
        let begin = starts.get(line - 1).copied().unwrap_or(self.text.len());
        let end = starts.get(line).copied().unwrap_or(self.text.len());
        let text = &self.text[begin..end];
        let text = text.strip_suffix('\n').unwrap_or(text);
        (begin, text.strip_suffix('\r').unwrap_or(text))
    }

    /// Returns the span of the word at a location.
    pub fn at(&self, location: Location) -> SourceSpan {
        let (line, column) = (location.line().max(1) as usize, location.column().max(1) as usize);
        let (begin, rest) = self.line(line);
        // A byte order mark does not count as a column.
        let mark = if rest.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let rest = &rest[mark..];
        // A line can be megabytes long, so the byte offset is used where possible instead of counting characters.
        let offset = location.span().byte_offset().map(|offset| offset as usize);
        let known = offset.and_then(|offset| offset.checked_sub(begin)).filter(|skipped| {
            !self.text.starts_with('\u{feff}') && *skipped >= column - 1 && rest.is_char_boundary(*skipped)
        });
        let skipped = known.unwrap_or_else(|| rest.chars().take(column - 1).map(char::len_utf8).sum());
        let from = begin + mark + skipped;
        let rest = &rest[skipped..];
        let ends = |char: char| char.is_whitespace() || ":,#[]{}".contains(char);
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let more = rest[first..].find(ends).unwrap_or(rest.len() - first);
        // For a bracket, only the bracket itself is highlighted, not the contents.
        let length = if rest.starts_with(ends) { first } else { first + more };
        SourceSpan { line, column, range: from..from + length }
    }

    /// Returns the span of the value at the path, or of the deepest existing part of the path.
    pub fn find(&self, path: &[PathSegment]) -> Option<SourceSpan> {
        self.follow(path).map(|(_, value)| self.at(value.referenced))
    }

    /// Returns the span of the key at the path, or of the deepest existing part of the path.
    pub fn find_key(&self, path: &[PathSegment]) -> Option<SourceSpan> {
        self.follow(path).map(|(key, value)| self.at(key.unwrap_or(value.referenced)))
    }

    /// Returns the deepest existing part of the path: the location of its key, if it has one, and its value.
    fn follow(&self, path: &[PathSegment]) -> Option<(Option<Location>, &Spanned<Tree>)> {
        let parse = || serde_saphyr::from_multiple_with_options(self.text, options()).unwrap_or_default();
        let documents = self.documents.get_or_init(parse);
        let mut spot: Option<(Option<Location>, &Spanned<Tree>)> = None;
        for segment in path {
            let next = match (segment, spot.map(|(_, spot)| &spot.value)) {
                (PathSegment::Document(number), _) => documents.get(*number).map(|document| (None, document)),
                (PathSegment::Key(key), Some(Tree::Map(entries))) => entries
                    .iter()
                    .find(|(name, _)| name.value == *key)
                    .map(|(name, value)| (Some(name.referenced), value)),
                (PathSegment::Item(number), Some(Tree::List(items))) => {
                    items.get(*number).map(|item| (None, item))
                }
                (PathSegment::Key(_) | PathSegment::Item(_), _) => None,
            };
            match next {
                Some(next) => spot = Some(next),
                None => break,
            }
        }
        spot
    }
}

enum Tree {
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
    List(Vec<Spanned<Tree>>),
    Leaf,
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Tree::Leaf)
    }
}
