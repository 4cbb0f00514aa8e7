//! How much memory the system counts as ours: what is not needed at the moment is given back.
//!
//! A stage of the work runs its own part of the program, and the system maps 64 KiB around every place it touches: in the
//! end all nine megabytes of code and constants, of which a stage needs one. Of a trace of 20 MB that was almost half of all
//! memory. It comes back by itself where it is needed again.

/// Stages before which code is given back: to unmap its many pieces takes most of a millisecond. With any fewer a trace of
/// 20 MB takes more memory at its worst moment.
const CODE: &[&str] = &["perf_report", "analysis", "replay_packages"];

#[cfg(all(target_os = "linux", not(debug_assertions)))]
#[expect(unsafe_code, reason = "the system can only be told through its C interface; see each block")]
mod system {
    use std::ffi::{c_int, c_void};
    use std::ops::Range;
    use std::ptr;
    use std::sync::OnceLock;
    use std::time::Duration;

    #[cfg(target_env = "gnu")]
    pub(super) fn allocate_sparingly() {
        /// From this size on memory comes from the system, and goes back to it, piece by piece. A fixed size, since the
        /// allocator's own guess grows with what was freed, until large columns lie between small things that stay.
        const LARGE: c_int = 128 << 10;
        /// Free memory at the end that stays: most of it is used again at once.
        const KEPT: c_int = 64 << 20;
        // SAFETY: sets numbers of the allocator, which checks them; no memory is touched.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        }
    }

    /// Other allocators give back by themselves.
    #[cfg(not(target_env = "gnu"))]
    pub(super) fn allocate_sparingly() {}

    /// Has the system map less around a place that is touched: it maps no more than one mapping, and neighbours with
    /// different advice are two. The advice itself (not to read ahead from the disk) is for every second piece, so half
    /// of the file is still read ahead. Each piece takes the lock that all memory of the program has in common, so others
    /// are let by every now and then.
    pub(super) fn map_small_pieces() {
        const PIECE: usize = 8 << 10;
        const AT_ONCE: usize = 64;
        const PAUSE: Duration = Duration::from_micros(800);
        let pieces = code().iter().flat_map(|code| {
            let starts = (code.start.next_multiple_of(PIECE)..code.end).step_by(2 * PIECE);
            starts.map(|start| start..code.end.min(start + PIECE))
        });
        for (i, piece) in pieces.enumerate() {
            advise(piece, libc::MADV_RANDOM);
            if i % AT_ONCE == 0 {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Unmaps code and constants. They are read from their file again, or rather from the copy that the system has of
    /// it, where they are touched next.
    pub(super) fn give_back_code() {
        for pages in code() {
            advise(pages.clone(), libc::MADV_DONTNEED);
        }
    }

    /// Advice on pages of [`code`].
    fn advise(pages: Range<usize>, advice: c_int) {
        // SAFETY: a private mapping of a file that nobody can have written to: whatever the advice, a page has the same
        // content when it is touched next. What is not aligned to the system's pages is refused, and all stays.
        unsafe {
            libc::madvise(pages.start as *mut c_void, pages.len(), advice);
        }
    }

    /// The addresses of all pages of the program and its libraries that can't be written to. They are asked for once, in
    /// the beginning: what was loaded with the program stays as long as it runs, and whoever asks waits for all others
    /// who do.
    fn code() -> &'static [Range<usize>] {
        static CODE: OnceLock<Vec<Range<usize>>> = OnceLock::new();
        CODE.get_or_init(|| {
            let mut pages: Vec<Range<usize>> = Vec::new();
            // SAFETY: `visit` is called for every loaded object, with `pages`, which lives longer than the call.
            unsafe {
                libc::dl_iterate_phdr(Some(visit), ptr::from_mut(&mut pages).cast());
            }
            pages
        })
    }

    unsafe extern "C" fn visit(object: *mut libc::dl_phdr_info, _size: usize, pages: *mut c_void) -> c_int {
        const PAGE: u64 = 4096;
        // SAFETY: the loader passes a valid description, whose table has as many entries as it says, and `pages` is what
        // `code` gave it.
        let (base, segments, pages) = unsafe {
            let object = &*object;
            let segments = std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum));
            (object.dlpi_addr, segments, &mut *pages.cast::<Vec<Range<usize>>>())
        };
        for segment in segments.iter().filter(|s| s.p_type == libc::PT_LOAD && s.p_flags & libc::PF_W == 0) {
            let start = base + segment.p_vaddr;
            pages.push((start & !(PAGE - 1)) as usize..(start + segment.p_memsz).next_multiple_of(PAGE) as usize);
        }
        0
    }
}

/// Where the system is not asked: it has no such interface, or a debugger may have put breakpoints into the code.
#[cfg(not(all(target_os = "linux", not(debug_assertions))))]
mod system {
    pub(super) fn allocate_sparingly() {}
    pub(super) fn map_small_pieces() {}
    pub(super) fn give_back_code() {}
}

/// Before work of many stages.
pub(crate) fn settle() {
    system::allocate_sparingly();
    // Beside the work, for it takes a while. If there can be no thread, nothing is lost.
    let _ = std::thread::Builder::new().name("resident".to_owned()).stack_size(64 << 10).spawn(|| {
        // What it took to begin.
        system::give_back_code();
        system::map_small_pieces();
        // What was mapped in large pieces until now.
        system::give_back_code();
    });
}

/// A stage begins. (Beside the work it would come too late now and then.)
pub(crate) fn give_back(stage: &str) {
    if CODE.contains(&stage) {
        system::give_back_code();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use jarvis_perf::platform::Platform;
    use jarvis_trace::{ReadOptions, Trace};

    use super::*;
    use crate::pipeline::{AnalyzeOptions, Files, Progress, ReplayChoice, analyze_watched};

    #[derive(Default)]
    struct Seen(Mutex<Vec<&'static str>>);

    impl Progress for Seen {
        fn begins(&self, stage: &'static str) {
            self.0.lock().unwrap().push(stage);
        }
    }

    #[test]
    fn code_is_given_back_at_stages_that_there_are() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/h200/tiny_bmm_window.json.gz");
        let trace = Trace::open(path.as_ref(), &ReadOptions::default()).unwrap();
        let options = AnalyzeOptions {
            platform: Platform::find("H200").unwrap().clone(),
            labels: jarvis_report::RunLabels::default(),
            extension: None,
            thresholds: jarvis_analyze::thresholds::Thresholds::default(),
            replay: ReplayChoice::None,
            emit: Vec::new(),
        };
        let seen = Seen::default();
        analyze_watched(trace, &options, &seen, Files::default()).unwrap();
        let seen = seen.0.into_inner().unwrap();
        assert!(CODE.iter().all(|stage| seen.contains(stage)), "{seen:?}");
    }
}
