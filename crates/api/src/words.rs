//! Enum fields.

/// An enum whose variants are written in YAML exactly as in Rust.
macro_rules! words {
    ($(#[$on_type:meta])* $name:ident { $($(#[$on_word:meta])* $word:ident),+ $(,)? }) => {
        $(#[$on_type])*
        #[derive(
            schemars::JsonSchema, serde::Serialize, serde::Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
        )]
        pub enum $name { $($(#[$on_word])* $word),+ }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self { $($name::$word => stringify!($word)),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(crate) use words;
