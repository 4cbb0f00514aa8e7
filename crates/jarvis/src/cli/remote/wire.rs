//! What the two ends say to each other once jarvis runs at both. Both are of one build, so the form may change freely.
//!
//! A message is one byte for its kind, the length of its name (4 bytes) and of its body (8 bytes), the name, the body.

use std::io::{self, Read, Write};

/// The longest name.
const MAX_NAME: u32 = 64 << 10;
/// The longest body: far more than any file of a report.
const MAX_BODY: u64 = 2 << 30;

/// What the user's streams are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Standard output is to have colours.
    pub(super) colour: bool,
    /// Standard error is a terminal, which can show how far the work is.
    pub(super) terminal: bool,
}

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// There: which build this is, and the checksum of its program if that was asked for.
    Hello { build: String, sum: Option<String> },
    /// Here: a word of the command line.
    Word(Vec<u8>),
    /// Here: a file that an option names, and what is in it.
    Named { path: Vec<u8>, text: Vec<u8> },
    /// Here: that was all, and this is how it is looked at.
    Go(Look),
    /// There: a file of the output folder.
    File { path: String, bytes: Vec<u8> },
    /// There: what belongs on standard output.
    Out(Vec<u8>),
    /// There: the exit status. Nothing comes after it.
    End(u8),
}

impl Message {
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, name, body): (u8, &[u8], &[u8]) = match self {
            Self::Hello { build, sum } => (1, build.as_bytes(), sum.as_deref().unwrap_or_default().as_bytes()),
            Self::Word(word) => (2, &[], word),
            Self::Named { path, text } => (3, path, text),
            Self::Go(look) => (4, &[], &[u8::from(look.colour), u8::from(look.terminal)]),
            Self::File { path, bytes } => (5, path.as_bytes(), bytes),
            Self::Out(bytes) => (6, &[], bytes),
            Self::End(status) => (7, &[], std::slice::from_ref(status)),
        };
        let length =
            u32::try_from(name.len()).ok().filter(|&n| n <= MAX_NAME).ok_or_else(|| bad("a name is too long"))?;
        if body.len() as u64 > MAX_BODY {
            return Err(bad("a message is too long"));
        }
        to.write_all(&[kind])?;
        to.write_all(&length.to_le_bytes())?;
        to.write_all(&(body.len() as u64).to_le_bytes())?;
        to.write_all(name)?;
        to.write_all(body)
    }

    /// The next message. What is announced is not believed: memory is taken as the bytes come.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; 13];
        from.read_exact(&mut head)?;
        let [kind, n0, n1, n2, n3, b0, b1, b2, b3, b4, b5, b6, b7] = head;
        let name = u32::from_le_bytes([n0, n1, n2, n3]);
        let body = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        if name > MAX_NAME || body > MAX_BODY {
            return Err(bad("a message is too long"));
        }
        let name = exactly(from, name.into())?;
        let body = exactly(from, body)?;
        Ok(match kind {
            1 => Self::Hello { build: text(name)?, sum: Some(text(body)?).filter(|sum| !sum.is_empty()) },
            2 => Self::Word(body),
            3 => Self::Named { path: name, text: body },
            4 => match body[..] {
                [colour, terminal] => Self::Go(Look { colour: colour != 0, terminal: terminal != 0 }),
                _ => return Err(bad("a look that is none")),
            },
            5 => Self::File { path: text(name)?, bytes: body },
            6 => Self::Out(body),
            7 => Self::End(*body.first().ok_or_else(|| bad("an end without a status"))?),
            _ => return Err(bad("a message of no known kind")),
        })
    }
}

fn exactly(from: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| bad("a name is no text"))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let sent = [
            Message::Hello { build: "1".to_owned(), sum: None },
            Message::Hello { build: "1".to_owned(), sum: Some("ab".to_owned()) },
            Message::Word(b"a\n'\xff".to_vec()),
            Message::Named { path: b"x.toml".to_vec(), text: Vec::new() },
            Message::Go(Look { colour: true, terminal: false }),
            Message::File { path: "a/b.csv".to_owned(), bytes: vec![0; 70_000] },
            Message::Out(b"text".to_vec()),
            Message::End(3),
        ];
        let mut bytes = Vec::new();
        for message in &sent {
            message.write(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        for message in &sent {
            assert_eq!(&Message::read(&mut rest).unwrap(), message);
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn what_is_cut_or_forged_is_an_error() {
        let mut bytes = Vec::new();
        Message::File { path: "a".to_owned(), bytes: b"body".to_vec() }.write(&mut bytes).unwrap();
        for length in 0..bytes.len() {
            let error = Message::read(&mut &bytes[..length]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length}");
        }
        for forged in [&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[5; 13], &[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert_eq!(Message::read(&mut &*forged).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        // A gigabyte is announced and nothing comes.
        let announced = [&[6, 0, 0, 0, 0][..], &(1_u64 << 30).to_le_bytes()].concat();
        assert_eq!(Message::read(&mut announced.as_slice()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
