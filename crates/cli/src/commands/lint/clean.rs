//! Makes text from files safe for terminals. All output of this command passes through here.

use crate::shown::Shown;

/// Returns the text as one line, with control characters made visible.
pub fn clean(text: &str) -> String {
    Shown::cleaned(text).as_str().to_owned()
}
