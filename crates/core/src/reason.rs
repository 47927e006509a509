//! The macro [`reasons!`] for the list of reasons of a feature. It generates the codes, the hints and the reference page.

/// A reason, as listed on the reference page.
pub struct Described {
    pub code: &'static str,
    pub meaning: &'static str,
    pub hint: &'static str,
}

/// One row per reason: its name (which is also its code), the fields of its sentence, its meaning, and a hint.
macro_rules! reasons {
    ($(#[$attribute:meta])* $($name:ident $({ $($field:ident: $type:ty),* })? $meaning:literal, $hint:literal;)*) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Reason {
            $(#[doc = $meaning] $name $({ $($field: $type),* })?,)*
        }

        /// All reasons, for the reference page.
        pub const ALL: &[$crate::reason::Described] =
            &[$($crate::reason::Described { code: stringify!($name), meaning: $meaning, hint: $hint },)*];

        impl Reason {
            pub const fn code(&self) -> &'static str {
                match self { $(Reason::$name $({ $($field: _),* })? => stringify!($name),)* }
            }

            pub const fn hint(&self) -> &'static str {
                match self { $(Reason::$name $({ $($field: _),* })? => $hint,)* }
            }
        }
    };
}

pub(crate) use reasons;

#[cfg(test)]
mod tests {
    use crate::{reservation, sequence};

    #[test]
    fn codes_are_unique_and_hinted() {
        for all in [sequence::reason::ALL, reservation::reason::ALL] {
            for (position, described) in all.iter().enumerate() {
                assert!(
                    all[..position].iter().all(|other| other.code != described.code),
                    "{}",
                    described.code
                );
                assert!(!described.hint.is_empty() && !described.meaning.is_empty());
            }
        }
    }
}
