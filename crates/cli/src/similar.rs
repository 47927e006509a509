//! Suggestions for misspelt names.

/// Minimum similarity of two names (Jaro-Winkler, 0 to 1) for a suggestion: `postgres-0` and `postgres-1` have 0.96, `web` and
/// `webb` 0.94, `web` and `app` 0.
const ALIKE: f64 = 0.8;
const MOST_SIMILAR: usize = 3;
/// Maximum number of names to list if none is similar.
const MOST_LISTED: usize = 5;

/// Returns the end of a "not found" message: similar names, or else the existing ones.
pub fn suggestion<'a>(wanted: &str, there: impl IntoIterator<Item = &'a str>) -> String {
    let mut there: Vec<&str> = there.into_iter().collect();
    there.sort_unstable();
    let mut alike: Vec<(f64, &str)> = there
        .iter()
        .map(|name| (likeness(wanted, name), *name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    alike.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    if !alike.is_empty() {
        let names: Vec<&str> = alike.iter().take(MOST_SIMILAR).map(|(_, name)| *name).collect();
        return format!("; did you mean {}?", names.join(" or "));
    }
    match there.len() {
        0 => "; none exist".into(),
        1..=MOST_LISTED => format!("; existing: {}", there.join(", ")),
        more => format!("; existing: {}, and {} more", there[..MOST_LISTED].join(", "), more - MOST_LISTED),
    }
}

fn likeness(wanted: &str, name: &str) -> f64 {
    // Users may name a pod of a Deployment without its generated suffix.
    let part = wanted.len() >= 3 && name.contains(wanted);
    if part { 1.0 } else { strsim::jaro_winkler(wanted, name) }
}

#[cfg(test)]
mod tests {
    use super::suggestion;

    #[test]
    fn the_alike_first_else_what_there_is() {
        let pods = ["postgres-0", "postgres-1", "app-1", "shop-web-7d4b9c-x2x1z"];
        assert_eq!(suggestion("postgers-0", pods), "; did you mean postgres-0 or postgres-1?");
        assert_eq!(suggestion("web", pods), "; did you mean shop-web-7d4b9c-x2x1z?");
        assert_eq!(suggestion("zzz", ["b", "a"]), "; existing: a, b");
        assert_eq!(
            suggestion("zzz", ["a", "b", "c", "d", "e", "f"]),
            "; existing: a, b, c, d, e, and 1 more"
        );
        assert_eq!(suggestion("zzz", []), "; none exist");
    }
}
