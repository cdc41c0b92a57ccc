use logitchain_core::{Chain, NoVocab, TokenId, Vocab};
use logitchain_engine::{Model as _, Session};

use super::recording::{Next, Recording, Source};
use crate::{
    logits::{self, Logits},
    progress::Progress,
    report::Failure,
};

/// The steps of these logits, and the texts of their tokens.
pub(super) fn open(logits: &mut Logits, chain: Chain) -> (Recording<'_>, &dyn Vocab) {
    match logits {
        Logits::Prompt { model, tokens } => {
            let source = ModelSource::new(model.session(), tokens);
            let recording = Recording::of_text(tokens.clone(), chain, Box::new(source));
            (recording, model.tokenizer())
        }
        Logits::Recorded { recording, model } => {
            let vocab = model.as_ref().map_or(&NoVocab as &dyn Vocab, |model| model.tokenizer());
            let prompt = recording.token(0).map(|_| recording.prompt().to_vec());
            let source = Box::new(FileSource { recording, next: 0 });
            let recording = match prompt {
                Some(prompt) => Recording::of_text(prompt, chain, source),
                None => Recording::of_rows(chain, source),
            };
            (recording, vocab)
        }
    }
}

/// Logits that are known already.
struct FileSource<'a> {
    recording: &'a mut logits::Recording,
    next: usize,
}

impl FileSource<'_> {
    fn end(&self) -> String {
        let steps = match self.recording.len() {
            1 => "one step".to_owned(),
            steps => format!("{steps} steps"),
        };
        format!("{} has {steps}", self.recording.place())
    }
}

impl Source for FileSource<'_> {
    fn next(&mut self, _: Option<TokenId>) -> Result<Next, Failure> {
        let Self { recording, next } = self;
        if *next >= recording.len() {
            return Ok(Next::End(self.end()));
        }
        let step = Next::Step { logits: recording.logits(*next)?, token: recording.token(*next) };
        *next += 1;
        Ok(step)
    }

    fn rows(&self) -> Option<(usize, String)> {
        let alone = self.recording.token(0).is_none();
        alone.then(|| (self.recording.len(), self.end()))
    }

    fn seek(&mut self, row: usize) {
        self.next = row;
    }
}

/// A model that continues a text, a token at a time as it is asked.
pub(crate) struct ModelSource {
    session: Session,
    /// What it has not read yet: at first the prompt.
    unread: Vec<TokenId>,
    steps: usize,
}

impl ModelSource {
    pub(crate) fn new(session: Session, prompt: &[TokenId]) -> Self {
        Self { session, unread: prompt.to_vec(), steps: 0 }
    }

    /// Why nothing follows after this token.
    fn end(&self, token: TokenId) -> Option<String> {
        if self.session.tokenizer().is_end_of_generation(token) {
            return Some(format!("the model ended the text (token {token})"));
        }
        let full = |length| self.session.position() >= length;
        let full = self.session.context_length().is_some_and(full);
        full.then(|| "the model's context is full".to_owned())
    }
}

impl Source for ModelSource {
    fn next(&mut self, before: Option<TokenId>) -> Result<Next, Failure> {
        if self.steps > 0 {
            let Some(token) = before else {
                let end = format!("the chain picks no token at step {}", self.steps);
                return Ok(Next::End(end));
            };
            if let Some(end) = self.end(token) {
                return Ok(Next::End(end));
            }
            self.unread.push(token);
        }
        let progress = Progress::new(self.unread.len());
        let (mut logits, mut read) = (Vec::new(), 0);
        for part in self.unread.chunks(Session::CHUNK) {
            logits = self.session.forward(part)?.to_vec();
            read += part.len();
            progress.done(read);
        }
        progress.clear();
        self.unread.clear();
        self.steps += 1;
        Ok(Next::Step { logits, token: None })
    }
}
