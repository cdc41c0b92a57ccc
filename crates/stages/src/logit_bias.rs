use std::{collections::HashMap, fmt, str::FromStr, sync::Arc};

use foldhash::fast::FixedState;
use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Stage, TokenId, register_stage,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Add a number to the logits of chosen tokens.
///
/// The biases are added to the logits as they come, so what stands before the
/// stage decides on what; llama.cpp puts it first, on the raw logits. A bias of
/// -inf bans the token; a finite one, be it -100, is only added. Several biases
/// on one token add up.
///
/// llama.cpp lets a bias on a token outside the vocabulary pass without effect;
/// here it is an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogitBias {
    /// Token and bias, such as `15043+1.5`, `15043-1.5` or `15043-inf`.
    ///
    /// In files and braces, where these are texts in quotes, a pair such as
    /// `[15043, -1.5]` does as well; `false` in it stands for -inf.
    #[schemars(extend("flags" = ["logit-bias", "l"]))]
    pub bias: Vec<Bias>,
}

/// What to add to the logit of which token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bias {
    /// The token.
    pub token: TokenId,
    /// What to add: a finite number, or -inf for a ban.
    pub bias: f64,
}

/// A text that is not a token and a bias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BiasError(String);

impl std::error::Error for BiasError {}

impl fmt::Display for BiasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "`{text}` is not a bias: write a token id from 0 to {}, a sign, and a finite ",
            u32::MAX
        )?;
        f.write_str("number or `inf` after `-`, as in `15043+1.5` or `15043-inf`")
    }
}

impl FromStr for Bias {
    type Err = BiasError;

    fn from_str(text: &str) -> Result<Self, BiasError> {
        let wrong = || BiasError(text.to_owned());
        let sign = text.find(['+', '-']).ok_or_else(wrong)?;
        let (id, number) = (&text[..sign], &text[sign + 1..]);
        let digits = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
        if !digits(id) || !(digits(number) || number == "inf") {
            return Err(wrong());
        }
        let token = TokenId(id.parse().map_err(|_| wrong())?);
        let size: f64 = number.parse().map_err(|_| wrong())?;
        let bias = if text[sign..].starts_with('-') { -size } else { size };
        Self::checked(token, bias).ok_or_else(wrong)
    }
}

impl Bias {
    fn checked(token: TokenId, bias: f64) -> Option<Self> {
        let fine = (bias as f32).is_finite() || bias == f64::NEG_INFINITY;
        fine.then_some(Self { token, bias })
    }
}

impl fmt::Display for Bias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:+}", self.token, self.bias)
    }
}

impl Serialize for Bias {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bias {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Number {
            Whole(i64),
            Real(f64),
            Allowed(bool),
        }

        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Bias;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a bias such as \"15043+1.5\", \"15043-inf\" or [15043, -1.5]")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bias, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut pair: A) -> Result<Bias, A::Error> {
                let missing = |n| de::Error::invalid_length(n, &self);
                let id = match pair.next_element()?.ok_or_else(|| missing(0))? {
                    Number::Whole(id) => u32::try_from(id).ok(),
                    _ => None,
                };
                let token = TokenId(id.ok_or_else(|| {
                    de::Error::custom(format!(
                        "a token id is a whole number from 0 to {}",
                        u32::MAX
                    ))
                })?);
                let bias = match pair.next_element()?.ok_or_else(|| missing(1))? {
                    Number::Whole(bias) => bias as f64,
                    Number::Real(bias) => bias,
                    Number::Allowed(false) => f64::NEG_INFINITY,
                    Number::Allowed(true) => {
                        return Err(de::Error::custom(format!(
                            "`true` is no bias for token {token}: write a number, or `false` to ban it"
                        )));
                    }
                };
                if pair.next_element::<de::IgnoredAny>()?.is_some() {
                    return Err(missing(3));
                }
                Bias::checked(token, bias).ok_or_else(|| {
                    de::Error::custom(format!(
                        "a bias of {bias} for token {token} is neither a finite number nor -inf"
                    ))
                })
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Bias {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bias".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "pattern": "^[0-9]+[+-]([0-9].*|inf)$" },
            { "type": "array", "prefixItems": [{ "type": "integer", "minimum": 0 }, { "type": ["number", "boolean"] }], "minItems": 2, "maxItems": 2 },
        ] })
    }
}

register_stage!(LogitBias);

impl Stage for LogitBias {
    const NAME: &'static str = "logit_bias";
    const KIND: Kind = Kind::Penalty;

    fn neutral() -> Option<Self> {
        Some(Self::default())
    }

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        let size = cx.vocab().size();
        for &Bias { token, bias } in &self.bias {
            if size > 0 && token.index() >= size {
                let last = size - 1;
                let problem = format!("names token {token}, but the vocabulary ends at {last}");
                return Err(ParamError::new("bias", problem));
            }
            if Bias::checked(token, bias).is_none() {
                let problem = format!("of token {token} must be finite or -inf, got {bias}");
                return Err(ParamError::new("bias", problem));
            }
        }
        let mut bias = HashMap::<_, Vec<f32>, FixedState>::default();
        for b in &self.bias {
            bias.entry(b.token).or_default().push(b.bias as f32);
        }
        Ok(Box::new(Running { bias: Arc::new(bias) }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    /// What is added to each token's logit, one after the other.
    bias: Arc<HashMap<TokenId, Vec<f32>, FixedState>>,
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        candidates.adjust(&*self.bias, |logit, bias| bias.iter().fold(logit, |sum, b| sum + b));
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{Trial, assert_laws_of, assert_stage_laws};

    use super::*;

    fn stage(biases: &[&str]) -> LogitBias {
        LogitBias { bias: biases.iter().map(|text| text.parse().expect("a bias")).collect() }
    }

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<LogitBias>();
        assert_laws_of(|| stage(&["0+1.5", "3-inf"]));
    }

    #[test]
    fn biases_are_added() {
        let trial = || Trial::of(stage(&["0-1.5", "2+0.25", "2+1"]));
        assert_eq!(trial().logits(&[1.0, 0.0, 0.5]), [(2, 1.75), (1, 0.0), (0, -0.5)]);
    }

    #[test]
    fn minus_infinity_bans() {
        assert_eq!(Trial::of(stage(&["1-inf"])).survivors(&[0.1, 0.8, 0.1]), [0, 2]);
    }

    #[test]
    fn a_bias_prints_as_it_is_read() {
        for text in ["15043+1.5", "15043-1.5", "15043-inf", "0+0"] {
            assert_eq!(text.parse::<Bias>().expect("a bias").to_string(), text);
        }
        for text in ["", "+1", "1", "1+", "1+-1", "1 +1", "1+inf", "1-nan", "1+1e39", "1.0+1"] {
            assert_eq!(text.parse::<Bias>(), Err(BiasError(text.to_owned())));
        }
    }
}
