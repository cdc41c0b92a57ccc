use std::{
    cell::RefCell,
    io::{self, BufRead, IsTerminal as _},
    rc::Rc,
};

use logitchain_core::{Registry, SampleError, TokenId};
use logitchain_engine::{
    ChatMessage, ChatTemplate, EngineError, GenerateOptions, GgufModel, Model as _, Session,
    StopReason, Timings, TokenPicker,
};

use crate::{
    args::ChatArgs,
    chain_args::ChainPlan,
    escape::unescape,
    generate::{Generated, announce, generate, why},
    input::Lines,
    output::{Stream, tell, tell_on},
    report::Failure,
    stage_flags::Given,
    timing,
    trace_log::TraceLog,
    watched::{Look, Seen, Watched},
};

/// How many tokens an answer has at most where nothing is said.
const DEFAULT_LIMIT: usize = 512;

/// Talks with the user, line by line.
pub(crate) fn chat(args: &ChatArgs, given: Vec<Given>, registry: &Registry) -> Result<(), Failure> {
    let plan = ChainPlan::new(&args.chain, given, registry)?;
    let options = args.generate.options(DEFAULT_LIMIT)?;
    let (model, load) = args.model.load()?;
    let template = ChatTemplate::of(model.tokenizer()).map_err(|error| match error {
        EngineError::NoChatTemplate => Failure::NoChatTemplate,
        error => error.into(),
    })?;
    let chain = plan.for_model(registry, &model, &mut |line| tell(line))?;
    let log = args.trace.as_deref().map(TraceLog::create).transpose()?;
    announce(&chain);
    let look = Look { trace: log.is_some(), ..Look::default() };
    let (chain, seen) = Watched::new(chain, look);

    let own = |text: &str| if args.generate.escape { unescape(text) } else { text.to_owned() };
    let mut conversation = Conversation {
        template,
        messages: args.system.iter().map(|text| ChatMessage::new("system", own(text))).collect(),
        session: model.session(),
        listener: Listener { chain, heard: 0 },
        text: Vec::new(),
        model: &model,
        log,
        seen,
    };
    let mut timings = Timings::default();
    let mut lines = Lines::new(io::stdin().lock());
    while let Some(line) = read_line(&mut lines)? {
        if line.trim().is_empty() {
            continue;
        }
        let answer = conversation.turn(own(&line), &options)?;
        if !matches!(answer.stopped, StopReason::EndOfGeneration(_)) {
            tell(why(&answer.stopped, &options));
        }
        timing::add(&mut timings, &answer.timings);
    }
    conversation.log.iter_mut().for_each(TraceLog::keep);
    if args.timing.timing {
        tell(timing::table(load, &timings));
    }
    Ok(())
}

/// What the user says next; `None` at the end.
fn read_line(lines: &mut Lines<impl BufRead>) -> Result<Option<String>, Failure> {
    let asks = io::stdin().is_terminal();
    if asks {
        tell_on("> ");
    }
    let line = lines.next().map_err(Failure::Stdin)?;
    if line.is_empty() {
        if asks {
            tell("");
        }
        return Ok(None);
    }
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}

struct Conversation<'a> {
    template: ChatTemplate,
    messages: Vec<ChatMessage>,
    session: Session,
    listener: Listener,
    /// As the chain heard it; the model has read all but the end of it.
    text: Vec<TokenId>,
    model: &'a GgufModel,
    /// What is written of each token.
    log: Option<TraceLog>,
    seen: Rc<RefCell<Seen>>,
}

impl Conversation<'_> {
    fn turn(&mut self, line: String, options: &GenerateOptions) -> Result<Generated, Failure> {
        let Self { template, messages, session, listener, text, model, log, seen } = self;
        messages.push(ChatMessage::new("user", line));
        let tokens = template.tokens(session.tokenizer(), messages, true)?;

        // The model keeps what it has read of these tokens. It needs at least
        // one to say what comes next.
        let same = tokens.iter().zip(&*text).take_while(|(a, b)| a == b).count();
        let read = same.min(session.position()).min(tokens.len() - 1);
        session.rewind(read);
        listener.heard = same - read;

        let mut stream = Stream::new();
        let vocab = model.tokenizer();
        let mut on_step =
            |_| log.as_mut().map_or(Ok(()), |log| log.write_seen(&seen.borrow(), vocab));
        let prompt = &tokens[read..];
        let answer = generate(session, listener, prompt, options, &mut stream, &mut on_step);
        if let Some(log) = log {
            log.write_failed(&answer, &seen.borrow(), vocab)?;
        }
        let answer = answer?;
        stream.finish()?;
        *text = tokens;
        text.extend(&answer.tokens);
        messages.push(ChatMessage::new("assistant", &answer.text));
        Ok(answer)
    }
}

/// The chain, which hears each token of the conversation once: the token that
/// ended an answer has been heard, but not read by the model.
///
/// If a template changes what was said before, the chain hears the change too,
/// but cannot forget the rest.
struct Listener {
    chain: Watched,
    /// How many of the tokens to come have been heard.
    heard: usize,
}

impl TokenPicker for Listener {
    fn sample(&mut self, logits: &mut [f32]) -> Result<TokenId, SampleError> {
        self.chain.sample(logits)
    }

    fn accept(&mut self, token: TokenId) {
        match self.heard.checked_sub(1) {
            Some(rest) => self.heard = rest,
            None => self.chain.accept(token),
        }
    }
}
