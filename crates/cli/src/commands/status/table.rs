//! The columns of `kubectl get podseq`.

use super::view::SequenceView;
use crate::output::{age, table};
use crate::shown::Shown;
use jiff::Timestamp;

pub fn text(views: &[SequenceView], all_namespaces: bool, now: Timestamp) -> Shown {
    let mut head = vec!["NAME", "PHASE", "GROUP", "READY", "AGE"];
    if all_namespaces {
        head.insert(0, "NAMESPACE");
    }
    let rows: Vec<Vec<String>> = views.iter().map(|view| row(view, all_namespaces, now)).collect();
    table(&head, &rows)
}

fn row(view: &SequenceView, all_namespaces: bool, now: Timestamp) -> Vec<String> {
    let summary = view.status.summary.clone().unwrap_or_default();
    let mut row = vec![
        view.name.clone(),
        view.phase().to_owned(),
        summary.group,
        summary.ready,
        age(view.created, now),
    ];
    if all_namespaces {
        row.insert(0, view.namespace.clone());
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn as_kubectl_prints_it() {
        let views =
            [testing::shop_in_progress(), testing::shop()].map(|o| SequenceView::new(&testing::sequence(o)));
        insta::assert_snapshot!(text(&views, false, testing::now()).as_str(), @r"
        NAME   PHASE        GROUP                   READY   AGE
        shop   InProgress   2/3 Application Layer   1/2     41s
        shop                                                41s
        ");
        insta::assert_snapshot!(text(&views[..1], true, testing::now()).as_str(), @r"
        NAMESPACE   NAME   PHASE        GROUP                   READY   AGE
        default     shop   InProgress   2/3 Application Layer   1/2     41s
        ");
    }
}
