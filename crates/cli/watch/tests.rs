use std::{fs, path::Path};

use logitchain_conformance::NumberVocab;
use logitchain_core::{ChainConfig, NoVocab, Registry, TokenId, Vocab};
use logitchain_engine::{GgufModel, Special, prompt_tokens};
use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};

use super::{
    Ask, Draft, Look, Mode, Recording, Scene, State, act, look,
    recording::{Next, Source},
    source::{self, ModelSource},
    svg, view,
};
use crate::{
    logits::{self, Logits},
    report::Failure,
};

/// Steps that are known from the beginning.
struct Known(std::vec::IntoIter<(Vec<f32>, Option<TokenId>)>);

impl Source for Known {
    fn next(&mut self, _: Option<TokenId>) -> Result<Next, Failure> {
        Ok(match self.0.next() {
            Some((logits, token)) => Next::Step { logits, token },
            None => Next::End("there are no more".to_owned()),
        })
    }
}

/// A view without a terminal.
struct Bench<'a> {
    recording: Recording<'a>,
    state: State<'a>,
    quit: bool,
}

impl<'a> Bench<'a> {
    fn new(
        list: &str,
        registry: &'a Registry,
        vocab: &'a dyn Vocab,
        recording: impl FnOnce(logitchain_core::Chain) -> Recording<'a>,
    ) -> Self {
        let config = ChainConfig::from_samplers(list).expect("a list");
        Self::of(&config, registry, vocab, recording)
    }

    fn of(
        config: &ChainConfig,
        registry: &'a Registry,
        vocab: &'a dyn Vocab,
        recording: impl FnOnce(logitchain_core::Chain) -> Recording<'a>,
    ) -> Self {
        let chain = config.build(registry, vocab).expect("a chain");
        let draft = Draft::new(config, &chain, registry);
        let mut recording = recording(chain);
        assert!(recording.reach(0).expect("a source that works"));
        Self { recording, state: State::new(draft, registry, vocab), quit: false }
    }

    /// A text of the model in the program.
    fn of_model(list: &str, prompt: &str, registry: &'a Registry, model: &'a GgufModel) -> Self {
        let tokens = prompt_tokens(model.tokenizer(), prompt, Special::Plain).expect("tokens");
        Self::new(list, registry, model.tokenizer(), |chain| {
            let source = ModelSource::new(model.session(), &tokens);
            Recording::of_text(tokens, chain, Box::new(source))
        })
    }

    /// Presses keys: characters, and some others by name in angle brackets.
    fn press(&mut self, keys: &str) {
        let mut rest = keys;
        while let Some(first) = rest.chars().next() {
            let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
            let (code, modifiers, after) = match named {
                Some((name, after)) => {
                    let (code, modifiers) = match name {
                        "left" => (KeyCode::Left, KeyModifiers::NONE),
                        "right" => (KeyCode::Right, KeyModifiers::NONE),
                        "up" => (KeyCode::Up, KeyModifiers::NONE),
                        "down" => (KeyCode::Down, KeyModifiers::NONE),
                        "shift-up" => (KeyCode::Up, KeyModifiers::SHIFT),
                        "tab" => (KeyCode::Tab, KeyModifiers::NONE),
                        "back-tab" => (KeyCode::BackTab, KeyModifiers::SHIFT),
                        "enter" => (KeyCode::Enter, KeyModifiers::NONE),
                        "esc" => (KeyCode::Esc, KeyModifiers::NONE),
                        "backspace" => (KeyCode::Backspace, KeyModifiers::NONE),
                        "end" => (KeyCode::End, KeyModifiers::NONE),
                        "home" => (KeyCode::Home, KeyModifiers::NONE),
                        "ctrl-c" => (KeyCode::Char('c'), KeyModifiers::CONTROL),
                        name => panic!("no key {name}"),
                    };
                    (code, modifiers, after)
                }
                None => (KeyCode::Char(first), KeyModifiers::NONE, &rest[first.len_utf8()..]),
            };
            let ask = self.state.key(KeyEvent::new(code, modifiers));
            self.quit |= ask == Ask::Quit;
            act(ask, &mut self.recording, &mut self.state);
            rest = after;
        }
    }

    fn look(&self) -> Look {
        look(&self.recording, &self.state).expect("a chain that is built")
    }

    fn list(&self) -> String {
        self.state.draft.config(self.state.registry).to_string()
    }

    fn said(&self) -> &str {
        self.state.said.as_ref().map_or("", |(said, _)| said)
    }

    fn buffer(&self, width: u16, height: u16) -> Buffer {
        self.buffer_of(&self.look(), width, height)
    }

    fn buffer_of(&self, look: &Look, width: u16, height: u16) -> Buffer {
        let scene = Scene { state: &self.state, look, recording: &self.recording };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| view::draw(frame, scene)).expect("a picture");
        terminal.backend().buffer().clone()
    }

    fn picture(&self, width: u16, height: u16) -> String {
        let buffer = self.buffer(width, height);
        let line = |y| {
            let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
            format!("{}\n", line.trim_end())
        };
        (0..height).map(line).collect()
    }
}

fn registry() -> Registry {
    Registry::linked().expect("the built-in stages")
}

/// Rows of a text whose tokens are known.
fn rows(rows: &[(&[f32], u32)]) -> Box<Known> {
    let rows = rows.iter().map(|(logits, token)| (logits.to_vec(), Some(TokenId(*token))));
    Box::new(Known(rows.collect::<Vec<_>>().into_iter()))
}

fn three<'a>(list: &str, registry: &'a Registry) -> Bench<'a> {
    three_of(list, registry, &NoVocab)
}

fn three_of<'a>(list: &str, registry: &'a Registry, vocab: &'a dyn Vocab) -> Bench<'a> {
    Bench::new(list, registry, vocab, |chain| {
        let row: &[f32] = &[2.0, 1.0, 0.5, 0.0];
        Recording::of_text(vec![TokenId(3)], chain, rows(&[(row, 0), (row, 1), (row, 0)]))
    })
}

/// What a file says must be what is shown; `BLESS=1` writes it.
fn same(file: &str, shown: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/cli/watch").join(file);
    if std::env::var_os("BLESS").is_some() {
        return fs::write(&path, shown).expect("a writable file");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == shown, "{file} is another; BLESS=1 rewrites it:\n{shown}");
}

const CHAIN: &str = "penalties{repeat=1.1};xtc;top_k{k=40};top_p{p=0.9};min_p;temperature;dist";
const PROMPT: &str = "In the beginning God created";

#[test]
fn the_picture_is_as_it_was_looked_at_in_three_sizes() {
    let (registry, model) = (registry(), GgufModel::embedded());
    let mut bench = Bench::of_model(CHAIN, PROMPT, &registry, &model);
    bench.press(&format!("{}<down><down><down>", "n".repeat(16)));
    same("pictures/120x32.txt", &bench.picture(120, 32));
    same("pictures/80x24.txt", &bench.picture(80, 24));
    same("pictures/60x15.txt", &bench.picture(60, 15));
}

#[test]
fn the_picture_in_the_readme_is_what_is_shown() {
    let (registry, model) = (registry(), GgufModel::embedded());
    let mut bench = Bench::of_model(CHAIN, PROMPT, &registry, &model);
    bench.press(&format!("{}<down><down><down>-----", "n".repeat(16)));
    let readme = include_str!("../../../README.md");
    let example = format!("explain --watch \"{PROMPT}\" \\\n  --samplers '{CHAIN}'");
    assert!(readme.contains(&example), "the README does not say {example}");
    same("watch.svg", &svg::svg(&bench.buffer(104, 26)));
}

#[test]
fn every_size_and_every_question_can_be_drawn() {
    let (registry, model) = (registry(), GgufModel::embedded());
    let mut bench = Bench::of_model(CHAIN, PROMPT, &registry, &model);
    for keys in ["", "?", " =", "9999999999999999999999<enter>", "<esc>w", "a/b", "<esc>nn"] {
        bench.press(keys);
        let look = bench.look();
        for width in [1, 2, 59, 60, 61, 75, 76, 77, 110, 300] {
            for height in [1, 2, 14, 15, 16, 19, 20, 33, 80] {
                bench.buffer_of(&look, width, height);
            }
        }
    }
    let small = bench.picture(59, 15);
    assert!(small.starts_with("59×15: the terminal needs 60×15"), "{small}");
}

#[test]
fn steps_go_to_both_ends_and_no_further() {
    let registry = registry();
    let mut bench = three("greedy", &registry);
    bench.press("<left>");
    assert_eq!((bench.state.step, bench.said()), (0, "this is the first step"));
    bench.press("n<right>");
    assert_eq!((bench.state.step, bench.said()), (2, ""));
    bench.press("n");
    assert_eq!((bench.state.step, bench.said()), (2, "there are no more"));
    bench.press("p");
    assert_eq!(bench.state.step, 1);
    bench.press("<home>");
    assert_eq!(bench.state.step, 0);
    bench.press("<end>");
    assert_eq!(bench.state.step, 2);
}

#[test]
fn stages_and_parameters_are_chosen_with_keys() {
    let registry = registry();
    let mut bench = three("top_p;temperature;greedy", &registry);
    let chosen = |bench: &Bench<'_>| bench.state.chosen().map(|param| param.name);
    assert_eq!(chosen(&bench).as_deref(), Some("p"));
    bench.press("<up><tab>");
    assert_eq!(chosen(&bench).as_deref(), Some("min_keep"));
    bench.press("<enter>");
    assert_eq!(chosen(&bench).as_deref(), Some("p"));
    bench.press("<down><back-tab>");
    assert_eq!(chosen(&bench).as_deref(), Some("exponent"));
    bench.press("jjj");
    assert_eq!((bench.state.stage, chosen(&bench)), (2, None));
    for key in ["<tab>", "+", "="] {
        bench.press(key);
        assert_eq!(bench.said(), "`greedy` has no parameters");
    }
}

#[test]
fn values_go_up_and_down_and_stop_at_what_the_stage_refuses() {
    let registry = registry();
    let mut bench = three("top_k;top_p;temperature;greedy", &registry);
    bench.press("+<down>+<down>-");
    assert_eq!(bench.list(), "top_k{k=45};top_p{p=0.96};temperature{t=0.75};greedy");
    bench.press("<up>++++");
    assert_eq!(bench.list(), "top_k{k=45};top_p{p=1.0};temperature{t=0.75};greedy");
    bench.press("+");
    assert_eq!(bench.said(), "stage 2, `top_p`: `p` must be between 0 and 1, got 1.01");
    assert_eq!(bench.list(), "top_k{k=45};top_p{p=1.0};temperature{t=0.75};greedy");
    bench.press("r");
    assert_eq!(bench.list(), "top_k;top_p;temperature;greedy");
    assert!(!bench.state.is_changed());
}

#[test]
fn a_typed_value_is_taken_or_refused_in_the_library_s_words() {
    let (registry, vocab) = (registry(), NumberVocab::new(4));
    let mut bench = three_of("top_k;penalties;dry{multiplier=0.5};greedy", &registry, &vocab);
    bench.press("=ab<enter>");
    assert_eq!(bench.said(), "stage 1, `top_k`: `k` must be a whole number, got `\"ab\"`");
    assert!(matches!(bench.state.mode, Mode::Value(_)));
    bench.press("<backspace><backspace>3<enter>");
    assert_eq!(bench.list(), "top_k{k=3};penalties;dry{multiplier=0.5};greedy");
    bench.press("e7<esc>");
    assert_eq!(bench.list(), "top_k{k=3};penalties;dry{multiplier=0.5};greedy");
    // The value that is there can be added to.
    bench.press("=<backspace>12<enter><down>=all<enter>");
    assert_eq!(bench.list(), "top_k{k=12};penalties{last_n=\"all\"};dry{multiplier=0.5};greedy");
    bench.press("<back-tab>+<down><back-tab>=[\"a\", ';']<enter>");
    assert_eq!(
        bench.list(),
        "top_k{k=12};penalties{last_n=\"all\",order=\"subtract_first\"};\
         dry{multiplier=0.5,breakers=[\"a\", \";\"]};greedy"
    );
    bench.press("=[\"a\"<enter>");
    assert!(bench.said().starts_with("`[\"a\"` is not a list"), "{}", bench.said());
}

#[test]
fn a_stage_moves_as_far_as_the_chain_makes_sense() {
    let registry = registry();
    let mut bench = three("top_k;top_p;greedy", &registry);
    bench.press("J");
    assert_eq!((bench.list().as_str(), bench.state.stage), ("top_p;top_k;greedy", 1));
    bench.press("J");
    assert!(bench.said().contains("`greedy`"), "{}", bench.said());
    assert_eq!((bench.list().as_str(), bench.state.stage), ("top_p;top_k;greedy", 1));
    bench.press("<shift-up>K");
    assert_eq!(
        (bench.list().as_str(), bench.said()),
        ("top_k;top_p;greedy", "it is the first already")
    );
}

#[test]
fn a_stage_that_is_off_is_neutral_or_left_out() {
    let registry = registry();
    let mut bench = three("min_p{p=0.3};typical;logit_bias{bias=[\"1+2\"]};greedy", &registry);
    bench.press("d");
    assert_eq!(bench.list().split(';').next(), Some("min_p{p=0.0}"));
    assert!(bench.look().stages[0].neutral);
    bench.press("d<down>d");
    assert_eq!(bench.said(), "`typical` is off by its parameters; change them");
    bench.press("<down>d");
    assert_eq!(bench.list(), "min_p{p=0.3};typical;logit_bias{bias=[]};greedy");
    bench.press("<down>d");
    assert!(bench.said().contains("selects"), "{}", bench.said());
    assert!(bench.list().ends_with("greedy"));
    bench.press("<up><up><up>d+");
    assert_eq!(bench.said(), "p = 0.35, and the stage is on");

    let vocab = NumberVocab::new(4);
    let mut bench = three_of("infill;greedy", &registry, &vocab);
    bench.press("d");
    assert_eq!(bench.list(), "greedy");
    let picture = bench.picture(80, 24);
    let line = picture.lines().find(|line| line.contains("infill*")).expect("its line");
    assert!(line.contains("  off"), "{line}");
    bench.press("d");
    assert_eq!(bench.list(), "infill;greedy");
}

/// By hand: a presence penalty of 1.5 at step 1 is on token 3, and 0 stays best with
/// 2; at step 2 on 3 and 0, which has 0.5, so that 1 is best with 1; at step 3 on 3, 0
/// and 1, so that 0 and 2 have 0.5, of which the lower id is taken.
#[test]
fn a_changed_chain_hears_the_tokens_that_followed() {
    let registry = registry();
    let mut bench = three("penalties;greedy", &registry);
    for _ in 0..3 {
        bench.press("n");
        assert_eq!(bench.look().outcome, Ok(TokenId(0)));
    }
    bench.press("<home><tab><tab><tab>=1.5<enter>");
    for expected in [0, 1, 0] {
        assert_eq!(bench.look().outcome, Ok(TokenId(expected)));
        bench.press("n");
    }
    bench.press("=3<enter>");
    assert_eq!(bench.look().outcome, Ok(TokenId(2)));
    let picture = bench.picture(80, 24);
    assert!(picture.starts_with("step 3 of 3  #0 → #2 with this chain"), "{picture}");
}

/// The engine's own loop is the other implementation.
#[test]
fn the_given_chain_draws_at_every_step_what_a_generation_draws() {
    use logitchain_engine::{GenerateOptions, Generation};
    let (registry, model) = (registry(), GgufModel::embedded());
    for list in [
        "penalties{repeat=1.2};xtc{probability=0.5};temperature;dist",
        "mirostat_v2",
        "dry{multiplier=0.8};mirostat",
        "adaptive_p{target=0.3}",
    ] {
        let mut bench = Bench::of_model(list, PROMPT, &registry, &model);
        let config = ChainConfig::from_samplers(list).expect("a list");
        let mut chain = config.build(&registry, model.tokenizer()).expect("a chain");
        let options = GenerateOptions { max_tokens: Some(40), ..Default::default() };
        let mut session = model.session();
        let prompt = bench.recording.prompt().to_vec();
        let steps = Generation::new(&mut session, &mut chain, &prompt, options).expect("a prompt");
        for step in steps {
            let token = step.expect("a token").token;
            assert_eq!(bench.look().outcome, Ok(token), "{list}");
            let shown = &bench.recording.steps()[bench.state.step];
            assert_eq!(shown.token, Some(token), "{list}");
            bench.press("n");
        }
        assert_eq!(bench.state.step, 40, "{list}");
    }
}

#[test]
fn rows_that_stand_for_themselves_have_no_history() {
    let registry = registry();
    let mut bench = Bench::new("penalties{presence=5};greedy", &registry, &NoVocab, |chain| {
        let row: &[f32] = &[2.0, 1.0];
        Recording::of_rows(chain, rows(&[(row, 0), (row, 0), (row, 0)]))
    });
    bench.press("nn");
    assert_eq!(bench.look().outcome, Ok(TokenId(0)));
}

/// A file of three rows, the first of which holds what is no logit.
#[test]
fn rows_of_a_file_are_read_as_they_are_looked_at() {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";
    let mut content = b"\x93NUMPY\x01\x00".to_vec();
    content.extend((header.len() as u16).to_le_bytes());
    content.extend(header.bytes());
    let numbers = [f32::NAN, 1.0, 2.0, 1.0, 1.0, 2.0];
    content.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    let path = std::env::temp_dir().join(format!("logitchain-rows-{}.npy", std::process::id()));
    fs::write(&path, content).expect("a file");
    let recording = logits::Recording::open(&path).expect("logits");
    fs::remove_file(&path).expect("the file");
    let mut logits = Logits::Recorded { recording, model: None };

    let registry = registry();
    let config = ChainConfig::from_samplers("greedy").expect("a list");
    let chain = config.build(&registry, &NoVocab).expect("a chain");
    let (mut recording, vocab) = source::open(&mut logits, chain.clone());
    assert!(recording.reach(1).expect("a sound row"));
    let state = State::new(Draft::new(&config, &chain, &registry), &registry, vocab);
    let mut bench = Bench { recording, state, quit: false };
    bench.state.step = 1;
    assert_eq!(bench.look().outcome, Ok(TokenId(0)));
    assert!(bench.picture(80, 24).contains("step 2 of 3"));
    // The broken one is told, and the view stays.
    bench.press("p");
    assert!(bench.said().contains("the logit of token 0 in step 1 is NaN"), "{}", bench.said());
    assert_eq!(bench.state.step, 1);
    bench.press("n");
    assert_eq!((bench.state.step, bench.look().outcome), (2, Ok(TokenId(1))));
    bench.press("n");
    assert_eq!(bench.state.step, 2);
    assert!(bench.said().ends_with("has 3 steps"), "{}", bench.said());
    bench.press("p");
    assert_eq!((bench.state.step, bench.look().outcome), (1, Ok(TokenId(0))));
}

#[test]
fn no_more_steps_are_kept_than_there_is_memory_for() {
    let registry = registry();
    let mut bench = three("greedy", &registry);
    // A row has 16 bytes.
    bench.recording.limit_memory(32);
    bench.press("nn");
    assert_eq!(bench.state.step, 1);
    assert_eq!(bench.said(), "the logits of 2 steps fill the 32 bytes kept");
}

#[test]
fn a_chain_that_fails_says_why_and_where() {
    let registry = registry();
    let mut bench = three("logit_bias;top_k;greedy", &registry);
    bench.press("n=[\"0-inf\", \"1-inf\", \"2-inf\", \"3-inf\"]<enter>");
    assert!(bench.look().outcome.is_err());
    let picture = bench.picture(80, 24);
    for part in ["the chain fails", "→ none with this chain", "not reached"] {
        assert!(picture.contains(part), "no {part:?}:\n{picture}");
    }
    bench.press("<tab>");
    let picture = bench.picture(80, 24);
    assert!(picture.contains("this chain fails at step 1 already"), "{picture}");
}

#[test]
fn the_chain_is_written_once_and_overwritten_only_when_told() {
    let registry = registry();
    let config: ChainConfig = "title = 't'\nsource = 's'\nseed = '18446744073709551615'\n\
        [[stage]]\nuse = 'dry'\nmultiplier = 0.5\nbreakers = [\"\\n\", \"'\"]\n\
        [[stage]]\nuse = 'top_k'\n[[stage]]\nuse = 'dist'\n"
        .parse()
        .expect("a chain file");
    let vocab = NumberVocab::new(2);
    let mut bench = Bench::of(&config, &registry, &vocab, |chain| {
        Recording::of_text(Vec::new(), chain, rows(&[(&[1.0, 0.0], 0)]))
    });
    let path = std::env::temp_dir().join(format!("logitchain-watch-{}.toml", std::process::id()));
    let name = path.to_str().expect("a path in UTF-8");
    bench.press(&format!("<down>+w{name}<enter>"));
    assert_eq!(bench.said(), format!("written to {name}"));
    assert_eq!(bench.state.farewell(), None);
    let read = || fs::read_to_string(&path).expect("the file");
    let written: ChainConfig = read().parse().expect("a chain file");
    assert_eq!(written.title.as_deref(), Some("t, changed"));
    assert_eq!((&written.source, written.seed), (&config.source, config.seed));
    assert_eq!(written.to_string(), bench.list());
    assert_eq!(
        read(),
        "title = \"t, changed\"\nsource = \"s\"\nseed = \"18446744073709551615\"\n\n\
         [[stage]]\nuse = \"dry\"\nmultiplier = 0.5\nbreakers = [\"\\n\", \"'\"]\n\n\
         [[stage]]\nuse = \"top_k\"\nk = 45\n\n[[stage]]\nuse = \"dist\"\n"
    );

    bench.press(&format!("+w{name}<enter>"));
    assert!(matches!(bench.state.mode, Mode::Overwrite(_)));
    bench.press("n");
    assert_eq!((bench.said(), read().contains("k = 45")), ("not written", true));
    bench.press(&format!("w{name}<enter>y"));
    assert!(read().contains("k = 50"));
    fs::remove_file(&path).expect("the file");
    bench.press("w/nowhere/at/all<enter>");
    assert!(bench.said().starts_with("cannot write /nowhere/at/all: "), "{}", bench.said());
}

#[test]
fn a_changed_chain_is_not_lost_on_leaving() {
    let (registry, vocab) = (registry(), NumberVocab::new(4));
    let mut bench = three_of("dry{breakers=[\"'\", \"\\n\"]};top_k;greedy", &registry, &vocab);
    assert_eq!(bench.state.farewell(), None);
    bench.press("<down>-");
    assert_eq!(
        bench.state.farewell().as_deref(),
        Some(r#"--samplers 'dry{breakers=["'\''", "\n"]};top_k{k=35};greedy'"#)
    );
    bench.press("r");
    assert_eq!(bench.state.farewell(), None);
    bench.press("w<enter>");
    assert!(bench.state.farewell().is_some());
    assert!(!bench.quit);
    bench.press("<ctrl-c>");
    assert!(bench.quit);
}

#[test]
fn a_stage_that_needs_texts_stays_off_where_none_are_known() {
    let registry = registry();
    let mut bench = three("dry;greedy", &registry);
    bench.press("+");
    assert_eq!(bench.said(), "the stage `dry` needs a model's vocabulary: give the model with -m");
    assert!(!bench.state.is_changed());
}
