use super::*;
use crate::commands::simulate::testing;

#[test]
fn names_cannot_end_the_script_or_begin_another() {
    let page = html(&testing::names(), "</title><script>alert(1)</script>").unwrap();
    assert_eq!(page.matches("<script").count(), 2, "the report and the script");
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<!--"), "a comment within a script could move its end");
    assert!(
        page.contains(
            "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt; · rollcall simulate</title>"
        )
    );
}

#[test]
fn the_report_in_the_page_is_the_report() {
    for (name, report) in testing::all() {
        let page = html(&report, name).unwrap();
        let (_, rest) = page.split_once("id=\"report\">").unwrap();
        let (json, _) = rest.split_once("</script>").unwrap();
        let read: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(read, serde_json::to_value(&report).unwrap(), "{name}");
    }
}

#[test]
fn nothing_is_fetched() {
    let page = html(&testing::shop(), "shop").unwrap();
    for address in page.match_indices("http") {
        let rest = &page[address.0..];
        let known = ["http-equiv", "http://www.w3.org/2000/svg"];
        assert!(known.iter().any(|known| rest.starts_with(known)), "{}", &rest[..40]);
    }
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("unsafe-inline"));
}

/// A value that looks like a placeholder of the template stays unchanged.
#[test]
fn values_are_not_looked_into() {
    let page = html(&testing::shop(), "{{report}} {{style}}").unwrap();
    assert!(page.contains("<h1>{{report}} {{style}}</h1>"));
    assert_eq!(
        filled("a {{x}} {{y}} {{z}}", &[("{{x}}", "{{y}}".into()), ("{{y}}", "2".into())]),
        "a {{y}} 2 {{z}}"
    );
}
