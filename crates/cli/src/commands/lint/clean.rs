//! What files say, made fit for a terminal: the one place that this command does it in.

use crate::commands::simulate::text::words;

/// Control characters made visible.
pub fn clean(text: &str) -> String {
    words::plain(text)
}
