use super::*;
use crate::commands::simulate::testing;

fn plain(report: &Report, width: usize) -> String {
    text(report, PictureLimits { width, all_pods: false }).without_colours()
}

#[test]
fn pictures() {
    for (name, report) in testing::all() {
        for width in [80, 120] {
            insta::assert_snapshot!(format!("{name}-{width}"), plain(&report, width));
        }
    }
}

/// Checks bars and the text beside them; sentences without a space to break at may be wider.
#[test]
fn the_picture_fits_the_terminal() {
    for (name, report) in testing::all() {
        for width in [60, 72, 80, 100, 120, 160] {
            let text = plain(&report, width);
            let picture = text.lines().filter(|line| line.contains(['█', '░', '·']));
            for line in picture.filter(|line| !line.contains("podseq/")) {
                assert!(line.width() <= width, "{name} at {width}: {} columns: {line}", line.width());
            }
        }
    }
}

#[test]
fn every_pod_has_a_line_if_asked_for() {
    let report = testing::many();
    let text = text(&report, PictureLimits { width: 120, all_pods: true });
    let rows = text.as_str().lines().filter(|line| line.starts_with("  svc-") && line.contains('█')).count();
    assert_eq!(rows, report.pods.len());
}

#[test]
fn colours_say_nothing_that_the_characters_do_not() {
    for state in STATES {
        let others = STATES.into_iter().filter(|other| *other != state);
        assert!(others.into_iter().all(|other| bar::mark(other) != bar::mark(state)), "{state:?}");
    }
}
