use proptest::{collection::vec, prelude::*};

use super::*;
use crate::Special;

#[allow(dead_code, clippy::duplicate_mod, reason = "they are also the tests' of the whole crate")]
#[path = "../../tests/architectures/models.rs"]
mod models;

fn embedded_on(threads: usize) -> GgufModel {
    let options = LoadOptions {
        threads: NonZero::new(threads),
        cache: CacheType::F32,
        ..LoadOptions::default()
    };
    GgufModel::from_gguf(&Gguf::from_static(EMBEDDED_GGUF).unwrap(), &options).unwrap()
}

fn tokens(ids: impl IntoIterator<Item = u32>) -> Vec<TokenId> {
    ids.into_iter().map(TokenId).collect()
}

/// Nonsense, but a hundred tokens of it, and easily said.
fn long_text() -> Vec<TokenId> {
    tokens((0..100).map(|i| if i == 0 { 1 } else { i * 37 % 2048 }))
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

fn best(logits: &[f32]) -> TokenId {
    let (best, _) = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    TokenId(best as u32)
}

/// The expected logits come from another program: the same network written
/// down in numpy with 64-bit numbers, its weights read by the `gguf` package.
#[test]
fn the_embedded_model_scores_as_a_numpy_reference_does() {
    let cases = [
        // "In the beginning"
        (
            tokens([1, 771, 262, 2037, 984]),
            [(0, -13.50306), (3, 3.54742), (278, 7.2055), (1000, -3.21437), (2047, -4.37146)],
        ),
        (
            long_text(),
            [(0, -16.83911), (3, 4.36185), (278, 4.34887), (1000, -0.70062), (2047, -2.72117)],
        ),
    ];
    for (text, expected) in cases {
        let mut session = embedded_on(1).session();
        let logits = session.forward(&text).unwrap();
        for (id, expected) in expected {
            let found: f32 = logits[id];
            assert!((found - expected).abs() < 1e-4, "logit {id}: {found}, not {expected}");
        }
    }
}

#[test]
fn neither_slices_nor_chunks_nor_threads_change_a_bit() {
    let text = long_text();
    let mut session = embedded_on(1).session();
    for token in &text[..99] {
        session.forward(std::slice::from_ref(token)).unwrap();
    }
    let expected = bits(session.forward(&text[99..]).unwrap());

    for threads in [1, 2, 8] {
        let model = embedded_on(threads);
        for chunk in [1, 3, 8, 64, 100] {
            let mut session = model.session();
            session.forward_in_chunks(&text, chunk).unwrap();
            assert_eq!(bits(&session.logits), expected, "{threads} threads, chunks of {chunk}");

            let mut session = model.session();
            for slice in text.chunks(chunk) {
                session.forward(slice).unwrap();
            }
            assert_eq!(bits(&session.logits), expected, "{threads} threads, slices of {chunk}");
        }
    }
}

#[test]
fn a_mapped_file_gives_the_same_bits_as_one_in_the_program() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/logitchain-tiny-f16.gguf");
    let model = GgufModel::load(Path::new(path), &LoadOptions::default()).unwrap();
    let text = long_text();
    let expected = bits(GgufModel::embedded().session().forward(&text).unwrap());
    assert_eq!(bits(model.session().forward(&text).unwrap()), expected);
}

#[test]
fn a_session_can_go_back_and_take_another_way() {
    let model = embedded_on(1);
    let text = long_text();
    let mut straight = model.session();
    let expected = bits(straight.forward(&text).unwrap());

    let mut session = model.session();
    session.forward(&text[..40]).unwrap();
    session.forward(&tokens([5, 6, 7])).unwrap();
    session.rewind(40);
    assert_eq!(session.position(), 40);
    // Beyond the end there is nothing to forget.
    session.rewind(50);
    assert_eq!(session.position(), 40);
    assert_eq!(bits(session.forward(&text[40..]).unwrap()), expected);

    session.rewind(0);
    assert_eq!(bits(session.forward(&text).unwrap()), expected);
}

#[test]
fn sessions_and_clones_do_not_see_each_other() {
    let model = embedded_on(1);
    let text = long_text();
    let expected = bits(model.session().forward(&text).unwrap());

    let mut one = model.session();
    let mut other = model.session();
    one.forward(&text[..50]).unwrap();
    other.forward(&text[50..]).unwrap();
    let mut clone = one.clone();
    clone.forward(&text[..7]).unwrap();
    assert_eq!(bits(one.forward(&text[50..]).unwrap()), expected);
}

#[test]
fn a_fork_beyond_the_end_is_a_clone() {
    let model = embedded_on(1);
    let text = long_text();
    let mut session = model.session();
    session.forward(&text[..50]).unwrap();
    let mut fork = session.fork_at(51);
    assert_eq!(fork.position(), 50);
    let expected = bits(model.session().forward(&text).unwrap());
    assert_eq!(bits(fork.forward(&text[50..]).unwrap()), expected);
    assert_eq!(session.fork_at(0).position(), 0);
}

#[test]
fn what_the_caller_did_to_the_logits_is_forgotten() {
    let mut session = embedded_on(1).session();
    let text = tokens([1, 771]);
    let expected = bits(session.forward(&text).unwrap());
    session.forward(&text).unwrap().fill(f32::NAN);
    session.rewind(0);
    assert_eq!(bits(session.forward(&text).unwrap()), expected);
}

#[test]
fn a_text_longer_than_the_context_is_refused_and_nothing_is_appended() {
    let mut session = embedded_on(1).session();
    assert_eq!(session.context_length(), Some(256));
    session.forward(&vec![TokenId(9); 250]).unwrap();
    let error = session.forward(&[TokenId(9); 7]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "7 more tokens do not fit: 6 of the model's 256 positions are left"
    );
    assert_eq!(session.position(), 250);
    session.forward(&[TokenId(9); 6]).unwrap();
}

#[test]
fn tokens_that_do_not_exist_are_refused_and_nothing_is_appended() {
    let mut session = embedded_on(1).session();
    let error = session.forward(&tokens([1, 2048])).unwrap_err();
    assert_eq!(error.to_string(), "the model has no token 2048; ids are below 2048");
    assert!(matches!(session.forward(&[]), Err(EngineError::NoTokens)));
    assert_eq!(session.position(), 0);
}

/// The best token each time. It was read and found to be of the training
/// texts' kind; the same network in numpy writes it, too.
#[test]
fn the_embedded_model_writes_what_it_has_read() {
    let model = GgufModel::embedded();
    let mut session = model.session();
    let mut text = vec![model.tokenizer().beginning_of_text().unwrap()];
    text.extend(model.tokenizer().encode("ROMEO.", Special::Plain));
    let mut out = Vec::new();
    let mut next = best(session.forward(&text).unwrap());
    for _ in 0..30 {
        out.extend_from_slice(model.tokenizer().bytes(next));
        next = best(session.forward(&[next]).unwrap());
    }
    assert_eq!(
        String::from_utf8_lossy(&out),
        "\nI am a gentleman of the Greek.\n\n[Exit.]\n\nACT III.\n\nSCENE I."
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Of each architecture: texts of any length in any company, in any order, on any
    /// number of threads. What is expected comes from a session alone on one thread,
    /// which reads one token after the other.
    #[test]
    fn no_company_and_no_thread_changes_a_bit(
        rounds in vec((Just([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).prop_shuffle(), 1_usize..=10), 1..5),
        slices in vec(1_usize..20, 50),
        threads in prop::sample::select(&[1, 2, 3, 8][..]),
        cache in prop::sample::select(&[CacheType::F16, CacheType::F32][..]),
        ids in vec(3_u32..259, 400),
    ) {
        for models::Case { name, bytes } in models::cases() {
            let load = |threads| {
                let options = LoadOptions { threads: NonZero::new(threads), cache, context: None };
                GgufModel::from_gguf(&Gguf::from_bytes(bytes.clone()).unwrap(), &options).unwrap()
            };
            let (model, other) = (load(threads), load(1));
            let size = model.tokenizer().size();
            let mut together: [Session; 10] = std::array::from_fn(|_| model.session());
            let mut alone: [Session; 10] = std::array::from_fn(|_| other.session());
            let (mut step, mut tokens) = (JointStep::default(), ids.iter().copied().map(TokenId));
            let mut slices = slices.iter().copied().cycle();
            for (order, count) in &rounds {
                let mut pieces: Vec<(usize, Vec<TokenId>)> = Vec::new();
                for text in &order[..*count] {
                    let slice = tokens.by_ref().take(slices.next().unwrap()).collect();
                    pieces.push((*text, slice));
                }
                pieces.retain(|(_, slice)| !slice.is_empty());
                let mut expected = Vec::new();
                for (text, slice) in &pieces {
                    for token in slice {
                        alone[*text].forward(std::slice::from_ref(token)).unwrap();
                    }
                    expected.push(bits(&alone[*text].logits));
                }
                let mut sessions: Vec<Option<&mut Session>> =
                    together.iter_mut().map(Some).collect();
                let mut texts: Vec<(&mut Session, &[TokenId])> = pieces
                    .iter()
                    .map(|(text, slice)| (sessions[*text].take().unwrap(), &slice[..]))
                    .collect();
                let logits = step.forward(&mut texts).unwrap();
                let found: Vec<_> = logits.chunks(size).map(bits).collect();
                prop_assert_eq!(&found, &expected, "{}: {} threads", name, threads);
            }
        }
    }
}

#[test]
fn a_step_of_two_models_is_refused_and_no_text_grows() {
    let (mut a, mut b) = (embedded_on(1).session(), embedded_on(1).session());
    let token = [TokenId(1)];
    let mut step = JointStep::default();
    let error = step.forward(&mut [(&mut a, &token), (&mut b, &token)]);
    assert!(matches!(error, Err(EngineError::AnotherModel)));
    let mut c = a.clone();
    let error = step.forward(&mut [(&mut a, &token), (&mut c, &[])]);
    assert!(matches!(error, Err(EngineError::NoTokens)));
    assert_eq!((a.position(), b.position(), c.position()), (0, 0, 0));
}
