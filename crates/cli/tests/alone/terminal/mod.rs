//! Checks that text from a cluster cannot control the terminal: it sends no control sequences, reverses no letters, and
//! imitates no line of this program. The program runs on a real terminal against objects with hostile text in every text field.

mod pty;
mod server;

use serde_json::json;
use server::{Mood, Server, ascii};

/// Text of an attacker: clears the screen, sets the title, writes to the clipboard (OSC 52), does the same with C1 characters,
/// reverses letters, ends the line, fakes lines of this program, and hides the rest.
pub const ATTACK: &str = "evil\x1b[2J\x1b[1;1H\x1b]0;owned\x07\x1b]52;c;Y3VybA==\x07\u{9b}8m\u{9d}52;c;eA==\u{9c}\u{202e}\u{2066}\u{200f}\
    \u{61c}\u{2028}\r\nhint: faked\nerror: faked\rnote: faked\u{85}fix: faked\x08\x7f\x1b[8m";

/// Colour codes of this program, and of the library that draws errors in manifests. Code 8, which hides text, is not among
/// them.
const COLOURS: [&str; 10] = ["0", "1", "2", "31", "32", "33", "91", "92", "94", "96"];
/// Control sequences that `status -w` uses to redraw its output.
const MOVEMENTS: [&str; 3] = ["J", "?7l", "?7h"];

/// Returns the first forbidden control sequence in the text, if any.
fn fault(text: &str) -> Option<String> {
    let mut lines = String::new();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        rest = &rest[char.len_utf8()..];
        match char {
            '\x1b' => match rest.strip_prefix('[').and_then(ours) {
                Some(after) => rest = after,
                None => return Some(format!("an escape that is not ours before {rest:?}")),
            },
            '\n' => lines.push(char),
            '\r' if rest.starts_with('\n') => {}
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                return Some(format!("{char:?} before {rest:?}"));
            }
            char if char.is_control() => return Some(format!("{char:?} before {rest:?}")),
            char => lines.push(char),
        }
    }
    let words = |line: &str| line.trim_start_matches([' ', '│', '├', '└', '─']).to_owned();
    lines.lines().map(words).find(|line| {
        ["hint:", "error:", "note:", "fix:"]
            .iter()
            .any(|ours| line.strip_prefix(ours).is_some_and(|rest| rest.trim_start().starts_with("faked")))
    })
}

/// Skips a permitted control sequence and returns the rest of the text.
fn ours(text: &str) -> Option<&str> {
    let end = text.find(|char: char| char.is_ascii_alphabetic())?;
    let (code, rest) = text.split_at(end + 1);
    let colour = code.strip_suffix('m').is_some_and(|number| COLOURS.contains(&number));
    let up = code.strip_suffix('A').is_some_and(|lines| lines.parse::<u16>().is_ok());
    (colour || up || MOVEMENTS.contains(&code)).then_some(rest)
}

/// Runs a command on a terminal, and checks that its output contains text from the cluster, all of it harmless.
fn shows(server: &Server, line: &str) -> String {
    let text = pty::run(&server.kubeconfig(), &line.split(' ').collect::<Vec<_>>());
    assert_eq!(fault(&text), None, "$ rollcall {line}\n{text:?}");
    assert!(text.contains("evil"), "$ rollcall {line}: no text from the cluster in {text:?}");
    assert!(!text.contains("no cluster is configured"), "{text:?}");
    text
}

#[test]
fn the_judge_sees_what_is_wrong() {
    let harmless = "\x1b[1mweb\x1b[0m\r\n├─ x⏎hint: faked\r\n\x1b[2mhint:\x1b[0m kubectl\r\n";
    assert_eq!(fault(harmless), None);
    for bad in
        ["\x1b[8m", "\x1b[2J", "\x1b]0;x\x07", "a\rb", "\u{9b}8m", "\u{202e}", "\x07", "│  └─ hint: faked"]
    {
        assert!(fault(bad).is_some(), "{bad:?}");
    }
}

#[test]
fn what_status_shows() {
    let server = Server::start(Mood::Answers);
    let text = shows(&server, "status");
    assert!(text.contains("\u{fffd}[2J") && text.contains("⏎hint: faked⏎error: faked\u{fffd}"), "{text:?}");
    shows(&server, "status hostile");
    shows(&server, "status hostile -w");
    shows(&server, "status -o json");
    shows(&server, "status hostile -w -o json");
}

#[test]
fn what_explain_shows() {
    let server = Server::start(Mood::Answers);
    let text = shows(&server, "explain pod/web");
    assert!(text.contains("Readiness probe failed: evil\u{fffd}"), "no event in {text:?}");
    shows(&server, "explain podseq/hostile");
    shows(&server, "explain podseq/tame");
    shows(&server, "explain pod/stray");
    shows(&server, "explain pod/no-such");
    shows(&server, "explain pod/web -o json");
    let text = shows(&server, "explain pod/waits");
    assert!(text.contains("/mnt/evil\u{fffd}"), "no marker in {text:?}");
}

#[test]
fn what_orders_and_tickets_show() {
    let server = Server::start(Mood::Answers);
    shows(&server, "orders");
    shows(&server, "orders -A -o wide");
    shows(&server, "orders -o json");
    shows(&server, "tickets");
    shows(&server, "tickets -A -o wide");
    shows(&server, "tickets -o json");
    shows(&server, "explain order/agents");
    shows(&server, "explain ticket/agents-a");
    shows(&server, "explain ticket/agents-a -o json");
}

#[test]
fn what_release_keys_and_doctor_show() {
    let server = Server::start(Mood::Answers);
    shows(&server, "release pod/web");
    shows(&server, "release pod/stray");
    shows(&server, "release pod/stray --gate other");
    shows(&server, "release hostile --group first");
    shows(&server, "keys hostile");
    shows(&server, "doctor");
    shows(&server, "doctor -o json");
}

#[test]
fn what_stop_start_and_restart_show() {
    let server = Server::start(Mood::Answers);
    shows(&server, "stop tame --dry-run");
    shows(&server, "stop hostile --dry-run");
    shows(&server, "start hostile");
    shows(&server, "restart tame --dry-run");
}

#[test]
fn what_the_api_server_says_when_it_refuses() {
    for code in [400, 401, 403, 404, 409, 422, 500] {
        let server = Server::start(Mood::Refuses(code));
        for line in [
            "status",
            "status shop -w",
            "explain pod/web",
            "explain podseq/shop",
            "explain ticket/a",
            "orders",
            "release pod/web",
            "stop shop",
            "doctor",
        ] {
            let text = pty::run(&server.kubeconfig(), &line.split(' ').collect::<Vec<_>>());
            assert_eq!(fault(&text), None, "$ rollcall {line}\n{text:?}");
            // For 403 and 404, some commands print messages of their own.
            assert!(
                text.contains("evil") || [403, 404].contains(&code),
                "$ rollcall {line}: {code}: {text:?}"
            );
        }
    }
}

#[test]
fn what_a_kubeconfig_and_manifests_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("kubeconfig");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": ATTACK, "user": ATTACK}}],
    });
    std::fs::write(&config, ascii(&text)).expect("write");
    let file = folder.path().join("shop.json");
    let manifest = file.to_string_lossy().into_owned();
    let group = |name: &str| json!({"name": name, "pods": ["web"]});
    let sequence = |group: serde_json::Value| {
        json!({"apiVersion": "scheduling.example.com/v1alpha1", "kind": "PodSequence",
               "metadata": {"name": "shop", "annotations": {"note": ATTACK}}, "spec": {"podGroups": [group]}})
    };
    let wrong_kind = json!({"apiVersion": "v1", "kind": [ATTACK], "metadata": {"name": ATTACK}});
    let wrong_name = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": ATTACK}});
    for object in [sequence(group(ATTACK)), sequence(group("first")), wrong_kind, wrong_name] {
        // As text that is invalid YAML, and as text that is valid YAML.
        for text in [object.to_string(), ascii(&object)] {
            std::fs::write(&file, text).expect("write");
            let text = pty::run(&config, &["simulate", &manifest]);
            assert_eq!(fault(&text), None, "{text:?}");
        }
    }
    for line in ["status", "doctor", "explain pod/web"] {
        let text = pty::run(&config, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(fault(&text), None, "$ rollcall {line}\n{text:?}");
        assert!(text.starts_with("\x1b[31merror:\x1b[0m no cluster is configured"), "{text:?}");
    }
}
