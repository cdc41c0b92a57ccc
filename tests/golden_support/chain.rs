//! Cases that run a chain over an array of candidates.

use logitchain_core::{
    BuildContext, Candidate, Candidates, Chain, Registry, RngKind, Sampler, Scratch, TokenId, Vocab,
};
use serde_json::Value;

use super::{
    Case, Verdict,
    data::{double, floats, ids, list, text},
    tolerance,
    translate::{self, Stage},
    vocab::{Signs, Words},
};

/// Brings candidates into a form, and drops none.
type Prepare = fn(&mut Candidates<'_>);

/// The forms in which candidates can come to a stage.
const FORMS: [(&str, Prepare); 3] = [
    ("dense", |_| {}),
    ("sparse", |candidates| candidates.retain(|_| true)),
    ("sorted", |candidates| {
        candidates.sorted();
    }),
];

struct Run<'a> {
    case: &'a Case,
    registry: Registry,
    vocab: Box<dyn Vocab>,
    stages: Vec<Stage>,
}

/// Compares a case's outcome with llama.cpp's.
///
/// Our own ways to the answer must agree without exception: whatever the form
/// of the input, through samplers built one by one or through a chain file.
pub(crate) fn check(case: &Case) -> Verdict {
    let run = Run::new(case);
    let outcome = run.apply(RngKind::Mt19937, FORMS[0].1);
    let mut file = translate::build(&run.chain_file(), run.vocab.as_ref());
    let got = match outcome {
        Ok(got) => got,
        Err(error) => {
            let same = match &mut file {
                Ok(chain) => chain
                    .sample(&mut case.logits.clone())
                    .expect_err("an error, as from the samplers")
                    .to_string(),
                Err(error) => error.clone(),
            };
            assert!(same.ends_with(&error), "{}: {error}, but the file: {same}", case.name());
            return Err(error);
        }
    };
    let mut chain = file.unwrap_or_else(|error| panic!("{}: {error}", case.name()));
    run.check_forms(&got);
    run.check_names(&chain);

    let mut answer = Vec::new();
    if !run.is_expected(&got) {
        let first = got.iter().take(3).map(|c| format!(" {}:{}", c.id, c.logit));
        answer.push(format!("{} left:{}", got.len(), first.collect::<String>()));
    }
    match case.expected().get("tokens").map(ids) {
        Some(tokens) => {
            let got = run.draws(tokens.len())?;
            run.check_draws(&got, &mut chain);
            let differs = tokens.iter().zip(&got).position(|(a, b)| !run.is_same_token(*a, b.0));
            if let Some(at) = differs {
                answer.push(format!("draw {} is {}", at + 1, got[at].0));
            }
            if differs.is_none() && answer.is_empty() {
                answer.extend(run.other_size(&got));
            }
        }
        None => run.check_greedy(&got, &mut chain),
    }
    if answer.is_empty() { Ok(()) } else { Err(answer.join("; ")) }
}

impl<'a> Run<'a> {
    fn new(case: &'a Case) -> Self {
        let stages = case.chain().iter().map(translate::stage).collect();
        let vocab: Box<dyn Vocab> = if case.kind() == "apply_vocab" {
            Box::new(Words::new(None))
        } else {
            let size = case.chain().iter().find_map(|sampler| sampler["n_vocab"].as_u64());
            Box::new(Signs::new(size.map_or(case.logits.len(), |size| size as usize)))
        };
        Self { case, registry: Registry::linked().expect("distinct names"), vocab, stages }
    }

    /// The stages that do something, with the history accepted.
    fn samplers(&self, rng: RngKind) -> Result<Vec<Box<dyn Sampler>>, String> {
        let mut samplers = Vec::new();
        for stage in &self.stages {
            let cx = BuildContext::new(self.vocab.as_ref(), rng, stage.seed.unwrap_or(0));
            let registration = self.registry.get(stage.name).expect("a stage");
            let built = registration.build(&stage.params, &cx);
            let built = built.map_err(|e| translate::whole_text(&e))?;
            if !built.neutral {
                samplers.push(built.sampler);
            }
        }
        for token in self.case.history() {
            samplers.iter_mut().for_each(|sampler| sampler.accept(token));
        }
        Ok(samplers)
    }

    /// The candidates after one pass of a fresh chain, in the order in which a
    /// draw would walk them.
    fn apply(&self, rng: RngKind, prepare: Prepare) -> Result<Vec<Candidate>, String> {
        let mut samplers = self.samplers(rng)?;
        let (mut logits, mut scratch) = (self.case.logits.clone(), Scratch::default());
        let mut candidates = Candidates::for_draws_by(rng, &mut logits, &mut scratch)
            .map_err(|e| translate::whole_text(&e))?;
        prepare(&mut candidates);
        samplers.iter_mut().for_each(|sampler| sampler.apply(&mut candidates));
        Ok(candidates.iter().collect())
    }

    /// What a second fresh chain draws, accepting it, and how many candidates
    /// were left.
    fn draws(&self, count: usize) -> Result<Vec<(u32, usize)>, String> {
        let mut samplers = self.samplers(RngKind::Mt19937)?;
        let mut scratch = Scratch::default();
        let draws = (0..count).map(|_| {
            let mut logits = self.case.logits.clone();
            let mut candidates =
                Candidates::for_draws_by(RngKind::Mt19937, &mut logits, &mut scratch)
                    .expect("logits that worked before");
            samplers.iter_mut().for_each(|sampler| sampler.apply(&mut candidates));
            let token = candidates.chosen().expect("a stage that selects");
            samplers.iter_mut().for_each(|sampler| sampler.accept(token));
            (token.0, candidates.len())
        });
        Ok(draws.collect())
    }

    /// The seed, if all stages have the same.
    fn seed(&self) -> Option<u64> {
        let mut seeds = self.stages.iter().filter_map(|stage| stage.seed);
        let first = seeds.next().unwrap_or(0);
        seeds.all(|seed| seed == first).then_some(first)
    }

    fn chain_file(&self) -> String {
        let none = toml::Table::new();
        let draws = self.case.expected().get("tokens").is_some();
        let stages = self.stages.iter().map(|stage| (stage.name, &stage.params));
        let greedy = (!draws).then_some(("greedy", &none));
        translate::chain_file(self.seed().unwrap_or(0), stages.chain(greedy))
    }

    /// The form of the input, and the generator, may not change the result.
    fn check_forms(&self, got: &[Candidate]) {
        let name = self.case.name();
        for (form, prepare) in FORMS {
            let again = self.apply(RngKind::Mt19937, prepare).expect("as before");
            // Sorted input may leave another order, but no other candidates.
            let same = if form == "sorted" { ranked(&again) == ranked(got) } else { again == got };
            assert!(same, "{name}, {form} input: {again:?} instead of {got:?}");
        }
        // Its coin falls differently for another generator.
        if self.stages.iter().any(|stage| stage.name == "xtc") {
            return;
        }
        let kind = RngKind::default();
        let dense = ranked(&self.apply(kind, FORMS[0].1).expect("as before"));
        let same = |a: &Candidate, b: &Candidate| {
            a.id == b.id && tolerance::same(self.case.chain(), a.logit, b.logit)
        };
        assert!(
            dense.len() == got.len() && dense.iter().zip(ranked(got)).all(|(a, b)| same(a, &b)),
            "{name}, {kind}: {dense:?} instead of {got:?}"
        );
        for (form, prepare) in FORMS {
            let again = ranked(&self.apply(kind, prepare).expect("as before"));
            let same =
                again.len() == dense.len() && again.iter().zip(&dense).all(|(a, b)| same(a, b));
            assert!(same, "{name}, {kind}, {form} input: {again:?} instead of {dense:?}");
        }
    }

    /// The stages print as llama.cpp's samplers do.
    fn check_names(&self, chain: &Chain) {
        let Some(names) = self.case.expected().get("names") else { return };
        // llama.cpp has two samplers of which ours is the second.
        let theirs = list(names).iter().map(|name| match text(name) {
            "temp" => "temp-ext",
            "?temp" => "?temp-ext",
            name => name,
        });
        let ours = chain.stages().iter().map(ToString::to_string);
        for (theirs, ours) in theirs.zip(ours) {
            assert_eq!(theirs, ours, "{}", self.case.name());
        }
    }

    /// The chain file draws the same tokens.
    fn check_draws(&self, got: &[(u32, usize)], chain: &mut Chain) {
        if self.seed().is_none() {
            return;
        }
        self.case.history().into_iter().for_each(|token| chain.accept(token));
        for (at, (token, _)) in got.iter().enumerate() {
            let again = chain.sample(&mut self.case.logits.clone());
            assert_eq!(again, Ok(TokenId(*token)), "{}, draw {}", self.case.name(), at + 1);
            chain.accept(TokenId(*token));
        }
    }

    /// The chain file, ended by `greedy`, selects the best of what is left.
    fn check_greedy(&self, got: &[Candidate], chain: &mut Chain) {
        self.case.history().into_iter().for_each(|token| chain.accept(token));
        let token = chain.sample(&mut self.case.logits.clone());
        assert_eq!(token, Ok(ranked(got)[0].id), "{}", self.case.name());
    }

    /// The first draw for which another number of candidates was left.
    fn other_size(&self, got: &[(u32, usize)]) -> Option<String> {
        let expected = self.case.expected();
        let size = |at: usize| expected.get("sizes").map_or(&expected["size"], |sizes| &sizes[at]);
        got.iter().enumerate().find_map(|(at, (_, ours))| {
            let theirs = size(at).as_u64().expect("a size") as usize;
            // llama.cpp counts what it has masked.
            let same = if self.masks() { *ours <= theirs } else { *ours == theirs };
            (!same).then(|| format!("{ours} left at draw {}", at + 1))
        })
    }

    /// Whether llama.cpp's array may hold candidates with -inf for a logit.
    fn masks(&self) -> bool {
        let stage = |sampler: &Value| match text(&sampler["sampler"]) {
            "top_n_sigma" => true,
            "temp" | "temp_ext" => double(&sampler["temp"]) <= 0.0,
            "logit_bias" => {
                list(&sampler["bias"]).iter().any(|pair| double(&pair[1]) == f64::NEG_INFINITY)
            }
            _ => false,
        };
        self.case.logits.contains(&f32::NEG_INFINITY) || self.case.chain().iter().any(stage)
    }

    /// Whether candidates are what llama.cpp has left, in its order, but for
    /// those that it keeps in its array at -inf.
    fn is_expected(&self, got: &[Candidate]) -> bool {
        let apply = &self.case.expected()["apply"];
        let wanted: Vec<_> = ids(&apply["ids"])
            .into_iter()
            .zip(floats(&apply["logits"]))
            .filter(|(_, logit)| *logit != f32::NEG_INFINITY)
            .map(|(id, logit)| Candidate { id: TokenId(id), logit })
            .collect();
        // Long arrays are listed up to their 128th candidate.
        let size = if apply.get("truncated").is_none() {
            got.len() == wanted.len()
        } else {
            let n = apply["n"].as_u64().expect("a size") as usize;
            got.len() == n || self.masks() && (wanted.len()..n).contains(&got.len())
        };
        size && wanted.iter().zip(got).all(|(a, b)| {
            let same = self.case.has_flag("ties") || a.id == b.id;
            same && tolerance::same(self.case.chain(), a.logit, b.logit)
        }) && self.are_tied_alike(&wanted, got)
    }

    /// Whether two arrays with the same logits in the same order differ at most
    /// in which tokens of equal logits stand where, or were cut off: among the
    /// tokens that share a logit now, those with equal logits at the start
    /// cannot be told apart.
    fn are_tied_alike(&self, wanted: &[Candidate], got: &[Candidate]) -> bool {
        let group = |list: &[Candidate], logit: f32| {
            let pairs = wanted.iter().zip(list).filter(|(w, _)| w.logit == logit);
            let mut start: Vec<_> =
                pairs.map(|(_, c)| (self.case.logits[c.id.index()] + 0.0).to_bits()).collect();
            start.sort_unstable();
            start
        };
        wanted.iter().all(|c| group(wanted, c.logit) == group(got, c.logit))
    }

    /// Whether two drawn tokens are the same, or could change places in an
    /// array whose order llama.cpp leaves to its sorting algorithms.
    fn is_same_token(&self, a: u32, b: u32) -> bool {
        let logit = |id: u32| self.case.logits[id as usize];
        a == b
            || self.case.has_flag("ties") && self.case.has_flag("fragile") && logit(a) == logit(b)
    }
}

/// Most likely first.
fn ranked(list: &[Candidate]) -> Vec<Candidate> {
    let mut list = list.to_vec();
    list.sort_by(Candidate::rank);
    list
}
