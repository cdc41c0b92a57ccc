//! llama.cpp's own text, for the same settings and seed: at each step
//! logitchain's chain and llama.cpp's samplers choose from the logits of
//! llama.cpp's model.
//!
//! llama.cpp's array goes through its chain as it is, masked entries and all. An
//! end of the text is a token like any other here: both go on after it.
//! `LOGITCHAIN_TOKENS` sets how many tokens each text gets.

use std::{collections::BTreeMap, path::Path, sync::Mutex};

use logitchain_core::{Chain, Registry, TokenId, Vocab};
use logitchain_peers::{
    compare::{Outcome, Pair},
    llama::{Context, Model, Sampler, sample},
    models::{self, Words},
    settings::Settings,
    stages::Stage,
};
use logitchain_stages as _;

fn settings(model: &Model) -> Vec<Settings> {
    let default = Settings::default;
    // All that only cuts the tail is off: the draw walks the whole vocabulary.
    let open = || Settings { top_k: 0, top_p: 1.0, min_p: 0.0, temp: 1.0, ..default() };
    let word = |text: &[u8]| model.tokenize(text, false, false)[0];
    let end = model.end_of_turn().expect("both models have one");
    vec![
        default(),
        Settings { name: "greedy", order: "g", ..default() },
        Settings { name: "temperature 0", temp: 0.0, ..default() },
        Settings {
            name: "hot with min_p",
            temp: 1.8,
            min_p: 0.1,
            top_k: 0,
            top_p: 1.0,
            ..default()
        },
        Settings { name: "DRY", dry_multiplier: 0.8, temp: 0.5, ..default() },
        Settings {
            name: "DRY over all, breakers inside words",
            dry_multiplier: 1.5,
            dry_base: 1.2,
            dry_allowed_length: 1,
            dry_penalty_last_n: 1000,
            dry_breakers: ["the", "—", "\n\n", "ing of"].map(str::to_owned).to_vec(),
            ..default()
        },
        Settings { name: "XTC", xtc_probability: 0.5, ..default() },
        Settings { name: "mirostat 1", mirostat: 1, ..default() },
        Settings { name: "mirostat 1 at 2 bits", mirostat: 1, mirostat_ent: 2.0, ..default() },
        Settings { name: "mirostat 2", mirostat: 2, mirostat_ent: 3.0, ..default() },
        Settings {
            name: "dynamic temperature",
            temp: 1.0,
            dynatemp_range: 0.5,
            dynatemp_exp: 1.3,
            ..default()
        },
        Settings {
            name: "adaptive-p",
            order: "edskypmxta",
            adaptive_target: 0.4,
            temp: 1.0,
            ..default()
        },
        Settings {
            name: "logit bias",
            logit_bias: vec![
                (word(b" the"), -2.5),
                (word(b","), 1.5),
                (word(b" and"), f32::NEG_INFINITY),
                (end, f32::NEG_INFINITY),
            ],
            ..default()
        },
        Settings { name: "top-n-sigma", top_n_sigma: 1.0, temp: 1.5, ..default() },
        Settings { name: "typical", typical: 0.7, ..open() },
        Settings { name: "repeat penalty", repeat_penalty: 1.2, ..default() },
        Settings {
            name: "frequency and presence",
            frequency_penalty: 0.3,
            presence_penalty: 0.4,
            repeat_last_n: 100,
            ..default()
        },
        Settings { name: "top_k 1", top_k: 1, ..default() },
        Settings { name: "temperature first", order: "edtskypmx", temp: 1.3, ..default() },
        Settings {
            name: "tail reversed",
            order: "xmpyk",
            typical: 0.9,
            xtc_probability: 0.3,
            ..default()
        },
        Settings { name: "penalties last", order: "kpmte", repeat_penalty: 1.3, ..default() },
        Settings { name: "infill", order: "kpti", ..default() },
        Settings { name: "nothing but the draw", ..open() },
        Settings { name: "top_p alone", top_p: 0.6, ..open() },
        Settings {
            name: "min_keep",
            min_keep: 3,
            top_p: 0.3,
            min_p: 0.5,
            typical: 0.8,
            ..default()
        },
        Settings {
            name: "everything",
            logit_bias: vec![(end, -1.0)],
            dry_multiplier: 0.8,
            repeat_penalty: 1.1,
            xtc_probability: 0.4,
            typical: 0.95,
            dynatemp_range: 0.3,
            ..default()
        },
    ]
}

/// Whether a stage asks for more of a vocabulary than its size.
fn reads_words(stage: &Stage) -> bool {
    match stage {
        Stage::Dry { multiplier, .. } => *multiplier != 0.0,
        Stage::Infill => true,
        _ => false,
    }
}

/// A step at which the two chose differently, which is no fault.
struct Difference {
    place: String,
    why: Outcome,
}

/// A text that is gone through again, stage by stage, where a step differs.
struct Again<'a> {
    pair: Pair<'a>,
    /// Steps since, with the logits of those that the pair has not seen.
    steps: Vec<(Option<Vec<f32>>, u32)>,
}

impl Again<'_> {
    /// Why the next step differs.
    fn explain(&mut self, chain: &[Stage], logits: &[f32]) -> Result<Outcome, String> {
        for (logits, token) in self.steps.drain(..) {
            // infill differs often, and before anything that remembers a draw.
            if let Some(logits) = logits.filter(|_| !chain.contains(&Stage::Infill)) {
                // Rounding may show in candidates of which the same was drawn.
                self.pair.step(&logits).map_err(|e| e.to_string())?;
            }
            self.pair.accept(token);
        }
        match self.pair.step(logits) {
            Ok((Outcome::Same, _)) => Err("only with masked entries in the array".to_owned()),
            Ok((outcome, _)) => Ok(outcome),
            Err(e) => Err(e.to_string()),
        }
    }
}

/// Writes one text. Where the two choose differently, llama.cpp's token goes
/// into the text; the number of tokens in it, and those places.
fn follow(
    settings: &Settings,
    prompt: &[u32],
    count: usize,
    (model, context, words): (&Model, &mut Context<'_>, &Words<'_>),
) -> Result<(usize, Vec<Difference>), String> {
    let registry = Registry::linked().expect("distinct names");
    let chain = settings.chain();
    let mut theirs: Vec<Sampler> =
        chain.iter().map(|stage| Sampler::new(stage, model.size(), Some(model))).collect();
    // With both vocabularies, where a stage reads words.
    let mut vocabularies: Vec<&dyn Vocab> = vec![&words.theirs];
    if chain.iter().any(reads_words) {
        vocabularies.push(&words.ours);
    }
    let build = |vocab| settings.config().build(&registry, vocab).expect("settings that we take");
    let mut ours: Vec<_> = vocabularies.into_iter().map(build).collect();
    for &token in prompt {
        theirs.iter_mut().for_each(|s| s.accept(token));
        ours.iter_mut().for_each(|chain| chain.accept(TokenId(token)));
    }
    context.clear();
    let pair = Pair::new(&chain, &registry, &words.theirs, Some(model));
    let steps = prompt.iter().map(|token| (None, *token)).collect();
    let mut again = Again { pair, steps };
    let mut differences = Vec::new();
    let mut next = context.forward(prompt);
    for step in 0..count {
        let token = sample(&mut theirs, next);
        let sample = |chain: &mut Chain| {
            chain.sample(&mut next.to_vec()).unwrap_or_else(|e| panic!("{}: {e}", settings.name))
        };
        let own: Vec<TokenId> = ours.iter_mut().map(sample).collect();
        let place = || {
            let Settings { name, seed, .. } = settings;
            format!("{name}, seed {seed}, step {step}: {token} by llama.cpp, {own:?} here")
        };
        // Where llama.cpp's hash table names another end of the turn than the
        // first known one, infill keeps another one.
        let ends =
            settings.order.contains('i') && words.ours.end_of_turn() != words.theirs.end_of_turn();
        if own.iter().any(|other| *other != own[0]) && !ends {
            return Err(format!("{}: two vocabularies, two tokens", place()));
        }
        let mut unseen = Some(next.to_vec());
        if own[0].0 != token {
            unseen = None;
            let why = again.explain(&chain, next).map_err(|e| format!("{}: {e}", place()))?;
            differences.push(Difference { place: place(), why });
            // mirostat goes on from what it drew: its limits are no longer the same.
            if settings.mirostat > 0 {
                return Ok((step, differences));
            }
        }
        again.steps.push((unseen, token));
        theirs.iter_mut().for_each(|s| s.accept(token));
        ours.iter_mut().for_each(|chain| chain.accept(TokenId(token)));
        if step + 1 < count {
            next = context.forward(&[token]);
        }
    }
    Ok((count, differences))
}

fn all_texts(path: &Path, length: u32, prompts: &[&str], count: usize) {
    let model = Model::load(path);
    let words = Words::of(path, &model);
    let mut work = Vec::new();
    for (prompt, seed) in prompts.iter().zip(1..) {
        let prompt = model.tokenize(prompt.as_bytes(), true, true);
        assert!(prompt.len() + count <= length as usize + 1, "{} tokens", prompt.len());
        let all = settings(&model).into_iter();
        work.extend(all.map(|settings| (Settings { seed, ..settings }, prompt.clone())));
    }
    let texts = work.len();
    let (work, results) = (Mutex::new(work.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(|| {
                let mut context = model.context(length, 1);
                loop {
                    let next = work.lock().expect("no panic").next();
                    let Some((settings, prompt)) = next else { break };
                    let result = follow(&settings, &prompt, count, (&model, &mut context, &words));
                    let told = result.as_ref().map(|(count, others)| (count, others.len()));
                    println!("{}, seed {}: {told:?}", settings.name, settings.seed);
                    results.lock().expect("no panic").push(result);
                }
            });
        }
    });
    let results = results.into_inner().expect("no panic");
    assert_eq!(results.len(), texts);
    let (mut tokens, mut counts) = (0, BTreeMap::new());
    let mut faults = 0;
    for result in &results {
        match result {
            Ok((count, differences)) => {
                tokens += count;
                for Difference { place, why } in differences {
                    let seen = counts.entry(*why).or_insert(0_usize);
                    *seen += 1;
                    if *seen <= 10 {
                        println!("{why:?}: {place}");
                    }
                }
            }
            Err(e) => {
                faults += 1;
                println!("UNEXPLAINED {e}");
            }
        }
    }
    println!("{texts} texts, {tokens} tokens, of which others here: {counts:?}");
    assert_eq!(faults, 0, "texts that differ unexplained");
    // Two are differences on purpose.
    counts.remove(&Outcome::EndBroughtBack);
    counts.remove(&Outcome::EstimateOverflows);
    // typical over a whole vocabulary lays it out by scores that lie close, and
    // llama.cpp sums the entropy, on which they hang, in `f32`.
    let scores = counts.remove(&Outcome::ScoreAtEdge).unwrap_or_default();
    assert!(scores * 200 <= tokens, "{scores} of {tokens} tokens hang on scores");
    // Other rounding is rare.
    let rounded: usize = counts.values().sum();
    assert!(rounded * 2000 <= tokens, "{rounded} of {tokens} tokens hang on rounding");
}

/// 256 tokens of context: 200 follow a prompt of at most 57.
#[test]
fn the_embedded_model_writes_the_same_text() {
    let prompts = [
        "ROMEO.",
        "In the beginning God created the heavens and the earth. ",
        "ACT III. SCENE I. A Room in the Palace.\n\n[Enter KING.]\n\nKING.\n",
        "And he said to them, \"Go,",
        "Blessed are",
    ];
    all_texts(&models::embedded(), 256, &prompts, models::tokens_or(200).min(200));
}

#[test]
#[ignore = "needs SmolLM2, which is not part of the repository"]
fn smollm2_writes_the_same_text() {
    let prompts = [
        "<|im_start|>user\nWrite a poem about the sea.<|im_end|>\n<|im_start|>assistant\n",
        "Once upon a time, in a village by the mountains, there lived",
        "def fibonacci(n):\n    \"\"\"Return the first n numbers: 0, 1, 1, 2, ...\"\"\"\n",
        "<|im_start|>user\nList ten words, and say each of them again.<|im_end|>\n\
         <|im_start|>assistant\n",
        "The — long — history of Zürich: 1. ",
    ];
    all_texts(&models::smollm2(), 512, &prompts, models::tokens_or(40));
}
