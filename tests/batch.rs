//! A request's tokens do not depend on what else is in the batch.

use logitchain::{
    Batch, BatchError, Chain, ChainConfig, NoVocab, Registry, RngKind, SampleError, Seed, TokenId,
    stages::DEFAULT_ORDER,
};
use proptest::prelude::*;

const VOCABULARY: usize = 300;
const STRIDE: usize = 320;

/// The stages that drop or rescale, each so that it acts on these logits.
const STAGES: [&str; 14] = [
    "penalties{repeat=1.3,frequency=0.1}",
    "penalties{presence=0.7,last_n=\"all\"}",
    "dry{multiplier=0.8,allowed_length=1,breakers=[\"none\"]}",
    "logit_bias{bias=[\"7-1.5\",\"9-inf\"]}",
    "top_n_sigma{n=1.5}",
    "top_k{k=20}",
    "typical{p=0.8}",
    "top_p{p=0.9}",
    "min_p{p=0.02}",
    "xtc{probability=0.5,threshold=0.02}",
    "temperature{t=0.8}",
    "temperature{range=0.5}",
    "infill",
    "top_k{k=0}",
];

const SELECTORS: [&str; 5] =
    ["dist", "greedy", "mirostat", "mirostat_v2", "adaptive_p{target=0.3}"];

/// The `n`-th of many chains: every stage, every selecting stage, both generators.
fn chain(n: usize) -> Chain {
    let list = match n % 10 {
        0 => format!("{DEFAULT_ORDER};dist"),
        1 => SELECTORS[n / 10 % SELECTORS.len()].to_owned(),
        _ => {
            let stages = (0..1 + n % 3).map(|i| STAGES[(n * 5 + i * 3) % STAGES.len()]);
            let selector = SELECTORS[n % SELECTORS.len()];
            stages.chain([selector]).collect::<Vec<_>>().join(";")
        }
    };
    let mut config = ChainConfig::from_samplers(&list).expect("a list");
    config.rng = if n % 7 == 3 { RngKind::Mt19937 } else { RngKind::default() };
    config.seed = Seed::Fixed(n as u64);
    config.build(&Registry::linked().expect("distinct names"), &NoVocab).expect("a chain")
}

/// What stands in for a model: logits that hang on the text so far.
fn write_logits(text: &[TokenId], logits: &mut [f32]) {
    let mut hash = text.iter().rev().take(3).fold(17_u64, |hash, token| {
        (hash ^ u64::from(token.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    for logit in logits {
        hash = hash.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *logit = ((hash >> 40) as f32 / (1_u64 << 24) as f32).powi(4) * 12.0;
    }
}

/// A text that a chain goes on with.
#[derive(Clone, Debug)]
struct Request {
    number: usize,
    text: Vec<TokenId>,
}

impl Request {
    fn new(number: usize, chain: &mut Chain) -> Self {
        let text: Vec<_> = (0..5).map(|i| TokenId((number * 31 + i * 7) as u32 % 50)).collect();
        text.iter().for_each(|token| chain.accept(*token));
        Self { number, text }
    }
}

/// The text of a request that nobody else disturbs.
fn alone(number: usize, tokens: usize) -> Vec<TokenId> {
    let mut chain = chain(number);
    let mut request = Request::new(number, &mut chain);
    let mut logits = vec![0.0; VOCABULARY];
    for _ in 0..tokens {
        write_logits(&request.text, &mut logits);
        let token = chain.sample(&mut logits).expect("a token");
        chain.accept(token);
        request.text.push(token);
    }
    request.text
}

/// Requests in a batch.
#[derive(Debug, Default)]
struct Server {
    batch: Batch,
    requests: Vec<Request>,
    logits: Vec<f32>,
}

impl Server {
    fn add(&mut self, number: usize) {
        let mut chain = chain(number);
        self.requests.push(Request::new(number, &mut chain));
        self.batch.push(chain);
    }

    fn step(&mut self, threads: Option<&rayon::ThreadPool>) {
        self.logits.clear();
        self.logits.resize(self.requests.len() * STRIDE, f32::NAN);
        for (request, logits) in self.requests.iter().zip(self.logits.chunks_mut(STRIDE)) {
            write_logits(&request.text, &mut logits[..VOCABULARY]);
        }
        let (batch, logits) = (&mut self.batch, &mut self.logits);
        let tokens = match threads {
            None => batch.sample(logits, VOCABULARY, STRIDE),
            Some(pool) => pool.install(|| batch.par_sample(logits, VOCABULARY, STRIDE)),
        };
        let tokens = tokens.expect("rows that fit").to_vec();
        for (row, (request, token)) in self.requests.iter_mut().zip(tokens).enumerate() {
            let token = token.expect("a token");
            request.text.push(token);
            self.batch.chain_mut(row).expect("its row").accept(token);
        }
    }
}

/// What happens to a batch before a step.
#[derive(Clone, Copy, Debug)]
enum Event {
    Add,
    Remove(usize),
    SwapRemove(usize),
    Swap(usize, usize),
    Nothing,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Add),
        any::<usize>().prop_map(Event::Remove),
        any::<usize>().prop_map(Event::SwapRemove),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Event::Swap(a, b)),
        Just(Event::Nothing),
    ]
}

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_goes_as_if_alone(
        first in 0_usize..40,
        events in prop::collection::vec(event(), 1..48),
        threads in prop::sample::select(vec![0_usize, 1, 2, 8]),
    ) {
        let pool = (threads > 0).then(|| pool(threads));
        let mut server = Server::default();
        server.add(first);
        let mut next = first + 1;
        let mut ended = Vec::new();
        for event in events {
            let rows = server.requests.len();
            match event {
                Event::Add => {
                    server.add(next);
                    next += 1;
                }
                Event::Remove(at) if rows > 1 => {
                    server.batch.remove(at % rows).expect("a row");
                    ended.push(server.requests.remove(at % rows));
                }
                Event::SwapRemove(at) if rows > 1 => {
                    server.batch.swap_remove(at % rows).expect("a row");
                    ended.push(server.requests.swap_remove(at % rows));
                }
                Event::Swap(a, b) => {
                    prop_assert!(server.batch.swap(a % rows, b % rows));
                    server.requests.swap(a % rows, b % rows);
                }
                _ => {}
            }
            server.step(pool.as_ref());
        }
        for Request { number, text } in ended.into_iter().chain(server.requests) {
            prop_assert_eq!(&text, &alone(number, text.len() - 5), "request {}", number);
        }
    }
}

/// The batch's path and the single one, token for token.
#[test]
fn fifty_chains_in_a_batch_give_what_they_give_alone() {
    let mut server = Server::default();
    (0..50).for_each(|number| server.add(number));
    let pool = pool(2);
    for step in 0..64 {
        server.step((step % 2 == 0).then_some(&pool));
    }
    for Request { number, text } in server.requests {
        assert_eq!(text, alone(number, 64), "request {number}");
    }
}

#[test]
fn a_row_that_fails_says_so_in_its_place_and_leaves_the_others_alone() {
    let mut batch = Batch::default();
    (0..4).for_each(|_| batch.push(chain(1)));
    let mut logits = vec![0.0; 4 * 3];
    logits[2] = 5.0;
    logits[3 + 1] = f32::NAN;
    logits[6..9].fill(f32::NEG_INFINITY);
    logits[9] = 5.0;
    let nan = |result: &Result<TokenId, SampleError>| {
        matches!(result, Err(SampleError::NonFinite { token: TokenId(1), stage: None, .. }))
    };
    for parallel in [false, true] {
        let mut logits = logits.clone();
        let tokens = match parallel {
            false => batch.sample(&mut logits, 3, 3),
            true => batch.par_sample(&mut logits, 3, 3),
        };
        let tokens = tokens.expect("rows that fit");
        assert!(nan(&tokens[1]), "{tokens:?}");
        assert_eq!(tokens[2], Err(SampleError::Exhausted { stage: None }));
    }
    // Greedy ones, so that the others' tokens are known.
    let mut batch = Batch::default();
    (0..4).for_each(|_| batch.push(chain(11)));
    assert_eq!(chain(11).to_string(), "logits -> greedy");
    let tokens = batch.sample(&mut logits, 3, 3).expect("rows that fit");
    assert_eq!((&tokens[0], &tokens[3]), (&Ok(TokenId(2)), &Ok(TokenId(0))));
}

#[test]
fn logits_that_do_not_fit_are_refused_and_nothing_is_drawn() {
    let mut batch = Batch::default();
    (0..2).for_each(|_| batch.push(chain(0)));
    let before = format!("{batch:?}");
    let mut refuse = |given: usize, vocab, stride| {
        batch.sample(&mut vec![0.0; given], vocab, stride).expect_err("no rows").to_string()
    };
    assert_eq!(refuse(8, 0, 4), "rows of 0 logits: give the size of the vocabulary");
    assert_eq!(refuse(8, 4, 3), "rows of 4 logits cannot begin 3 apart: a stride is 4 at least");
    let message = refuse(9, 3, 4);
    assert!(message.contains("give 7 or, with the last row padded, 8"), "{message}");
    // Numbers beyond all memory are only told.
    assert!(refuse(4, 2, usize::MAX / 2).starts_with("4 logits for 2 rows of 2"));
    assert!(refuse(4, 3, 4).starts_with("4 logits for 2 rows of 3, 4 apart"));
    assert_eq!(format!("{batch:?}"), before);
    assert!(batch.sample(&mut [0.0; 7], 3, 4).is_ok());
    assert_eq!(
        Batch::default().sample(&mut [1.0], 1, 1),
        Err(BatchError::Length { given: 1, rows: 0, vocab: 1, stride: 1 })
    );
    assert_eq!(Batch::default().sample(&mut [], 1, 1), Ok(&[][..]));
}

#[test]
fn rows_that_are_not_there_are_not_touched() {
    let mut batch = Batch::default();
    batch.push(chain(0));
    assert!(batch.remove(1).is_none() && batch.swap_remove(1).is_none());
    assert!(!batch.swap(0, 1));
    assert_eq!(batch.len(), 1);
}
