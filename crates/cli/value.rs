use logitchain_core::Chain;

/// A stage as in a list: `min_p{p=0.05,min_keep=0}`.
pub(crate) fn stage(name: &str, params: &toml::Table) -> String {
    let params: Vec<String> =
        params.iter().map(|(param, it)| format!("{param}={}", value(it))).collect();
    match &params[..] {
        [] => name.to_owned(),
        params => format!("{name}{{{}}}", params.join(",")),
    }
}

/// A chain as `--samplers` takes it.
pub(crate) fn list(chain: &Chain) -> String {
    let stages = chain.stages().iter().map(|link| stage(link.name(), link.params()));
    stages.collect::<Vec<_>>().join(";")
}

/// As written in a chain file, in one line, and shorter where nothing is lost:
/// 1 for 1.0.
pub(crate) fn value(value: &toml::Value) -> String {
    match value {
        // So many digits would be too large a whole number.
        toml::Value::Float(number) if number.is_finite() && number.abs() >= 1e15 => {
            format!("{number:e}")
        }
        toml::Value::Float(number) => number.to_string().replace("NaN", "nan"),
        toml::Value::String(text) => quoted(text),
        toml::Value::Array(elements) => {
            format!("[{}]", elements.iter().map(self::value).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn what_is_written_in_one_line_is_read_as_it_was() {
        for toml in [
            r#"["\n\r\t", "\"\\", "\u0000\u001b\u007F\u0085", "é'\u0301"]"#,
            "1e300",
            "-1e15",
            "0.1",
            "inf",
            "-inf",
            "7",
            "true",
            "\"all\"",
        ] {
            let read = |text: &str| -> toml::Table {
                toml::from_str(&format!("x = {text}")).unwrap_or_else(|e| panic!("{text}: {e}"))
            };
            let written = value(&read(toml)["x"]);
            assert!(!written.contains('\n'), "{written}");
            assert_eq!(read(&written), read(toml), "{written}");
        }
        assert_eq!(value(&1.0.into()), "1");
        assert_eq!(value(&"a\nb".into()), r#""a\nb""#);
    }
}
