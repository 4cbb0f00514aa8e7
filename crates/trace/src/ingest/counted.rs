//! Tells how far the reading of a file has come.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ReadOptions;

/// A reader whose bytes are counted where somebody wants to know. Reads are of hundreds of kilobytes, so that the
/// counting costs nothing.
pub(super) struct Counted<R> {
    inner: R,
    count: Option<Arc<AtomicU64>>,
}

impl<R> Counted<R> {
    pub(super) fn new(inner: R, options: &ReadOptions) -> Self {
        Self { inner, count: options.bytes_read.clone() }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        if let Some(count) = &self.count {
            count.fetch_add(n as u64, Ordering::Relaxed);
        }
        Ok(n)
    }
}
