/// A stage as in a list: `min_p{p=0.05,min_keep=0}`.
pub(crate) fn stage(name: &str, params: &toml::Table) -> String {
    let params: Vec<String> =
        params.iter().map(|(param, it)| format!("{param}={}", value(it))).collect();
    match &params[..] {
        [] => name.to_owned(),
        params => format!("{name}{{{}}}", params.join(",")),
    }
}

/// As written in a chain file, in one line, and shorter where nothing is lost:
/// 1 for 1.0.
pub(crate) fn value(value: &toml::Value) -> String {
    match value {
        toml::Value::Float(number) => number.to_string(),
        toml::Value::String(text) => format!("{text:?}"),
        toml::Value::Array(elements) => {
            format!("[{}]", elements.iter().map(self::value).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}
