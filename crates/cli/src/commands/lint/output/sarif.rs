//! SARIF 2.1.0 output, for code hosts and editors.

use super::super::judge::{Judgement, Located};
use super::super::rule::{Rule, Severity};
use super::super::rules;
use serde_json::{Value, json};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

pub fn log(judgement: &Judgement) -> Value {
    let rules: Vec<Value> = rules::ALL.iter().map(|rule| descriptor(rule)).collect();
    let results: Vec<Value> = judgement.findings.iter().map(result).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "rollcall lint",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            // Columns count characters, not UTF-16 code units.
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    severity.word()
}

fn descriptor(rule: &Rule) -> Value {
    json!({
        "id": rule.code,
        "shortDescription": { "text": rule.title },
        "fullDescription": { "text": rule.why },
        "help": { "text": rule.hint },
        "defaultConfiguration": { "level": level(rule.severity) },
    })
}

fn result(Located { finding, place }: &Located) -> Value {
    let qualified = match finding.namespace.as_str() {
        "" => finding.object.clone(),
        namespace => format!("{namespace}/{}", finding.object),
    };
    let logical = json!([{ "fullyQualifiedName": qualified, "kind": "resource" }]);
    let mut location = json!({ "logicalLocations": logical });
    if let Some(place) = place {
        location["physicalLocation"] = json!({
            "artifactLocation": { "uri": uri(&place.file) },
            "region": { "startLine": place.span.line, "startColumn": place.span.column, "endColumn": place.span.column + place.width },
        });
    }
    json!({
        "ruleId": finding.rule.code,
        "ruleIndex": rules::ALL.iter().position(|rule| rule.code == finding.rule.code),
        "level": level(finding.rule.severity),
        "message": { "text": format!("{}\nhint: {}", finding.message, finding.hint) },
        "locations": [location],
    })
}

/// Converts a path to a relative URI reference: reserved characters are percent-encoded.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
