//! Files that people write for jarvis: JSON or TOML, told apart by how they begin.

/// What a text is to be read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A JSON object.
    Object,
    /// A list of JSON, which no such file is.
    List,
    /// Anything else.
    Toml,
}

/// The text without the mark that editors of some systems put at its beginning.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// What a text is to be read as. A table of TOML begins with a bracket too, so a list has to read as one, or to begin
/// as no table can.
pub fn form(text: &str) -> Form {
    let text = text.trim_start();
    let Some(inside) = text.strip_prefix('[') else {
        return if text.starts_with('{') { Form::Object } else { Form::Toml };
    };
    let is_list = || serde_json::from_str::<Vec<serde::de::IgnoredAny>>(text).is_ok();
    if inside.trim_start().starts_with('{') || is_list() { Form::List } else { Form::Toml }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_by_its_beginning() {
        for (text, expected) in [
            (" {\"a\": 1}", Form::Object),
            ("[{\"a\": 1}]", Form::List),
            ("\n[\n {\"a\": }", Form::List),
            ("[1, 2]", Form::List),
            ("[]", Form::List),
            ("[gemm]\ntime_ms = 1", Form::Toml),
            ("[[op]]\na = 1", Form::Toml),
            ("[\"aten::mm\"]\na = 1", Form::Toml),
            ("a = [1]", Form::Toml),
            ("", Form::Toml),
        ] {
            assert_eq!(form(text), expected, "{text}");
        }
        assert_eq!(without_mark("\u{feff}{}"), "{}");
    }
}
