//! Everything that can be wrong with a recording, as one declared list. Reading counts defects by name instead of
//! failing on them; the counts travel with the trace and are shown to the user.

/// How much a defect matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; no number is affected.
    Info,
    /// Some numbers may be less exact or less complete.
    Degraded,
    /// Part of the recording is lost.
    DataLoss,
}

impl Severity {
    /// As shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Degraded => "degraded",
            Self::DataLoss => "data-loss",
        }
    }
}

/// One kind of defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diagnostic {
    /// Which one.
    pub defect: Defect,
    /// Stable name.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was seen.
    pub meaning: &'static str,
    /// What the user can do.
    pub remedy: &'static str,
}

macro_rules! diagnostics {
    ($($(#[$doc:meta])* $name:ident $id:literal $severity:ident $meaning:literal $remedy:literal;)*) => {
        /// A kind of defect.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum Defect { $(#[doc = $meaning] $name),* }

        /// All kinds of defects.
        pub const DIAGNOSTICS: &[Diagnostic] = &[$(Diagnostic {
            defect: Defect::$name, id: $id, severity: Severity::$severity, meaning: $meaning, remedy: $remedy,
        }),*];
    };
}

#[rustfmt::skip]
diagnostics! {
    // Container
    GzipTruncated "gzip_truncated" DataLoss "the gzip stream ends early" "the file was probably copied while being written, or its writer was killed; copy it again or capture anew";
    GzipCorrupt "gzip_corrupt" DataLoss "the gzip stream is damaged; reading stopped there" "copy the file again and compare checksums";
    GzipChecksum "gzip_checksum" DataLoss "the gzip checksum does not match what was unpacked" "copy the file again and compare checksums";
    GzipTrailingData "gzip_trailing_data" Info "bytes after the end of the gzip stream were ignored" "none needed";
    // Document
    JsonTruncated "json_truncated" DataLoss "the JSON document ends early; every complete event before the end was read" "the writer was probably killed; capture anew if the end matters";
    TrailingData "trailing_data" Info "data after the end of the JSON document was ignored" "none needed";
    SecondDocument "second_document" DataLoss "another document follows the first and was not read" "two traces were put into one file: split it, and analyse each by itself";
    RepeatedEventList "repeated_event_list" Degraded "traceEvents stands more than once; the events of all lists were read, one after the other" "check the program that put the trace together";
    ByteOrderMark "byte_order_mark" Info "a byte order mark stands before the document" "none needed";
    // Elements
    MalformedEvent "malformed_event" DataLoss "an element of traceEvents is not valid JSON and was skipped" "names with unescaped quotes cause this; a newer PyTorch writes them right";
    NotAnObject "not_an_object" Degraded "an element of traceEvents is not an object" "none needed; it keeps its place";
    MissingPhase "missing_phase" Degraded "an element has no ph" "none needed; it carries no work";
    ArgsNotObject "args_not_object" Degraded "the args of an event are not an object and count as empty" "check the program that rewrote the trace";
    TooManyArguments "too_many_arguments" Degraded "an event has more arguments than are kept" "check the program that rewrote the trace";
    DuplicateKey "duplicate_key" Info "a key stands twice in one object; the last one counts" "none needed";
    InvalidUtf8 "invalid_utf8" Info "text that is not valid UTF-8 was repaired" "none needed";
    InvalidEscape "invalid_escape" Info "text with an invalid escape was taken literally, or repaired where it is half a character" "none needed; Windows paths cause this";
    TextNumber "text_number" Degraded "ts or dur is text and was read as a number" "check the program that rewrote the trace";
    BadTime "bad_time" Degraded "ts or dur is no finite number, or one beyond the 292 years that are told apart in nanoseconds, and counts as missing" "check the program that rewrote the trace";
    RoundedTime "rounded_time" Info "ts or dur has more digits than nanoseconds and was rounded" "none needed";
    NegativeDuration "negative_duration" Degraded "a duration is negative and counts as zero" "a clock fault of the profiler; a newer driver or PyTorch may mend it";
    BeginEndEvent "begin_end_event" Degraded "begin/end events (ph B, E) of host or GPU categories carry no work here" "convert them to complete events (ph X)";
    MissingTime "missing_time" Degraded "a host event without ts or dur takes no part in the tree" "check the program that rewrote the trace";
    MissingGpuTime "missing_gpu_time" Degraded "a GPU event without dur counts as zero long, one without ts is left out" "check the program that rewrote the trace";
    CoarseTime "coarse_time" Degraded "a GPU event lies so far from the origin of time that microseconds in floating point are a quarter or more apart: --parity rounds its length, and a program that rewrote its ts may have done so" "record times from the start of the recording, or subtract the first ts from all";
    StrayGpuTime "stray_gpu_time" DataLoss "a GPU event lies more than a day away from all runtime calls and was left out" "its ts is wrong: check the program that rewrote the trace, or capture anew";
    ImpossibleDuration "impossible_duration" DataLoss "a GPU event outlasts what ran after it on its stream, or the whole recording, and was left out" "capture anew; a newer driver or PyTorch may mend it";
    DuplicateEvent "duplicate_event" Degraded "an event stands in the file more than once and counts once" "check the program that put the trace together";
    ClockSkew "clock_skew" Degraded "a GPU event begins before the call that launched it: the clocks of host and GPU are apart" "what the GPU waits for the host is off by as much: capture anew, after a newer driver or PyTorch";
    // Tree
    NestingDiscarded "nesting_discarded" Degraded "an event overlaps the end of its caller and has no place in the tree" "none needed; clock skew of the profiler causes this";
    UnlinkedGpuEvent "unlinked_gpu_event" Degraded "a GPU event has no launch in the recording" "warm up the profiler (schedule with warmup) so that launches before the window are recorded";
    UnreadRuntime "unread_runtime" Degraded "a GPU event has no link: it was launched through a runtime whose calls are not read, such as that of XPUs" "none: kernels and their times are right, but operations are charged for them on CUDA and ROCm alone";
    AmbiguousLaunch "ambiguous_launch" Degraded "a GPU event shares its correlation with others, so which call launched it is not known" "ranks merged into one file cause this: analyse ranks separately";
    LaunchWithoutKernel "launch_without_kernel" DataLoss "a launch has no GPU event in the recording, as many others" "the profiler ran out of buffers, or the launches went into a graph: record fewer steps";
    SeveralKernelsPerLaunch "several_kernels_per_launch" Degraded "several GPU events share the correlation of one launch that is no graph launch; the last one is linked" "none needed";
    DuplicateLaunch "duplicate_launch" Degraded "several runtime calls share one correlation; the last one owns the GPU event" "ranks merged into one file cause this: analyse ranks separately";
    SharedCorrelation "shared_correlation" Degraded "runtime calls of several processes share a correlation, so links to the GPU are unreliable" "ranks merged into one file cause this: analyse ranks separately";
    PythonParentMismatch "python_parent_mismatch" Info "a Python frame lies in another frame by time than by its recorded parent" "none needed";
    BackwardLinkMismatch "backward_link_mismatch" Info "a forward/backward link by sequence number differs from the recorded flow" "none needed";
    // Timeline
    TimelineMismatch "timeline_mismatch" Degraded "the parts of the GPU timeline do not add up to its whole" "an internal error: please report it with the trace";
}

/// Where a defect was first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// An event, by UID.
    Event(u32),
    /// A byte of the (unpacked) document.
    Byte(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    count: u64,
    first: At,
}

/// How often each defect was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnostics {
    counts: Vec<Option<Count>>,
}

impl Diagnostics {
    /// Counts a defect.
    pub fn add(&mut self, defect: Defect, at: At) {
        self.add_many(defect, 1, at);
    }

    /// Counts several of a kind, given where the first stands.
    pub fn add_many(&mut self, defect: Defect, count: u64, at: At) {
        if count == 0 {
            return;
        }
        self.counts.resize(DIAGNOSTICS.len(), None);
        match &mut self.counts[defect as usize] {
            Some(c) => c.count += count,
            empty => *empty = Some(Count { count, first: at }),
        }
    }

    /// What was counted of these defects, to be [put back](Self::put_back).
    #[inline]
    pub(crate) fn counted<const N: usize>(&self, defects: [Defect; N]) -> [Option<Count>; N] {
        defects.map(|defect| self.counts.get(defect as usize).copied().flatten())
    }

    /// Nothing was counted of these defects since.
    pub(crate) fn put_back<const N: usize>(&mut self, defects: [Defect; N], counted: [Option<Count>; N]) {
        for (defect, before) in defects.into_iter().zip(counted) {
            if let Some(count) = self.counts.get_mut(defect as usize) {
                *count = before;
            }
        }
        if self.counts.iter().all(Option::is_none) {
            self.counts.clear();
        }
    }

    /// How often a defect was seen.
    pub fn count(&self, defect: Defect) -> u64 {
        self.counts.get(defect as usize).copied().flatten().map_or(0, |c| c.count)
    }

    /// All defects seen, in the order of the list: what, how often, where first.
    pub fn seen(&self) -> impl Iterator<Item = (&'static Diagnostic, u64, At)> + '_ {
        DIAGNOSTICS.iter().zip(&self.counts).filter_map(|(d, c)| c.map(|c| (d, c.count, c.first)))
    }

    /// Where the document ends early, as a byte of its text, if it does.
    pub fn cut_at(&self) -> Option<u64> {
        self.seen().find_map(|(d, _, at)| match at {
            At::Byte(byte) if d.defect == Defect::JsonTruncated => Some(byte),
            _ => None,
        })
    }

    /// The gravest defect seen.
    pub fn worst(&self) -> Option<Severity> {
        self.seen().map(|(d, ..)| d.severity).max()
    }

    /// Adds the counts of a later stage.
    pub fn extend(&mut self, later: &Self) {
        self.append(later, 0, 0);
    }

    /// Adds the counts of another part, whose events start at `first_uid` and whose bytes at `first_byte`.
    pub(crate) fn append(&mut self, part: &Self, first_uid: u32, first_byte: u64) {
        for (d, count, at) in part.seen() {
            let at = match at {
                At::Event(uid) => At::Event(uid.saturating_add(first_uid)),
                At::Byte(byte) => At::Byte(byte + first_byte),
            };
            self.add_many(d.defect, count, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_enum_order_unique_and_complete() {
        for (i, d) in DIAGNOSTICS.iter().enumerate() {
            assert_eq!(d.defect as usize, i);
            assert!(!d.meaning.is_empty() && !d.remedy.is_empty(), "{}", d.id);
            assert!(d.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{}", d.id);
            assert!(DIAGNOSTICS[..i].iter().all(|other| other.id != d.id), "{} stands twice", d.id);
        }
    }

    #[test]
    fn counts_keep_the_first_place() {
        let mut d = Diagnostics::default();
        d.add(Defect::MalformedEvent, At::Event(7));
        d.add(Defect::MalformedEvent, At::Event(9));
        let mut whole = Diagnostics::default();
        whole.append(&d, 100, 0);
        assert_eq!(whole.count(Defect::MalformedEvent), 2);
        assert_eq!(whole.seen().next().unwrap().2, At::Event(107));
        assert_eq!(whole.worst(), Some(Severity::DataLoss));
    }
}
