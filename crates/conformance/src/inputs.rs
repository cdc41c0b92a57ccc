//! Logits that samplers have stumbled over, and the parameters to try.

use logitchain_core::{BuildContext, ParamKind, Registration, RngKind};

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
/// number or a switch, values over its range, alone and together with the
/// others'. The defaults of many stages do nothing.
pub(crate) fn variations(stage: &Registration, given: &toml::Table) -> Vec<toml::Table> {
    let choices: Vec<(String, Vec<toml::Value>)> = stage
        .params()
        .into_iter()
        .map(|param| {
            let ends = [param.min, param.max].into_iter().flatten();
            let values: Vec<toml::Value> = match param.kind {
                ParamKind::Number => {
                    let usual = [0.0, 0.01, 0.2, 0.5, 0.9, 1.0, 1.3, 2.0, 5.0, -0.5];
                    ends.chain(usual).map(toml::Value::Float).collect()
                }
                ParamKind::Integer => {
                    let usual = [0, 1, 2, 3, 7, 40, -1];
                    // The greatest value of a type can be a size to allocate.
                    let ends = ends.filter(|end| end.abs() < 1e6).map(|end| end as i64);
                    ends.chain(usual).map(toml::Value::Integer).collect()
                }
                ParamKind::Bool => vec![false.into(), true.into()],
                ParamKind::Text | ParamKind::List | ParamKind::Mixed => Vec::new(),
            };
            (param.name, values)
        })
        .filter(|(_, values)| !values.is_empty())
        .collect();

    let mut all = vec![given.clone()];
    let mut add = |params: toml::Table| {
        let vocab = vocab(8);
        let cx = BuildContext::new(&vocab, RngKind::default(), 1);
        if !all.contains(&params) && stage.build(&params, &cx).is_ok() {
            all.push(params);
        }
    };
    for (name, values) in &choices {
        for value in values {
            let mut params = given.clone();
            params.insert(name.clone(), value.clone());
            add(params);
        }
    }
    let mut noise = Noise(2);
    for _ in 0..if choices.len() > 1 { 12 } else { 0 } {
        let mut params = given.clone();
        for (name, values) in &choices {
            params.insert(name.clone(), values[noise.below(values.len())].clone());
        }
        add(params);
    }
    all
}
