//! The texts that all sheets share, and how XML holds them.

use std::fmt::Write as _;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rapidhash::fast::RandomState;

use super::archive::{Archive, Target};

/// The texts of a workbook, each once, in the order they first stand in it.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Places in `order`, with what they were found by: the texts are long.
    known: HashTable<(u64, u32)>,
    order: Vec<Arc<str>>,
    uses: usize,
    hasher: RandomState,
}

impl Texts {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &Arc<str>) -> u32 {
        self.uses += 1;
        let hash = self.hasher.hash_one(&**text);
        let is_same = |other: &Arc<str>| Arc::ptr_eq(other, text) || other == text;
        let known = self.known.entry(
            hash,
            |&(other, at)| other == hash && is_same(&self.order[at as usize]),
            |&(hash, _)| hash,
        );
        match known {
            Entry::Occupied(known) => known.get().1,
            Entry::Vacant(place) => {
                // So many texts fit into no memory.
                let number = self.order.len() as u32;
                place.insert((hash, number));
                self.order.push(Arc::clone(text));
                number
            }
        }
    }

    /// Writes the part that holds them.
    pub(super) fn write(self, out: &Archive<impl Target>) {
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n\
             <sst xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" count=\"{}\" uniqueCount=\"{}\">",
            self.uses,
            self.order.len()
        );
        for text in self.order {
            xml.push_str("<si><t xml:space=\"preserve\">");
            push_escaped(&mut xml, &text);
            xml.push_str("</t></si>");
            out.pass_on(&mut xml);
        }
        xml.push_str("</sst>");
        out.text(xml);
    }
}

/// A text as XML has it in an attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    push_escaped(&mut xml, text);
    xml.replace('"', "&quot;")
}

/// Appends a text as XML has it between tags, where quotes and most ends of tags stand as they are. Characters that XML
/// can't hold are written by their number, as spreadsheets do, and so is the beginning of what would otherwise be taken
/// for such a number.
pub(super) fn push_escaped(xml: &mut String, text: &str) {
    // Names are full of these, and hardly any needs something else in its place.
    let has = |what: &[u8]| memchr::memmem::find(text.as_bytes(), what).is_some();
    let (numbers, ends) = (has(b"_x"), has(b"]]>"));
    let may_need = |&byte: &u8| MAY_NEED[usize::from(byte)] || (byte == b'_' && numbers) || (byte == b'>' && ends);
    let (mut written, mut from) = (0, 0);
    while let Some(found) = text.as_bytes()[from..].iter().position(may_need) {
        let at = from + found;
        let rest = &text[at..];
        let Some(c) = rest.chars().next() else { break };
        from = at + c.len_utf8();
        let instead = match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' if text[..at].ends_with("]]") => "&gt;",
            '_' if is_number(rest) => "_x005F_",
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => "",
            _ => continue,
        };
        xml.push_str(&text[written..at]);
        written = from;
        if instead.is_empty() {
            let _ = write!(xml, "_x{:04X}_", u32::from(c));
        } else {
            xml.push_str(instead);
        }
    }
    xml.push_str(&text[written..]);
}

/// First bytes of characters that can't always stand as they are, but for the underscore and the end of a tag.
const MAY_NEED: [bool; 256] = {
    let mut may = [false; 256];
    let mut control = 0;
    while control < 0x20 {
        may[control] = control != b'\t' as usize && control != b'\n' as usize;
        control += 1;
    }
    may[b'&' as usize] = true;
    may[b'<' as usize] = true;
    // U+FFFE and U+FFFF begin with this byte, as few others do.
    may[0xef] = true;
    may
};

/// Whether a text begins like `_x0041_`.
fn is_number(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 7 && bytes[1] == b'x' && bytes[2..6].iter().all(u8::is_ascii_hexdigit) && bytes[6] == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_holds_every_text() {
        let cases = [
            ("plain_text", "plain_text"),
            ("a<b & \"c\">", "a&lt;b &amp; &quot;c&quot;>"),
            ("a[b[c]]>d]>", "a[b[c]]&gt;d]>"),
            ("\0\x1b\r\t\n", "_x0000__x001B__x000D_\t\n"),
            ("_x0041_", "_x005F_x0041_"),
            ("_x41 _xyz_", "_x41 _xyz_"),
            ("\u{ffff}", "_xFFFF_"),
            ("é_\u{ff01}ü\u{fffe}.", "é_\u{ff01}ü_xFFFE_."),
            ("", ""),
        ];
        for (text, xml) in cases {
            assert_eq!(escaped(text), xml);
        }
    }

    #[test]
    fn equal_texts_are_one() {
        let mut texts = Texts::default();
        let many = (0..1000).map(|i| format!("text {}", i % 300));
        let numbers: Vec<u32> = many.map(|text| texts.number(&text.into())).collect();
        assert!(numbers.iter().enumerate().all(|(i, &n)| n as usize == i % 300));
        assert_eq!(texts.number(&"text 7".into()), 7);
        assert_eq!((texts.order.len(), texts.uses), (300, 1001));
    }
}
