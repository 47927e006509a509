//! Tests each rule on a bad example, whose output is recorded, and on a corrected one.

use super::*;
use crate::commands::simulate::sources::Text;
use rules::ALL;
use serde_json::{Value, json};
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/lint")
}

fn example(code: &str, name: &str) -> Vec<Text> {
    let file = folder().join(code).join(name);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    vec![Text { name: format!("{code}/{name}"), text }]
}

fn judged(texts: &[Text]) -> (Vec<&'static str>, String) {
    let manifests = Manifests::read(texts).unwrap_or_else(|error| panic!("{error}"));
    let judgement = Judgement::from_manifests(&manifests, &BTreeSet::new());
    let codes = judgement.findings.iter().map(|located| located.finding.rule.code).collect();
    let text = output::text::text(&manifests, &judgement);
    (codes, anstream::adapter::strip_str(&text).to_string())
}

/// The recorded output contains all findings of the bad example, among them at least one of the rule under test.
#[test]
fn every_rule_finds_its_bad_example_and_nothing_in_the_good_one() {
    for rule in ALL {
        let (codes, said) = judged(&example(rule.code, "bad.yaml"));
        assert!(codes.contains(&rule.code), "{}/bad.yaml: {said}", rule.code);
        insta::with_settings!({ snapshot_path => folder().join(rule.code), prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!("bad", said);
        });
        let (codes, said) = judged(&example(rule.code, "good.yaml"));
        assert!(!codes.contains(&rule.code), "{}/good.yaml: {said}", rule.code);
    }
}

/// A good example must not break another rule.
#[test]
fn good_examples_have_no_error_and_no_warning() {
    for rule in ALL {
        let texts = example(rule.code, "good.yaml");
        let manifests = Manifests::read(&texts).expect("it can be read");
        let judgement = Judgement::from_manifests(&manifests, &BTreeSet::new());
        let wrong = judgement.count(Severity::Error) + judgement.count(Severity::Warning);
        assert_eq!(wrong, 0, "{}", judged(&texts).1);
    }
}

#[test]
fn every_folder_is_that_of_a_rule() {
    for entry in std::fs::read_dir(folder()).expect("it is there") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(rules::find(&name).is_some(), "{name} is not a rule");
    }
}

#[test]
fn codes_are_in_order_and_titles_tell_them_apart() {
    assert!(ALL.windows(2).all(|pair| pair[0].code < pair[1].code));
    let titles: BTreeSet<&str> = ALL.iter().map(|rule| rule.title).collect();
    assert_eq!(titles.len(), ALL.len());
    for rule in ALL {
        assert!(rules::GROUPS.iter().any(|(digit, _)| rule.code[2..].starts_with(*digit)), "{}", rule.code);
        assert!(!rule.title.ends_with('.') && rule.why.ends_with(['.', ')']), "{}", rule.code);
    }
}

fn single_text(text: &str) -> Vec<Text> {
    vec![Text { name: "a.yaml".into(), text: text.into() }]
}

const NEVER: &str =
    "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  schedule: 0 3 31 2 *\n";

#[test]
fn allowed_by_argument_and_by_comment() {
    let codes = |text: &str, allowed: &[&'static str]| -> Vec<&'static str> {
        let texts = single_text(text);
        let manifests = Manifests::read(&texts).expect("it can be read");
        let judgement = Judgement::from_manifests(&manifests, &allowed.iter().copied().collect());
        judgement.findings.iter().map(|located| located.finding.rule.code).collect()
    };
    assert!(codes(NEVER, &[]).contains(&"RC244"));
    assert!(!codes(NEVER, &["RC244"]).contains(&"RC244"));
    assert!(!codes(&NEVER.replace("2 *", "2 * # rollcall: allow RC244"), &[]).contains(&"RC244"));
    assert!(!codes(&format!("# rollcall: allow RC244\n{NEVER}"), &[]).contains(&"RC244"));
    assert!(
        codes(&format!("# rollcall: allow RC244\nkind: List\napiVersion: v1\n---\n{NEVER}"), &[])
            .contains(&"RC244")
    );
}

#[test]
fn nothing_in_a_file_steers_the_terminal() {
    let text = NEVER.replace("name: a", "name: \"a\\x1b[2J\\u202e\"");
    let (_, said) = judged(&single_text(&text));
    assert!(said.contains('\u{fffd}') && !said.contains(['\x1b', '\u{202e}']), "{said}");
}

/// Collects the JSON Pointers of all nested values.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                places(value, &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                places(item, &format!("{path}/{number}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found.push(path.to_owned());
}

/// Rules must not panic on any value of any field.
#[test]
fn no_value_makes_a_rule_panic() {
    let odd = [Value::Null, json!(i64::MAX), json!(-1), json!("é%"), json!([[]]), json!({ "": {} })];
    for rule in ALL {
        let texts = example(rule.code, "bad.yaml");
        let mut manifests = Manifests::read(&texts).expect("it can be read");
        for number in 0..manifests.objects.len() {
            let whole = manifests.objects[number].value.clone();
            let mut found = Vec::new();
            places(&whole, "", &mut found);
            // The parser has already rejected bad values here.
            found.retain(|place| !["", "/metadata"].contains(&place.as_str()));
            for (count, place) in found.iter().enumerate() {
                // Each place gets one of the odd values in turn; over all places, each value is used.
                let mut changed = whole.clone();
                *changed.pointer_mut(place).expect("it is there") = odd[(count + number) % odd.len()].clone();
                manifests.objects[number] = manifests::Object::new(changed, None);
                rule::Findings::collect(&ALL, &manifests);
            }
            manifests.objects[number] = manifests::Object::new(whole, None);
        }
    }
}
