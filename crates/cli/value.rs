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
