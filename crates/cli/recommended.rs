//! What a model's maker recommends, in the terms of a chain.

use std::fmt;

use logitchain_engine::RecommendedSampling;
use toml::Value;

/// A recommended value of a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The last part of the key in the model's file.
    pub(crate) key: &'static str,
    /// The stages that have the parameter.
    pub(crate) stages: &'static [&'static str],
    pub(crate) param: &'static str,
    pub(crate) value: Value,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// The values of parameters.
pub(crate) fn settings(recommended: &RecommendedSampling) -> Vec<Setting> {
    const MIROSTATS: &[&str] = &["mirostat", "mirostat_v2"];
    let last_n = recommended.penalty_last_n.map(|n| match n {
        -1 => Value::from("all"),
        n => n.into(),
    });
    let rows: [(&str, &[&str], &str, Option<Value>); 10] = [
        ("top_k", &["top_k"], "k", recommended.top_k.map(Value::from)),
        ("top_p", &["top_p"], "p", recommended.top_p.map(number)),
        ("min_p", &["min_p"], "p", recommended.min_p.map(number)),
        ("xtc_probability", &["xtc"], "probability", recommended.xtc_probability.map(number)),
        ("xtc_threshold", &["xtc"], "threshold", recommended.xtc_threshold.map(number)),
        ("temp", &["temperature"], "t", recommended.temp.map(number)),
        ("penalty_last_n", &["penalties"], "last_n", last_n),
        ("penalty_repeat", &["penalties"], "repeat", recommended.penalty_repeat.map(number)),
        ("mirostat_tau", MIROSTATS, "tau", recommended.mirostat_tau.map(number)),
        ("mirostat_eta", MIROSTATS, "eta", recommended.mirostat_eta.map(number)),
    ];
    let given = |(key, stages, param, value): (_, _, _, Option<Value>)| {
        value.map(|value| Setting { key, stages, param, value })
    };
    rows.into_iter().filter_map(given).collect()
}

/// The shortest number that is the same in 32 bits: 0.8 stays 0.8.
fn number(x: f32) -> Value {
    Value::Float(x.to_string().parse().unwrap_or_else(|_| f64::from(x)))
}

/// The stages that are recommended, if any are: Mirostat comes before a
/// sequence, as in llama.cpp.
pub(crate) fn stages(recommended: &RecommendedSampling) -> Option<(&'static str, String)> {
    match recommended.mirostat {
        Some(1) => Some(("mirostat=1", "temperature;mirostat".to_owned())),
        Some(2) => Some(("mirostat=2", "temperature;mirostat_v2".to_owned())),
        _ => recommended.sequence.clone().map(|sequence| ("sequence", sequence)),
    }
}

/// How messages name what [`stages`] gives.
pub(crate) fn order(key: &str, list: &str) -> String {
    match key {
        "sequence" => format!("sequence={list}"),
        key => key.to_owned(),
    }
}
