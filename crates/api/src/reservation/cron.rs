//! Schema validation of a cron schedule: five fields, each with its permitted values. [`super::validate`] checks what a pattern
//! cannot express: that ranges ascend, and that the schedule has a next time at all.

/// One field of a schedule: its permitted numbers and names.
struct Field {
    /// Numbers of one or two digits, as a regular expression.
    pattern: &'static str,
    first: u8,
    last: u8,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { pattern: "[0-5]?[0-9]", first: 0, last: 59, names: &[] },
    Field { pattern: "[01]?[0-9]|2[0-3]", first: 0, last: 23, names: &[] },
    Field { pattern: "0?[1-9]|[12][0-9]|3[01]", first: 1, last: 31, names: &[] },
    Field { pattern: "0?[1-9]|1[0-2]", first: 1, last: 12, names: &MONTHS },
    // Sunday is 0 or 7.
    Field { pattern: "0?[0-7]", first: 0, last: 7, names: &WEEKDAYS },
];

/// Supported descriptors. `@every` is excluded: its times depend on a starting point, and no object stores one.
const DESCRIPTORS: [&str; 7] = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];

pub const MESSAGE: &str = "must be a schedule with five fields (minute, hour, day of the month, month, day of the week) such as \
    0 */6 * * *, or one of @yearly, @monthly, @weekly, @daily and @hourly";

/// Returns the regular expression of a valid schedule, in RE2 syntax.
pub fn pattern() -> String {
    let fields = FIELDS.iter().map(|Field { pattern, names, .. }| {
        let value = match names {
            [] => format!("({pattern})"),
            names => format!("({pattern}|(?i:{}))", names.join("|")),
        };
        let part = format!(r"(\*|\?|{value}(-{value})?)(/[1-9][0-9]?)?");
        format!("{part}(,{part})*")
    });
    format!("^(@({})|{})$", DESCRIPTORS.join("|"), fields.collect::<Vec<_>>().join(" +"))
}

/// Whether a text matches [`pattern`].
pub fn fits(text: &str) -> bool {
    if let Some(name) = text.strip_prefix('@') {
        return DESCRIPTORS.contains(&name);
    }
    let fields: Vec<&str> = text.split(' ').filter(|field| !field.is_empty()).collect();
    let bare = !text.starts_with(' ') && !text.ends_with(' ');
    bare && fields.len() == FIELDS.len() && fields.iter().zip(&FIELDS).all(|(text, field)| field.fits(text))
}

impl Field {
    fn fits(&self, text: &str) -> bool {
        text.split(',').all(|part| {
            let (range, step) = part.split_once('/').unwrap_or((part, "1"));
            let of = |range: &str| match range.split_once('-') {
                Some((first, last)) => self.is_value(first) && self.is_value(last),
                None => self.is_value(range),
            };
            (matches!(range, "*" | "?") || of(range)) && number(step).is_some() && !step.starts_with('0')
        })
    }

    fn is_value(&self, text: &str) -> bool {
        let named = self.names.iter().any(|name| name.eq_ignore_ascii_case(text));
        named || number(text).is_some_and(|number| (self.first..=self.last).contains(&number))
    }
}

/// A number of one or two digits.
fn number(text: &str) -> Option<u8> {
    let digits = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rollcall_core::schedule::Schedule;

    fn agree(text: &str) -> bool {
        let pattern = regex::Regex::new(&pattern()).unwrap();
        assert_eq!(pattern.is_match(text), fits(text), "{text:?}");
        fits(text)
    }

    #[test]
    fn schedules_that_have_the_form() {
        for text in [
            "0 */6 * * *",
            "*/5 1-5 1,15 jan-mar MON",
            "@daily",
            "0 0 ? * 0",
            "5/10 * * * *",
            "00 08 01 01 07",
            "0   9-17/4 * * Mon-Fri,sun",
        ] {
            assert!(agree(text), "{text}");
            assert!(Schedule::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn schedules_that_have_not() {
        for text in [
            "",
            " ",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "*/0 * * * *",
            "a * * * *",
            "@Daily",
            "@every 1h",
            "@reboot",
            " 0 0 * * *",
            "0 0 * * * ",
            "0\t0 * * *",
            "1,,2 * * * *",
            "*-5 * * * *",
            "mon * * * *",
            "0 0 * * mond",
            "TZ=UTC 0 0 * * *",
            "+5 * * * *",
        ] {
            assert!(!agree(text), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn the_pattern_and_the_function_agree(text in "[0-9*?,/ -]{0,4}( [0-9*?,/a-cfjnouFJ-]{1,5}){3,5} ?") {
            agree(&text);
        }

        #[test]
        fn what_has_the_form_is_read_unless_a_range_goes_down(
            fields in prop::collection::vec("(\\*|[1-7]|[1-7]-[1-7])(/[1-9])?(,[1-7])?", 5),
        ) {
            let text = fields.join(" ");
            prop_assert!(agree(&text));
            let down = |part: &str| part.split('/').next().and_then(|range| range.split_once('-')).is_some_and(|(first, last)| first > last);
            let any_down = fields.iter().flat_map(|field| field.split(',')).any(down);
            prop_assert_eq!(Schedule::parse(&text).is_err(), any_down, "{}", text);
        }
    }
}
