use logitchain_core::{OrderDiff, TokenId, Vocab};
use serde::Serialize;

use crate::{
    table::{Align, Table, bar, percent},
    token_text::{named, plain, shown},
};

/// How wide the bar of a certain token is.
const BAR: usize = 20;

/// Two chains at one step.
pub(super) struct One<'a> {
    pub(super) a: String,
    pub(super) b: String,
    pub(super) diff: OrderDiff,
    pub(super) vocab: &'a dyn Vocab,
}

#[derive(Serialize)]
struct Report<'a> {
    chain_a: &'a str,
    chain_b: &'a str,
    best_a: TokenId,
    best_b: TokenId,
    /// The most likely ones.
    tokens: Vec<Listed>,
    diff: &'a OrderDiff,
}

#[derive(Serialize)]
struct Listed {
    id: TokenId,
    text: Option<String>,
    a: f64,
    b: f64,
}

impl One<'_> {
    pub(super) fn json(&self, top: usize) -> String {
        let tokens = self.listed(top).into_iter().map(|id| {
            let text = plain(self.vocab, id);
            Listed { id, text, a: self.diff.a.probability(id), b: self.diff.b.probability(id) }
        });
        let report = Report {
            chain_a: &self.a,
            chain_b: &self.b,
            best_a: self.diff.a.best(),
            best_b: self.diff.b.best(),
            tokens: tokens.collect(),
            diff: &self.diff,
        };
        let json = serde_json::to_string(&report).expect("numbers, texts and lists are JSON");
        json + "\n"
    }

    /// With escape sequences for styles.
    pub(super) fn table(&self, top: usize) -> String {
        let diff = &self.diff;
        let listed = self.listed(top);
        let mut text = String::new();
        if !listed.is_empty() {
            text += &self.tokens(&listed);
            text.push('\n');
        }
        let mut table =
            Table::new(vec![(Align::Left, String::new()), (Align::Left, String::new())]);
        let mut row = |what: &str, value: String| table.row(vec![what.into(), value.into()]);
        row("kept by both", diff.both.len().to_string());
        row("only by A", self.only(&diff.only_a, |id| diff.a.probability(id), top));
        row("only by B", self.only(&diff.only_b, |id| diff.b.probability(id), top));
        row("total variation", format!("{:.4}", diff.total_variation));
        row("KL(A, B)", format!("{} bits", bits(diff.kl_ab)));
        row("KL(B, A)", format!("{} bits", bits(diff.kl_ba)));
        row("Jensen-Shannon", format!("{} bits", bits(diff.jensen_shannon)));
        row("entropy of A", format!("{} bits", bits(diff.entropy_a)));
        row("entropy of B", format!("{} bits", bits(diff.entropy_b)));
        let (a, b) = (diff.a.best(), diff.b.best());
        let best = if a == b {
            format!("{}, of both", named(self.vocab, a))
        } else {
            format!("{} of A, {} of B", named(self.vocab, a), named(self.vocab, b))
        };
        row("most likely", best);
        // There are no heads.
        text + table.render().trim_start_matches('\n')
    }

    /// The most likely tokens of either, by the greater of their probabilities.
    fn listed(&self, top: usize) -> Vec<TokenId> {
        let (a, b) = (&self.diff.a, &self.diff.b);
        let best = a.tokens().iter().take(top).chain(b.tokens().iter().take(top));
        let mut ids: Vec<TokenId> = best.map(|(id, _)| *id).collect();
        let most = |id| a.probability(id).max(b.probability(id));
        ids.sort_by(|&x, &y| most(y).total_cmp(&most(x)).then(x.cmp(&y)));
        ids.dedup();
        ids
    }

    fn tokens(&self, listed: &[TokenId]) -> String {
        let (a, b) = (&self.diff.a, &self.diff.b);
        let left = |head: &str| (Align::Left, head.to_owned());
        let right = |head: &str| (Align::Right, head.to_owned());
        let words = if self.vocab.size() > 0 { "text" } else { "" };
        let columns = vec![right("token"), left(words), right("A"), left(""), right("B"), left("")];
        let mut table = Table::new(columns);
        for &id in listed {
            let cell = |kept: bool, p: f64| if kept { percent(p) } else { "-".to_owned() };
            let (p, q) = (a.probability(id), b.probability(id));
            table.row(vec![
                id.to_string().into(),
                shown(self.vocab, id).into(),
                cell(a.contains(id), p).into(),
                bar(p, BAR).into(),
                cell(b.contains(id), q).into(),
                bar(q, BAR).into(),
            ]);
        }
        let rest = |law: &logitchain_core::Distribution| {
            let sum: f64 = listed.iter().map(|id| law.probability(*id)).sum();
            (1.0 - sum).max(0.0)
        };
        let all = self.diff.both.len() + self.diff.only_a.len() + self.diff.only_b.len();
        let mut text = table.render();
        if all > listed.len() {
            let (p, q) = (percent(rest(a)), percent(rest(b)));
            text += &format!("{} others: {p} of A, {q} of B\n", all - listed.len());
        }
        text
    }

    /// Tokens that one chain alone keeps.
    fn only(&self, ids: &[TokenId], p: impl Fn(TokenId) -> f64, top: usize) -> String {
        if ids.is_empty() {
            return "0".to_owned();
        }
        let mass: f64 = ids.iter().map(|id| p(*id)).sum();
        let mut best = ids.to_vec();
        best.sort_by(|x, y| p(*y).total_cmp(&p(*x)).then(x.cmp(y)));
        best.truncate(top.min(3));
        let names: Vec<String> = best.iter().map(|id| named(self.vocab, *id)).collect();
        let names = match (names.is_empty(), best.len() < ids.len()) {
            (true, _) => String::new(),
            (false, true) => format!(": {}, ...", names.join(", ")),
            (false, false) => format!(": {}", names.join(", ")),
        };
        format!("{}, with {}{names}", ids.len(), percent(mass))
    }
}

/// With four decimals, or `inf`.
pub(super) fn bits(number: f64) -> String {
    format!("{number:.4}")
}
