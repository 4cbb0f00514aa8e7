//! A quick look at a line of Markdown as it stands there, data included. Nearly every line is above suspicion, and to
//! take all of them apart took almost a third of the time in which a run checks itself.

use crate::language::{Match, NO_NUMBERS, RULES, Rule};

/// Codes of bytes, in five bits: letters are 1 to 26 in either case.
const OTHER: u8 = 0;
const DIGIT: u8 = 27;
const SIGN: u8 = 28;
/// Set beside the code of what words are made of.
const OF_WORD: u8 = 1 << 5;
/// Set beside the code of a character that may stand where it must not.
const TO_SEE: u8 = 1 << 6;

static CODES: [u8; 256] = {
    let mut codes = [OTHER; 256];
    let mut byte = 0;
    while byte < 256 {
        codes[byte] = match byte as u8 {
            letter @ (b'a'..=b'z' | b'A'..=b'Z') => OF_WORD | letter & 31,
            b'0'..=b'9' | b'_' => OF_WORD | DIGIT,
            b'!' | b'{' | b'/' | b':' => TO_SEE | SIGN,
            _ => OTHER,
        };
        byte += 1;
    }
    codes
};

/// How what is looked for begins: by the codes of its first two bytes, those of the third as bits. Hardly another word
/// begins so.
type Beginnings = [[u32; 32]; 32];

static BEGINNINGS: Beginnings = {
    let mut beginnings = [[0; 32]; 32];
    let mut list = 0;
    while list < RULES.len() {
        let mut i = 0;
        while i < RULES[list].len() {
            add(&mut beginnings, RULES[list][i].phrase.as_bytes());
            i += 1;
        }
        list += 1;
    }
    let mut i = 0;
    while i < NO_NUMBERS.len() {
        add(&mut beginnings, NO_NUMBERS[i].as_bytes());
        i += 1;
    }
    beginnings
};

const fn add(beginnings: &mut Beginnings, phrase: &[u8]) {
    const END_OF_WORD: u32 = 1 << OTHER | 1 << SIGN;
    let third = if phrase.len() > 2 { 1 << (CODES[phrase[2] as usize] & 31) } else { END_OF_WORD };
    beginnings[(CODES[phrase[0] as usize] & 31) as usize][(CODES[phrase[1] as usize] & 31) as usize] |= third;
}

/// Whether a line may have a fault of those that are looked for in language: it does if it has one, and seldom else.
pub(super) fn is_suspect(line: &str) -> bool {
    let bytes = line.as_bytes();
    let mut last = OTHER;
    for (at, byte) in bytes.iter().enumerate() {
        let code = CODES[usize::from(*byte)];
        // A word begins, or there is a sign to see.
        if (code & !last & OF_WORD | code & TO_SEE) != 0 && is_suspect_at(bytes, at) {
            return true;
        }
        last = code;
    }
    false
}

fn is_suspect_at(line: &[u8], at: usize) -> bool {
    let text = &line[at..];
    let code = |at: usize| text.get(at).map_or(OTHER, |byte| CODES[usize::from(*byte)]);
    let place = |at: usize| usize::from(code(at) & 31);
    if code(0) & TO_SEE != 0 {
        return is_suspect_sign(line, at);
    }
    if BEGINNINGS[place(0)][place(1)] >> place(2) & 1 == 0 {
        return false;
    }
    let begins = |phrase: &str| {
        let phrase = phrase.as_bytes();
        // Most differ in the first letter.
        CODES[usize::from(phrase[0])] == code(0)
            && text.get(..phrase.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(phrase))
    };
    let ends = |phrase: &str| code(phrase.len()) & OF_WORD == 0;
    let breaks = |rule: &Rule| begins(rule.phrase) && (rule.matched == Match::Stem || ends(rule.phrase));
    RULES.into_iter().flatten().any(breaks) || NO_NUMBERS.iter().any(|word| begins(word) && ends(word))
}

/// Whether a sign may shout, begin a placeholder or belong to an absolute path.
fn is_suspect_sign(line: &[u8], at: usize) -> bool {
    let next = line.get(at + 1);
    match line[at] {
        // A path begins a word. What ends a cell may stand before it, and so may a space that is not of ASCII.
        b'/' => {
            let before = at.checked_sub(1).map_or(b' ', |before| line[before]);
            let begins = !(before.is_ascii_alphanumeric() || matches!(before, b'/' | b'_' | b'.' | b'-' | b'`'));
            begins && next.is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'_')
        }
        b':' => next == Some(&b'\\'),
        _ => true,
    }
}
