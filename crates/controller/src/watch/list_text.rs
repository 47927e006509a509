//! Splits the text of a list into its items while it arrives, so that at most one item of a large answer is in memory. It knows
//! just enough JSON to find the end of a value; a real parser then reads each part.

/// A part of a list that is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `metadata`: after the items in lists of custom resources, before them in all others.
    Metadata,
    Item,
}

/// The reason why a text is not an acceptable list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    NoList,
    TooLong,
}

#[derive(Debug)]
pub struct ListText {
    place: Position,
    key: Vec<u8>,
    /// The current part, as far as received.
    part: Vec<u8>,
    longest_part: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Before the first brace.
    Before,
    /// Before a key, or the last brace.
    BeforeKey,
    InKey,
    Colon,
    BeforeValue,
    /// In a value of the list object itself; the flag is true for `metadata`.
    InValue(Nesting, bool),
    /// In the list of items, before an item.
    BeforeItem,
    InItem(Nesting),
    After,
}

/// The nesting at the current position within a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Nesting {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl ListText {
    pub fn new(longest_part: usize) -> ListText {
        ListText { place: Position::Before, key: Vec::new(), part: Vec::new(), longest_part }
    }

    /// Processes the next piece of text, and passes every completed part to `whole`.
    pub fn push(&mut self, mut text: &[u8], mut whole: impl FnMut(Part, &[u8])) -> Result<(), Broken> {
        while let Some((&byte, rest)) = text.split_first() {
            let place = match (self.place, byte) {
                (Position::InKey, b'"') => Position::Colon,
                (Position::InKey, b'\\') => return Err(Broken::NoList),
                (Position::InKey, _) => {
                    self.key.push(byte);
                    self.check_length(self.key.len())?;
                    Position::InKey
                }
                (Position::InValue(..) | Position::InItem(_), _) => {
                    text = self.value(text, &mut whole)?;
                    continue;
                }
                (place, byte) if byte.is_ascii_whitespace() => place,
                (Position::Before, b'{') => Position::BeforeKey,
                (Position::BeforeKey, b'"') => {
                    self.key.clear();
                    Position::InKey
                }
                (Position::BeforeKey, b',') => Position::BeforeKey,
                (Position::BeforeKey, b'}') => Position::After,
                (Position::Colon, b':') => Position::BeforeValue,
                (Position::BeforeValue, b'[') if self.key == b"items" => Position::BeforeItem,
                (Position::BeforeItem, b',') => Position::BeforeItem,
                (Position::BeforeItem, b']') => Position::BeforeKey,
                (Position::BeforeValue | Position::BeforeItem, _) => {
                    text = self.value(text, &mut whole)?;
                    continue;
                }
                (Position::Before | Position::BeforeKey | Position::Colon | Position::After, _) => {
                    return Err(Broken::NoList);
                }
            };
            (self.place, text) = (place, rest);
        }
        Ok(())
    }

    /// Continues with a value, and returns the text after it.
    fn value<'a>(&mut self, text: &'a [u8], whole: &mut impl FnMut(Part, &[u8])) -> Result<&'a [u8], Broken> {
        let (mut nesting, part) = match self.place {
            Position::InItem(nesting) => (nesting, Some(Part::Item)),
            Position::BeforeItem => (Nesting::default(), Some(Part::Item)),
            Position::InValue(nesting, metadata) => (nesting, metadata.then_some(Part::Metadata)),
            _ => (Nesting::default(), (self.key == b"metadata").then_some(Part::Metadata)),
        };
        let begins = matches!(self.place, Position::BeforeItem | Position::BeforeValue);
        let end = nesting.end_of_value(text);
        if begins && end == Some(0) {
            return Err(Broken::NoList);
        }
        let (here, behind) = text.split_at(end.unwrap_or(text.len()));
        if part.is_some() {
            self.check_length(self.part.len() + here.len())?;
            self.part.extend_from_slice(here);
        }
        match (part, end) {
            (Some(Part::Item), None) => self.place = Position::InItem(nesting),
            (_, None) => self.place = Position::InValue(nesting, part.is_some()),
            (_, Some(_)) => {
                if let Some(part) = part {
                    whole(part, &self.part);
                    self.part.clear();
                    self.part.shrink_to(SMALL_PART);
                }
                let in_items = part == Some(Part::Item);
                self.place = if in_items { Position::BeforeItem } else { Position::BeforeKey };
            }
        }
        Ok(behind)
    }

    fn check_length(&self, length: usize) -> Result<(), Broken> {
        if length > self.longest_part { Err(Broken::TooLong) } else { Ok(()) }
    }

    /// Whether the list is complete.
    pub fn is_whole(&self) -> bool {
        self.place == Position::After
    }
}

/// Capacity that the buffer keeps for the next part: most objects fit into it.
const SMALL_PART: usize = 64 * 1024;

impl Nesting {
    /// Returns the end of the current value, if `text` contains it. A number or a word has no end mark: it ends before the next
    /// separator.
    fn end_of_value(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < text.len() {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                    at += 1;
                    continue;
                }
                at += memchr::memchr2(b'"', b'\\', &text[at..])?;
                match text[at] {
                    b'\\' => self.escaped = true,
                    _ => {
                        self.in_string = false;
                        if self.depth == 0 {
                            return Some(at + 1);
                        }
                    }
                }
                at += 1;
                continue;
            }
            match text[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' | b',' if self.depth == 0 => return Some(at),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// Returns the parts of a text that arrives in pieces of this length.
    fn parts(text: &[u8], piece: usize) -> Result<(Vec<Value>, Vec<Value>, bool), Broken> {
        let (mut list, mut metadata, mut items) = (ListText::new(1 << 20), Vec::new(), Vec::new());
        for piece in text.chunks(piece) {
            list.push(piece, |part, text| {
                let value = serde_json::from_slice(text).unwrap_or(Value::Null);
                match part {
                    Part::Metadata => metadata.push(value),
                    Part::Item => items.push(value),
                }
            })?;
        }
        Ok((metadata, items, list.is_whole()))
    }

    #[test]
    fn a_list_is_cut_into_its_items_wherever_it_is_interrupted() {
        let item = json!({ "a": "}]\\\"{[,", "b": [[], {}, { "c": null }], "d": -1.5e3, "items": [1], "metadata": {} });
        let (metadata, items) = (json!({ "resourceVersion": "7", "continue": "x" }), json!([item, {}, item]));
        // In the order of built-in kinds, in that of custom resources, and with blanks.
        for text in [
            format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{metadata},"items":{items}}}"#),
            format!(r#"{{"apiVersion":"v1","items":{items},"kind":"L","metadata":{metadata}}}"#),
            format!(" {{ \"items\" : {items:#} , \"n\" : 12 ,\n\"metadata\" : {metadata:#} }} \n"),
        ] {
            for piece in 1..text.len() {
                let expected = (vec![metadata.clone()], vec![item.clone(), json!({}), item.clone()], true);
                assert_eq!(parts(text.as_bytes(), piece), Ok(expected), "in pieces of {piece}: {text}");
            }
        }
    }

    #[test]
    fn nothing_and_less_than_a_list() {
        let metadata = vec![json!({ "resourceVersion": "7" })];
        for items in ["[]", "null", " [ ] "] {
            let text = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":{items}}}"#);
            assert_eq!(parts(text.as_bytes(), 9), Ok((metadata.clone(), Vec::new(), true)), "{items}");
            let half = &text.as_bytes()[..text.len() - 1];
            assert_eq!(parts(half, 9).map(|(.., whole)| whole), Ok(false), "{items}");
        }
        for text in ["<html>", "[]", "7", r#"{"items":[}"#, r#"{"items":,}"#, r#"{"a" 1}"#, "{}{"] {
            assert_eq!(parts(text.as_bytes(), 3), Err(Broken::NoList), "{text}");
        }
        let long = format!(r#"{{"items":["{}"]}}"#, "x".repeat(2 << 20));
        assert_eq!(parts(long.as_bytes(), 4096), Err(Broken::TooLong));
    }

    proptest! {
        /// For any input: no panic, no endless loop, and no item that the text does not contain.
        #[test]
        fn whatever_is_sent(text in proptest::collection::vec(
            prop_oneof![Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b'"'), Just(b'\\'), Just(b','), Just(b':'), any::<u8>()],
            0..200,
        ), begun: bool, piece in 1usize..20) {
            let begin: &[u8] = if begun { br#"{"metadata":{},"items":["# } else { b"" };
            let text = [begin, &text].concat();
            let one = parts(&text, piece);
            prop_assert_eq!(one.is_ok(), parts(&text, 1).is_ok());
            if serde_json::from_slice::<Value>(&text).is_ok_and(|list| list.is_object()) {
                prop_assert!(one.is_ok_and(|(.., whole)| whole));
            }
        }
    }
}
