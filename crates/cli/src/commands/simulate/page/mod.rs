//! Renders a run as one self-contained HTML page. It fetches nothing, and shows the contents of the report only as text.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use rollcall_sim::report::Report;

const HTML: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// The files form one script, so they share names without modules.
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("model.js"),
    include_str!("tip.js"),
    include_str!("graph.js"),
    include_str!("timeline.js"),
    include_str!("page.js"),
    "})();\n"
);

/// Renders the complete page.
pub fn html(report: &Report, title: &str) -> Result<String> {
    let json = harmless(&serde_json::to_string(report)?);
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    let parts = [
        ("{{policy}}", policy),
        ("{{title}}", escaped(title)),
        ("{{version}}", env!("CARGO_PKG_VERSION").into()),
        ("{{style}}", STYLE.into()),
        ("{{script}}", SCRIPT.into()),
        ("{{report}}", json),
    ];
    Ok(filled(HTML, &parts))
}

/// Replaces each placeholder in one pass from front to back, so that placeholders inside inserted values stay as they are.
fn filled(template: &str, parts: &[(&str, String)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let part = parts.iter().find(|(name, _)| rest[at..].starts_with(name));
        let (name, value) = part.map_or(("{{", "{{"), |(name, value)| (*name, value.as_str()));
        text += &rest[..at];
        text += value;
        rest = &rest[at + name.len()..];
    }
    text + rest
}

/// Returns the hash of a text as a source of a content security policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

/// Escapes JSON so that it can neither end the script element that contains it nor open an HTML comment.
fn harmless(json: &str) -> String {
    json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod browser_tests;
#[cfg(test)]
mod tests;
