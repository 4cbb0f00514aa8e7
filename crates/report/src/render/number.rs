//! Numbers as text, without an allocation per number.

use jarvis_trace::pyliteral;

/// Prints numbers into a buffer of its own.
#[derive(Default)]
pub(crate) struct NumberText {
    whole: itoa::Buffer,
    text: String,
}

impl NumberText {
    /// `8`.
    pub(crate) fn int(&mut self, i: i64) -> &str {
        self.whole.format(i)
    }

    /// `8.0`, `0.1`, `1e-05`, `1.2e+16`, `inf`: the shortest text that reads back to the same number, as Python
    /// prints it.
    pub(crate) fn float(&mut self, x: f64) -> &str {
        self.text.clear();
        pyliteral::push_float(&mut self.text, x);
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_each_other_in_one_buffer() {
        let mut text = NumberText::default();
        assert_eq!(text.float(31.903_115_234_375), "31.903115234375");
        assert_eq!(text.float(1e-5), "1e-05");
        assert_eq!(text.int(i64::MIN), "-9223372036854775808");
    }
}
