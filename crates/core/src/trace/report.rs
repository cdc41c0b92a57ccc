use serde::Serialize;

use super::{Coin, Cut, Draw, Snapshot, StageTrace, Trace, TracedToken};
use crate::{Kind, TokenId, Vocab};

/// A [`Trace`] as data to print or to write as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceReport {
    /// How many logits the model gave.
    pub vocabulary: usize,
    /// How many tokens were masked from the start.
    pub masked: usize,
    /// The stages, up to the one with which the chain failed, if it did.
    pub stages: Vec<StageReport>,
    /// The draw, if there was one.
    pub draw: Option<Draw>,
    /// The token.
    pub token: Option<TokenReport>,
    /// Why there is none.
    pub error: Option<String>,
}

/// What one stage did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageReport {
    /// In the chain, from 1.
    pub position: usize,
    /// In chain files.
    pub name: &'static str,
    /// In a printed chain.
    pub label: String,
    /// What it may do.
    pub kind: Kind,
    /// All parameters.
    pub params: toml::Table,
    /// Whether they make the stage do nothing: it was not run.
    pub neutral: bool,
    /// The rule by which it dropped tokens, with its threshold.
    pub cut: Option<Cut>,
    /// By what it divided all logits.
    pub temperature: Option<f32>,
    /// The coins that it tossed.
    pub coins: Vec<Coin>,
    /// The candidates before it.
    pub before: CandidatesReport,
    /// The candidates after it.
    pub after: CandidatesReport,
    /// How many tokens it removed.
    pub removed_count: usize,
    /// How probable these were together, before it.
    pub removed_mass: f64,
    /// The most likely of these, with what they were before it.
    pub removed: Vec<TokenReport>,
    /// How many logits it rewrote.
    pub changed_count: usize,
    /// Those of the tokens that are most likely now, most likely first.
    pub changed: Vec<ChangeReport>,
}

/// The candidates at one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CandidatesReport {
    /// How many there are.
    pub count: usize,
    /// Of their probabilities, in bits.
    pub entropy: f64,
    /// The most likely, most likely first.
    pub top: Vec<TokenReport>,
}

/// A token at one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenReport {
    /// Which.
    pub id: TokenId,
    /// What it says, if a vocabulary knows it. What is no whole UTF-8 character
    /// reads `\u{FFFD}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its logit.
    pub logit: f32,
    /// Its probability among the candidates.
    pub probability: f64,
}

/// A token whose logit a stage rewrote.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeReport {
    /// Before.
    pub before: f32,
    /// What it is now.
    #[serde(flatten)]
    pub now: TokenReport,
}

impl Trace {
    /// All of it as data, with up to `top` tokens wherever tokens are listed, and
    /// with their texts as far as `vocab` has them.
    pub fn report(&self, top: usize, vocab: &dyn Vocab) -> TraceReport {
        let reporter = Reporter { top, vocab };
        let token = self.outcome().as_ref().ok().and_then(|token| {
            let end = self.draw().map_or(self.end(), Draw::candidates);
            end.get(*token).map(|token| reporter.token(token))
        });
        TraceReport {
            vocabulary: self.vocabulary(),
            masked: self.vocabulary() - self.start().len(),
            stages: self.stages().iter().map(|stage| reporter.stage(stage)).collect(),
            draw: self.draw().cloned(),
            token,
            error: self.outcome().as_ref().err().map(ToString::to_string),
        }
    }
}

struct Reporter<'a> {
    top: usize,
    vocab: &'a dyn Vocab,
}

impl Reporter<'_> {
    fn token(&self, TracedToken { id, logit, probability }: TracedToken) -> TokenReport {
        let known = id.index() < self.vocab.size();
        let text = known.then(|| String::from_utf8_lossy(self.vocab.bytes(id)).into_owned());
        TokenReport { id, text, logit, probability }
    }

    fn candidates(&self, all: &Snapshot) -> CandidatesReport {
        let top = all.top(self.top).into_iter().map(|token| self.token(token)).collect();
        CandidatesReport { count: all.len(), entropy: all.entropy(), top }
    }

    fn stage(&self, stage: &StageTrace) -> StageReport {
        let removed = stage.removed();
        let mut changed: Vec<_> = stage
            .changed()
            .into_iter()
            .filter_map(|change| Some((change.before, stage.after().get(change.id)?)))
            .collect();
        changed.sort_by(|(_, a), (_, b)| b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id)));
        let changed_count = changed.len();
        changed.truncate(self.top);
        StageReport {
            position: stage.place().position,
            name: stage.place().name,
            label: stage.label().to_owned(),
            kind: stage.kind(),
            params: stage.params().clone(),
            neutral: stage.is_neutral(),
            cut: stage.cut(),
            temperature: stage.temperature(),
            coins: stage.coins().to_vec(),
            before: self.candidates(stage.before()),
            after: self.candidates(stage.after()),
            removed_count: removed.len(),
            removed_mass: removed.iter().map(|token| token.probability).sum(),
            removed: removed.into_iter().take(self.top).map(|token| self.token(token)).collect(),
            changed_count,
            changed: changed
                .into_iter()
                .map(|(before, now)| ChangeReport { before, now: self.token(now) })
                .collect(),
        }
    }
}
