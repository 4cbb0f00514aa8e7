//! Streaming gunzip. The deflate stream is unpacked raw and its checksum computed beside it: the checksum of the
//! usual gzip reader costs half as much as the unpacking itself.

use std::io::{self, Read};

use crc_fast::{CrcAlgorithm, Digest};
use flate2::{Decompress, FlushDecompress, Status};

use crate::diagnostics::{At, Defect, Diagnostics};

const INPUT: usize = 256 << 10;

/// The first two bytes of a gzip file.
pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What the reader is in the middle of.
enum Part {
    Header,
    Body { digest: Box<Digest>, size: u32 },
    End,
}

/// Unpacks one or more gzip members. Damage ends the stream and is counted, never an error.
pub(super) struct Gunzip<R> {
    input: R,
    buf: Box<[u8]>,
    start: usize,
    end: usize,
    input_over: bool,
    inflate: Decompress,
    part: Part,
    members: u32,
    read: u64,
    unpacked: u64,
    pub(super) diagnostics: Diagnostics,
}

impl<R: Read> Gunzip<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            buf: vec![0; INPUT].into_boxed_slice(),
            start: 0,
            end: 0,
            input_over: false,
            inflate: Decompress::new(false),
            part: Part::Header,
            members: 0,
            read: 0,
            unpacked: 0,
            diagnostics: Diagnostics::default(),
        }
    }

    /// Bytes unpacked so far.
    pub(super) fn unpacked(&self) -> u64 {
        self.unpacked
    }

    /// Bytes they were unpacked from.
    pub(super) fn packed(&self) -> u64 {
        self.read - (self.end - self.start) as u64
    }

    fn available(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    /// Reads more input; `false` if there is none.
    fn refill(&mut self) -> io::Result<bool> {
        if self.input_over {
            return Ok(false);
        }
        self.buf.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let n = loop {
            match self.input.read(&mut self.buf[self.end..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.input_over = n == 0;
        self.end += n;
        self.read += n as u64;
        Ok(n > 0)
    }

    /// Makes at least `n` bytes available if the input has them.
    fn want(&mut self, n: usize) -> io::Result<bool> {
        while self.available().len() < n {
            if !self.refill()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn stop(&mut self, defect: Option<Defect>) {
        if let Some(defect) = defect {
            self.diagnostics.add(defect, At::Byte(self.unpacked));
        }
        self.part = Part::End;
    }

    /// Fills `out` with unpacked bytes; fewer than asked for only at the end of the stream.
    pub(super) fn fill(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            match &mut self.part {
                Part::Header => self.header()?,
                Part::Body { .. } => filled += self.body(&mut out[filled..])?,
                Part::End => break,
            }
        }
        Ok(filled)
    }

    fn header(&mut self) -> io::Result<()> {
        const FEXTRA: u8 = 4;
        const FNAME: u8 = 8;
        const FCOMMENT: u8 = 16;
        const FHCRC: u8 = 2;
        if !self.want(10)? || self.available()[..2] != MAGIC {
            // Archives pad their members with zeros.
            let padding = self.available().iter().take(10).all(|&b| b == 0);
            let defect = match self.members {
                0 => Some(Defect::GzipTruncated),
                _ if padding => None,
                _ => Some(Defect::GzipTrailingData),
            };
            self.stop(defect);
            return Ok(());
        }
        let flags = self.available()[3];
        self.start += 10;
        if flags & FEXTRA != 0 {
            if !self.want(2)? {
                self.stop(Some(Defect::GzipTruncated));
                return Ok(());
            }
            let len = usize::from(u16::from_le_bytes([self.available()[0], self.available()[1]]));
            if !self.want(2 + len)? {
                self.stop(Some(Defect::GzipTruncated));
                return Ok(());
            }
            self.start += 2 + len;
        }
        for flag in [FNAME, FCOMMENT] {
            if flags & flag != 0 && !self.skip_text()? {
                self.stop(Some(Defect::GzipTruncated));
                return Ok(());
            }
        }
        if flags & FHCRC != 0 && self.want(2)? {
            self.start += 2;
        }
        self.inflate.reset(false);
        self.part = Part::Body { digest: Box::new(Digest::new(CrcAlgorithm::Crc32IsoHdlc)), size: 0 };
        Ok(())
    }

    /// Skips a text that ends in NUL.
    fn skip_text(&mut self) -> io::Result<bool> {
        loop {
            if let Some(i) = memchr::memchr(0, self.available()) {
                self.start += i + 1;
                return Ok(true);
            }
            self.start = self.end;
            if !self.refill()? {
                return Ok(false);
            }
        }
    }

    fn body(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            self.refill()?;
        }
        let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
        let input = &self.buf[self.start..self.end];
        let status = self.inflate.decompress(input, out, FlushDecompress::None);
        self.start += (self.inflate.total_in() - before_in) as usize;
        let n = (self.inflate.total_out() - before_out) as usize;
        self.unpacked += n as u64;
        if let Part::Body { digest, size } = &mut self.part {
            digest.update(&out[..n]);
            *size = size.wrapping_add(n as u32);
        }
        match status {
            Ok(Status::StreamEnd) => self.trailer()?,
            Ok(_) if n == 0 && self.start == self.end && self.input_over => self.stop(Some(Defect::GzipTruncated)),
            Ok(_) => {}
            Err(_) => self.stop(Some(Defect::GzipCorrupt)),
        }
        Ok(n)
    }

    fn trailer(&mut self) -> io::Result<()> {
        self.members += 1;
        if !self.want(8)? {
            self.stop(Some(Defect::GzipTruncated));
            return Ok(());
        }
        let word = |i: usize| {
            let b = self.available();
            u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]])
        };
        let (crc, len) = (word(0), word(4));
        let good = match &self.part {
            Part::Body { digest, size } => digest.finalize() as u32 == crc && *size == len,
            _ => true,
        };
        self.start += 8;
        if !good {
            self.diagnostics.add(Defect::GzipChecksum, At::Byte(self.unpacked));
        }
        if self.want(1)? {
            self.part = Part::Header;
        } else {
            self.part = Part::End;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn pack(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(packed: &[u8]) -> (Vec<u8>, Diagnostics) {
        let mut gunzip = Gunzip::new(packed);
        let mut out = Vec::new();
        let mut buf = [0; 7];
        loop {
            let n = gunzip.fill(&mut buf).unwrap();
            out.extend_from_slice(&buf[..n]);
            if n < buf.len() {
                return (out, gunzip.diagnostics);
            }
        }
    }

    #[test]
    fn members_follow_each_other() {
        let mut packed = pack(b"hello ");
        packed.extend(pack(b"world"));
        let (text, diagnostics) = unpack(&packed);
        assert_eq!(text, b"hello world");
        assert_eq!(diagnostics.seen().count(), 0);
        packed.extend([0; 100]);
        assert_eq!(unpack(&packed).1.seen().count(), 0, "padding is no defect");
        packed.truncate(packed.len() - 100);
        packed.extend(b"tail");
        assert_eq!(unpack(&packed).1.count(Defect::GzipTrailingData), 1);
    }

    #[test]
    fn header_fields_are_skipped() {
        let packed = pack(b"text");
        let mut with_fields = packed[..10].to_vec();
        with_fields[3] = 4 | 8 | 16 | 2;
        with_fields.extend([3, 0, 1, 2, 3]);
        with_fields.extend(b"name\0comment\0\x00\x00");
        with_fields.extend(&packed[10..]);
        let (text, diagnostics) = unpack(&with_fields);
        assert_eq!((text.as_slice(), diagnostics.seen().count()), (b"text".as_slice(), 0));
    }

    #[test]
    fn damage_is_counted_and_what_was_there_is_kept() {
        let text: Vec<u8> = (0..100_000u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()).collect();
        let packed = pack(&text);
        for cut in [0, 5, 12, 1000, packed.len() - 9, packed.len() - 8, packed.len() - 1] {
            let (got, diagnostics) = unpack(&packed[..cut]);
            assert!(text.starts_with(&got), "cut at {cut}");
            assert_eq!(diagnostics.count(Defect::GzipTruncated), 1, "cut at {cut}");
        }
        let mut wrong_sum = packed.clone();
        let at = packed.len() - 6;
        wrong_sum[at] ^= 1;
        assert_eq!(unpack(&wrong_sum).1.count(Defect::GzipChecksum), 1);
        let mut corrupt = packed;
        corrupt[50_000..50_100].fill(0xff);
        let (_, diagnostics) = unpack(&corrupt);
        assert!(diagnostics.count(Defect::GzipCorrupt) + diagnostics.count(Defect::GzipChecksum) > 0);
    }
}
