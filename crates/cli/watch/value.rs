//! New values for parameters: by a step, or from what was typed.

use logitchain_core::{Param, ParamKind, Registration};
use toml::Value;

/// The value one step up or down; `None` where a value has no neighbours.
///
/// A step that would leave the range ends at its bound. One that starts there goes
/// beyond, for the stage to object.
pub(crate) fn step(stage: &Registration, param: &Param, value: &Value, up: bool) -> Option<Value> {
    match value {
        Value::Integer(n) => {
            let size = whole_step(*n, up);
            let next = n.checked_add(if up { size } else { -size })?;
            Some(Value::Integer(bounded(param, *n as f64, next as f64) as i64))
        }
        Value::Float(x) => {
            let size = real_step(param, *x, up);
            let next = x + if up { size } else { -size };
            // Without the digits that binary fractions leave behind.
            let next = format!("{:.6}", bounded(param, *x, next)).parse().unwrap_or(next);
            Some(Value::Float(next))
        }
        Value::Boolean(b) => Some(Value::Boolean(!b)),
        Value::String(text) => {
            let all = choices(stage, param);
            let at = all.iter().position(|choice| choice == text)?;
            let next = if up { at + 1 } else { at + all.len() - 1 };
            Some(Value::String(all[next % all.len()].clone()))
        }
        _ => None,
    }
}

/// Above so much, a step is so large.
const WHOLE: [(i64, i64); 5] = [(10_000, 5_000), (1_000, 500), (100, 50), (20, 5), (0, 1)];
const REAL: [(f64, f64); 6] =
    [(100.0, 50.0), (20.0, 5.0), (5.0, 0.5), (1.0, 0.1), (0.1, 0.05), (0.0, 0.01)];

fn whole_step(n: i64, up: bool) -> i64 {
    // Away from zero a bound belongs to what lies beyond it, so that a step back
    // undoes one forth.
    let away = (n >= 0) == up;
    let beyond = |(bound, _): &&(i64, i64)| {
        let n = n.saturating_abs();
        if away { n >= *bound } else { n > *bound }
    };
    WHOLE.iter().find(beyond).map_or(1, |(_, size)| *size)
}

fn real_step(param: &Param, x: f64, up: bool) -> f64 {
    // A probability close to 1 is as fine as one close to 0.
    let from_one = if param.max == Some(1.0) && x > 0.5 { 1.0 - x } else { f64::INFINITY };
    let (x, away) = if from_one < x { (from_one, !up) } else { (x.abs(), (x >= 0.0) == up) };
    // Not to be fooled by the last digit of a difference.
    let beyond = |(bound, _): &&(f64, f64)| {
        if away { x >= *bound - 1e-9 } else { x > *bound + 1e-9 }
    };
    REAL.iter().find(beyond).map_or(0.01, |(_, size)| *size)
}

fn bounded(param: &Param, from: f64, to: f64) -> f64 {
    let low = param.min.filter(|min| from > *min).unwrap_or(f64::NEG_INFINITY);
    let high = param.max.filter(|max| from < *max).unwrap_or(f64::INFINITY);
    to.max(low).min(high)
}

/// The words that a parameter can be, if the stage's schema lists them.
fn choices(stage: &Registration, param: &Param) -> Vec<String> {
    let schema = stage.schema();
    let property = schema.get("properties").and_then(|all| all.get(&param.name));
    let Some(property) = property else { return Vec::new() };
    let listed = property.get("enum").and_then(|all| all.as_array()).into_iter().flatten();
    let described = property.get("oneOf").and_then(|all| all.as_array()).into_iter().flatten();
    let all = listed.chain(described.filter_map(|choice| choice.get("const")));
    all.filter_map(|choice| choice.as_str().map(str::to_owned)).collect()
}

/// The value that was typed: as on the command line, or a list as in a chain file.
pub(crate) fn typed(param: &Param, text: &str) -> Result<Value, String> {
    let text = if param.kind == ParamKind::Text { text } else { text.trim() };
    if param.kind != ParamKind::List || !text.starts_with('[') {
        return Ok(param.parse(text));
    }
    let list = toml::from_str::<toml::Table>(&format!("x = {text}"));
    let list = list.map_err(|error| format!("`{text}` is not a list: {}", error.message()))?;
    list.into_iter().map(|(_, value)| value).next().ok_or_else(|| format!("`{text}` is not a list"))
}

/// The value as it is typed.
pub(crate) fn to_type(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => crate::value::value(value),
    }
}

#[cfg(test)]
mod tests {
    use logitchain_core::Registry;

    use super::*;

    /// The values after some steps from a default.
    fn steps(
        stage: &str,
        nth: usize,
        from: impl Into<Value>,
        up: bool,
        count: usize,
    ) -> Vec<String> {
        let registry = Registry::linked().expect("the built-in stages");
        let stage = registry.get(stage).expect("a stage");
        let param = &stage.params()[nth];
        let next = |value: &Value| step(stage, param, value, up);
        let values = std::iter::successors(next(&from.into()), next).take(count);
        values.map(|value| value.to_string()).collect()
    }

    #[test]
    fn steps_grow_with_the_value_and_one_back_undoes_one_forth() {
        assert_eq!(steps("top_k", 0, 18, true, 4), ["19", "20", "25", "30"]);
        assert_eq!(steps("top_k", 0, 30, false, 4), ["25", "20", "19", "18"]);
        assert_eq!(steps("top_k", 0, 1, false, 3), ["0", "-1", "-2"]);
        assert_eq!(steps("temperature", 0, 0.95, true, 3), ["1.0", "1.1", "1.2"]);
        assert_eq!(steps("temperature", 0, 1.1, false, 3), ["1.0", "0.95", "0.9"]);
        assert_eq!(steps("min_p", 0, 0.09, true, 3), ["0.1", "0.15", "0.2"]);
        assert_eq!(steps("min_p", 0, 0.15, false, 3), ["0.1", "0.09", "0.08"]);
    }

    #[test]
    fn a_probability_is_as_fine_at_one_as_at_zero_and_stops_there() {
        assert_eq!(steps("top_p", 0, 0.8, true, 4), ["0.85", "0.9", "0.91", "0.92"]);
        assert_eq!(steps("top_p", 0, 0.91, false, 3), ["0.9", "0.85", "0.8"]);
        assert_eq!(steps("top_p", 0, 0.995, true, 2), ["1.0", "1.01"]);
        assert_eq!(steps("min_p", 0, 0.015, false, 3), ["0.005", "0.0", "-0.01"]);
    }

    #[test]
    fn words_go_round_and_what_has_no_order_stays() {
        let words = ["\"subtract_first\"", "\"repeat_first\""];
        assert_eq!(steps("penalties", 4, "repeat_first", true, 2), words);
        assert_eq!(steps("penalties", 4, "repeat_first", false, 2), words);
        assert!(steps("penalties", 0, "all", true, 1).is_empty());
        assert!(steps("dry", 4, Value::Array(vec![]), true, 1).is_empty());
    }
}
