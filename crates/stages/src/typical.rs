use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, register_stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keep the tokens whose surprise is closest to what is expected.
///
/// Tokens are ranked by how far their surprise, -ln p, lies from the entropy,
/// and the first ones whose probabilities reach a sum of `p` stay (Meister et
/// al., 2022). The most likely token can be dropped.
///
/// llama.cpp gets a NaN for the entropy where a token has probability 0, and
/// then keeps an arbitrary set; here such a token counts nothing. Where the sum
/// equals `p` exactly llama.cpp keeps one token more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Typical {
    /// The sum to reach; 1 is off.
    #[schemars(range(min = 0.0, max = 1.0), extend("flags" = ["typical", "typical-p"]))]
    pub p: f64,
    /// Keep at least so many tokens.
    pub min_keep: u32,
}

register_stage!(Typical);

impl Default for Typical {
    fn default() -> Self {
        Self { p: 1.0, min_keep: 0 }
    }
}

impl Stage for Typical {
    const NAME: &'static str = "typical";
    const KIND: Kind = Kind::Filter;
    const ALIASES: &'static [&'static str] = &["typ_p", "typ", "typical_p"];
    const LETTER: Option<char> = Some('y');

    fn neutral() -> Option<Self> {
        Some(Self::default())
    }

    fn is_neutral(&self) -> bool {
        self.p >= 1.0
    }

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_range("p", self.p, 0.0, 1.0)?;
        Ok(Box::new(Running { p: f64::from(self.p as f32), min_keep: self.min_keep as usize }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    p: f64,
    min_keep: usize,
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        let entropy = candidates.entropy();
        // A probability of 0 is infinitely surprising, so it comes last.
        candidates.keep_lowest(|p| (-libm::log(p) - entropy).abs(), self.p, self.min_keep);
    }
}
