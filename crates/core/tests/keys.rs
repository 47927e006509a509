//! The keys that mark blocked nodes.

use crate::support::build::{group, names};
use rollcall_core::sequence::Group;
use rollcall_core::sequence::keys::{PREFIX, keys};
use std::collections::BTreeSet;

fn keys_of(namespace: &str, name: &str, groups: &[&str]) -> Vec<String> {
    let groups = groups.iter().map(|name| group(0, (!name.is_empty()).then_some(*name), names(&["a"])));
    let groups: Vec<Group> = groups.collect();
    keys(PREFIX, namespace, name, &groups).iter().map(|key| key.to_string()).collect()
}

#[test]
fn a_name_that_fits_stands_in_the_key() {
    assert_eq!(
        keys_of("default", "csi", &["driver", "apps"]),
        [
            "podsequence.example.com/default.csi.driver-blocked",
            "podsequence.example.com/default.csi.apps-blocked",
        ]
    );
}

#[test]
fn edits_to_the_list_never_re_point_a_key() {
    let before = keys_of("default", "csi", &["driver", "Application Pods", ""]);
    let after = keys_of("default", "csi", &["new", "driver", "", "Application Pods"]);
    assert_eq!([&before[0], &before[1], &before[2]], [&after[1], &after[3], &after[2]]);
}

/// The hash can be computed with `printf 'NAMESPACE.NAME.GROUP-blocked\\0001' | sha256sum`.
#[test]
fn a_key_that_is_too_long_ends_with_a_hash_that_nobody_can_aim_at() {
    let namespace = "team-payments-production-eu-central-1-blue";
    assert_eq!(
        keys_of(namespace, "csi", &["application"]),
        ["podsequence.example.com/team-payments-production-eu-ce-301ceadcbbcccb85b08e9387-blocked"]
    );
}

fn allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[test]
fn every_key_is_a_label_key_and_no_two_are_the_same() {
    let long = "x".repeat(100);
    let names = ["a", "A b", "ä", "-", "a.b", &long, &format!("{long}y"), ""];
    for (namespace, name) in [("default", "s"), (&*"n".repeat(63), &*"s.t".repeat(80))] {
        let keys = keys_of(namespace, name, &names);
        let distinct: BTreeSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), names.len());
        for key in &keys {
            let rest = key.strip_prefix(PREFIX).expect("all begin alike");
            let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
            assert!(rest.len() <= 63 && rest.bytes().all(allowed), "{key}");
            assert!(edge(rest.bytes().next()) && edge(rest.bytes().last()), "{key}");
            assert!(rest.ends_with("-blocked"), "{key}");
        }
    }
    assert_ne!(keys_of("a", "b.c", &["d"]), keys_of("a", "b", &["c.d"]));
}
