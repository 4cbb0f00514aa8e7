//! Checksums of files. The log of a run keeps them and `jarvis check` compares them: against damage, not against malice.

use std::fmt;

use crc_fast::{CrcAlgorithm, Digest};

const CRC32: CrcAlgorithm = CrcAlgorithm::Crc32IsoHdlc;

/// The CRC-32 of a file, the one of zip and gzip; written as eight hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum(u32);

impl Checksum {
    /// That of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(crc_fast::checksum(CRC32, bytes) as u32)
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The checksum of a file that comes in pieces.
#[derive(Debug)]
pub struct RunningChecksum(Digest);

impl Default for RunningChecksum {
    fn default() -> Self {
        Self(Digest::new(CRC32))
    }
}

impl RunningChecksum {
    /// The next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// That of all bytes so far.
    pub fn sum(&self) -> Checksum {
        Checksum(self.0.finalize() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sum_of_zip_and_gzip() {
        assert_eq!(Checksum::of(b"123456789").to_string(), "cbf43926");
        assert_eq!(Checksum::of(b"").to_string(), "00000000");
        let mut pieces = RunningChecksum::default();
        pieces.add(b"1234");
        pieces.add(b"56789");
        assert_eq!(pieces.sum(), Checksum::of(b"123456789"));
    }
}
