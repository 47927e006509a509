//! Tests of the page in a real browser: positions of the drawn elements, keyboard navigation, network requests.
//!
//! `ROLLCALL_SCREENSHOTS=DIR cargo test -p rollcall-cli browser` saves screenshots.

use super::html;
use crate::commands::simulate::testing;
use anyhow::{Context, Result, ensure};
use rollcall_sim::report::Report;
use rollcall_testbed::browser::{Browser, DOWN, ENTER, ESCAPE, RIGHT, TAB};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DESK: (u32, u32) = (1280, 900);
const PHONE: (u32, u32) = (400, 800);
/// Time limit for the browser to update the page.
const LONG_ENOUGH: Duration = Duration::from_secs(20);

struct Pages {
    browser: Browser,
    dir: tempfile::TempDir,
}

impl Pages {
    async fn start() -> Result<Pages> {
        Ok(Pages { browser: Browser::start().await?, dir: tempfile::tempdir()? })
    }

    /// Opens the page of a report. Fails if the page writes to the console or requests any resource.
    async fn open(&self, name: &str, report: &Report) -> Result<()> {
        let path = self.dir.path().join(format!("{name}.html"));
        std::fs::write(&path, html(report, &format!("{name}.yaml"))?)?;
        self.browser.open(&path).await?;
        let drawn = self.browser.script("return document.documentElement.dataset.drawn").await?;
        let console = self.browser.console().await?;
        ensure!(drawn == "yes" && console.is_empty(), "{name}: drawn: {drawn}, console: {console:?}");
        let requests = self.browser.requests().await?;
        let own = format!("file://{}", path.display());
        ensure!(requests.iter().all(|address| *address == own), "{name} asks for {requests:?}");
        Ok(())
    }

    /// Returns the text of the tooltip; empty if it is hidden.
    async fn tip(&self) -> Result<String> {
        let tip = self.browser.script("return tip.hidden ? '' : tip.innerText").await?;
        Ok(tip.as_str().context("no tip")?.replace('\n', " | "))
    }

    /// Presses Tab until the focused element matches the selector.
    async fn tab_to(&self, selector: &str) -> Result<()> {
        let inside = format!("return document.activeElement.matches('{selector}')");
        for _ in 0..20 {
            self.browser.press(&[TAB]).await?;
            if self.browser.script(&inside).await? == true {
                return Ok(());
            }
        }
        anyhow::bail!("20 presses of Tab do not reach {selector}")
    }
}

/// Folder for screenshots, if they are requested.
fn album() -> Option<PathBuf> {
    std::env::var_os("ROLLCALL_SCREENSHOTS").map(PathBuf::from)
}

async fn keep(browser: &Browser, name: &str) -> Result<()> {
    if let Some(album) = album() {
        std::fs::create_dir_all(&album)?;
        std::fs::write(album.join(format!("{name}.png")), browser.screenshot(true).await?)?;
    }
    Ok(())
}

/// Returns `[[pod, [[from, left, width], …]], …]`: the start of each bar, and its position and width as fractions of the track.
const BARS: &str = "
    return [...document.querySelectorAll('.row.pod')].map((row) => {
        const track = row.querySelector('.track').getBoundingClientRect();
        const bars = [...row.querySelectorAll('.bar')].map((bar) => {
            const box = bar.getBoundingClientRect();
            return [Number(bar.dataset.from), (box.left - track.left) / track.width, box.width / track.width];
        });
        return [Number(row.dataset.pod), bars];
    });";

/// Tolerance: half a pixel of a track that is 300 pixels wide.
const CLOSE: f64 = 0.002;

fn bars_are_where_the_report_says(name: &str, report: &Report, drawn: &Value) -> Result<()> {
    let end = report.ended as f64 * 17.0 / 16.0;
    for row in drawn.as_array().context("rows")? {
        let pod = &report.pods[row[0].as_u64().context("a pod")? as usize];
        let bars = row[1].as_array().context("bars")?;
        ensure!(bars.len() == pod.spans.len(), "{name}: {} has {} bars", pod.name, bars.len());
        for (place, (bar, span)) in bars.iter().zip(&pod.spans).enumerate() {
            let next = pod.spans.get(place + 1).map(|next| next.from).or(pod.deleted);
            let to = next.map_or(end, |next| next as f64);
            let wanted = (span.from as f64 / end, (to - span.from as f64) / end);
            let is = (bar[1].as_f64().context("left")?, bar[2].as_f64().context("width")?);
            let near = |is: f64, wanted: f64| (is - wanted).abs() < CLOSE;
            ensure!(
                near(is.0, wanted.0) && near(is.1, wanted.1),
                "{name}: {} {:?}: at {is:?}, expected {wanted:?}",
                pod.name,
                span.state
            );
        }
    }
    Ok(())
}

/// The number of pod rows before any interaction. Pages with many pods begin folded; the others show the first pods of each
/// group.
fn rows_at_first(report: &Report) -> usize {
    if report.pods.len() > 60 {
        return 0;
    }
    let groups: Vec<&Vec<usize>> =
        report.sequences.iter().flat_map(|sequence| &sequence.groups).map(|group| &group.pods).collect();
    let others = (0..report.pods.len()).filter(|pod| !groups.iter().any(|group| group.contains(pod))).count();
    let shown = |pods: usize| if pods <= 12 { pods } else { 11 };
    groups.iter().map(|group| shown(group.len())).sum::<usize>() + shown(others)
}

#[tokio::test]
async fn every_page_in_a_browser() -> Result<()> {
    let pages = Pages::start().await?;
    let browser = &pages.browser;
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        for (name, report) in testing::all() {
            browser.emulate(DESK, scheme, "screen").await?;
            pages.open(name, &report).await?;
            let drawn = browser.script(BARS).await?;
            bars_are_where_the_report_says(name, &report, &drawn)?;
            let rows = drawn.as_array().map_or(0, Vec::len);
            ensure!(rows == rows_at_first(&report), "{name}: {rows} rows");
            let wide = browser.script("return document.documentElement.scrollWidth").await?;
            ensure!(wide.as_u64() <= Some(DESK.0.into()), "{name} is {wide} wide");
            keep(browser, &format!("{name}-{scheme}")).await?;
            let never = browser.script("return document.querySelectorAll('#never li').length").await?;
            ensure!(never == report.never.len(), "{name}: {never} entries of pods that can never start");
        }
        grounds.push(browser.script("return getComputedStyle(document.body).backgroundColor").await?);
    }
    ensure!(grounds[0] != grounds[1], "light and dark look the same: {grounds:?}");
    Ok(())
}

#[tokio::test]
async fn narrow_and_printed() -> Result<()> {
    let pages = Pages::start().await?;
    let browser = &pages.browser;
    for (name, report) in [("shop", testing::shop()), ("failed", testing::failed())] {
        browser.emulate(PHONE, "light", "screen").await?;
        pages.open(name, &report).await?;
        let wide = browser.script("return document.documentElement.scrollWidth").await?;
        ensure!(wide.as_u64() <= Some(PHONE.0.into()), "{name} is {wide} wide");
        bars_are_where_the_report_says(name, &report, &browser.script(BARS).await?)?;
        keep(browser, &format!("{name}-phone")).await?;
        browser.emulate((794, 1123), "dark", "print").await?;
        // Printed pages are white, even with the dark colour scheme.
        let ground = browser.script("return getComputedStyle(document.body).backgroundColor").await?;
        ensure!(ground == "rgb(255, 255, 255)", "{name} is printed on the background {ground}");
        bars_are_where_the_report_says(name, &report, &browser.script(BARS).await?)?;
        keep(browser, &format!("{name}-print")).await?;
        let pdf = browser.print().await?;
        ensure!(pdf.starts_with(b"%PDF"), "no PDF");
        if let Some(album) = album() {
            std::fs::write(Path::new(&album).join(format!("{name}.pdf")), pdf)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn reasons_without_a_mouse() -> Result<()> {
    let pages = Pages::start().await?;
    let browser = &pages.browser;
    browser.emulate(DESK, "light", "screen").await?;
    pages.open("failed", &testing::failed()).await?;
    assert_eq!(pages.tip().await?, "");

    // The whole timeline is one tab stop; arrow keys move within it.
    pages.tab_to("#timeline .row").await?;
    assert!(pages.tip().await?.starts_with("Database | group 1 of 2"));
    browser.press(&[DOWN, DOWN, DOWN, DOWN]).await?;
    let about = "app-2 | on node-1 | failed at the end | \
                 app-2 has failed: container server ended with code 1 (PodFailed) | it fails because of --fail 'pod=app-2:6s'";
    assert_eq!(pages.tip().await?, about);
    keep(browser, "failed-focus").await?;
    let label = browser.script("return document.activeElement.getAttribute('aria-label')").await?;
    assert_eq!(
        label,
        "app-2. on node-1. failed at the end. app-2 has failed: container server ended with code 1"
    );
    browser.press(&[RIGHT, RIGHT]).await?;
    assert_eq!(pages.tip().await?, "app-2 | starting for 6.0s: 8.1s – 14.1s | on node-1");

    pages.tab_to("#graph .node").await?;
    let about =
        "Database | group 1 of 2 in shop | 1/1 ready after 8.0s | waits for nothing; opened after 0.0s";
    assert_eq!(pages.tip().await?, about);
    browser.press(&[RIGHT]).await?;
    let about = "Services | group 2 of 2 in shop | 1/4 ready, not complete | waits for Database; opened after 8.0s | \
                 app-2 has failed: container server ended with code 1 (PodFailed) | \
                 hint: it fails because of --fail 'pod=app-2:6s'";
    assert_eq!(pages.tip().await?, about.replace("| hint: ", "| "));
    browser.press(&[ESCAPE]).await?;
    assert_eq!(pages.tip().await?, "");
    Ok(())
}

#[tokio::test]
async fn reasons_under_the_pointer() -> Result<()> {
    let pages = Pages::start().await?;
    let browser = &pages.browser;
    browser.emulate(DESK, "dark", "screen").await?;
    pages.open("shop", &testing::shop()).await?;
    let place = browser
        .script(
            "const bar = document.querySelector('[data-pod=\"1\"] .bar.Held');
             bar.scrollIntoView({block: 'center'});
             const box = bar.getBoundingClientRect();
             return [box.left + box.width / 2, box.top + box.height / 2];",
        )
        .await?;
    browser.point(place[0].as_f64().context("x")?, place[1].as_f64().context("y")?).await?;
    let about =
        "app-1 | held for 17.2s: 0.0s – 17.2s | waits for \"Database Layer\" | Deployment/app on node-1";
    assert_eq!(pages.tip().await?, about);
    keep(browser, "shop-pointer").await?;
    browser.point(2.0, 2.0).await?;
    assert_eq!(pages.tip().await?, "");
    Ok(())
}

#[tokio::test]
async fn all_pods_as_a_table() -> Result<()> {
    let pages = Pages::start().await?;
    let browser = &pages.browser;
    browser.emulate(DESK, "light", "screen").await?;
    pages.open("failed", &testing::failed()).await?;
    pages.tab_to("summary").await?;
    browser.press(&[ENTER]).await?;
    let rows = "return [...document.querySelectorAll('tbody tr')].map((row) => row.innerText)";
    let rows = rollcall_testbed::wait::until("the table", LONG_ENOUGH, async || {
        let rows = browser.script(rows).await?;
        Ok(rows.as_array().filter(|rows| !rows.is_empty()).cloned())
    });
    let rows = rows.await?;
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[0], "default\tdb\t\tnode-1\t8.0s\tready\t");
    assert_eq!(
        rows[2],
        "default\tapp-2\t\tnode-1\t\tfailed\tapp-2 has failed: container server ended with code 1"
    );
    Ok(())
}

#[tokio::test]
async fn many_pods_are_folded_and_unfold() -> Result<()> {
    let pages = Pages::start().await?;
    let browser = &pages.browser;
    browser.emulate(DESK, "light", "screen").await?;
    pages.open("many", &testing::many()).await?;
    let rows = async || browser.script("return document.querySelectorAll('.row.pod').length").await;
    assert_eq!(rows().await?, 0);
    pages.tab_to("#timeline .row").await?;
    // To the eighth group, which has 32 pods.
    browser.press(&[DOWN; 7]).await?;
    browser.press(&[ENTER]).await?;
    assert_eq!(rows().await?, 11);
    keep(browser, "many-unfolded").await?;
    browser.press(&[DOWN; 12]).await?;
    assert!(pages.tip().await?.starts_with("21 more pods"), "{}", pages.tip().await?);
    browser.press(&[ENTER]).await?;
    assert_eq!(rows().await?, 32);
    Ok(())
}
