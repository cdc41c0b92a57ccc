use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, register_stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keep the most likely tokens whose probabilities reach a sum of `p`.
///
/// The token with which the sum reaches `p` stays, so the kept mass is never
/// below it (nucleus sampling, Holtzman et al., 2020).
///
/// # Precision
///
/// A sum that would equal `p` exactly comes out a rounding above or below it,
/// and the next token then stays or goes: choose `p` off the boundary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TopP {
    /// The sum to reach; 1 is off.
    #[schemars(range(min = 0.0, max = 1.0), extend("flags" = ["top-p"]))]
    pub p: f64,
    /// Keep at least so many tokens.
    pub min_keep: u32,
}

register_stage!(TopP);

impl Default for TopP {
    fn default() -> Self {
        Self { p: 0.95, min_keep: 0 }
    }
}

impl Stage for TopP {
    const NAME: &'static str = "top_p";
    const KIND: Kind = Kind::Filter;
    const ALIASES: &'static [&'static str] = &["nucleus"];
    const LETTER: Option<char> = Some('p');

    fn neutral() -> Option<Self> {
        Some(Self { p: 1.0, min_keep: 0 })
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
        candidates.keep_nucleus(self.p, self.min_keep);
    }
}
