//! What files say, made fit for a terminal: the one place that this command does it in.

use crate::shown::Shown;

/// One line, with control characters made visible.
pub fn clean(text: &str) -> String {
    Shown::cleaned(text).as_str().to_owned()
}
