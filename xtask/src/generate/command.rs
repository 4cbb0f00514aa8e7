//! `cargo xtask gen`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Layout, Options, Summary, write_trace};
use crate::size::Size;

/// Level of compression: real traces have the size that level 6 gives, to a thousandth.
const GZIP_LEVEL: u32 = 6;

/// Arguments of `cargo xtask gen`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Bytes of JSON before compression, as in 10MB or 4GB (at least about 0.7MB).
    #[arg(long)]
    size: Size,
    /// Decides every number: the same seed, size and layout give the same bytes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How the JSON is laid out.
    #[arg(long, value_enum, default_value_t = Layout::Kineto)]
    layout: Layout,
    /// Compress the file.
    #[arg(long)]
    gzip: bool,
    /// The file to write.
    #[arg(short, long)]
    output: PathBuf,
}

/// Writes the trace and tells what is in it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let options = Options { size: args.size.bytes(), seed: args.seed, layout: args.layout };
    let summary = write_file(&options, args.gzip, &args.output)?;
    println!(
        "{}: {} bytes of JSON, {} events, {} steps of {} layers, {} bytes on disk",
        args.output.display(),
        summary.bytes,
        summary.events,
        summary.steps,
        summary.layers,
        fs::metadata(&args.output)?.len()
    );
    Ok(())
}

/// Writes beside the target first: a run that was interrupted leaves no file that looks whole.
pub(crate) fn write_file(options: &Options, gzip: bool, output: &Path) -> Result<Summary> {
    let partial = output.with_extension("partial");
    let file = File::create(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    let summary = if gzip {
        let mut encoder = GzEncoder::new(BufWriter::with_capacity(1 << 20, file), Compression::new(GZIP_LEVEL));
        let summary = write_trace(options, &mut encoder)?;
        encoder.finish()?.flush()?;
        summary
    } else {
        // The writer hands over blocks of a mebibyte: a buffer in between would only copy them.
        let mut file = file;
        write_trace(options, &mut file)?
    };
    fs::rename(&partial, output)
        .with_context(|| format!("cannot rename {} to {}", partial.display(), output.display()))?;
    Ok(summary)
}
