//! Laws about what a stage does.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use logitchain_core::{
    BuildContext, Candidate, Candidates, Kind, RngKind, SampleError, Scratch, Stage,
};

use crate::{
    inputs::{Input, Noise},
    law::{Law, Verdict, Violation, demand},
    observe::{Form, Seen, Subject},
    whole,
};

/// What a step gave: candidates and a choice, or the chain's error.
type Outcome = Result<Seen, SampleError>;

const SEED: u64 = 7;

/// One set of parameters and one generator, under which the laws are checked.
struct Case<'a> {
    params: &'a toml::Table,
    rng: RngKind,
    inputs: &'a [Input],
}

pub(crate) fn check<S: Stage>(params: &toml::Table, inputs: &[Input]) -> Verdict {
    let mut verdict = Ok(());
    for (name, rng) in RngKind::ALL {
        let case = Case { params, rng, inputs };
        let at = |violation: Violation| {
            let what = format!("{}\n  generator: {name}", violation.what);
            Violation::new(violation.law, what)
        };
        verdict = verdict.and_then(|()| case.check::<S>().map_err(at));
    }
    verdict
}

impl Case<'_> {
    fn check<S: Stage>(&self) -> Verdict {
        for input in self.inputs.iter().filter(|input| self.fits::<S>(input)) {
            for history in histories(input) {
                let at = |violation: Violation| {
                    let what = format!(
                        "{}\n  logits: {} {}\n  accepted before: {history:?}",
                        violation.what,
                        input.what,
                        brief(&input.logits),
                    );
                    Violation::new(violation.law, what)
                };
                self.one_step::<S>(input, &history).map_err(at)?;
                self.singly::<S>(input, &history).map_err(at)?;
                self.forms::<S>(input, &history).map_err(at)?;
            }
        }
        self.strange_tokens::<S>()?;
        self.copies::<S>()?;
        self.draws::<S>()
    }

    /// Whether the stage takes the parameters with this vocabulary. Those that
    /// name a token may be refused for a small one.
    fn fits<S: Stage>(&self, input: &Input) -> bool {
        let needed = input.logits.len() >= self.long_input().logits.len();
        needed || Subject::build::<S>(self.params, &input.vocab, self.rng, SEED).is_ok()
    }

    fn build<S: Stage>(&self, input: &Input, history: &[u32]) -> Result<Subject, Violation> {
        self.build_seeded::<S>(input, history, SEED)
    }

    fn build_seeded<S: Stage>(
        &self,
        input: &Input,
        history: &[u32],
        seed: u64,
    ) -> Result<Subject, Violation> {
        let built = catch(|| Subject::build::<S>(self.params, &input.vocab, self.rng, seed))?;
        let mut subject = built
            .map_err(|e| Violation::new(Law::DefaultsBuild, format!("refused: {}", whole(&e))))?;
        catch(|| history.iter().for_each(|&token| subject.accept(token)))?;
        Ok(subject)
    }

    /// The laws of the stage's kind.
    fn one_step<S: Stage>(&self, input: &Input, history: &[u32]) -> Verdict {
        let mut subject = self.build::<S>(input, history)?;
        let before = seen(&input.logits);
        let after = match catch(|| subject.run(&input.logits, Form::Dense))? {
            Ok(after) => after,
            Err(error @ SampleError::Exhausted { .. }) => {
                let may = matches!(S::KIND, Kind::Filter | Kind::Penalty);
                return demand(Law::LeavesACandidate, may, || error.to_string());
            }
            Err(
                error @ (SampleError::NotACandidate { .. } | SampleError::NothingSelected { .. }),
            ) => return Err(Violation::new(Law::SelectChooses, error.to_string())),
            Err(error) => return Err(Violation::new(Law::LogitsStayFinite, error.to_string())),
        };
        let was = |c: &Candidate| {
            let at = before.candidates.binary_search_by_key(&c.id, |b| b.id).ok();
            at.map(|at| before.candidates[at])
        };
        for c in &after.candidates {
            demand(Law::NothingComesBack, was(c).is_some(), || {
                format!("token {} was no candidate before, and is one now", c.id)
            })?;
        }
        match S::KIND {
            Kind::Filter => {
                for c in &after.candidates {
                    let logit = was(c).map_or(f32::NAN, |c| c.logit);
                    demand(Law::FilterKeepsLogits, logit.to_bits() == c.logit.to_bits(), || {
                        format!("the logit of token {} was {logit:?}, is {:?}", c.id, c.logit)
                    })?;
                }
            }
            Kind::Rescale => order_kept(before.candidates.clone(), &after)?,
            Kind::Penalty | Kind::Select => {}
        }
        match (S::KIND, after.chosen) {
            (Kind::Select, None) => Err(Violation::new(Law::SelectChooses, "no token was chosen")),
            (Kind::Select, Some(id)) => {
                let candidate = before.candidates.iter().any(|c| c.id == id);
                demand(Law::SelectChooses, candidate, || {
                    format!("token {id} was chosen, which was no candidate")
                })
            }
            (kind, Some(id)) => {
                let what = format!("a stage of kind {kind} chose token {id}");
                Err(Violation::new(Law::OthersDoNotChoose, what))
            }
            (_, None) => Ok(()),
        }
    }

    /// A penalty does to a token what it does, whichever others are there.
    fn singly<S: Stage>(&self, input: &Input, history: &[u32]) -> Verdict {
        if S::KIND != Kind::Penalty {
            return Ok(());
        }
        for rest in [0, 1] {
            let mut fewer = input.logits.clone();
            fewer.iter_mut().skip(rest).step_by(2).for_each(|logit| *logit = f32::NEG_INFINITY);
            if fewer.iter().all(|logit| *logit == f32::NEG_INFINITY) {
                continue;
            }
            let run = |logits: &[f32]| {
                let mut subject = self.build::<S>(input, history)?;
                catch(|| subject.run(logits, Form::Dense))
            };
            let (Ok(all), Ok(fewer_left)) = (run(&input.logits)?, run(&fewer)?) else { continue };
            let there = |c: &&Candidate| fewer[c.id.index()] > f32::NEG_INFINITY;
            let all: Vec<_> = all.candidates.iter().filter(there).copied().collect();
            if let Some(difference) = difference(&all, &fewer_left.candidates) {
                let what = format!("with every second token masked, {difference}");
                return Err(Violation::new(Law::PenaltyTakesTokensSingly, what));
            }
        }
        Ok(())
    }

    /// The same candidates in another form give the same result.
    fn forms<S: Stage>(&self, input: &Input, history: &[u32]) -> Verdict {
        // llama.cpp's draws follow the order of its array, and that of
        // candidates which a stage has sorted is another one by design.
        let draws_follow_form = self.rng == RngKind::Mt19937;
        let mut first = self.build::<S>(input, history)?;
        let mut others = Vec::new();
        for form in &Form::ALL[1..] {
            others.push((*form, self.build::<S>(input, history)?));
        }
        for step in 0..2 {
            let expected = catch(|| first.run(&input.logits, Form::Dense))?;
            let next = next_token(&expected, step, input.logits.len());
            for (form, other) in &mut others {
                let mut got = catch(|| other.run(&input.logits, *form))?;
                if draws_follow_form {
                    let chosen = expected.as_ref().ok().and_then(|seen| seen.chosen);
                    if let Ok(seen) = &mut got {
                        seen.chosen = seen.chosen.and(chosen);
                    }
                }
                if let Some(difference) = differs(&expected, &got) {
                    let what = format!("{form:?} instead of Dense, step {step}: {difference}");
                    return Err(Violation::new(Law::FormUnseen, what));
                }
                catch(|| other.accept(next))?;
            }
            // The other stream of choices leads elsewhere from here.
            if draws_follow_form && S::KIND == Kind::Select {
                break;
            }
            catch(|| first.accept(next))?;
        }
        Ok(())
    }

    fn strange_tokens<S: Stage>(&self) -> Verdict {
        let input = self.long_input();
        let mut subject = self.build::<S>(input, &[1, 2])?;
        for token in [input.logits.len() as u32, u32::MAX] {
            let accepted = catch(|| {
                subject.accept(token);
                subject.accept(1);
                let _ = subject.run(&input.logits, Form::Dense);
            });
            accepted.map_err(|panic| {
                let size = input.logits.len();
                let what = format!("token {token} of a vocabulary of {size}: {}", panic.what);
                Violation::new(Law::AnyTokenAccepted, what)
            })?;
        }
        Ok(())
    }

    /// Twins, clones, and samplers after a reset, another seed or a rollback, over a
    /// text of 20 tokens.
    fn copies<S: Stage>(&self) -> Verdict {
        const STEPS: usize = 20;
        let input = self.long_input();
        let n = input.logits.len();
        let history = [3, 1, 4, 1, 5];
        // Few distinct logits, so that ties and repeats occur; and each step
        // has its own, so that a state of steps ago is noticed.
        let mut noise = Noise(3);
        let texts: Vec<Vec<f32>> = (0..STEPS)
            .map(|_| noise.logits(n).iter().map(|l| (l * 2.0).round() / 4.0).collect())
            .collect();
        let run = |subject: &mut Subject, steps: std::ops::Range<usize>| {
            let mut outcomes = Vec::new();
            for step in steps {
                let outcome = catch(|| subject.run(&texts[step], Form::Dense))?;
                catch(|| subject.accept(next_token(&outcome, step, n)))?;
                outcomes.push(outcome);
            }
            Ok(outcomes)
        };
        let compare = |law, which: &str, first: &[Outcome], second: &[Outcome]| {
            let pairs = first.iter().zip(second).enumerate();
            let found = pairs.filter_map(|(step, (a, b))| Some((step, differs(a, b)?))).next();
            match found {
                Some((step, difference)) => {
                    Err(Violation::new(law, format!("{which}, step {step}: {difference}")))
                }
                None => Ok(()),
            }
        };

        let mut original = self.build::<S>(input, &history)?;
        let mut expected = run(&mut original, 0..STEPS)?;

        let mut twin = self.build::<S>(input, &history)?;
        let twin_text = run(&mut twin, 0..STEPS)?;
        compare(Law::Deterministic, "built again", &expected, &twin_text)?;

        let mut cloned = self.build::<S>(input, &history)?;
        run(&mut cloned, 0..STEPS / 2)?;
        let mut clone = cloned.clone();
        let rest = expected.split_off(STEPS / 2);
        let clone_text = run(&mut clone, STEPS / 2..STEPS)?;
        compare(Law::CloneContinues, "the clone, counted from its making", &rest, &clone_text)?;
        let cloned_text = run(&mut cloned, STEPS / 2..STEPS)?;
        let which = "the original, counted from the clone's making";
        compare(Law::CloneContinues, which, &rest, &cloned_text)?;
        expected.extend(rest);

        catch(|| {
            original.reset();
            history.iter().for_each(|&token| original.accept(token));
        })?;
        let reset_text = run(&mut original, 0..STEPS)?;
        compare(Law::ResetStartsOver, "after the reset", &expected, &reset_text)?;

        let mut other = self.build_seeded::<S>(input, &[], SEED + 1)?;
        run(&mut other, 0..STEPS)?;
        catch(|| {
            other.reseed(SEED);
            history.iter().for_each(|&token| other.accept(token));
        })?;
        let reseeded = run(&mut other, 0..STEPS)?;
        compare(Law::ReseedChangesTheStream, "with another seed's", &expected, &reseeded)?;

        // Ever longer drafts are taken back.
        let mut drafting = self.build::<S>(input, &history)?;
        let mut text = Vec::new();
        for step in 0..STEPS {
            catch(|| drafting.checkpoint())?;
            run(&mut drafting, 0..step)?;
            catch(|| drafting.rollback())?;
            text.extend(run(&mut drafting, step..step + 1)?);
        }
        compare(Law::RollbackRestores, "after drafts", &expected, &text)?;

        // And without the history, which a reset must have dropped.
        let mut fresh = self.build::<S>(input, &[])?;
        catch(|| original.reset())?;
        let fresh_text = run(&mut fresh, 0..STEPS)?;
        let reset_text = run(&mut original, 0..STEPS)?;
        compare(Law::ResetStartsOver, "after the reset", &fresh_text, &reset_text)
    }

    /// As many draws as steps, whatever the logits.
    fn draws<S: Stage>(&self) -> Verdict {
        if self.rng == RngKind::Mt19937 {
            return Ok(());
        }
        // Of one size, so that one sampler can meet them all.
        let base = self.long_input();
        let n = base.logits.len();
        let mut lone = vec![f32::NEG_INFINITY; n];
        lone[n / 2] = 1.0;
        let mut peaked = vec![0.0; n];
        peaked[n - 1] = 50.0;
        let texts = [&base.logits, &lone, &peaked, &vec![0.5; n], &base.logits, &lone];
        let mut subject = self.build::<S>(base, &[])?;
        let mut ever = None;
        for (step, logits) in (1..).zip(texts) {
            let (outcome, draws) = catch(|| subject.run_counting_draws(logits))?;
            let next = next_token(&outcome, step, n);
            for (stream, drawn) in draws.iter().enumerate() {
                let fine = *drawn == Some(0) || *drawn == Some(step);
                demand(Law::OneDrawPerApply, fine, || {
                    let drawn = drawn.map_or("too many".to_owned(), |drawn| drawn.to_string());
                    format!("{drawn} numbers of stream {stream} were drawn in {step} steps")
                })?;
            }
            let drawing: Vec<bool> = draws.iter().map(|drawn| *drawn != Some(0)).collect();
            let ever = ever.get_or_insert_with(|| drawing.clone());
            demand(Law::OneDrawPerApply, *ever == drawing, || {
                format!("after step {step}, other streams are in use than after step 1")
            })?;
            catch(|| subject.accept(next))?;
        }
        Ok(())
    }

    /// The input with the most tokens and no masked ones.
    fn long_input(&self) -> &Input {
        let all = self.inputs.iter().filter(|i| i.logits.iter().all(|l| l.is_finite()));
        all.max_by_key(|input| input.logits.len()).expect("there are inputs without masked tokens")
    }
}

/// Neutral parameters do nothing, should the stage be run.
pub(crate) fn check_neutral<S: Stage>(params: &toml::Table, inputs: &[Input]) -> Verdict {
    for (name, rng) in RngKind::ALL {
        for input in inputs {
            for history in histories(input) {
                let stage: S = params.clone().try_into().map_err(|e: toml::de::Error| {
                    Violation::new(Law::RoundTrips, e.message().to_owned())
                })?;
                let built = stage.build(&BuildContext::new(&input.vocab, rng, SEED));
                let mut sampler = built.map_err(|e| {
                    let what = format!("neutral parameters are refused: {e}");
                    Violation::new(Law::NeutralRecognised, what)
                })?;
                for form in Form::ALL {
                    let mut logits = input.logits.clone();
                    let mut scratch = Scratch::default();
                    let mut candidates = Candidates::for_draws_by(rng, &mut logits, &mut scratch)
                        .expect("the inputs are logits");
                    form.give(&mut candidates);
                    catch(|| {
                        history.iter().for_each(|&t| sampler.accept(logitchain_core::TokenId(t)));
                        sampler.apply(&mut candidates);
                    })?;
                    let before = Ok(seen(&input.logits));
                    if let Some(difference) = differs(&before, &Ok(Seen::of(&candidates))) {
                        return Err(Violation::new(
                            Law::NeutralDoesNothing,
                            format!(
                                "{difference}\n  logits: {} {}\n  accepted before: {history:?}\n  \
                                 generator: {name}",
                                input.what,
                                brief(&input.logits),
                            ),
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Nothing accepted yet, and a text that repeats itself.
fn histories(input: &Input) -> [Vec<u32>; 2] {
    let n = input.logits.len() as u32;
    [Vec::new(), [0, 1, 2, 3, 1, 2, 3, 1, 2, 5, 4, 1, 2].map(|token| token % n).to_vec()]
}

/// What a chain accepts next: the token chosen, or one that does not depend on
/// the stage.
fn next_token(outcome: &Outcome, step: usize, n: usize) -> u32 {
    let chosen = outcome.as_ref().ok().and_then(|seen| seen.chosen);
    chosen.map_or((step * step % 7 % n) as u32, |id| id.0)
}

/// Candidates before any stage.
fn seen(logits: &[f32]) -> Seen {
    let mut logits = logits.to_vec();
    let mut scratch = Scratch::default();
    let candidates = Candidates::new(&mut logits, &mut scratch).expect("the inputs are logits");
    Seen::of(&candidates)
}

fn order_kept(mut ranked: Vec<Candidate>, after: &Seen) -> Verdict {
    ranked.sort_by(Candidate::rank);
    let now = |c: &Candidate| {
        let at = after.candidates.binary_search_by_key(&c.id, |b| b.id).ok();
        at.map_or(f32::NEG_INFINITY, |at| after.candidates[at].logit)
    };
    for pair in ranked.windows(2) {
        let (above, below) = (now(&pair[0]), now(&pair[1]));
        demand(Law::RescaleKeepsOrder, above >= below, || {
            format!(
                "{:?} and {:?} of tokens {} and {} became {above:?} and {below:?}",
                pair[0].logit, pair[1].logit, pair[0].id, pair[1].id
            )
        })?;
    }
    Ok(())
}

/// How two outcomes differ, bit for bit.
fn differs(expected: &Outcome, got: &Outcome) -> Option<String> {
    match (expected, got) {
        (Ok(a), Ok(b)) => difference(&a.candidates, &b.candidates).or_else(|| {
            (a.chosen != b.chosen).then(|| {
                let [a, b] = [a, b].map(|seen| match seen.chosen {
                    Some(id) => format!("token {id}"),
                    None => "none".to_owned(),
                });
                format!("{b} was chosen, not {a}")
            })
        }),
        (Err(a), Err(b)) => (a != b).then(|| format!("{b}, not {a}")),
        (Ok(_), Err(b)) => Some(b.to_string()),
        (Err(a), Ok(_)) => Some(format!("candidates are left where there were none before: {a}")),
    }
}

/// How two lists of candidates, both by id, differ.
fn difference(expected: &[Candidate], got: &[Candidate]) -> Option<String> {
    if expected.len() != got.len() {
        let missing = |from: &[Candidate], of: &[Candidate]| {
            let other = |c: &&Candidate| of.binary_search_by_key(&c.id, |o| o.id).is_err();
            from.iter().find(other).map(|c| c.id)
        };
        let counts = format!("{} candidates are left, not {}", got.len(), expected.len());
        return Some(match (missing(expected, got), missing(got, expected)) {
            (Some(id), _) => format!("{counts}: token {id} is missing"),
            (None, Some(id)) => format!("{counts}: token {id} is one too many"),
            (None, None) => counts,
        });
    }
    let same =
        |a: &Candidate, b: &Candidate| a.id == b.id && a.logit.to_bits() == b.logit.to_bits();
    expected.iter().zip(got).find(|(a, b)| !same(a, b)).map(|(a, b)| {
        if a.id == b.id {
            format!("the logit of token {} is {:?}, not {:?}", a.id, b.logit, a.logit)
        } else {
            format!("token {} is left, not {}", b.id, a.id)
        }
    })
}

/// The first few of many.
fn brief(logits: &[f32]) -> String {
    if logits.len() <= 12 { format!("{logits:?}") } else { format!("{:?}...", &logits[..12]) }
}

/// Runs a stage's code.
fn catch<T>(f: impl FnOnce() -> T) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        Violation::new(Law::NeverPanics, format!("it panicked: {}", panic_text(&*panic)))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
