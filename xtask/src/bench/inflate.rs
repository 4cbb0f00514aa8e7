//! `cargo xtask inflate`: what reading a compressed trace costs when nothing is done with it. It runs as a process of
//! its own, built like the program it is compared with, so that both pay for starting up.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use crc_fast::{CrcAlgorithm, Digest};
use flate2::read::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};

/// Output is taken in blocks of this size and thrown away; blocks stay in the cache of the core.
const OUTPUT_BYTES: usize = 512 << 10;
/// Compressed bytes read at once.
const INPUT_BYTES: usize = 256 << 10;

/// How to read the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum How {
    /// Raw deflate with the checksum beside it: the fastest way in Rust alone, and the yardstick.
    Raw,
    /// `flate2::read::MultiGzDecoder`, as most programs would.
    Multi,
    /// The bytes as they are, for files without compression.
    Read,
    /// As `raw` or `read`, counting events: prints bytes of JSON and elements of `traceEvents`.
    Count,
}

/// Arguments of `cargo xtask inflate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How to read it.
    #[arg(long, value_enum, default_value_t = How::Raw)]
    how: How,
    /// The file.
    file: PathBuf,
}

/// Reads the file; prints what it held.
pub(crate) fn run(args: &Args) -> Result<()> {
    let file = File::open(&args.file).with_context(|| format!("cannot open {}", args.file.display()))?;
    let bytes = match args.how {
        How::Raw => inflate(file, |_| ()),
        How::Multi => drain(MultiGzDecoder::new(file), |_| ()),
        How::Read => drain(file, |_| ()),
        How::Count => {
            let mut counter = EventCounter::default();
            let bytes = if is_gzip(&args.file)? {
                inflate(file, |block| counter.feed(block))
            } else {
                drain(file, |block| counter.feed(block))
            };
            println!("{} {}", bytes.as_ref().copied().unwrap_or(0), counter.events);
            return bytes.map(|_| ()).with_context(|| format!("cannot read {}", args.file.display()));
        }
    };
    println!("{}", bytes.with_context(|| format!("cannot read {}", args.file.display()))?);
    Ok(())
}

fn is_gzip(path: &Path) -> io::Result<bool> {
    let mut magic = [0; 2];
    Ok(File::open(path)?.read(&mut magic)? == 2 && magic == [0x1f, 0x8b])
}

fn drain(mut reader: impl Read, mut each: impl FnMut(&[u8])) -> Result<u64> {
    let mut block = vec![0; OUTPUT_BYTES];
    let mut total = 0;
    loop {
        match reader.read(&mut block)? {
            0 => return Ok(total),
            count => {
                each(&block[..count]);
                total += count as u64;
            }
        }
    }
}

/// Inflates every member of a gzip file, checks length and checksum of each, and returns the bytes that came out.
fn inflate(reader: impl Read, mut each: impl FnMut(&[u8])) -> Result<u64> {
    let mut input = Input { reader, block: vec![0; INPUT_BYTES], from: 0, to: 0 };
    let mut output = vec![0; OUTPUT_BYTES];
    let mut total = 0;
    while input.fill()? {
        input.member_header()?;
        let mut inflater = Decompress::new(false);
        let mut digest = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
        loop {
            ensure!(input.fill()?, "the compressed data ends early");
            let (taken, given) = (inflater.total_in(), inflater.total_out());
            let status = inflater.decompress(&input.block[input.from..input.to], &mut output, FlushDecompress::None)?;
            input.from += (inflater.total_in() - taken) as usize;
            let block = &output[..(inflater.total_out() - given) as usize];
            digest.update(block);
            each(block);
            match status {
                Status::StreamEnd => break,
                Status::Ok => {}
                Status::BufError => bail!("the compressed data is damaged"),
            }
        }
        let (checksum, length) = (input.number()?, input.number()?);
        ensure!(u64::from(checksum) == digest.finalize(), "the checksum does not fit the data");
        ensure!(length == inflater.total_out() as u32, "the length does not fit the data");
        total += inflater.total_out();
    }
    Ok(total)
}

struct Input<R> {
    reader: R,
    block: Vec<u8>,
    from: usize,
    to: usize,
}

impl<R: Read> Input<R> {
    /// Has at least one byte ready, or the file is at its end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.from == self.to {
            (self.from, self.to) = (0, self.reader.read(&mut self.block)?);
        }
        Ok(self.from < self.to)
    }

    fn byte(&mut self) -> Result<u8> {
        ensure!(self.fill()?, "the compressed data ends early");
        self.from += 1;
        Ok(self.block[self.from - 1])
    }

    fn number(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes([self.byte()?, self.byte()?, self.byte()?, self.byte()?]))
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        (0..count).try_for_each(|_| self.byte().map(|_| ()))
    }

    /// Header of RFC 1952, section 2.3.
    fn member_header(&mut self) -> Result<()> {
        ensure!([self.byte()?, self.byte()?, self.byte()?] == [0x1f, 0x8b, 8], "this is no gzip file");
        let flags = self.byte()?;
        self.skip(6)?;
        if flags & 4 != 0 {
            let count = u16::from_le_bytes([self.byte()?, self.byte()?]);
            self.skip(count.into())?;
        }
        for text in [8, 16] {
            if flags & text != 0 {
                while self.byte()? != 0 {}
            }
        }
        self.skip(if flags & 2 == 0 { 0 } else { 2 })
    }
}

/// Counts `"ph":`, which every event has once, and which no name in a trace contains.
#[derive(Debug, Default)]
struct EventCounter {
    matched: usize,
    events: u64,
}

impl EventCounter {
    fn feed(&mut self, block: &[u8]) {
        const KEY: &[u8] = b"\"ph\":";
        for &byte in block {
            self.matched = match (byte == KEY[self.matched], byte) {
                (true, _) => self.matched + 1,
                (false, b'"') => 1,
                (false, _) => 0,
            };
            if self.matched == KEY.len() {
                self.events += 1;
                self.matched = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, GzBuilder, write::GzEncoder};

    use super::*;

    fn collect(file: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let total = inflate(file, |block| out.extend_from_slice(block))?;
        assert_eq!(total, out.len() as u64);
        Ok(out)
    }

    #[test]
    fn members_with_every_header_field_inflate() {
        let text = b"{\"traceEvents\": []}".repeat(60_000);
        let builder = GzBuilder::new().filename("t.json").comment("two").extra(vec![1, 2, 3]);
        let mut first = builder.write(Vec::new(), Compression::new(6));
        first.write_all(&text).unwrap();
        let mut second = GzEncoder::new(first.finish().unwrap(), Compression::new(1));
        second.write_all(b"tail").unwrap();
        let file = second.finish().unwrap();
        assert_eq!(collect(&file).unwrap(), [text.as_slice(), b"tail"].concat());
        assert_eq!(drain(MultiGzDecoder::new(file.as_slice()), |_| ()).unwrap(), text.len() as u64 + 4);
    }

    #[test]
    fn damage_is_noticed() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(&b"abc".repeat(1000)).unwrap();
        let file = encoder.finish().unwrap();
        assert!(collect(&file[..file.len() - 9]).is_err());
        assert!(collect(&file[..file.len() - 1]).is_err());
        let mut wrong = file.clone();
        let at = wrong.len() - 6;
        wrong[at] ^= 1;
        assert!(collect(&wrong).is_err());
        assert!(collect(b"plain").is_err());
        assert!(collect(b"").unwrap().is_empty());
    }

    #[test]
    fn events_are_counted_across_blocks() {
        let text = br#"{"ph": "X", "p": "", "phase": 1, "x": ""ph": 2}"#;
        for cut in 0..text.len() {
            let mut counter = EventCounter::default();
            counter.feed(&text[..cut]);
            counter.feed(&text[cut..]);
            assert_eq!(counter.events, 2, "cut at {cut}");
        }
    }
}
