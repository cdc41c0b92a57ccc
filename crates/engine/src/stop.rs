use std::mem;

use crate::EngineError;

/// Texts that end a generation, looked for byte by byte.
///
/// The stop that is complete first ends the text, as if it came one byte at a
/// time: how the bytes are cut into tokens never changes the result. Of several
/// that end at the same byte the longest counts. Bytes that may turn out to be
/// part of a stop are held back, and no others.
///
/// ```
/// # use logitchain_engine::StopStrings;
/// let mut stops = StopStrings::new(["\nUser:"])?;
/// assert_eq!(stops.push(b"Hi\nUs"), (b"Hi".to_vec(), None));
/// assert_eq!(stops.push(b"ers\nUs"), (b"\nUsers".to_vec(), None));
/// assert_eq!(stops.finish(), b"\nUs");
/// # Ok::<(), logitchain_engine::EngineError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopStrings {
    stops: Vec<Stop>,
    held: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Stop {
    text: String,
    // For each prefix of the text, how long its longest border is: a prefix of
    // it that is also its end (Knuth, Morris and Pratt).
    borders: Vec<usize>,
    matched: usize,
}

impl Stop {
    fn new(text: String) -> Self {
        let bytes = text.as_bytes();
        let mut borders = vec![0; bytes.len()];
        for end in 1..bytes.len() {
            let mut border = borders[end - 1];
            while border > 0 && bytes[border] != bytes[end] {
                border = borders[border - 1];
            }
            borders[end] = border + usize::from(bytes[border] == bytes[end]);
        }
        Self { text, borders, matched: 0 }
    }

    /// Takes the next byte; whether the stop is now complete.
    fn advance(&mut self, byte: u8) -> bool {
        let bytes = self.text.as_bytes();
        while self.matched > 0 && bytes[self.matched] != byte {
            self.matched = self.borders[self.matched - 1];
        }
        self.matched += usize::from(bytes[self.matched] == byte);
        self.matched == bytes.len()
    }
}

impl StopStrings {
    /// Looks for any of these texts; for none, if there are none.
    ///
    /// # Errors
    ///
    /// If one is empty: it would end every text before it begins.
    pub fn new<S: Into<String>>(stops: impl IntoIterator<Item = S>) -> Result<Self, EngineError> {
        let stops = stops.into_iter().map(|text| match text.into() {
            text if text.is_empty() => Err(EngineError::EmptyStop),
            text => Ok(Stop::new(text)),
        });
        Ok(Self { stops: stops.collect::<Result<_, _>>()?, held: Vec::new() })
    }

    /// The text of a stop.
    ///
    /// # Panics
    ///
    /// If there are not so many stops.
    pub fn text(&self, stop: usize) -> &str {
        &self.stops[stop].text
    }

    /// Takes the next bytes, and gives those that no stop can contain any more.
    /// If a stop was found (its position in the list), those are the bytes
    /// before it, and what followed it is forgotten.
    pub fn push(&mut self, bytes: &[u8]) -> (Vec<u8>, Option<usize>) {
        let mut passed = mem::take(&mut self.held);
        for &byte in bytes {
            passed.push(byte);
            let mut found: Option<(usize, usize)> = None;
            for (index, stop) in self.stops.iter_mut().enumerate() {
                let len = stop.text.len();
                if stop.advance(byte) && found.is_none_or(|(_, longest)| longest < len) {
                    found = Some((index, len));
                }
            }
            if let Some((index, len)) = found {
                // All of the stop is here: it was held back as it came.
                passed.truncate(passed.len() - len);
                self.forget();
                return (passed, Some(index));
            }
        }
        let held = self.stops.iter().map(|stop| stop.matched).max().unwrap_or(0);
        self.held = passed.split_off(passed.len() - held);
        (passed, None)
    }

    /// Ends the text, and gives what was held back.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = mem::take(&mut self.held);
        self.forget();
        held
    }

    fn forget(&mut self) {
        for stop in &mut self.stops {
            stop.matched = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::StopStrings;

    /// What is shown, piece by piece, and the stop that ended it.
    fn stream(stops: &[&str], pieces: &[&str]) -> (Vec<String>, Option<String>) {
        let mut stops = StopStrings::new(stops.iter().copied()).unwrap();
        let mut shown = Vec::new();
        for piece in pieces {
            let (bytes, found) = stops.push(piece.as_bytes());
            shown.push(String::from_utf8(bytes).unwrap());
            if let Some(stop) = found {
                return (shown, Some(stops.text(stop).to_owned()));
            }
        }
        shown.push(String::from_utf8(stops.finish()).unwrap());
        (shown, None)
    }

    /// The rule itself, over a whole text.
    fn naive<'t>(stops: &[String], text: &'t str) -> (&'t str, Option<usize>) {
        for end in 1..=text.len() {
            let ends = |stop: &String| text.as_bytes()[..end].ends_with(stop.as_bytes());
            let longest = stops.iter().enumerate().filter(|(_, stop)| ends(stop)).rev();
            if let Some((index, stop)) = longest.max_by_key(|(_, stop)| stop.len()) {
                return (&text[..end - stop.len()], Some(index));
            }
        }
        (text, None)
    }

    #[test]
    fn a_stop_split_over_tokens_is_found_and_no_part_of_it_is_shown() {
        let (shown, stop) = stream(&["\nUser:"], &["Hi", "\nUs", "er", ":", " x"]);
        assert_eq!(shown, ["Hi", "", "", ""]);
        assert_eq!(stop.as_deref(), Some("\nUser:"));
    }

    #[test]
    fn what_was_held_back_is_given_out_at_the_end() {
        let (shown, stop) = stream(&["TRE\nA"], &["UNO", " DUE", " TR", "E"]);
        assert_eq!((shown.concat().as_str(), stop), ("UNO DUE TRE", None));
        assert_eq!(shown, ["UNO", " DUE", " ", "", "TRE"]);
    }

    #[test]
    fn a_stop_that_overlaps_itself_is_found() {
        assert_eq!(stream(&["ab"], &["aab"]).0, ["a"]);
        assert_eq!(stream(&["ab"], &["a", "a", "b"]).0, ["", "a", ""]);
        assert_eq!(stream(&["aab"], &["aaab"]).0, ["a"]);
        assert_eq!(stream(&["abac"], &["ababac"]).0, ["ab"]);
    }

    #[test]
    fn a_partial_stop_does_not_end_the_text() {
        let (shown, stop) = stream(&[">>>>>>> UPDATED"], &[">>>>>>> UPD", "ONE"]);
        assert_eq!((shown.concat().as_str(), stop), (">>>>>>> UPDONE", None));
    }

    #[test]
    fn an_empty_stop_is_refused() {
        let error = StopStrings::new(["a", ""]).unwrap_err();
        assert!(error.to_string().contains("stop string is empty"), "{error}");
    }

    #[test]
    fn no_stops_are_none_and_long_or_many_stops_work() {
        assert_eq!(stream(&[], &["a", "b"]), (vec!["a".into(), "b".into(), "".into()], None));
        let long = "ab".repeat(5000) + "c";
        let many: Vec<String> = (0..100).map(|n| format!("stop {n}!")).collect();
        let mut stops: Vec<&str> = many.iter().map(String::as_str).collect();
        stops.push(&long);
        let text = format!("abab{long}");
        let (shown, stop) = stream(&stops, &[&text[..3], &text[3..7000], &text[7000..]]);
        assert_eq!((shown.concat().as_str(), stop), ("abab", Some(long.clone())));
        let (shown, stop) = stream(&stops, &["stop 1", "00 sto", "p 99!"]);
        assert_eq!((shown.concat().as_str(), stop.as_deref()), ("stop 100 ", Some("stop 99!")));
    }

    #[test]
    fn of_several_stops_the_first_to_be_complete_ends_the_text() {
        for stops in [["HALT", "END"], ["END", "HALT"]] {
            let (shown, stop) = stream(&stops, &["abcENDdefHALT"]);
            assert_eq!((shown.concat().as_str(), stop.as_deref()), ("abc", Some("END")));
        }
        for pieces in [&["abcd"] as &[&str], &["a", "b", "c", "d"], &["ab", "cd"]] {
            let (shown, stop) = stream(&["bcd", "c"], pieces);
            assert_eq!((shown.concat().as_str(), stop.as_deref()), ("ab", Some("c")));
        }
    }

    #[test]
    fn of_stops_that_end_together_the_longest_counts() {
        for stops in [["c", "bc"], ["bc", "c"]] {
            let (shown, stop) = stream(&stops, &["abc"]);
            assert_eq!((shown.concat().as_str(), stop.as_deref()), ("a", Some("bc")));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn cuts_do_not_change_what_is_shown(
            text in "[ab\u{e9}]{0,24}",
            stops in prop::collection::vec("[ab\u{e9}]{1,4}", 0..4),
            cuts in prop::collection::vec(any::<bool>(), 48),
        ) {
            let (expected, expected_stop) = naive(&stops, &text);
            let longest = stops.iter().map(String::len).max().unwrap_or(1);
            let mut matcher = StopStrings::new(stops.clone()).unwrap();
            let (mut shown, mut found, mut piece) = (Vec::new(), None, Vec::new());
            for (&byte, &cut) in text.as_bytes().iter().zip(&cuts) {
                piece.push(byte);
                if cut && found.is_none() {
                    let (bytes, stop) = matcher.push(&piece);
                    shown.extend(bytes);
                    found = stop;
                    piece.clear();
                    prop_assert!(matcher.held.len() < longest);
                    let sofar = [shown.as_slice(), &matcher.held].concat();
                    if found.is_none() {
                        // Exactly the longest end that could become a stop.
                        let held = (1..longest).rev().find(|&len| {
                            sofar.len() >= len && stops.iter().any(|stop| {
                                let end = &sofar[sofar.len() - len..];
                                len < stop.len() && stop.as_bytes().starts_with(end)
                            })
                        });
                        prop_assert_eq!(matcher.held.len(), held.unwrap_or(0));
                    }
                }
            }
            if found.is_none() {
                let (bytes, stop) = matcher.push(&piece);
                shown.extend(bytes);
                found = stop;
            }
            if found.is_none() {
                shown.extend(matcher.finish());
            }
            prop_assert_eq!(shown, expected.as_bytes());
            prop_assert_eq!(
                found.map(|stop| &stops[stop]),
                expected_stop.map(|stop| &stops[stop])
            );
        }
    }
}
