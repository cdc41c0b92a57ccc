use logitchain_core::{Parting, RunDiff, Spread, TokenId, Vocab};
use serde::Serialize;

use super::one::bits;
use crate::{
    table::{Align, Table, percent},
    token_text::{named, plain},
};

/// Two chains over a text.
pub(super) struct Many<'a> {
    pub(super) a: String,
    pub(super) b: String,
    pub(super) diff: RunDiff,
    pub(super) parted: Option<Parted>,
    pub(super) vocab: &'a dyn Vocab,
}

/// Where two chains would go on differently.
pub(super) struct Parted {
    pub(super) at: Parting,
    /// All tokens up to there that are known.
    pub(super) before: Vec<TokenId>,
}

#[derive(Serialize)]
struct Report<'a> {
    chain_a: &'a str,
    chain_b: &'a str,
    diff: &'a RunDiff,
    parting: Option<PartingReport>,
}

#[derive(Serialize)]
struct PartingReport {
    /// From 1.
    step: usize,
    token_a: TokenId,
    text_a: Option<String>,
    token_b: TokenId,
    text_b: Option<String>,
    /// The text up to there, prompt included.
    before: Option<String>,
}

impl Many<'_> {
    pub(super) fn json(&self) -> String {
        let parting = self.parted.as_ref().map(|parted| PartingReport {
            step: parted.at.step + 1,
            token_a: parted.at.a,
            text_a: plain(self.vocab, parted.at.a),
            token_b: parted.at.b,
            text_b: plain(self.vocab, parted.at.b),
            before: self.before(parted),
        });
        // Once, with what the program knows of it.
        let diff = &RunDiff { parts_at: None, ..self.diff.clone() };
        let report = Report { chain_a: &self.a, chain_b: &self.b, diff, parting };
        let json = serde_json::to_string(&report).expect("numbers, texts and lists are JSON");
        json + "\n"
    }

    /// With escape sequences for styles.
    pub(super) fn table(&self) -> String {
        let diff = &self.diff;
        let head = |text: &str| (Align::Right, text.to_owned());
        let steps = format!("{} steps", diff.steps);
        let mut table = Table::new(vec![(Align::Left, steps), head("mean"), head("most")]);
        let mut row = |what: &str, Spread { mean, max }: Spread| {
            table.row(vec![what.into(), bits(mean).into(), bits(max).into()]);
        };
        row("total variation", diff.total_variation);
        row("KL(A, B), bits", diff.kl_ab);
        row("KL(B, A), bits", diff.kl_ba);
        row("Jensen-Shannon, bits", diff.jensen_shannon);
        row("entropy of A, bits", diff.entropy_a);
        row("entropy of B, bits", diff.entropy_b);
        let mut text = table.render();
        text += &format!(
            "\nthe most likely token differs in {} of the steps, the kept tokens in {}\n",
            percent(diff.best_differs),
            percent(diff.kept_differs)
        );
        match &self.parted {
            None => text += "both draw the same tokens\n",
            Some(parted) => {
                let Parting { step, a, b } = parted.at;
                let (a, b) = (named(self.vocab, a), named(self.vocab, b));
                text += &format!("the draws part at step {}: A draws {a}, B {b}\n", step + 1);
                if let Some(before) = self.before(parted) {
                    text += &format!("up to there: \"{}\"\n", before.escape_debug());
                }
            }
        }
        text
    }

    /// The text, if the vocabulary is known.
    fn before(&self, parted: &Parted) -> Option<String> {
        let bytes: Vec<u8> = parted
            .before
            .iter()
            .filter(|token| token.index() < self.vocab.size() && !self.vocab.is_special(**token))
            .flat_map(|token| self.vocab.bytes(*token).iter().copied())
            .collect();
        (self.vocab.size() > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}
