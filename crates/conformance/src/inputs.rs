//! Logits that samplers have stumbled over, and the parameters to try.

use logitchain_core::{BuildContext, ParamKind, Registration, RngKind};
use serde_json::Value;

use crate::NumberVocab;

/// Logits, and what makes them hard.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) what: &'static str,
    pub(crate) logits: Vec<f32>,
    pub(crate) vocab: NumberVocab,
}

impl Input {
    fn new(what: &'static str, logits: Vec<f32>) -> Self {
        let vocab = vocab(logits.len());
        Self { what, logits, vocab }
    }
}

/// A vocabulary of `n` tokens, one of which ends a generation if there are a few.
pub(crate) fn vocab(n: usize) -> NumberVocab {
    NumberVocab::new(n).ending_generation(if n > 4 { &[2] } else { &[] })
}

/// Numbers that look random and are the same everywhere (a Weyl sequence,
/// scrambled).
#[derive(Debug)]
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    /// Bell-shaped like a model's, about -12 to 12.
    pub(crate) fn logit(&mut self) -> f32 {
        let sum: i64 = (0..4).map(|_| self.below(1 << 16) as i64 - (1 << 15)).sum();
        sum as f32 * (1.0 / 10_922.0)
    }

    pub(crate) fn logits(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.logit()).collect()
    }
}

pub(crate) fn hard_inputs() -> Vec<Input> {
    const MASKED: f32 = f32::NEG_INFINITY;
    let mut noise = Noise(1);
    let mut tied: Vec<f32> = noise.logits(3000).iter().map(|l| (l * 4.0).round() / 4.0).collect();
    for logit in tied.iter_mut().skip(7).step_by(3) {
        *logit = MASKED;
    }
    vec![
        Input::new("one token", vec![0.7]),
        Input::new("all equal", vec![0.25; 5]),
        Input::new("ascending", vec![-3.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 5.0]),
        Input::new("descending", vec![4.0, 3.0, 2.0, 1.0, 0.0, -1.0]),
        Input::new("masked ones", vec![MASKED, 1.0, MASKED, 2.0, MASKED, 0.5, 2.0, MASKED]),
        Input::new("all masked but one", vec![MASKED, MASKED, -2.0, MASKED, MASKED]),
        Input::new("zeros of both signs", vec![-0.0, 0.0, -0.0, 0.0, -1.0]),
        Input::new("large", vec![1e4, -1e4, 9.99e3, 0.0, 88.0, -104.0]),
        // Not up to f32::MAX: a stage that multiplies may overflow there, and the
        // chain then says so.
        Input::new("huge", vec![-1e30, 0.0, 1e29, 1e30, -1e29, 1e-30]),
        Input::new("subnormal", vec![1e-40, -1e-40, 0.0, 1e-38, -1e-38]),
        Input::new(
            "close ties",
            vec![1.0, 1.0 + f32::EPSILON, 1.0 - f32::EPSILON / 2.0, 1.0, 1.0 + f32::EPSILON],
        ),
        Input::new("one far above", [[0.0; 20].as_slice(), &[30.0], &[0.0; 20]].concat()),
        Input::new("300 random", noise.logits(300)),
        Input::new("3000 random, tied and masked", tied),
    ]
}

/// Sets of parameters to try: the given ones and, for every parameter that is a
/// number, a switch or one of several words, values over its range, alone and
/// together with the others'. The defaults of many stages do nothing.
pub(crate) fn variations(stage: &Registration, given: &toml::Table) -> Vec<toml::Table> {
    let schema = stage.schema();
    let mut choices: Vec<(String, Vec<toml::Value>)> = stage
        .params()
        .into_iter()
        .map(|param| {
            let ends = [param.min, param.max].into_iter().flatten();
            let property = schema.get("properties").and_then(|all| all.get(&param.name));
            let mut values: Vec<toml::Value> = match param.kind {
                ParamKind::Number => {
                    let usual = [0.0, 0.01, 0.2, 0.5, 0.9, 1.0, 1.3, 2.0, 5.0, -0.5];
                    ends.chain(usual).map(toml::Value::Float).collect()
                }
                ParamKind::Integer | ParamKind::Mixed => {
                    let usual = [0, 1, 2, 3, 7, 40, -1];
                    // The greatest value of a type can be a size to allocate.
                    let ends = ends.filter(|end| end.abs() < 1e6).map(|end| end as i64);
                    ends.chain(usual).map(toml::Value::Integer).collect()
                }
                ParamKind::Bool => vec![false.into(), true.into()],
                ParamKind::Text | ParamKind::List => Vec::new(),
            };
            if let Some(property) = property {
                words(property, &mut values);
            }
            (param.name, values)
        })
        .collect();

    let vocab = vocab(8);
    let accepted = |params: &toml::Table| {
        stage.build(params, &BuildContext::new(&vocab, RngKind::default(), 1)).is_ok()
    };
    let with = |params: &toml::Table, name: &String, value: &toml::Value| {
        let mut params = params.clone();
        params.insert(name.clone(), value.clone());
        params
    };
    // Only what the stage takes, lest most combinations be refused.
    choices.iter_mut().for_each(|(name, values)| {
        values.retain(|value| accepted(&with(given, name, value)));
    });
    choices.retain(|(_, values)| !values.is_empty());

    let alone = choices
        .iter()
        .flat_map(|(name, values)| values.iter().map(|value| with(given, name, value)));
    let mut noise = Noise(2);
    let together = (0..if choices.len() > 1 { 12 } else { 0 }).map(|_| {
        choices.iter().fold(given.clone(), |params, (name, values)| {
            with(&params, name, &values[noise.below(values.len())])
        })
    });
    let mut all = vec![given.clone()];
    for params in alone.chain(together) {
        if !all.contains(&params) && accepted(&params) {
            all.push(params);
        }
    }
    all
}

/// The words that a schema offers to choose from.
fn words(schema: &Value, found: &mut Vec<toml::Value>) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                match (key.as_str(), value) {
                    ("const", Value::String(word)) => found.push(word.as_str().into()),
                    ("enum", Value::Array(all)) => {
                        found.extend(all.iter().filter_map(Value::as_str).map(toml::Value::from));
                    }
                    _ => words(value, found),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|value| words(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use logitchain_core::{Kind, ParamError, Sampler, Stage};
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::observe::Last;

    #[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Choosy {
        #[schemars(range(min = 0.25, max = 0.75))]
        share: f64,
        order: Order,
        on: bool,
    }

    #[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    enum Order {
        /// The one.
        #[default]
        First,
        /// The other.
        Second,
    }

    impl Stage for Choosy {
        const NAME: &'static str = "choosy";
        const KIND: Kind = Kind::Select;

        fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
            ParamError::check_range("share", self.share, 0.0, 0.75)?;
            Last {}.build(cx)
        }
    }

    #[test]
    fn every_kind_of_parameter_is_varied_within_what_the_stage_accepts() {
        let stage = Registration::of::<Choosy>("this test");
        let all = variations(&stage, &stage.defaults());
        let tried = |name: &str, value: toml::Value| all.iter().any(|p| p[name] == value);
        assert!(tried("share", 0.25.into()) && tried("share", 0.75.into()));
        assert!(!tried("share", 0.9.into()));
        assert!(tried("order", "second".into()));
        assert!(tried("on", true.into()));
        let together = |p: &&toml::Table| p["order"] == "second".into() && p["on"] == true.into();
        assert!(all.iter().any(|p| together(&p)));
    }

    #[test]
    fn inputs_are_logits_that_a_chain_takes() {
        for input in hard_inputs() {
            let fine = input.logits.iter().all(|logit| *logit < f32::INFINITY);
            assert!(fine && input.logits.iter().any(|logit| logit.is_finite()), "{}", input.what);
        }
    }
}
