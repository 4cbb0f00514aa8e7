//! A picture of a few colours as a PNG file: one byte a pixel, which names a colour of a palette.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

/// What every PNG file begins with.
const SIGNATURE: &[u8; 8] = b"\x89PNG\r\n\x1a\n";

/// Bits of a pixel, and the way of colouring by a palette.
const BIT_DEPTH: u8 = 8;
const BY_PALETTE: u8 = 3;

/// The filter of a line that is stored as it is.
const NO_FILTER: u8 = 0;

/// A colour: red, green, blue.
pub(crate) type Rgb = [u8; 3];

/// The bytes of a picture; `pixels` are its lines from above, `width` bytes each.
pub(crate) fn encode(width: u32, pixels: &[u8], palette: &[Rgb]) -> Vec<u8> {
    let lines = pixels.chunks(width.max(1) as usize);
    let height = lines.len() as u32;
    let mut header = Vec::with_capacity(13);
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    // The only compression and filtering that there are, and no interlacing.
    header.extend([BIT_DEPTH, BY_PALETTE, 0, 0, 0]);
    let mut file = SIGNATURE.to_vec();
    chunk(&mut file, *b"IHDR", &header);
    chunk(&mut file, *b"PLTE", palette.as_flattened());
    // Memory takes everything.
    chunk(&mut file, *b"IDAT", &deflated(lines).unwrap_or_default());
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn deflated<'a>(lines: impl Iterator<Item = &'a [u8]>) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    for line in lines {
        encoder.write_all(&[NO_FILTER])?;
        encoder.write_all(line)?;
    }
    encoder.finish()
}

/// Length, name, bytes, and the checksum of name and bytes.
fn chunk(file: &mut Vec<u8>, name: [u8; 4], bytes: &[u8]) {
    file.extend((bytes.len() as u32).to_be_bytes());
    file.extend(name);
    file.extend(bytes);
    let mut crc = Crc::new();
    crc.update(&name);
    crc.update(bytes);
    file.extend(crc.sum().to_be_bytes());
}

/// Bytes as text of sixty-four letters, for where a picture has to stand within a text.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            // Of one byte two letters are told, of two bytes three.
            let letter = if i <= group.len() { LETTERS[(bits >> (18 - 6 * i) & 63) as usize] } else { b'=' };
            text.push(char::from(letter));
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;

    use super::*;

    /// Width, height, palette and pixels of a file; fails where it is not as the format asks.
    pub(crate) fn decode(file: &[u8]) -> (u32, u32, Vec<u8>, Vec<u8>) {
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        let mut rest = file.strip_prefix(SIGNATURE).expect("the signature");
        let mut chunks: Vec<(&[u8], &[u8])> = Vec::new();
        while !rest.is_empty() {
            let len = number(&rest[..4]) as usize;
            let (name, bytes) = (&rest[4..8], &rest[8..8 + len]);
            let mut crc = Crc::new();
            crc.update(&rest[4..8 + len]);
            assert_eq!(number(&rest[8 + len..12 + len]), crc.sum(), "{name:?}");
            chunks.push((name, bytes));
            rest = &rest[12 + len..];
        }
        let names: Vec<&[u8]> = chunks.iter().map(|c| c.0).collect();
        assert_eq!(names, [b"IHDR", b"PLTE", b"IDAT", b"IEND"]);
        let header = chunks[0].1;
        assert_eq!(header[8..], [8, 3, 0, 0, 0]);
        let (width, height) = (number(&header[..4]), number(&header[4..8]));
        let mut raw = Vec::new();
        flate2::read::ZlibDecoder::new(chunks[2].1).read_to_end(&mut raw).unwrap();
        assert_eq!(raw.len() as u32, height * (width + 1));
        let mut pixels = Vec::new();
        for line in raw.chunks(width as usize + 1) {
            assert_eq!(line[0], NO_FILTER);
            pixels.extend(&line[1..]);
        }
        (width, height, chunks[1].1.to_vec(), pixels)
    }

    #[test]
    fn a_picture_comes_back_as_it_was() {
        let pixels = [0, 1, 2, 2, 1, 0];
        let file = encode(3, &pixels, &[[255, 255, 255], [0, 0, 0], [1, 2, 3]]);
        let (width, height, palette, back) = decode(&file);
        assert_eq!((width, height), (3, 2));
        assert_eq!(palette, [255, 255, 255, 0, 0, 0, 1, 2, 3]);
        assert_eq!(back, pixels);
        assert_eq!(file, encode(3, &pixels, &[[255, 255, 255], [0, 0, 0], [1, 2, 3]]), "the same again");
    }

    #[test]
    fn the_checksum_of_the_end_is_the_one_of_the_standard() {
        let file = encode(1, &[0], &[[0; 3]]);
        assert!(file.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82"), "as in every PNG file");
    }

    #[test]
    fn texts_of_the_standard() {
        let known = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in known {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
