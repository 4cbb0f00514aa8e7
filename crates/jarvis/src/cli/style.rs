//! Colour and emphasis, on a terminal only.

use std::io::IsTerminal;

use jarvis_analyze::finding::Priority;

/// Around the code of an emphasis.
const BEGIN: &str = "\x1b[";
const END: &str = "m";

/// All codes in use, and the one that ends them.
const CODES: [&str; 8] = ["0", "1", "2", "32", "33", "1;31", "1;33", "1;36"];

/// Whether to emphasise, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    on: bool,
}

impl Style {
    /// For this stream: plain if it is no terminal, or if the user does not want colours. The variables are those
    /// that most programs honour.
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("CLICOLOR").is_some_and(|v| v == "0");
        let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        Self { on: !unwanted && (set("CLICOLOR_FORCE") || stream.is_terminal() && !dumb) }
    }

    /// On or off, as somebody else has found out.
    pub(crate) fn new(on: bool) -> Self {
        Self { on }
    }

    /// Whether anything is emphasised at all.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    /// The emphasis that a text begins with.
    pub(crate) fn emphasis_at(self, text: &str) -> Option<&str> {
        let (code, _) = text.strip_prefix(BEGIN)?.split_once(END)?;
        (self.on && CODES.contains(&code)).then(|| &text[..BEGIN.len() + code.len() + END.len()])
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.on { format!("{BEGIN}{code}{END}{text}{BEGIN}0{END}") } else { text.to_owned() }
    }

    /// For headings and what matters.
    pub(crate) fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// For what can be skipped.
    pub(crate) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// For the word before a message.
    pub(crate) fn label(self, kind: &str) -> String {
        let code = match kind {
            "error" => "1;31",
            "warning" => "1;33",
            _ => "1;36",
        };
        self.paint(code, &format!("{kind}:"))
    }

    /// For how urgent something is.
    pub(crate) fn priority(self, priority: Priority, text: &str) -> String {
        let code = match priority {
            Priority::Critical => "1;31",
            Priority::High => "33",
            Priority::Medium => "32",
            Priority::Low => "2",
        };
        self.paint(code, text)
    }
}
