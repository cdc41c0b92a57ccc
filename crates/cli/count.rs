use std::num::NonZero;

/// A number on the command line of what is counted from 1.
pub(crate) fn count(text: &str) -> Result<NonZero<usize>, &'static str> {
    text.parse().map_err(|_| "write a whole number from 1")
}
