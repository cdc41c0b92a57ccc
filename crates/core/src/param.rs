use serde_json::Value;

/// What is known about one parameter of a stage, read from the stage's own
/// description.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// As in chain files.
    pub name: String,
    /// The doc comment.
    pub description: String,
    /// What kind of value it takes.
    pub kind: ParamKind,
    /// The value where a chain gives none.
    pub default: toml::Value,
    /// The least value.
    pub min: Option<f64>,
    /// A bound below all values, itself too small.
    pub above: Option<f64>,
    /// The greatest value.
    pub max: Option<f64>,
    /// Its flags on the command line, without dashes; a flag of one letter is
    /// short. Empty if it has none.
    pub flags: Vec<String>,
}

/// What kind of value a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Bool,
    /// Text.
    Text,
    /// Several values; its flag can be given several times.
    List,
    /// One of several kinds, such as a number or a word.
    Mixed,
}

impl Param {
    /// Other values that the parameter can have, near `value`; none where there
    /// is no telling.
    pub(crate) fn neighbours(&self, value: &toml::Value) -> Vec<toml::Value> {
        let fits = |x: f64| {
            self.min.is_none_or(|min| x >= min)
                && self.above.is_none_or(|above| x > above)
                && self.max.is_none_or(|max| x <= max)
        };
        match value {
            toml::Value::Integer(n) => {
                let near = [n + 1, n - 1, n + 2].into_iter();
                near.filter(|n| fits(*n as f64)).map(toml::Value::Integer).collect()
            }
            toml::Value::Float(x) => {
                let near = [x + 0.1, x - 0.1, x + 1.0, x - 1.0, x + 2.0].into_iter();
                near.filter(|x| fits(*x)).map(toml::Value::Float).collect()
            }
            toml::Value::Boolean(b) => vec![toml::Value::Boolean(!b)],
            _ => Vec::new(),
        }
    }

    /// The value that a text on the command line stands for.
    ///
    /// Only the form is looked at: whether the value is right for the parameter
    /// is for the stage to say when it is built. A list gets one element.
    ///
    /// ```
    /// # use logitchain_core::{Param, ParamKind};
    /// # let param = |kind| Param { name: String::new(), description: String::new(), kind,
    /// #     default: 0.into(), min: None, above: None, max: None, flags: vec![] };
    /// assert_eq!(param(ParamKind::Number).parse("0.5"), 0.5.into());
    /// assert_eq!(param(ParamKind::Mixed).parse("64"), 64.into());
    /// assert_eq!(param(ParamKind::Mixed).parse("all"), "all".into());
    /// assert_eq!(param(ParamKind::Text).parse("64"), "64".into());
    /// ```
    pub fn parse(&self, text: &str) -> toml::Value {
        let string = || toml::Value::from(text);
        match self.kind {
            ParamKind::Text => string(),
            ParamKind::List => toml::Value::Array(vec![string()]),
            ParamKind::Bool => text.parse().map_or_else(|_| string(), toml::Value::Boolean),
            ParamKind::Integer | ParamKind::Number | ParamKind::Mixed => {
                let whole = text.parse().map(toml::Value::Integer);
                let real = || text.parse().map(toml::Value::Float);
                whole.or_else(|_| real()).unwrap_or_else(|_| string())
            }
        }
    }
}

/// The parameters that a stage's schema describes.
pub(crate) fn params(schema: &schemars::Schema, defaults: &toml::Table) -> Vec<Param> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let params = properties.into_iter().flatten().map(|(name, property)| Param {
        name: name.clone(),
        description: description(property),
        kind: kind(property),
        // A parameter that is absent by default has no value in the table.
        default: defaults.get(name).cloned().unwrap_or_else(|| "".into()),
        min: property.get("minimum").and_then(Value::as_f64),
        above: property.get("exclusiveMinimum").and_then(Value::as_f64),
        max: property.get("maximum").and_then(Value::as_f64),
        flags: property
            .get("flags")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|flag| flag.as_str().map(str::to_owned))
            .collect(),
    });
    params.collect()
}

fn kind(property: &Value) -> ParamKind {
    match property.get("type").and_then(Value::as_str) {
        Some("integer") => ParamKind::Integer,
        Some("number") => ParamKind::Number,
        Some("boolean") => ParamKind::Bool,
        Some("string") => ParamKind::Text,
        Some("array") => ParamKind::List,
        _ => ParamKind::Mixed,
    }
}

/// The doc comment behind a schema.
pub(crate) fn description(schema: &Value) -> String {
    schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The first paragraph of the doc comment, in one line.
pub(crate) fn summary(schema: &Value) -> String {
    let text = description(schema);
    text.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is wrong with a value of the wrong type; reads on from the parameter's
/// name. `message` is serde's.
pub(crate) fn problem(param: Option<&Param>, value: &toml::Value, message: &str) -> String {
    let expected = match param.map(|p| (p.kind, p.min)) {
        Some((ParamKind::Integer, Some(min))) if value.as_integer() > Some(u32::MAX.into()) => {
            format!("a whole number from {min} to {}", u32::MAX)
        }
        Some((ParamKind::Integer, Some(min))) => format!("a whole number from {min}"),
        Some((ParamKind::Integer, None)) => "a whole number".to_owned(),
        Some((ParamKind::Number, _)) => "a number".to_owned(),
        Some((ParamKind::Bool, _)) => "true or false".to_owned(),
        Some((ParamKind::Text, _)) => "text in quotes".to_owned(),
        Some((ParamKind::List, _)) if !value.is_array() => "a list in square brackets".to_owned(),
        Some((ParamKind::List, _)) => {
            let message = message.trim().lines().next().unwrap_or_default();
            return format!("cannot be `{value}`: {message}");
        }
        // What these take is known to their own code alone.
        Some((ParamKind::Mixed, _)) | None => {
            let message = message.trim().lines().next().unwrap_or_default();
            match message.split_once(", expected ") {
                Some((_, expected)) => expected.to_owned(),
                None => return format!("cannot be `{value}`: {message}"),
            }
        }
    };
    format!("must be {expected}, got `{value}`")
}
