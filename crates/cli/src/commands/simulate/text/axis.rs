//! The time axis above the bars, and the format of times.

/// Possible intervals between two marks in seconds, all of them familiar units of time.
const STEPS: [u64; 19] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 604_800];
/// Minimum distance between two marks in columns, so that labels such as `1h30m` stay apart.
const APART: u64 = 9;

/// Maps milliseconds since the start of the run to columns.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub columns: usize,
    /// Length of the axis in milliseconds; more than 0.
    pub total: u64,
}

impl Scale {
    pub fn new(columns: usize, ended: u64) -> Scale {
        Scale { columns, total: ended.max(1) }
    }

    /// Returns the start of a column, and its exclusive end.
    pub fn times(self, column: usize) -> (u64, u64) {
        let at = |column: usize| (self.total as u128 * column as u128 / self.columns as u128) as u64;
        (at(column), at(column + 1).max(at(column) + 1))
    }

    fn column(self, time: u64) -> usize {
        (time as u128 * self.columns as u128 / self.total as u128) as usize
    }

    /// Draws the axis: `0s        10s       20s`.
    pub fn line(self) -> String {
        let wide_enough = |step: &&u64| **step * 1000 * self.columns as u64 / self.total >= APART;
        let step = *STEPS.iter().find(wide_enough).unwrap_or(&STEPS[STEPS.len() - 1]) * 1000;
        let mut line = String::new();
        for time in (0..=self.total).step_by(step as usize) {
            let mark = mark(time);
            let column = self.column(time);
            if column + mark.len() > self.columns {
                break;
            }
            line += &" ".repeat(column - line.len());
            line += &mark;
        }
        line
    }
}

/// Formats a mark of the axis in whole seconds, minutes or hours.
fn mark(time: u64) -> String {
    let seconds = time / 1000;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes, rest) {
        (0, 0, rest) => format!("{rest}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, rest) => format!("{minutes}m{rest:02}s"),
        (hours, 0, _) => format!("{hours}h"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

/// Formats a duration with at most three significant digits: `12.4s`, `2m05s`, `1h02m`.
pub fn time(milliseconds: u64) -> String {
    let tenths = (milliseconds + 50) / 100;
    let seconds = (milliseconds + 500) / 1000;
    match seconds {
        _ if tenths < 600 => format!("{}.{}s", tenths / 10, tenths % 10),
        0..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_words() {
        let times = [0, 49, 50, 3_300, 12_449, 59_949, 59_950, 65_000, 3_599_499, 3_599_500, 7_380_000];
        let shown = times.map(time);
        let expected =
            ["0.0s", "0.0s", "0.1s", "3.3s", "12.4s", "59.9s", "1m00s", "1m05s", "59m59s", "1h00m", "2h03m"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn marks_are_round_and_apart() {
        assert_eq!(Scale::new(36, 27_300).line(), "0s           10s          20s");
        assert_eq!(
            Scale::new(60, 27_300).line(),
            "0s        5s         10s        15s        20s        25s"
        );
        assert_eq!(Scale::new(40, 5_400_000).line(), "0s           30m          1h");
        assert_eq!(Scale::new(30, 0).line(), "0s");
        assert_eq!(Scale::new(20, 400).line(), "0s");
    }

    #[test]
    fn every_time_is_in_one_column() {
        for (columns, ended) in [(36, 27_300), (100, 7), (7, 100), (1, 0)] {
            let scale = Scale::new(columns, ended);
            assert_eq!(scale.times(0).0, 0);
            assert!(scale.times(columns - 1).1 >= scale.total);
        }
    }
}
