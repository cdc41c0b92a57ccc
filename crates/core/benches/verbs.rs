//! The verbs of `Candidates` over the vocabulary of Qwen2.5, each right after the
//! logits were read. `cargo bench -p logitchain-core --bench verbs` prints them
//! in reads of the logits.

mod harness;

use std::{collections::HashMap, time::Duration};

use harness::{Limit, Report, Work, read, timed};
use logitchain_conformance::logits;
use logitchain_core::{BuildContext, Candidates, NoVocab, RngKind, Scratch, TokenId};

const SIZE: usize = 151_936;

fn main() {
    let mut report = Report::new();
    let (peaked, flat) = (logits::peaked(SIZE), logits::flat(SIZE));
    let mut rng = BuildContext::new(&NoVocab, RngKind::default(), 1).rng();
    let table: HashMap<TokenId, f32> =
        logits::text(64, 64, SIZE).into_iter().map(|id| (id, 0.5)).collect();
    let best = peaked.iter().copied().fold(f32::NEG_INFINITY, f32::max);

    let mut scratch = Scratch::default();
    let turn = |logits: &mut [f32]| timed(|| Candidates::new(logits, &mut scratch).is_ok());
    report.measure("new", Limit::None, Work { logits: &peaked, turn }, read(&peaked));

    let mut all: Vec<(&str, &[f32], Verb<'_>)> = Vec::new();
    let mut verb = |name, logits, verb| all.push((name, logits, verb));
    verb("best", &peaked, Box::new(|c| _ = c.best()));
    verb("len", &peaked, Box::new(|c| _ = c.len()));
    verb("top 10", &peaked, Box::new(|c| _ = c.top(10)));
    verb("keep_top 40", &peaked, Box::new(|c| c.keep_top(40)));
    verb("keep_top 40 flat", &flat, Box::new(|c| c.keep_top(40)));
    verb("keep_top 1000", &peaked, Box::new(|c| c.keep_top(1000)));
    verb("keep_at_least best - 3", &peaked, Box::new(|c| c.keep_at_least(best - 3.0, 1)));
    verb("keep_at_least 0", &flat, Box::new(|c| c.keep_at_least(0.0, 1)));
    verb("keep_probable .001", &peaked, Box::new(|c| c.keep_probable(0.001)));
    verb("keep_nucleus .95", &peaked, Box::new(|c| c.keep_nucleus(0.95, 1)));
    verb("keep_nucleus .95 flat", &flat, Box::new(|c| c.keep_nucleus(0.95, 1)));
    verb("keep_typical .9", &peaked, Box::new(|c| c.keep_typical(3.0, 0.9, 1)));
    verb("keep_typical .9 flat", &flat, Box::new(|c| c.keep_typical(3.0, 0.9, 1)));
    verb("drop_top 3", &peaked, Box::new(|c| c.drop_top(3)));
    verb("count_probable .1", &peaked, Box::new(|c| _ = c.count_probable(0.1)));
    verb("retain even ids", &peaked, Box::new(|c| c.retain(|c| c.id.0 % 2 == 0)));
    verb("probability", &peaked, Box::new(|c| _ = c.probability(TokenId(7))));
    verb("entropy", &peaked, Box::new(|c| _ = c.entropy()));
    verb("deviation", &peaked, Box::new(|c| _ = c.deviation()));
    verb("temper", &peaked, Box::new(|c| c.temper(0.8)));
    verb("rescale", &peaked, Box::new(|c| c.rescale(|logit| logit * 0.5)));
    verb("rewrite", &peaked, Box::new(|c| c.rewrite(|_, p| -((p - 0.5) * (p - 0.5)))));
    verb("adjust 64", &peaked, Box::new(|c| c.adjust(&table, |logit, less| logit - less)));
    let mut other = rng.clone();
    verb("draw", &peaked, Box::new(move |c| _ = c.draw(&mut other)));
    verb(
        "temper, draw",
        &peaked,
        Box::new(move |c| {
            c.temper(0.8);
            c.draw(&mut rng);
        }),
    );
    verb("sorted", &peaked, Box::new(|c| _ = c.sorted()));
    verb("ranked", &peaked, Box::new(|c| _ = c.ranked().count()));

    for (name, logits, verb) in all {
        report.measure(name, Limit::None, Work { logits, turn: after_read(verb) }, read(logits));
    }
    report.print();
}

type Verb<'a> = Box<dyn FnMut(&mut Candidates<'_>) + 'a>;

fn after_read(mut verb: Verb<'_>) -> impl FnMut(&mut [f32]) -> Duration {
    let mut scratch = Scratch::default();
    move |logits| {
        let mut candidates = Candidates::new(logits, &mut scratch).expect("logits");
        timed(|| verb(&mut candidates))
    }
}
