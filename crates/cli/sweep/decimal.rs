use std::fmt;

/// More digits than any setting has; sums and products of such numbers fit.
const MAX_DIGITS: usize = 15;

/// A number as people write it: adding 0.1 ten times makes 1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    /// In units of the last decimal place.
    units: i128,
    /// How many digits stand after the point.
    places: u32,
}

pub(crate) const ONE: Decimal = Decimal { units: 1, places: 0 };

impl Decimal {
    /// `None` for what is no decimal number, such as `1e3`, `nan` and `inf`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let digits = [whole, fraction].concat();
        if digits.is_empty()
            || digits.len() > MAX_DIGITS
            || !digits.bytes().all(|b| b.is_ascii_digit())
        {
            return None;
        }
        let units: i128 = digits.parse().ok()?;
        let units = if negative { -units } else { units };
        Some(Self { units, places: fraction.len() as u32 })
    }

    /// In units of that many places, of which it has no more.
    fn units(self, places: u32) -> i128 {
        self.units * 10_i128.pow(places - self.places)
    }
}

/// `low`, `low + step` and so on, up to `high`, that included where a step hits it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    low: i128,
    step: i128,
    places: u32,
    /// How many numbers there are.
    pub(crate) len: i128,
}

impl Range {
    /// `None` unless `low <= high` and `step > 0`.
    pub(crate) fn new(low: Decimal, high: Decimal, step: Decimal) -> Option<Self> {
        let places = low.places.max(high.places).max(step.places);
        let [first, last, by] = [low, high, step].map(|number| number.units(places));
        (first <= last && by > 0).then(|| {
            // An end with more digits than needed does not show them.
            let shown = low.places.max(step.places);
            let unit = 10_i128.pow(places - shown);
            let len = (last - first) / by + 1;
            Self { low: first / unit, step: by / unit, places: shown, len }
        })
    }

    pub(crate) fn texts(self) -> impl Iterator<Item = String> {
        let Self { low, step, places, len } = self;
        (0..len).map(move |nth| Decimal { units: low + nth * step, places }.to_string())
    }
}

/// With all its places: 2.0.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.units < 0 { "-" } else { "" };
        let unit = 10_u128.pow(self.places);
        let units = self.units.unsigned_abs();
        write!(f, "{sign}{}", units / unit)?;
        match self.places as usize {
            0 => Ok(()),
            places => write!(f, ".{:0places$}", units % unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: &str, high: &str, step: &str) -> Option<Vec<String>> {
        let [low, high, step] = [low, high, step].map(|n| Decimal::parse(n).expect("a number"));
        Range::new(low, high, step).map(|range| range.texts().collect())
    }

    #[test]
    fn both_ends_belong_to_a_range_and_nothing_drifts() {
        let tenths = range("0.1", "1.0", "0.1").expect("a range");
        assert_eq!(tenths, ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]);
        assert_eq!(range("1", "10", "4").expect("a range"), ["1", "5", "9"]);
        assert_eq!(range("-1", ".5", "0.75").expect("a range"), ["-1.00", "-0.25", "0.50"]);
        assert_eq!(range("0.5", "0.50", "2").expect("a range"), ["0.5"]);
        assert_eq!(range("0", "0.999", "0.5").expect("a range"), ["0.0", "0.5"]);
    }

    #[test]
    fn ranges_that_go_nowhere_are_none() {
        for [low, high, step] in [["2", "1", "1"], ["1", "2", "0"], ["1", "2", "-0.5"]] {
            assert_eq!(range(low, high, step), None);
        }
    }

    #[test]
    fn only_decimal_numbers_are_read() {
        for text in ["", "-", ".", "nan", "inf", "1e3", "0x1", "1,5", "--1", " 1", "1_0"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(Decimal::parse(&"9".repeat(MAX_DIGITS + 1)), None);
        assert_eq!(Decimal::parse("-0.05").expect("a number").to_string(), "-0.05");
    }
}
