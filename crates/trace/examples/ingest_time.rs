//! Times reading against plain inflate of the same file, alternating: `ingest_time FILE.json.gz [RUNS] [THREADS]`.
#![allow(clippy::print_stdout, reason = "an example prints")]
use std::time::Instant;

use flate2::{Decompress, FlushDecompress, Status};
use jarvis_trace::{ReadOptions, Trace, Tree, TreeOptions};

fn inflate(path: &str) -> usize {
    use std::io::Read;
    let mut file = std::fs::File::open(path).expect("open");
    let (mut input, mut out) = (vec![0; 256 << 10], vec![0; 512 << 10]);
    let mut inflate = Decompress::new(false);
    let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
    let mut head = [0; 10];
    file.read_exact(&mut head).expect("header");
    if head[3] & 8 != 0 {
        let mut byte = [1];
        while byte[0] != 0 {
            file.read_exact(&mut byte).expect("name");
        }
    }
    loop {
        let n = file.read(&mut input).expect("read");
        let mut at = 0;
        loop {
            let (i, o) = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress(&input[at..n], &mut out, FlushDecompress::None).expect("inflate");
            at += (inflate.total_in() - i) as usize;
            let made = (inflate.total_out() - o) as usize;
            crc.update(&out[..made]);
            if status == Status::StreamEnd || n == 0 {
                assert_ne!(crc.finalize(), 0);
                return inflate.total_out() as usize;
            }
            if made < out.len() && at == n {
                break;
            }
        }
    }
}

fn timed<T>(best: &mut f64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *best = best.min(start.elapsed().as_secs_f64() * 1e3);
    result
}

fn main() -> Result<(), jarvis_trace::ReadError> {
    let args: Vec<String> = std::env::args().collect();
    let runs = args.get(2).and_then(|n| n.parse().ok()).unwrap_or(5);
    let threads = args.get(3).and_then(|n| n.parse().ok()).unwrap_or(2);
    let [mut read, mut tree, mut python, mut inflated] = [f64::MAX; 4];
    let mut events = 0;
    for _ in 0..runs {
        let trace = timed(&mut read, || Trace::open(args[1].as_ref(), &ReadOptions { threads }))?;
        events = trace.len();
        timed(&mut tree, || Tree::build(&trace, TreeOptions::default()));
        timed(&mut python, || Tree::build(&trace, TreeOptions::default().with_python()));
        drop(trace);
        if args[1].ends_with(".gz") {
            timed(&mut inflated, || inflate(&args[1]));
        }
    }
    println!("{events} events: read {read:.1} ms, tree {tree:.1} ms, with Python frames {python:.1} ms");
    if inflated < f64::MAX {
        println!(
            "inflate {inflated:.1} ms: read {:.2}x, read and tree {:.2}x",
            read / inflated,
            (read + tree) / inflated
        );
    }
    Ok(())
}
