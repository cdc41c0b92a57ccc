use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A line that is typed, always at its end.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Line {
    text: String,
    /// Whether the text is only a suggestion, which typing replaces.
    pub(crate) suggested: bool,
}

impl Line {
    pub(crate) fn suggesting(text: String) -> Self {
        Self { text, suggested: true }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn key(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if control => self.text.clear(),
            KeyCode::Char(_) if control => return,
            KeyCode::Char(c) => {
                if self.suggested {
                    self.text.clear();
                }
                self.text.push(c);
            }
            KeyCode::Backspace => {
                self.text.pop();
            }
            KeyCode::Right | KeyCode::End => {}
            _ => return,
        }
        self.suggested = false;
    }
}
