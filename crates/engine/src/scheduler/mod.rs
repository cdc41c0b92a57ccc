//! Many texts at once over one model.

mod prefix;

use std::{collections::VecDeque, fmt, num::NonZero};

use logitchain_core::{Batch, Chain, SampleError, TokenId};

use self::prefix::{Kept, Source};
use crate::{
    EngineError, GenerateOptions, GgufModel, JointStep, Session, Step, StopReason, ending::Ending,
};

/// Continues many texts at once: a chain for each, the weights read once for all.
///
/// Requests come and go between any two steps. They are admitted in their order, each
/// as soon as there is memory for the whole of its text; one that must wait lets none
/// pass. A prompt is read in slices between the others' tokens, so that a long one
/// holds up nobody.
///
/// A prompt that begins as another text does is read from where the two part only: its
/// keys and values are copied up to there, as by [`Session::fork_at`], from a text that is
/// admitted or one that was, and is [kept](SchedulerLimits::kept). So many samples of one
/// prompt are as many requests, each with a chain of its own seed, and the prompt is read
/// once; and the next turn of a conversation reads what is new in it.
///
/// What is written for a request has nothing to do with the others, with the limits or
/// with the number of threads: it is what [`Generation`](crate::Generation) writes for
/// it alone.
///
/// ```
/// use logitchain_core::{ChainConfig, Registry};
/// use logitchain_engine::*;
/// use logitchain_stages as _;
///
/// let model = GgufModel::embedded();
/// let template = ChainConfig::from_samplers("top_k{k=40};temperature{t=0.8}")?
///     .build(&Registry::linked()?, model.tokenizer())?;
/// let mut scheduler = Scheduler::new(&model, SchedulerLimits::default());
/// for (seed, prompt) in [(1, "In the beginning"), (2, "And it came to pass")] {
///     let mut chain = template.clone();
///     chain.reseed(seed)?;
///     scheduler.submit(Request {
///         prompt: prompt_tokens(model.tokenizer(), prompt, Special::Plain)?,
///         chain,
///         options: GenerateOptions { max_tokens: Some(4), ..Default::default() },
///     })?;
/// }
/// let mut done = 0;
/// while !scheduler.is_idle() {
///     let events = scheduler.step()?;
///     done += events.iter().filter(|event| matches!(event, Event::Done { .. })).count();
/// }
/// assert_eq!(done, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scheduler {
    model: GgufModel,
    limits: SchedulerLimits,
    submitted: u64,
    waiting: VecDeque<Waiting>,
    /// Those whose prompts are not read to the end.
    reading: Vec<Reading>,
    /// Those that are written, in the order of the batch's rows.
    writing: Vec<Writing>,
    batch: Batch,
    joint: JointStep,
    kept: Kept,
    /// Bytes for the texts that are admitted.
    used: usize,
}

/// How much a [`Scheduler`] does at once. None of it shows in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerLimits {
    /// How many bytes the keys and values of all admitted texts may take; `None`: as
    /// many as there are. See [`GgufModel::cache_bytes`].
    pub memory: Option<usize>,
    /// How many texts are admitted at most.
    pub texts: NonZero<usize>,
    /// How many tokens of prompts are read in a step, of all together. With fewer the
    /// others wait less for their next token; with more than [`Session::CHUNK`] nothing
    /// is faster.
    pub prompt_tokens: NonZero<usize>,
    /// How many texts that are over keep their keys and values, the latest ones, for
    /// requests that begin as they do. They count as memory, and go where it is needed.
    pub kept: usize,
}

impl Default for SchedulerLimits {
    /// 16 texts, 128 tokens of prompts, as many as a session computes at a time, and the
    /// last text kept.
    fn default() -> Self {
        let count = |n| NonZero::new(n).expect("not 0");
        Self { memory: None, texts: count(16), prompt_tokens: count(Session::CHUNK), kept: 1 }
    }
}

/// A text to be continued.
#[derive(Clone, Debug)]
pub struct Request {
    /// What it begins with, as [`prompt_tokens`](crate::prompt_tokens) gives it.
    pub prompt: Vec<TokenId>,
    /// Built for the model's vocabulary, with the request's seed; it has accepted
    /// nothing of the prompt.
    pub chain: Chain,
    /// When it ends.
    pub options: GenerateOptions,
}

/// Which request, counted from 0 as they are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a step brought.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A token more.
    Token {
        /// Of which request.
        request: RequestId,
        /// The token, and what there is to show.
        step: Step,
    },
    /// The last token, of which an event came before, if there was one.
    Done {
        /// Of which request.
        request: RequestId,
        /// Why there are no more.
        reason: StopReason,
    },
    /// The chain cannot pick a token. The others go on.
    Failed {
        /// Of which request.
        request: RequestId,
        /// Why.
        error: SampleError,
    },
}

#[derive(Debug)]
struct Waiting {
    request: RequestId,
    prompt: Vec<TokenId>,
    chain: Chain,
    ending: Ending,
    /// Tokens for which room is made.
    room: usize,
}

#[derive(Debug)]
struct Reading {
    request: RequestId,
    session: Session,
    prompt: Vec<TokenId>,
    read: usize,
    /// Until then the text that has its beginning, which stands before it.
    source: Option<Source>,
    chain: Chain,
    ending: Ending,
    room: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Writing {
    request: RequestId,
    session: Session,
    /// The prompt and what is written, of which the last token is not evaluated.
    text: Vec<TokenId>,
    ending: Ending,
    bytes: usize,
}

impl Scheduler {
    /// Without requests.
    pub fn new(model: &GgufModel, limits: SchedulerLimits) -> Self {
        Self {
            model: model.clone(),
            limits,
            submitted: 0,
            waiting: VecDeque::new(),
            reading: Vec::new(),
            writing: Vec::new(),
            batch: Batch::default(),
            joint: JointStep::default(),
            kept: Kept::default(),
            used: 0,
        }
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.reading.is_empty() && self.writing.is_empty()
    }

    /// How many requests wait to be admitted.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many requests are admitted.
    pub fn running(&self) -> usize {
        self.reading.len() + self.writing.len()
    }

    /// Bytes set aside for the keys and values of those. Texts that are kept have what
    /// is left of the limit, at most.
    pub fn memory(&self) -> usize {
        self.used
    }

    /// Adds a request behind those that wait.
    ///
    /// # Errors
    ///
    /// If the prompt is empty, holds an id outside the vocabulary or does not fit into
    /// the context, or the text needs more memory than there ever is.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, EngineError> {
        let Request { prompt, chain, options } = request;
        if prompt.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        self.model.check(&prompt)?;
        let context = self.model.context_length();
        // The last token is never evaluated.
        let more = options.max_tokens.map_or(context, |max| max.saturating_sub(1));
        let room = prompt.len().saturating_add(more).min(context);
        let needed = self.model.cache_bytes(room);
        if let Some(limit) = self.limits.memory.filter(|limit| needed > *limit) {
            return Err(EngineError::CacheLimit { needed, limit });
        }
        let request = RequestId(self.submitted);
        self.submitted += 1;
        let ending = Ending::new(options);
        self.waiting.push_back(Waiting { request, prompt, chain, ending, room });
        Ok(request)
    }

    /// Ends a request, wherever it stands; no more events come of it. Returns whether
    /// there was such a request.
    pub fn cancel(&mut self, request: RequestId) -> bool {
        if let Some(at) = self.waiting.iter().position(|w| w.request == request) {
            self.waiting.remove(at);
            return true;
        }
        if let Some(at) = self.reading.iter().position(|r| r.request == request) {
            self.used -= self.reading.remove(at).bytes;
        } else if let Some(at) = self.writing.iter().position(|w| w.request == request) {
            self.remove(at);
        } else {
            return false;
        }
        // Those that waited for it look for another.
        for at in 0..self.reading.len() {
            let (before, rest) = self.reading.split_at_mut(at);
            let text = &mut rest[0];
            if text.source.is_some_and(|source| source.request == request) {
                text.source = Source::of(&text.prompt, &self.writing, before);
            }
        }
        true
    }

    fn remove(&mut self, row: usize) {
        let text = self.writing.remove(row);
        self.batch.remove(row);
        self.used -= text.bytes;
        self.kept.keep(text, self.limits.kept);
    }

    /// Admits what can be, reads a slice of the prompts, and writes a token of each
    /// request whose prompt is read.
    ///
    /// # Errors
    ///
    /// If the model fails. What failed of one request alone is an event.
    pub fn step(&mut self) -> Result<Vec<Event>, EngineError> {
        let mut events = Vec::new();
        self.admit(&mut events);
        self.fork();
        if self.running() == 0 {
            return Ok(events);
        }
        // The threads that compute the pass are still awake when they sample.
        let read = if self.reading.is_empty() { 0 } else { self.limits.prompt_tokens.get() };
        let tokens = self.writing.len().saturating_add(read);
        self.model.clone().run(tokens, || {
            self.forward()?;
            self.write(&mut events);
            Ok(events)
        })
    }

    fn admit(&mut self, events: &mut Vec<Event>) {
        while let Some(next) = self.waiting.front() {
            if next.ending.is_over_at_once() {
                let (request, reason) = (next.request, StopReason::TokenLimit);
                events.push(Event::Done { request, reason });
                self.waiting.pop_front();
                continue;
            }
            let bytes = self.model.cache_bytes(next.room);
            let fits = self.limits.memory.is_none_or(|limit| self.used + bytes <= limit);
            if !fits || self.running() >= self.limits.texts.get() {
                return;
            }
            if let Some(Waiting { request, prompt, mut chain, ending, room }) =
                self.waiting.pop_front()
            {
                prompt.iter().for_each(|token| chain.accept(*token));
                self.used += bytes;
                let source = Source::of(&prompt, &self.writing, &self.reading);
                let kept = self.kept.take(&prompt, source.map_or(0, |source| source.tokens));
                if let Some(limit) = self.limits.memory {
                    self.kept.shrink(limit - self.used);
                }
                self.reading.push(Reading {
                    request,
                    read: kept.as_ref().map_or(0, Session::len),
                    source: source.filter(|_| kept.is_none()),
                    session: kept.unwrap_or_else(|| self.model.session()),
                    prompt,
                    chain,
                    ending,
                    room,
                    bytes,
                });
            }
        }
    }

    /// Gives texts their beginnings from others, where these have them by now.
    fn fork(&mut self) {
        for at in 0..self.reading.len() {
            let (before, rest) = self.reading.split_at_mut(at);
            let text = &mut rest[0];
            let Some(source) = text.source else { continue };
            let read = before.iter().filter(|other| other.read >= source.tokens);
            let sessions = read.map(|other| (other.request, &other.session));
            let written = self.writing.iter().map(|other| (other.request, &other.session));
            let found = sessions.chain(written).find(|(request, _)| *request == source.request);
            if let Some((_, session)) = found {
                text.session = session.fork_at(source.tokens);
                text.read = text.session.len();
                text.source = None;
            }
        }
    }

    /// One pass over the weights. Requests whose prompts are read by it join those that
    /// are written, whose rows of logits lie in `joint`.
    fn forward(&mut self) -> Result<(), EngineError> {
        let Self { reading, writing, joint, limits, .. } = self;
        let mut left = limits.prompt_tokens.get();
        let mut slices = Vec::with_capacity(reading.len());
        for text in &mut *reading {
            if text.source.is_some() {
                slices.push(0);
                continue;
            }
            // Where the memory is counted, no more of it than that.
            if limits.memory.is_some() {
                text.session.reserve(text.room);
            }
            let slice = left.min(text.prompt.len() - text.read);
            left -= slice;
            slices.push(slice);
        }
        let rows = writing.len();
        let written =
            writing.iter_mut().map(|text| (&mut text.session, &text.text[text.text.len() - 1..]));
        let read = reading.iter_mut().zip(&slices).filter(|(_, slice)| **slice > 0);
        let mut ends = Vec::with_capacity(slices.len());
        let read = read.map(|(text, slice)| {
            let tokens = &text.prompt[text.read..][..*slice];
            ends.push(text.read + slice == text.prompt.len());
            (&mut text.session, tokens)
        });
        let mut texts: Vec<_> = written.chain(read).collect();
        joint.forward_for(&mut texts, |at| at < rows || ends[at - rows])?;
        for (text, slice) in reading.iter_mut().zip(slices) {
            text.read += slice;
        }
        // One may have its last token in this step already.
        self.fork();
        for text in self.reading.extract_if(.., |text| text.read == text.prompt.len()) {
            let Reading { request, session, prompt: text, chain, ending, bytes, .. } = text;
            self.batch.push(chain);
            self.writing.push(Writing { request, session, text, ending, bytes });
        }
        Ok(())
    }

    /// A token for each row of logits.
    fn write(&mut self, events: &mut Vec<Event>) {
        let vocabulary = self.model.tokenizer().size();
        let logits = self.joint.logits();
        let picked = self.model.threads().sample(&mut self.batch, logits, vocabulary).to_vec();
        let context = self.model.context_length();
        let mut over = Vec::new();
        for (row, (text, picked)) in self.writing.iter_mut().zip(picked).enumerate() {
            let request = text.request;
            let token = match picked {
                Ok(token) => token,
                Err(error) => {
                    events.push(Event::Failed { request, error });
                    over.push(row);
                    continue;
                }
            };
            if let Some(chain) = self.batch.chain_mut(row) {
                chain.accept(token);
            }
            text.text.push(token);
            let full = text.session.len() >= context;
            let (shown, reason) = text.ending.push(token, self.model.tokenizer(), full);
            events.push(Event::Token { request, step: Step { token, text: shown } });
            if let Some(reason) = reason {
                events.push(Event::Done { request, reason });
                over.push(row);
            }
        }
        over.into_iter().rev().for_each(|row| self.remove(row));
    }
}

#[cfg(test)]
mod tests;
