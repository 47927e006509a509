//! Opens the HTML page of a real run in a real browser. This test also creates the picture in the documentation:
//!
//!     ROLLCALL_SCREENSHOTS=docs/images cargo test -p rollcall-cli --test alone page::

use anyhow::{Context, Result, ensure};
use rollcall_testbed::browser::Browser;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The maximum width of the page, and the height that this run needs.
const WINDOW: (u32, u32) = (1200, 758);

fn rollcall(folder: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(env!("CARGO_BIN_EXE_rollcall")).current_dir(folder).args(arguments).output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

#[tokio::test]
async fn the_shop_as_a_page() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let within = |name: &str| folder.path().join(name);
    std::fs::write(within("shop.yaml"), rollcall(folder.path(), &["demo", "--manifests"])?)?;
    let page = rollcall(folder.path(), &["simulate", "shop.yaml", "--output", "html"])?;
    std::fs::write(within("shop.html"), page)?;
    let report = rollcall(folder.path(), &["simulate", "shop.yaml", "--output", "json"])?;
    let report: Value = serde_json::from_slice(&report)?;

    let browser = Browser::start().await?;
    browser.emulate(WINDOW, "light", "screen").await?;
    browser.open(&within("shop.html")).await?;
    ensure!(browser.script("return document.documentElement.dataset.drawn").await? == "yes");
    ensure!(browser.console().await?.is_empty());
    let rows = "return [...document.querySelectorAll('.row.pod .name')].map((name) => name.innerText)";
    let shown = browser.script(rows).await?;
    let mut names: Vec<&str> = shown.as_array().context("rows")?.iter().filter_map(Value::as_str).collect();
    let pods = report["pods"].as_array().context("pods")?;
    let mut wanted: Vec<&str> = pods.iter().filter_map(|pod| pod["name"].as_str()).collect();
    names.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(names, wanted);

    let picture = browser.screenshot(false).await?;
    ensure!(picture.starts_with(b"\x89PNG"), "no picture");
    if let Some(album) = std::env::var_os("ROLLCALL_SCREENSHOTS").map(PathBuf::from) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::write(root.join(album).join("simulate-shop.png"), picture)?;
    }
    Ok(())
}
