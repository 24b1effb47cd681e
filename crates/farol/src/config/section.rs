//! Defines a section of the config once: fields, comments and defaults together.

/// A section as the manual shows it.
pub struct Explained {
    pub about: String,
    pub keys: Vec<ExplainedKey>,
}

/// A key as the manual shows it.
pub struct ExplainedKey {
    pub name: &'static str,
    pub about: &'static [&'static str],
    /// The default as TOML.
    pub default: String,
}

/// What the `section!` macro makes of its struct.
pub trait Section {
    const KEYS: &'static [&'static str];
    fn explain() -> Explained;
}

/// Writes a default as a TOML value.
pub fn as_toml<T: serde::Serialize>(value: &T) -> String {
    // Every value type of the config is a string, number, flag or list, all of which TOML can hold.
    toml::Value::try_from(value).map(|value| value.to_string()).unwrap_or_default()
}

/// Defines a config section; see [`Section`].
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        $name:ident {
            $( $(#[doc = $doc:literal])* $field:ident : $type:ty = $default:expr ),* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $( $(#[doc = $doc])* pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: $default, )* }
            }
        }

        impl Section for $name {
            const KEYS: &'static [&'static str] = &[ $( stringify!($field), )* ];

            fn explain() -> Explained {
                let default = $name::default();
                Explained {
                    about: [$( $about.trim(), )*].join(" "),
                    keys: vec![ $( section::ExplainedKey {
                        name: stringify!($field),
                        about: &[$( $doc, )*],
                        default: section::as_toml(&default.$field),
                    }, )* ],
                }
            }
        }
    };
}
pub(crate) use section;
