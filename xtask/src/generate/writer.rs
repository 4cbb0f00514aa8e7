//! Writes the steps in the order Kineto does: ops of the autograd thread, ops of the Python thread, memory, Python
//! frames, GPU activity, annotations of the GPU, and names at the end.
//!
//! Memory stays constant: each part replays all steps (cheap, and exact because times are drawn from the seed and the
//! number of the step) and writes only its own events.

use std::io::{self, Write};

use super::document;
use super::layout::{Fill, Layout, Shape, ShapeId};
use super::template::{Node, Run, Template, Track, Work};
use super::timeline::{Clock, Span, Times};

/// First moment of every trace.
const FIRST_NS: u64 = 3_844_132_385_479_561;
/// Ids before those of the first step, as in a program that has run for a while.
const FIRST_EXT: u64 = 65_536;
const FIRST_SEQ: u64 = 45_594;
const FIRST_CORR: u64 = 2_746_700;
const FIRST_STEP: u64 = 5;
/// Output is handed on in pieces of this size.
const BLOCK_BYTES: usize = 1 << 20;

/// What has been written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Bytes of JSON, before compression.
    pub(super) bytes: u64,
    /// Elements of `traceEvents`.
    pub(super) events: u64,
}

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Ops(Track),
    Memory,
    Frames,
    Gpu,
    GpuNotes,
}

/// Parts in file order.
const PARTS: [Part; 6] =
    [Part::Ops(Track::Autograd), Part::Ops(Track::Main), Part::Memory, Part::Frames, Part::Gpu, Part::GpuNotes];

/// Writes one trace.
pub(super) struct Writer<'a> {
    template: &'a Template,
    seed: u64,
    steps: u64,
    sink: &'a mut dyn Write,
    block: Vec<u8>,
    written: Written,
    times: Times,
}

impl<'a> Writer<'a> {
    /// A writer of `steps` steps.
    pub(super) fn new(template: &'a Template, seed: u64, steps: u64, sink: &'a mut dyn Write) -> Self {
        let block = Vec::with_capacity(BLOCK_BYTES + (BLOCK_BYTES >> 2));
        Self { template, seed, steps, sink, block, written: Written::default(), times: Times::default() }
    }

    /// Writes the whole file.
    pub(super) fn trace(mut self, name: &str) -> io::Result<Written> {
        let layout = self.template.layout;
        self.block.extend_from_slice(&document::head(layout, self.seed));
        let mut trace = Span { start_ns: FIRST_NS, dur_ns: 0 };
        for part in PARTS {
            if part == Part::Frames {
                let first = self.ev_base(Run::Frames);
                for (index, (shape, mut fill)) in document::outer_frames(layout, trace).into_iter().enumerate() {
                    fill.ev = first + index as u64;
                    self.event(&shape, &fill)?;
                }
            }
            let end_ns = self.part(part)?;
            trace.dur_ns = end_ns - FIRST_NS;
        }
        for shape in document::closing_events(layout, trace) {
            self.event(&shape, &Fill::default())?;
        }
        self.block.extend_from_slice(&document::tail(layout, self.seed, name));
        self.flush()?;
        Ok(self.written)
    }

    /// Writes only the events of step `step`, as they would stand in the file; for measuring.
    pub(super) fn step_alone(mut self, step: u64) -> io::Result<Written> {
        let mut clock = Clock::at(FIRST_NS);
        self.times.play(self.template, self.seed, step, &mut clock);
        for part in PARTS {
            self.part_of_step(part, step)?;
        }
        self.flush()?;
        Ok(self.written)
    }

    /// Writes one part of every step; returns the moment the last step ends.
    fn part(&mut self, part: Part) -> io::Result<u64> {
        // The frames around the loop open first.
        let mut clock = Clock::at(FIRST_NS + 50_000);
        for step in 0..self.steps {
            self.times.play(self.template, self.seed, step, &mut clock);
            self.part_of_step(part, step)?;
        }
        Ok(clock.host_ns + 10_000)
    }

    fn part_of_step(&mut self, part: Part, step: u64) -> io::Result<()> {
        let template = self.template;
        let bases = self.bases(step);
        if part == Part::Gpu {
            let first = self.times.host.first().copied().unwrap_or_default();
            let fill = Fill { ts_ns: first.start_ns + 400, dur_ns: 180_000 + self.seed % 4096, ..Fill::default() };
            self.shape(template.overhead, &fill)?;
        }
        for (index, node) in template.nodes.iter().enumerate() {
            match (part, node.work) {
                (Part::Ops(track), Work::Op { .. } | Work::Note { .. }) if node.track == track => {
                    self.op(node, index, &bases)?;
                }
                (Part::Memory, Work::Memory) => {
                    let fill = Fill { ev: bases.ev[Run::Memory as usize] + u64::from(node.ev), ..self.at(index) };
                    self.shape(node.shape, &fill)?;
                }
                (Part::Frames, Work::Frame { py, parent }) => {
                    let parent = if parent == 0 { document::OUTER_FRAME_COUNT } else { bases.py + u64::from(parent) };
                    let ev = bases.ev[Run::Frames as usize] + u64::from(node.ev);
                    let fill = Fill { py: bases.py + u64::from(py), parent, ev, ..self.at(index) };
                    self.shape(node.shape, &fill)?;
                }
                (Part::Gpu, Work::Call { .. } | Work::Launch { .. }) => self.activity(node, index, &bases)?,
                (Part::GpuNotes, Work::Note { ext, gpu: Some(shape) }) => {
                    if let Some(extent) = self.times.gpu_extent(template, index) {
                        // The profiler begins the annotation 1 ns before its first kernel and ends it 1 ns after.
                        let fill = Fill {
                            ts_ns: extent.start_ns - 1,
                            dur_ns: extent.dur_ns + 2,
                            ext: bases.ext + u64::from(ext),
                            step: FIRST_STEP + step,
                            ..Fill::default()
                        };
                        self.shape(shape, &fill)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn op(&mut self, node: &Node, index: usize, bases: &Bases) -> io::Result<()> {
        let run = Run::of(&node.work, node.track).map_or(0, |run| run as usize);
        let mut fill = Fill { ev: bases.ev[run] + u64::from(node.ev), step: bases.step, ..self.at(index) };
        let mut arrow = None;
        match node.work {
            Work::Op { ext, seq, flow } => {
                fill.ext = bases.ext + u64::from(ext);
                fill.seq = bases.seq + u64::from(seq);
                arrow = flow;
            }
            Work::Note { ext, .. } => fill.ext = bases.ext + u64::from(ext),
            _ => {}
        }
        self.shape(node.shape, &fill)?;
        if let Some(flow) = arrow {
            fill.flow = bases.flow + u64::from(flow);
            let flows = self.template.flows;
            self.shape(if node.track == Track::Main { flows.forward } else { flows.backward }, &fill)?;
        }
        Ok(())
    }

    fn activity(&mut self, node: &Node, index: usize, bases: &Bases) -> io::Result<()> {
        let flows = self.template.flows;
        let track = node.track as usize;
        match node.work {
            Work::Launch { ext, corr, gpu } => {
                let (ext, corr) = (bases.ext + u64::from(ext), bases.corr + u64::from(corr));
                let span = self.times.gpu[index];
                let (ts_ns, dur_ns) = (span.start_ns, span.dur_ns);
                let kernel = Fill { ts_ns, dur_ns, ext, corr, bytes: gpu.bytes, ..Fill::default() };
                self.shape(gpu.shape, &kernel)?;
                self.shape(flows.gpu[gpu.stream.index()], &kernel)?;
                let launch = Fill { ext, corr, ..self.at(index) };
                self.shape(node.shape, &launch)?;
                self.shape(flows.launch[track], &launch)
            }
            Work::Call { ext, corr, waits } => {
                let (ext, corr) = (bases.ext + u64::from(ext), bases.corr + u64::from(corr));
                let call = Fill { ext, corr, ..self.at(index) };
                self.shape(node.shape, &call)?;
                // Calls that wait are drawn as the start of an arrow, all others as the end of one.
                self.shape(if waits { flows.launch[track] } else { flows.call[track] }, &call)
            }
            _ => Ok(()),
        }
    }

    fn at(&self, index: usize) -> Fill {
        let span = self.times.host[index];
        Fill { ts_ns: span.start_ns, dur_ns: span.dur_ns, ..Fill::default() }
    }

    /// Where a run of `Ev Idx` begins: after the runs before it.
    fn ev_base(&self, run: Run) -> u64 {
        let before = &self.template.spans.ev[..run as usize];
        before.iter().map(|&count| u64::from(count) * self.steps).sum()
    }

    fn bases(&self, step: u64) -> Bases {
        let spans = &self.template.spans;
        let ev = Run::ALL.map(|run| {
            let outer = if run == Run::Frames { document::OUTER_FRAME_COUNT } else { 0 };
            self.ev_base(run) + outer + step * u64::from(spans.ev[run as usize])
        });
        Bases {
            ev,
            py: document::OUTER_FRAME_COUNT + step * u64::from(spans.py),
            ext: FIRST_EXT + step * u64::from(spans.ext),
            seq: FIRST_SEQ + step * u64::from(spans.seq),
            corr: FIRST_CORR + step * u64::from(spans.corr),
            flow: step * u64::from(spans.flow),
            step: FIRST_STEP + step,
        }
    }

    fn shape(&mut self, id: ShapeId, fill: &Fill) -> io::Result<()> {
        let template = self.template;
        self.event(template.shapes.get(id), fill)
    }

    fn event(&mut self, shape: &Shape, fill: &Fill) -> io::Result<()> {
        let layout = self.template.layout;
        let separator: &[u8] = match (layout, self.written.events) {
            (Layout::Kineto, 0) => b"\n  ",
            (Layout::Kineto, _) => b",\n  ",
            (Layout::Compact, 0) => b"",
            (Layout::Compact, _) => b", ",
            (Layout::Indented, 0) => b"\n    ",
            (Layout::Indented, _) => b",\n    ",
        };
        self.block.extend_from_slice(separator);
        shape.write(layout, fill, &mut self.block);
        self.written.events += 1;
        if self.block.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.written.bytes += self.block.len() as u64;
        self.sink.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

/// What is added to the ordinals of one step.
struct Bases {
    ev: [u64; Run::ALL.len()],
    py: u64,
    ext: u64,
    seq: u64,
    corr: u64,
    flow: u64,
    step: u64,
}
