//! Tests of `rollcall demo` without a terminal and without delays.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn demo(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
    command.arg("demo").args(arguments).env_remove("KUBECONFIG").output().expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn in_words(output: &Output, folder: &Path) -> String {
    let folder = folder.canonicalize().expect("it exists");
    let said = format!(
        "{}{}exit code {}\n",
        text(&output.stdout),
        text(&output.stderr),
        output.status.code().unwrap_or(-1)
    );
    said.replace(folder.to_str().expect("UTF-8"), "FOLDER")
}

#[test]
fn the_shop_starts_in_order_and_says_why_it_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("shop.html");
    let output = demo(&["--fast", "--page", page.to_str().expect("UTF-8")]);
    insta::assert_snapshot!(in_words(&output, folder.path()));
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.starts_with("<!doctype html>") && page.contains("migration-"), "{}", &page[..200]);
}

#[test]
fn time_goes_by_as_fast_as_it_is_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("shop.html");
    let begun = Instant::now();
    let output = demo(&["--speed", "100", "--page", page.to_str().expect("UTF-8")]);
    // The start of the shop takes more than 20 seconds of virtual time.
    assert!(begun.elapsed() > Duration::from_millis(200), "{:?}", begun.elapsed());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_page_that_cannot_be_written_is_said_before_anything_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("none/shop.html");
    let output = demo(&["--fast", "--page", page.to_str().expect("UTF-8")]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    assert!(text(&output.stderr).starts_with("error: --page: cannot write "), "{}", text(&output.stderr));
}

#[test]
fn its_manifests_can_be_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.yaml");
    std::fs::write(&file, demo(&["--manifests"]).stdout).expect("written");
    let simulated = Command::new(env!("CARGO_BIN_EXE_rollcall"))
        .args(["simulate", file.to_str().expect("UTF-8"), "--fail", "pod=database-0"])
        .output()
        .expect("it starts");
    assert_eq!(simulated.status.code(), Some(1), "{}", text(&simulated.stdout));
    assert!(text(&simulated.stdout).contains("✗ pod/database-0: "), "{}", text(&simulated.stdout));
}
