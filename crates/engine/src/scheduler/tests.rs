use logitchain_core::{ChainConfig, Registry};
use proptest::prelude::*;

use super::*;
use crate::{EMBEDDED_GGUF, Generation, Gguf, LoadOptions, Special, StopStrings, prompt_tokens};
use logitchain_stages as _;

fn embedded_on(threads: usize) -> GgufModel {
    let options = LoadOptions { threads: NonZero::new(threads), ..LoadOptions::default() };
    GgufModel::from_gguf(&Gguf::from_static(EMBEDDED_GGUF).unwrap(), &options).unwrap()
}

fn limits(texts: usize, prompt_tokens: usize, memory: Option<usize>) -> SchedulerLimits {
    let count = |n| NonZero::new(n).unwrap();
    SchedulerLimits { memory, texts: count(texts), prompt_tokens: count(prompt_tokens), kept: 0 }
}

/// Some begin as others do.
const PROMPTS: [&str; 7] = [
    "In the beginning",
    "And it came to pass, when the king had heard all the words of the people, that he arose",
    "And it came to pass, when the king had heard all the words of the prophet",
    "And it came to pass, when the king had heard all the words of the people, that he arose, and",
    "Thou",
    "The Lord said unto Moses, Go in unto Pharaoh",
    "a",
];

const CHAINS: [&str; 5] = [
    "greedy",
    "penalties{repeat=1.3};top_k{k=40};temperature{t=0.8}",
    "temperature{t=1.5};min_p{p=0.05}",
    "mirostat_v2",
    "dry{multiplier=0.8};xtc{probability=0.5};dist",
];

/// The `n`-th of many requests.
fn request(model: &GgufModel, n: usize) -> Request {
    let tokenizer = model.tokenizer();
    let config = ChainConfig::from_samplers(CHAINS[n % 5]).unwrap();
    let mut chain = config.build(&Registry::linked().unwrap(), tokenizer).unwrap();
    chain.reseed(n as u64).unwrap();
    let stops =
        if n % 4 == 3 { StopStrings::new(["the"]).unwrap() } else { StopStrings::default() };
    Request {
        prompt: prompt_tokens(tokenizer, PROMPTS[n / 2 % 7], Special::Plain).unwrap(),
        chain,
        options: GenerateOptions { max_tokens: Some(n % 12), stops, show_special: false },
    }
}

type Outcome = (Vec<TokenId>, String, StopReason);

fn alone(model: &GgufModel, n: usize) -> Outcome {
    let Request { prompt, mut chain, options } = request(model, n);
    let mut session = model.session();
    let mut generation = Generation::new(&mut session, &mut chain, &prompt, options).unwrap();
    let steps: Vec<Step> = generation.by_ref().map(Result::unwrap).collect();
    let reason = generation.stop_reason().unwrap().clone();
    (
        steps.iter().map(|step| step.token).collect(),
        steps.iter().map(|step| step.text.as_str()).collect(),
        reason,
    )
}

/// What came of each request.
#[derive(Debug, Default)]
struct Collected {
    texts: Vec<(Vec<TokenId>, String, Option<StopReason>)>,
}

impl Collected {
    fn take(&mut self, events: Vec<Event>) {
        for event in events {
            let (Event::Token { request, .. }
            | Event::Done { request, .. }
            | Event::Failed { request, .. }) = event;
            let at = request.0 as usize;
            self.texts.resize(self.texts.len().max(at + 1), Default::default());
            let (tokens, text, reason) = &mut self.texts[at];
            assert!(reason.is_none(), "{request} is over already");
            match event {
                Event::Token { step, .. } => {
                    tokens.push(step.token);
                    *text += &step.text;
                }
                Event::Done { reason: why, .. } => *reason = Some(why),
                Event::Failed { error, .. } => panic!("{request}: {error}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Admitted late, in any company, while others end or are cancelled. What is expected
    /// comes from one thread.
    #[test]
    fn every_request_is_written_as_if_alone(
        arrivals in prop::collection::vec((0_usize..60, 0_usize..4), 1..12),
        cancelled in prop::collection::vec((0_usize..12, 0_usize..20), 0..4),
        threads in prop::sample::select(vec![1_usize, 2, 8]),
        texts in 1_usize..6,
        slice in prop::sample::select(vec![1_usize, 3, 64]),
        memory in prop::option::of(50_usize..200),
        kept in 0_usize..4,
    ) {
        let model = embedded_on(threads);
        let memory = memory.map(|tokens| model.cache_bytes(tokens));
        let limits = SchedulerLimits { kept, ..limits(texts, slice, memory) };
        let mut scheduler = Scheduler::new(&model, limits);
        let mut collected = Collected::default();
        let mut gone = Vec::new();
        let mut step = 0;
        for (n, pause) in &arrivals {
            scheduler.submit(request(&model, *n)).unwrap();
            for _ in 0..*pause {
                for (request, _) in cancelled.iter().filter(|(_, at)| *at == step) {
                    if scheduler.cancel(RequestId(*request as u64)) {
                        gone.push(*request);
                    }
                }
                collected.take(scheduler.step().unwrap());
                step += 1;
            }
        }
        while !scheduler.is_idle() {
            collected.take(scheduler.step().unwrap());
        }
        prop_assert_eq!((scheduler.memory(), scheduler.running()), (0, 0));
        let single = embedded_on(1);
        for (at, (n, _)) in arrivals.iter().enumerate() {
            let (tokens, text, reason) = alone(&single, *n);
            let found = collected.texts.get(at).cloned().unwrap_or_default();
            if gone.contains(&at) {
                prop_assert!(tokens.starts_with(&found.0) && found.2.is_none());
            } else {
                prop_assert_eq!(found, (tokens, text, Some(reason)), "request {}", n);
            }
        }
    }
}

/// Two layers' and heads' worth of bytes are counted by the model itself; here only
/// that the limit is kept, in order.
#[test]
fn what_does_not_fit_waits_in_its_order() {
    let model = embedded_on(1);
    let prompt = request(&model, 1).prompt;
    let text = |max_tokens| Request {
        prompt: prompt.clone(),
        options: GenerateOptions { max_tokens: Some(max_tokens), ..Default::default() },
        ..request(&model, 1)
    };
    let bytes = |tokens: usize| model.cache_bytes(prompt.len() + tokens - 1);
    let mut scheduler = Scheduler::new(&model, limits(16, 64, Some(bytes(6) + bytes(3))));
    for tokens in [6, 4, 2] {
        scheduler.submit(text(tokens)).unwrap();
    }
    scheduler.step().unwrap();
    // The second does not fit beside the first, and the third may not pass it.
    assert_eq!((scheduler.running(), scheduler.waiting()), (1, 2));
    assert_eq!(scheduler.memory(), bytes(6));
    let mut order = Vec::new();
    while !scheduler.is_idle() {
        assert!(scheduler.memory() <= bytes(6) + bytes(3));
        for event in scheduler.step().unwrap() {
            if let Event::Done { request, .. } = event {
                order.push(request.0);
            }
        }
    }
    assert_eq!(order, [0, 2, 1]);

    let error = scheduler.submit(text(30)).unwrap_err().to_string();
    assert!(error.contains(&bytes(30).to_string()), "{error}");
}

#[test]
fn requests_that_can_never_run_are_refused_at_once() {
    let model = embedded_on(1);
    let mut scheduler = Scheduler::new(&model, SchedulerLimits::default());
    let with = |prompt: Vec<TokenId>| Request { prompt, ..request(&model, 1) };
    assert!(matches!(scheduler.submit(with(vec![])), Err(EngineError::EmptyPrompt)));
    let outside = TokenId(model.tokenizer().size() as u32);
    let error = scheduler.submit(with(vec![outside])).unwrap_err();
    assert!(matches!(error, EngineError::UnknownToken { .. }), "{error}");
    let long = vec![TokenId(1); model.context_length() + 1];
    let error = scheduler.submit(with(long)).unwrap_err();
    assert!(matches!(error, EngineError::ContextFull { .. }), "{error}");
    assert!(scheduler.is_idle());
}

/// Banning every token leaves a chain nothing to choose.
#[test]
fn a_chain_that_fails_ends_its_own_request_alone() {
    let model = embedded_on(2);
    let size = model.tokenizer().size();
    let bans: Vec<String> = (0..size).map(|id| format!("\"{id}-inf\"")).collect();
    let list = format!("logit_bias{{bias=[{}]}};dist", bans.join(","));
    let config = ChainConfig::from_samplers(&list).unwrap();
    let chain = config.build(&Registry::linked().unwrap(), model.tokenizer()).unwrap();
    let mut scheduler = Scheduler::new(&model, SchedulerLimits::default());
    scheduler.submit(request(&model, 5)).unwrap();
    scheduler.submit(Request { chain, ..request(&model, 6) }).unwrap();
    scheduler.submit(request(&model, 8)).unwrap();
    let mut ended = Vec::new();
    while !scheduler.is_idle() {
        for event in scheduler.step().unwrap() {
            match event {
                Event::Failed { request, error } => {
                    assert!(matches!(error, SampleError::Exhausted { .. }), "{error}");
                    ended.push((request.0, false));
                }
                Event::Done { request, .. } => ended.push((request.0, true)),
                Event::Token { .. } => {}
            }
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, [(0, true), (1, false), (2, true)]);
}

/// A request of `tokens` tokens after a prompt.
fn counted(model: &GgufModel, prompt: &[TokenId], tokens: usize) -> Request {
    Request {
        prompt: prompt.to_vec(),
        options: GenerateOptions { max_tokens: Some(tokens), ..Default::default() },
        ..request(model, 1)
    }
}

/// How many steps it takes to the end of all.
fn steps(scheduler: &mut Scheduler) -> usize {
    let mut steps = 0;
    while !scheduler.is_idle() {
        scheduler.step().unwrap();
        steps += 1;
    }
    steps
}

/// Prompts are read a token in a step, which counts what is read of them.
#[test]
fn samples_of_one_prompt_read_it_once() {
    let model = embedded_on(1);
    let prompt = request(&model, 2).prompt;
    let long = prompt.len();
    assert!(long > 15, "{long}");
    let mut scheduler = Scheduler::new(&model, limits(16, 1, None));
    for _ in 0..3 {
        scheduler.submit(counted(&model, &prompt, 1)).unwrap();
    }
    // The first ends in the step that reads its prompt; the others read the last token.
    assert_eq!(steps(&mut scheduler), long + 2);

    // Three of the tokens are another's.
    let mut other = prompt.clone();
    other.truncate(long - 3);
    other.extend([TokenId(7); 3]);
    scheduler.submit(counted(&model, &prompt, 1)).unwrap();
    scheduler.submit(counted(&model, &other, 1)).unwrap();
    scheduler.submit(counted(&model, &other, 1)).unwrap();
    assert_eq!(steps(&mut scheduler), long + 3 + 1);

    // What is written counts too: a prompt that goes on with it.
    scheduler.submit(counted(&model, &prompt, 20)).unwrap();
    let mut text = prompt.clone();
    for _ in 0..long + 9 {
        for event in scheduler.step().unwrap() {
            if let Event::Token { step, .. } = event {
                text.push(step.token);
            }
        }
    }
    assert_eq!(text.len(), long + 10);
    text.push(TokenId(7));
    // Of its text the session has all but the last token: two are left to read.
    scheduler.submit(counted(&model, &text, 20)).unwrap();
    assert_eq!(steps(&mut scheduler), 2 + 19);
}

/// By hand: the first writes its tokens in steps `long` to `long + 7`, the second in the
/// next of each, and the third, for which there is room when the first is over, from the
/// second's last step on.
#[test]
fn samples_that_wait_for_room_take_the_prompt_from_one_that_still_runs() {
    let model = embedded_on(1);
    let prompt = request(&model, 2).prompt;
    let long = prompt.len();
    let bytes = model.cache_bytes(long + 7);
    for (room, expected) in [(2 * bytes, long + 15), (bytes, 3 * (long + 7))] {
        let mut scheduler = Scheduler::new(&model, limits(16, 1, Some(room)));
        for _ in 0..3 {
            scheduler.submit(counted(&model, &prompt, 8)).unwrap();
        }
        // Where there is none that runs, the prompt is read anew.
        assert_eq!(steps(&mut scheduler), expected);
    }
}

#[test]
fn texts_that_are_over_lend_their_beginnings_while_they_are_kept() {
    let model = embedded_on(1);
    let prompts = [2, 10].map(|n| request(&model, n).prompt);
    let [long, other] = prompts.each_ref().map(Vec::len);
    let bytes = model.cache_bytes(long.max(other) + 7);
    // How many are kept, what they may take, and what is read of the first prompt, the
    // second, and the first again.
    for (kept, memory, read) in [
        (0, None, [long, other, long]),
        (1, None, [long, other, long]),
        (2, None, [long, other, 1]),
        (2, Some(3 * bytes), [long, other, 1]),
        (2, Some(bytes), [long, other, long]),
    ] {
        let limits = SchedulerLimits { kept, ..limits(1, 1, memory) };
        let mut scheduler = Scheduler::new(&model, limits);
        for (nth, prompt) in [0, 1, 0].into_iter().enumerate() {
            scheduler.submit(counted(&model, &prompts[prompt], 8)).unwrap();
            let found = steps(&mut scheduler);
            assert_eq!(found, read[nth] + 7, "{kept} kept, {memory:?}, request {nth}");
        }
    }

    // The next turn of a conversation. All but the last token of the text is there.
    let mut scheduler = Scheduler::new(&model, SchedulerLimits { kept: 1, ..limits(1, 1, None) });
    scheduler.submit(counted(&model, &prompts[0], 8)).unwrap();
    let mut text = prompts[0].clone();
    while !scheduler.is_idle() {
        for event in scheduler.step().unwrap() {
            if let Event::Token { step, .. } = event {
                text.push(step.token);
            }
        }
    }
    text.extend([TokenId(7); 5]);
    scheduler.submit(counted(&model, &text, 1)).unwrap();
    assert_eq!(steps(&mut scheduler), 6);
}

/// A request with less room than a kept text had takes no more memory than its own.
#[test]
fn what_is_kept_gives_way_to_what_is_admitted() {
    let model = embedded_on(1);
    let prompt = request(&model, 2).prompt;
    let bytes = |tokens: usize| model.cache_bytes(prompt.len() + tokens - 1);
    let limit = bytes(9) + bytes(2);
    let limits = SchedulerLimits { kept: 4, ..limits(4, 64, Some(limit)) };
    let mut scheduler = Scheduler::new(&model, limits);
    let mut running = Vec::new();
    for tokens in [9, 2, 9, 2, 2] {
        scheduler.submit(counted(&model, &prompt, tokens)).unwrap();
        while scheduler.waiting() > 0 {
            scheduler.step().unwrap();
            assert!(scheduler.memory() + scheduler.kept.bytes() <= limit);
            running.push(scheduler.running());
        }
    }
    steps(&mut scheduler);
    assert!(running.contains(&2) && scheduler.kept.bytes() > 0);
}

#[test]
fn a_prompt_whose_beginning_was_to_come_from_a_cancelled_request_is_read() {
    let model = embedded_on(1);
    let prompt = request(&model, 2).prompt;
    let long = prompt.len();
    let mut scheduler = Scheduler::new(&model, limits(16, 1, None));
    for _ in 0..3 {
        scheduler.submit(counted(&model, &prompt, 1)).unwrap();
    }
    for _ in 0..5 {
        scheduler.step().unwrap();
    }
    assert!(scheduler.cancel(RequestId(0)));
    // The second reads it all, and the third the last token.
    assert_eq!(steps(&mut scheduler), long + 1);
}

/// The text to which a waiting one turns when the first is cancelled can be cancelled
/// before it has given anything.
#[test]
fn two_cancelled_sources_in_a_row_leave_a_request_that_reads_for_itself() {
    let model = embedded_on(1);
    let ids = |ids: std::ops::RangeInclusive<u32>| ids.map(TokenId).collect::<Vec<_>>();
    let mut scheduler = Scheduler::new(&model, SchedulerLimits { kept: 0, ..limits(16, 4, None) });
    let first = ids(10..=21);
    let writing = scheduler.submit(counted(&model, &first, 50)).unwrap();
    for _ in 0..4 {
        scheduler.step().unwrap();
    }
    let long = [first.clone(), ids(200..=259)].concat();
    let reading = scheduler.submit(counted(&model, &long, 5)).unwrap();
    let prompt = [first, ids(200..=207)].concat();
    scheduler.submit(counted(&model, &prompt, 1)).unwrap();
    scheduler.step().unwrap();
    assert!(scheduler.cancel(reading) && scheduler.cancel(writing));
    // Twenty tokens, four in a step.
    let mut taken = 0;
    while !scheduler.is_idle() && taken < 100 {
        scheduler.step().unwrap();
        taken += 1;
    }
    assert_eq!(taken, 5);
}

#[test]
fn prompts_can_be_read_without_a_limit() {
    let model = embedded_on(2);
    let prompt = request(&model, 2).prompt;
    let mut scheduler = Scheduler::new(&model, limits(16, usize::MAX, None));
    for _ in 0..2 {
        scheduler.submit(counted(&model, &prompt, 3)).unwrap();
        scheduler.step().unwrap();
    }
    assert_eq!(steps(&mut scheduler), 2);
}

#[test]
fn short_beginnings_are_not_waited_for() {
    let model = embedded_on(1);
    let with = |ids: [u32; 12]| ids.map(TokenId);
    let mut scheduler = Scheduler::new(&model, limits(16, 64, None));
    let first = with([1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    let mut second = first;
    // Five of twelve.
    second[5] = TokenId(99);
    scheduler.submit(counted(&model, &first, 1)).unwrap();
    scheduler.submit(counted(&model, &second, 1)).unwrap();
    assert_eq!(steps(&mut scheduler), 1);
    // Six.
    second[5] = first[5];
    second[6] = TokenId(99);
    scheduler.submit(counted(&model, &first, 1)).unwrap();
    scheduler.submit(counted(&model, &second, 1)).unwrap();
    assert_eq!(steps(&mut scheduler), 2);
}
