//! The format is described at
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::{
    fs::File,
    io::{Read as _, Seek as _},
};

use super::{element::Element, rows::Rows};
use crate::logits_error::LogitsError;

/// What every such file begins with.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// As errors name what has no name.
const NAME: &str = "the array";

/// A header says three things.
const HEADER_LIMIT: u32 = 65_535;

/// Reads the header.
pub(super) fn open(mut file: File) -> Result<Rows, LogitsError> {
    let found = file.metadata()?.len();
    let mut start = [0; 8];
    file.read_exact(&mut start)?;
    let length = match start[6] {
        1 => {
            let mut length = [0; 2];
            file.read_exact(&mut length)?;
            u16::from_le_bytes(length).into()
        }
        2 | 3 => {
            let mut length = [0; 4];
            file.read_exact(&mut length)?;
            u32::from_le_bytes(length)
        }
        other => return Err(broken(format!("version {other} is not known"))),
    };
    if length > HEADER_LIMIT {
        return Err(broken(format!("it is longer than {HEADER_LIMIT} bytes")));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header)?;
    let header = String::from_utf8(header).map_err(|_| broken("it is not UTF-8".to_owned()))?;
    let Header { element, shape } = Header::parse(&header)?;

    let (steps, vocabulary) = Rows::shape(NAME, &shape)?;
    let start = file.stream_position()?;
    let bytes = (steps as u64)
        .checked_mul(vocabulary as u64)
        .and_then(|count| count.checked_mul(element.size() as u64));
    let expected = bytes.and_then(|bytes| bytes.checked_add(start)).unwrap_or(u64::MAX);
    if found != expected {
        return Err(LogitsError::Length { found, expected });
    }
    Ok(Rows { file, start, element, steps, vocabulary })
}

fn broken(problem: String) -> LogitsError {
    LogitsError::Header(problem)
}

#[derive(Debug, PartialEq)]
struct Header {
    element: Element,
    shape: Vec<usize>,
}

impl Header {
    /// Reads a Python dictionary of three entries, as in
    /// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
    fn parse(text: &str) -> Result<Self, LogitsError> {
        let mut literal = Literal { text, rest: text.trim() };
        let (mut descr, mut columns, mut shape) = (None, None, None);
        literal.expect("{")?;
        while !literal.take("}") {
            let key = literal.string()?;
            literal.expect(":")?;
            match key {
                "descr" => descr = Some(literal.string()?),
                "fortran_order" => columns = Some(literal.bool()?),
                "shape" => shape = Some(literal.numbers()?),
                other => return Err(broken(format!("the key `{other}` is not known"))),
            }
            if !literal.take(",") {
                literal.expect("}")?;
                break;
            }
        }
        let missing = |key| broken(format!("the key `{key}` is missing"));
        let descr = descr.ok_or_else(|| missing("descr"))?;
        let shape = shape.ok_or_else(|| missing("shape"))?;
        let element = match descr {
            "<f2" => Element::F16,
            "<f4" => Element::F32,
            "<f8" => Element::F64,
            found => {
                let (name, found) = (NAME.to_owned(), format!("`{found}`"));
                return Err(LogitsError::Type { name, found, expected: "<f2, <f4 and <f8" });
            }
        };
        // With one row or column both orders are the same.
        let both = shape.iter().filter(|&&length| length != 1).count() < 2;
        if columns.ok_or_else(|| missing("fortran_order"))? && !both {
            return Err(LogitsError::Columns);
        }
        Ok(Self { element, shape })
    }
}

/// What is left of a Python literal.
struct Literal<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn take(&mut self, what: &str) -> bool {
        match self.rest.strip_prefix(what) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, what: &str) -> Result<(), LogitsError> {
        if self.take(what) { Ok(()) } else { Err(self.fault(&format!("`{what}`"))) }
    }

    fn fault(&self, expected: &str) -> LogitsError {
        let byte = self.text.trim_end().len() - self.rest.len();
        broken(format!("{expected} should stand at its byte {byte}"))
    }

    fn string(&mut self) -> Result<&'a str, LogitsError> {
        for quote in ['\'', '"'] {
            if let Some((text, rest)) =
                self.rest.strip_prefix(quote).and_then(|rest| rest.split_once(quote))
            {
                self.rest = rest.trim_start();
                return Ok(text);
            }
        }
        Err(self.fault("a word in quotes"))
    }

    fn bool(&mut self) -> Result<bool, LogitsError> {
        if self.take("True") {
            Ok(true)
        } else if self.take("False") {
            Ok(false)
        } else {
            Err(self.fault("`True` or `False`"))
        }
    }

    fn numbers(&mut self) -> Result<Vec<usize>, LogitsError> {
        self.expect("(")?;
        let mut numbers = Vec::new();
        while !self.take(")") {
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let number = self.rest[..end].parse().map_err(|_| self.fault("a length"))?;
            self.rest = self.rest[end..].trim_start();
            numbers.push(number);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Header::parse(text).expect_err("broken").to_string()
    }

    #[test]
    fn a_header_is_a_python_dictionary() {
        // As numpy 2 writes it, but for the number of spaces at the end.
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n";
        let right = Header { element: Element::F32, shape: vec![3, 4] };
        assert_eq!(Header::parse(text).expect("a header"), right);
        let text = "{\"shape\":(7,),\"fortran_order\":True,\"descr\":\"<f2\"}";
        let right = Header { element: Element::F16, shape: vec![7] };
        assert_eq!(Header::parse(text).expect("a header"), right);
    }

    #[test]
    fn broken_headers_are_told_with_their_place() {
        for (text, message) in [
            ("", "`{` should stand at its byte 0"),
            ("{'descr' '<f4'}", "`:` should stand at its byte 9"),
            ("{'descr': '<f4'", "`}` should stand at its byte 15"),
            ("{'shape': (3, x)}", "a length should stand at its byte 14"),
            ("{'shape': (99999999999999999999,)}", "a length should stand at its byte 11"),
            ("{'descr': [('a', '<f4')]}", "a word in quotes should stand at its byte 10"),
            ("{'fortran_order': 0}", "`True` or `False` should stand at its byte 18"),
            ("{'color': 1}", "the key `color` is not known"),
            ("{'descr': '<f4', 'shape': (3,)}", "the key `fortran_order` is missing"),
        ] {
            assert_eq!(error(text), format!("its header is broken: {message}"));
        }
        let columns = "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4)}";
        assert!(error(columns).contains("stored by columns"));
        let big = "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4)}";
        assert_eq!(error(big), "the array is of type `>f4`; right are <f2, <f4 and <f8");
    }
}
