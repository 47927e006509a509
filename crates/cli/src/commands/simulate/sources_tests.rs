use super::*;
use std::fmt::Write;
use std::os::unix::fs::symlink;

fn from_stdin(text: &[u8]) -> Result<Vec<Given>> {
    read(&["-".into()], &mut &text[..])
}

fn objects(text: &str) -> String {
    let mut shown = String::new();
    let read = from_stdin(text.as_bytes()).unwrap_or_else(|error| panic!("{text}\n{error}"));
    for Given { value, origin } in read {
        writeln!(shown, "{origin} {value}").unwrap();
    }
    shown.replace("standard input:", "")
}

fn message(error: &anyhow::Error) -> String {
    anstream::adapter::strip_str(&format!("{error:#}")).to_string()
}

fn refusal(text: &[u8]) -> String {
    match from_stdin(text) {
        Ok(read) => panic!("{}: {read:?}", String::from_utf8_lossy(text)),
        Err(error) => message(&error),
    }
}

const POD: &str = r#""apiVersion":"v1","kind":"Pod","metadata":{"name":"#;

#[test]
fn one_object() {
    let wanted = format!("1 {{{POD}\"a\"}}}}\n");
    for text in [
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
        "apiVersion: v1\r\nkind: Pod\r\nmetadata:\r\n  name: a\r\n",
        "\u{feff}apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
        "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}",
        "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"a\"}\n}\n",
    ] {
        assert_eq!(objects(text), wanted, "{text:?}");
    }
}

#[test]
fn empty_documents_are_left_out_and_lines_are_counted() {
    let text = "# Source: chart/templates/a.yaml\n---\n---\n# nothing\n---\nnull\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n...\n---\n\n# Source: b\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n---\n";
    assert_eq!(objects(text), format!("8 {{{POD}\"a\"}}}}\n16 {{{POD}\"b\"}}}}\n"));
    assert_eq!(objects("# only a comment\n---\n"), "");
}

#[test]
fn lists_are_unpacked() {
    let text = "\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: a}
  - apiVersion: v1
    kind: PodList
    items:
      - metadata: {name: b}
";
    assert_eq!(objects(text), format!("4 {{{POD}\"a\"}}}}\n10 {{{POD}\"b\"}}}}\n"));
    assert_eq!(objects("{apiVersion: v1, kind: List, items: []}"), "");
    assert_eq!(objects("{apiVersion: v1, kind: List}"), "");
    // A custom kind whose name happens to end with `List`.
    let custom = "{apiVersion: example.com/v1, kind: AllowList, metadata: {name: a}}";
    assert!(objects(custom).contains("AllowList"));
}

/// Values that YAML 1.1 and 1.2 interpret differently are parsed as the API server parses them.
#[test]
fn values_are_those_of_kubernetes() {
    let text = "\
apiVersion: v1
kind: ConfigMap
metadata: {generateName: a-}
data: {octal: 0755, new: 0o755, hex: 0x1F, on: on, no: no, y: 'y', time: 12:30, date: 2026-11-16, big: 1_000, version: 1.10, text: \"1.10\", none: ~, empty: }
";
    let data = r#"{"big":1000,"date":"2026-11-16","empty":null,"hex":31,"new":493,"no":false,"none":null,"octal":493,"on":true,"text":"1.10","time":"12:30","version":1.1,"y":"y"}"#;
    assert!(objects(text).contains(data), "{}", objects(text));
}

#[test]
fn anchors_and_merges() {
    let text = "\
apiVersion: v1
kind: Pod
metadata:
  name: a
  labels: &labels {app: a}
spec:
  one: *labels
  two: {<<: *labels, tier: b}
";
    assert!(objects(text).contains(r#""one":{"app":"a"},"two":{"app":"a","tier":"b"}"#));
}

#[test]
fn refusals_show_the_place() {
    let object = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n";
    let inputs: [(&str, String); 33] = [
        ("text", "hello\n".into()),
        ("a list", "- a\n- b\n".into()),
        ("a number after an object", format!("{object}---\n5\n")),
        ("no apiVersion", "kind: Pod\nmetadata: {name: a}\n".into()),
        ("apiVersion is a number", "apiVersion: 1\nkind: Pod\nmetadata: {name: a}\n".into()),
        ("no kind", format!("{object}---\n# b\napiVersion: v1\nmetadata: {{name: b}}\n")),
        ("kind is empty", "apiVersion: v1\nkind: ''\nmetadata: {name: a}\n".into()),
        ("kind is null", "apiVersion: v1\nkind:\nmetadata: {name: a}\n".into()),
        ("no metadata", "apiVersion: v1\nkind: Pod\n".into()),
        ("metadata is a list", "apiVersion: v1\nkind: Pod\nmetadata: [a]\n".into()),
        ("no name", "apiVersion: v1\nkind: Pod\nmetadata:\n  labels: {}\n".into()),
        ("name is a number", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: 123\n".into()),
        (
            "namespace is a boolean",
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: no\n".into(),
        ),
        ("a label is a boolean", format!("{object}  labels:\n    app: a\n    country: no\n")),
        ("an annotation is a number", format!("{object}  annotations:\n    version: 1.10\n")),
        ("labels are a list", format!("{object}  labels: [a]\n")),
        ("items are not a list", "apiVersion: v1\nkind: List\nitems: {a: b}\n".into()),
        (
            "an item has no name",
            "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- metadata: {}\n".into(),
        ),
        ("lists without end", format!("{}{object}", nested_lists(12))),
        ("a key twice", format!("{object}---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  name: b\n")),
        ("a key twice in JSON", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"kind\": \"Job\"}".into()),
        ("a tab", "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n".into()),
        ("an open bracket", format!("{object}---\nspec: [\n")),
        ("an open quote", "apiVersion: \"v1\nkind: Pod\n".into()),
        ("two colons", "apiVersion: v1\nkind: Pod: b\n".into()),
        ("wrong indentation", "metadata:\n  name: a\n labels: {}\n".into()),
        ("an unknown anchor", "metadata: *nobody\n".into()),
        ("a template", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n".into()),
        ("a template's condition", "{{- if .Values.enabled }}\nkind: Pod\n{{- end }}\n".into()),
        ("two JSON objects", "{\"kind\": \"Pod\"}\n{\"kind\": \"Pod\"}\n".into()),
        ("a mapping as key", "? {a: b}\n: c\n".into()),
        ("not a number", "spec: {x: .nan}\n".into()),
        ("too deep", format!("a: {}{}\n", "[".repeat(140), "]".repeat(140))),
    ];
    let mut answers = String::new();
    for (what, text) in inputs {
        writeln!(answers, "# {what}\nerror: {}\n", refusal(text.as_bytes())).unwrap();
    }
    insta::assert_snapshot!(answers);
}

/// A list whose only item is the next list, and so on.
fn nested_lists(depth: usize) -> String {
    let open = "{apiVersion: v1, kind: List, items: [";
    format!("{}{}\n---\n", open.repeat(depth), "]}".repeat(depth))
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let before = format!("*a{}", level - 1);
        writeln!(text, "a{level}: &a{level} [{}]", [before.as_str(); 10].join(", ")).unwrap();
    }
    assert!(refusal(text.as_bytes()).contains("(document 1 of standard input)"));
}

#[test]
fn what_is_no_text() {
    assert_eq!(refusal(b"a: 1\nb: \xff\n"), "standard input:2: expected UTF-8 text, found an invalid byte");
    assert_eq!(refusal(b""), "standard input is empty");
    assert_eq!(refusal(b" \n\n"), "standard input is empty");
    let twice = read(&["-".into(), "-".into()], &mut &b"# nothing"[..]).unwrap_err();
    assert_eq!(message(&twice), "standard input (-) can be read only once");
}

#[test]
fn files_and_directories() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let pod = |name: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n");
    write("b.yml", &pod("b"));
    write("a.yaml", &(pod("a1") + "---\n" + &pod("a2")));
    write("c/d.json", r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}}"#);
    write("c/README.md", "not a manifest");
    write(".git/e.yaml", "no: manifest");
    write("named.txt", &pod("named"));
    symlink(dir.path(), dir.path().join("c/circle")).unwrap();
    symlink(dir.path().join("b.yml"), dir.path().join("c/linked.yaml")).unwrap();

    let at = |name: &str| dir.path().join(name).display().to_string();
    let names = |sources: &[String]| -> Result<Vec<String>> {
        let read = read(sources, &mut &pod("stdin").into_bytes()[..])?;
        Ok(read.iter().map(|given| given.value["metadata"]["name"].as_str().unwrap().to_owned()).collect())
    };
    assert_eq!(names(&[at("")]).unwrap(), ["a1", "a2", "b", "d", "b"]);
    assert_eq!(names(&[at("named.txt"), "-".into(), at("b.yml")]).unwrap(), ["named", "stdin", "b"]);

    let refused = |name: &str| message(&names(&[at(name)]).unwrap_err()).replace(&at(""), "");
    fs::create_dir(dir.path().join("empty")).unwrap();
    assert_eq!(refused("empty"), "empty has no .yaml, .yml or .json file");
    assert_eq!(refused("nowhere.yaml"), "nowhere.yaml: no such file or directory");
    write("k/kustomization.yaml", "resources: []\n");
    let answer = "k/kustomization.yaml is a kustomization, not a manifest; run: kubectl kustomize k | rollcall simulate -";
    assert_eq!(refused("k"), answer);
    write("h/Chart.yaml", "apiVersion: v2\n");
    assert_eq!(
        refused("h"),
        "h/Chart.yaml is a Helm chart, not a manifest; run: helm template h | rollcall simulate -"
    );
    write("bad.yaml", "kind: Pod\n");
    let answer = "\
no apiVersion (document 1 of bad.yaml)
 --> bad.yaml:1:1
  |
1 | kind: Pod
  | ^^^^ expected apiVersion, such as v1 or apps/v1";
    assert_eq!(refused("bad.yaml"), answer);
}
