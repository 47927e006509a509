//! Tests of `rollcall lint` as users call it: exit codes, formats, the shipped samples, well-known shapes, and input that is
//! not a manifest. The rules have their own tests with the examples in `tests/lint`. No cluster is needed.

use super::sarif;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rollcall"))
        .current_dir(root())
        .arg("lint")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env_remove("KUBECONFIG")
        .spawn()
        .expect("it starts");
    let (mut input, text) = (child.stdin.take().expect("a pipe"), stdin.to_owned());
    // The program may answer before it has read all input, or without reading any.
    let writer = std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("it has written");
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn lint(arguments: &[&str], stdin: &str) -> String {
    let output = run(arguments, stdin);
    format!(
        "$ rollcall lint {}\n{}{}exit code {}\n",
        arguments.join(" "),
        text(&output.stdout),
        text(&output.stderr),
        output.status.code().unwrap_or(-1)
    )
}

fn findings(arguments: &[&str]) -> Vec<Value> {
    let output = run(&[arguments, &["--output", "json"]].concat(), "");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{arguments:?}: {}", text(&output.stderr)));
    report["findings"].as_array().expect("a list").clone()
}

fn manifests_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(manifests_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path.display().to_string());
        }
    }
    found.sort();
    found
}

/// Manifests with an error, with a warning, and without findings.
const BAD: &str = "crates/cli/tests/lint/RC231/bad.yaml";
const WARNED: &str = "crates/cli/tests/lint/RC210/bad.yaml";
const GOOD: &str = "crates/cli/tests/lint/RC210/good.yaml";

#[test]
fn exit_codes() {
    let code = |arguments: &[&str]| run(arguments, "").status.code();
    assert_eq!(code(&[GOOD]), Some(0));
    assert_eq!(code(&[BAD]), Some(1));
    assert_eq!(code(&[WARNED]), Some(0), "a warning is not an error");
    assert_eq!(code(&[WARNED, "--strict"]), Some(1));
    assert_eq!(code(&[WARNED, "--strict", "--allow", "RC210"]), Some(0));
    assert_eq!(code(&[GOOD, "--strict"]), Some(0), "notes do not count");
    assert_eq!(code(&[BAD, "--allow", "RC999"]), Some(2));
    assert_eq!(code(&["--explain", "RC210"]), Some(0));
    assert_eq!(code(&["--explain", "RC999"]), Some(2));
    assert_eq!(code(&["not-there.yaml"]), Some(2));
    assert_eq!(code(&[]), Some(2));
    assert_eq!(code(&[GOOD, "-n", "shop"]), Some(2), "-n requires --live");
}

#[test]
fn every_format() {
    for format in ["text", "json", "github"] {
        insta::assert_snapshot!(format!("format-{format}"), lint(&[WARNED, BAD, "--output", format], ""));
    }
    insta::assert_snapshot!("explain", lint(&["--explain", "RC210"], ""));
}

#[test]
fn sarif_is_as_its_schema_wants_it() {
    let output = run(&[WARNED, BAD, "--output", "sarif"], "");
    let log: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(sarif::problems(&log), Vec::<String>::new());
    let results = log["runs"][0]["results"].as_array().expect("a list");
    let codes: Vec<&str> = results.iter().filter_map(|result| result["ruleId"].as_str()).collect();
    assert_eq!(codes, ["RC210", "RC231"]);
    let region = &results[0]["locations"][0]["physicalLocation"]["region"];
    assert_eq!(
        (&region["startLine"], &region["startColumn"], &region["endColumn"]),
        (&35.into(), &17.into(), &18.into())
    );
    for result in results {
        let rule = &log["runs"][0]["tool"]["driver"]["rules"]
            [result["ruleIndex"].as_u64().expect("a number") as usize];
        assert_eq!(rule["id"], result["ruleId"]);
    }
}

#[test]
fn what_is_no_manifest_gets_a_clear_answer() {
    let template = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}-web\n";
    let broken = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n labels: {}\n";
    let tabs = "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n";
    let typo = "apiVersion: v1\nkind: Pod\nmetadata: {name: a} # rollcall: allow RC999\nspec: {containers: [{name: a, image: a}]}\n";
    let mut said = String::new();
    for input in [template, broken, tabs, "", "# nothing\n", typo] {
        said += &lint(&["-"], input);
    }
    insta::assert_snapshot!("no-manifest", said);
}

/// The shipped samples are exemplary: they have no findings except notes. Only the samples in `pitfalls` are wrong on purpose.
#[test]
fn our_samples_are_clean() {
    let samples = manifests_below(&root().join("config/samples"));
    // That file is for Prometheus.
    let ours = |file: &&String| !file.contains("/pitfalls/") && !file.ends_with("/alerts.yaml");
    let samples: Vec<&String> = samples.iter().filter(ours).collect();
    assert!(samples.len() > 10, "{samples:?}");
    for sample in samples {
        let output = run(&[sample, "--strict"], "");
        assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    }
}

/// Well-known shapes of manifests have no findings of severity error.
#[test]
fn no_error_on_well_known_shapes() {
    let folder = root().join("crates/cli/tests");
    let mut shapes = manifests_below(&folder.join("lint_shapes"));
    let simulated = manifests_below(&folder.join("manifests"));
    // These two manifests are wrong on purpose.
    let meant = |file: &&String| !file.ends_with("/deadlock.yaml") && !file.ends_with("/refused.yaml");
    shapes.extend(simulated.iter().filter(meant).cloned());
    assert!(shapes.len() >= 15, "{shapes:?}");
    for shape in &shapes {
        let errors: Vec<Value> =
            findings(&[shape]).into_iter().filter(|finding| finding["severity"] == "error").collect();
        assert_eq!(errors, Vec::<Value>::new(), "{shape}");
    }
}

/// The guide to kinds of workload names a sample or a rule for each statement. All of them exist, and every sample is named at
/// least once.
#[test]
fn the_guide_names_every_sample() {
    let guide = std::fs::read_to_string(root().join("docs/guide/workloads.md")).expect("it exists");
    let folder = root().join("config/samples/workloads");
    for sample in manifests_below(&folder) {
        let name = Path::new(&sample).file_name().expect("a name").to_string_lossy().into_owned();
        let helper = ["/updates/", "/nodes/"].iter().any(|folder| sample.contains(folder));
        assert!(
            helper || name == "by-reference.yaml" || guide.contains(&name),
            "{sample} is not in the guide"
        );
    }
    let words = guide.split(['`', '(', ')', ' ', ',']);
    let kinds = ["statefulsets/", "daemonsets/", "jobs/", "cronjobs/", "pitfalls/"];
    for word in words.clone().filter(|word| kinds.iter().any(|kind| word.starts_with(kind))) {
        assert!(folder.join(word).exists(), "{word} is in the guide and not among the samples");
    }
    for code in words.filter(|word| word.starts_with("RC") && word.len() == 5) {
        assert_eq!(run(&["--explain", code], "").status.code(), Some(0), "{code}");
    }
}

/// The first line of each pitfall names the code of the rule that finds it.
#[test]
fn every_pitfall_is_found() {
    let pitfalls = manifests_below(&root().join("config/samples/workloads/pitfalls"));
    assert!(!pitfalls.is_empty());
    for pitfall in pitfalls {
        let text = std::fs::read_to_string(&pitfall).expect("it exists");
        let head = text.lines().next().unwrap_or_default();
        let codes: Vec<&str> = head
            .split(|char: char| !char.is_ascii_alphanumeric())
            .filter(|word| word.starts_with("RC") && word.len() == 5)
            .collect();
        assert!(!codes.is_empty(), "{pitfall}: {head}");
        let found = findings(&[&pitfall]);
        for code in codes {
            assert!(
                found.iter().any(|finding| finding["code"] == code),
                "{pitfall}: {code} is not among {found:?}"
            );
        }
    }
}

fn service(number: usize) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: s{number}}}\nspec:\n  replicas: 2\n  serviceName: s{number}\n  \
         selector: {{matchLabels: {{app: s{number}}}}}\n  template:\n    metadata: {{labels: {{app: s{number}}}}}\n    spec:\n      \
         schedulingGates: [{{name: podsequence.example.com/sequence-gate}}]\n      containers: [{{name: main, image: nginx}}]\n"
    )
}

/// Many documents, with one group each and several findings each.
fn crowd(number: usize) -> String {
    let mut text = String::from(
        "apiVersion: scheduling.example.com/v1alpha1\nkind: PodSequence\nmetadata: {name: all}\nspec:\n  podGroups:\n",
    );
    for number in 0..number {
        writeln!(text, "  - podSelector: {{matchLabels: {{app: s{number}}}}}").expect("a String");
    }
    text + &(0..number).map(service).collect::<String>()
}

#[test]
fn four_times_the_documents_take_about_four_times_as_long() {
    let once = |number: usize| {
        let text = crowd(number);
        let begun = Instant::now();
        let output = run(&["-", "--output", "json"], &text);
        let took = begun.elapsed();
        assert_eq!(output.status.code(), Some(0));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(report["findings"].as_array().is_some_and(|findings| findings.len() >= 2 * number));
        took
    };
    // A sequence has at most 1,000 groups. Other tests run at the same time, so the best of several rounds counts.
    let (mut few, mut many) = (once(250), once(1000));
    for _ in 0..9 {
        if many < few * 12 {
            return;
        }
        (few, many) = (few.min(once(250)), many.min(once(1000)));
    }
    panic!("{few:?}, {many:?}");
}

/// Input of 5 MiB: a bundle of CRDs like those of large operators, and a dump of a namespace on one line.
#[test]
fn five_megabytes() {
    let description = "x".repeat(5 << 20);
    let large = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: a}}\nspec: {{a: {description}}}\n{}",
        service(1)
    );
    let output = run(&["-"], &large);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.len() < 10_000 && said.contains("note[RC209]"), "{said}");
    // Positions must not be counted from the beginning of the line; otherwise eight times the items would take 64 times as
    // long.
    let once = |number: usize| {
        let one_line = one_line(number);
        let begun = Instant::now();
        let output = run(&["-"], &one_line);
        let took = begun.elapsed();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (took, one_line.len(), text(&output.stdout).to_owned())
    };
    let (mut many, size, said) = once(9000);
    assert!(size > 5_000_000);
    assert!(said.contains("more findings are not shown"), "{}", said.lines().last().unwrap_or_default());
    let mut few = once(1125).0;
    // Other tests run at the same time, so the best of several rounds counts.
    for _ in 0..5 {
        if many < few * 24 {
            return;
        }
        (few, many) = (few.min(once(1125).0), many.min(once(9000).0));
    }
    panic!("{few:?}, {many:?}");
}

fn one_line(number: usize) -> String {
    let image = "b".repeat(400);
    let item = |number| {
        format!(
            "{{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"metadata\":{{\"name\":\"j{number}\"}},\"spec\":{{\"template\":{{\"spec\":{{\"restartPolicy\":\"Never\",\"containers\":[{{\"name\":\"a\",\"image\":\"{image}\"}}]}}}}}}}}"
        )
    };
    let items: Vec<String> = (0..number).map(item).collect();
    format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{}]}}", items.join(","))
}
