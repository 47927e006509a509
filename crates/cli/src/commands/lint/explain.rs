//! What a rule is about: for `--explain`, and for the reference page.

use super::rule::Rule;
use super::rules;

pub fn text(rule: &Rule) -> String {
    let Rule { code, severity, title, why, hint, about_absence: _, check: _ } = rule;
    let hint = hint.replace('\n', "\n  ");
    format!("{code} ({}): {title}\n\n{why}\n\nWhat to do:\n  {hint}\n", severity.word())
}

/// Every rule, by its code.
pub fn page() -> String {
    let mut text = String::from(
        "# Rules of lint\n\nWhat `rollcall lint` finds, by the code that it prints. `rollcall lint --explain CODE` prints one of these. \
         [Linting](../guide/lint.md) says how to use it.\n",
    );
    for (digit, group) in rules::GROUPS {
        let rules = rules::ALL.iter().filter(|rule| rule.code[2..].starts_with(digit));
        text += &format!("\n## {group}\n");
        for Rule { code, severity, title, why, hint, about_absence, check: _ } in rules {
            let live = if *about_absence { " Not with `--live`." } else { "" };
            text += &format!("\n### {code}\n\n**{title}** ({}).{live}\n\n{why}\n\n", severity.word());
            text += &format!("What to do:\n\n```yaml\n{hint}\n```\n");
        }
    }
    text
}
