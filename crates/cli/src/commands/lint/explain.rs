//! Descriptions of rules for `--explain` and the reference page.

use super::rule::Rule;
use super::rules;

pub fn text(rule: &Rule) -> String {
    let Rule { code, severity, title, why, hint, about_absence: _, check: _ } = rule;
    let hint = hint.replace('\n', "\n  ");
    format!("{code} ({}): {title}\n\n{why}\n\nWhat to do:\n  {hint}\n", severity.word())
}

/// Reference page with every rule, by code.
pub fn page() -> String {
    let mut text = String::from(
        "# Lint rules\n\nThe rules of `rollcall lint`, by code. `rollcall lint --explain CODE` prints one of these entries. \
         See [Linting](../guide/lint.md) for usage.\n",
    );
    for (digit, group) in rules::GROUPS {
        let rules = rules::ALL.iter().filter(|rule| rule.code[2..].starts_with(digit));
        text += &format!("\n## {group}\n");
        for Rule { code, severity, title, why, hint, about_absence, check: _ } in rules {
            let live = if *about_absence { " Not checked with `--live`." } else { "" };
            text += &format!("\n### {code}\n\n**{title}** ({}).{live}\n\n{why}\n\n", severity.word());
            text += &format!("What to do:\n\n```yaml\n{hint}\n```\n");
        }
    }
    text
}
