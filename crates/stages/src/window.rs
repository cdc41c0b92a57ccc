use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How many of the most recent tokens a stage looks at, prompt included.
///
/// A number from 0, where 0 looks at none, or `"all"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The last so many tokens.
    Last(u32),
    /// The whole text.
    All,
}

impl Window {
    /// Whether no token is ever in the window.
    pub fn is_empty(self) -> bool {
        self == Self::Last(0)
    }

    /// Whether a window that holds `len` tokens must give one up for the next.
    pub(crate) fn is_full(self, len: usize) -> bool {
        matches!(self, Self::Last(n) if len >= n as usize)
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Last(n) => serializer.serialize_u32(*n),
            Self::All => serializer.serialize_str("all"),
        }
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Window;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "a number of tokens from 0 to {}, or \"all\" for the whole text",
                    u32::MAX
                )
            }

            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Window, E> {
                let wrong = || E::invalid_value(de::Unexpected::Signed(n), &self);
                u32::try_from(n).map(Window::Last).map_err(|_| wrong())
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Window, E> {
                let wrong = || E::invalid_value(de::Unexpected::Unsigned(n), &self);
                u32::try_from(n).map(Window::Last).map_err(|_| wrong())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Window, E> {
                match text {
                    "all" => Ok(Window::All),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Window {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Window".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "const": "all" }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_full_when_the_next_token_must_push_one_out() {
        assert!(!Window::Last(2).is_full(1));
        assert!(Window::Last(2).is_full(2));
        assert!(!Window::All.is_full(usize::MAX));
    }

    #[test]
    fn only_a_window_of_no_tokens_is_empty() {
        assert!(Window::Last(0).is_empty());
        assert!(!Window::Last(1).is_empty());
        assert!(!Window::All.is_empty());
    }
}
