//! Draws each kind of event as Kineto does; order of keys and blanks are those of the files in `h200/`.

use super::kernels::Kernel;
use super::layout::{Hole, Layout, Pen, Shape};
use super::memory::RESERVED_BYTES;
use super::template::{PID, Stream, Track};
use super::tensor::{Arg, draw_inputs};

/// Device of every GPU event.
pub(super) const DEVICE: i64 = 0;

/// Autograd fields of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// None.
    Plain,
    /// A forward op: sequence number, forward thread 0.
    Forward,
    /// A backward op: sequence number, and the thread that ran the forward.
    Backward,
}

/// Name of an annotation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Note<'a> {
    /// The same in every step.
    Fixed(&'a str),
    /// `ProfilerStep#` and the number of the step.
    Step,
}

impl Note<'_> {
    fn draw(self, pen: &mut Pen) {
        match self {
            Self::Fixed(name) => pen.text(name),
            Self::Step => pen.text_with_hole("ProfilerStep#", Hole::Step),
        }
    }
}

/// Fields that every complete event begins with, up to its arguments, which are left open.
fn complete(layout: Layout, cat: &str, name: impl FnOnce(&mut Pen), pid: i64, tid: i64) -> Pen {
    let mut pen = bare(layout, cat, name, pid, tid);
    pen.key(",\n    ", "args");
    pen.open();
    pen
}

fn bare(layout: Layout, cat: &str, name: impl FnOnce(&mut Pen), pid: i64, tid: i64) -> Pen {
    let mut pen = Pen::event(layout);
    pen.key("\n    ", "ph");
    pen.text("X");
    pen.key(", ", "cat");
    pen.text(cat);
    pen.key(", ", "name");
    name(&mut pen);
    pen.key(", ", "pid");
    pen.int(pid);
    pen.key(", ", "tid");
    pen.int(tid);
    pen.key(",\n    ", "ts");
    pen.hole(Hole::Ts);
    pen.key(", ", "dur");
    pen.hole(Hole::Dur);
    pen
}

fn finish(mut pen: Pen) -> Shape {
    pen.close("\n    ");
    pen.finish()
}

fn field(pen: &mut Pen, lead: &str, name: &str, value: i64) {
    pen.key(lead, name);
    pen.int(value);
}

fn hole(pen: &mut Pen, lead: &str, name: &str, value: Hole) {
    pen.key(lead, name);
    pen.hole(value);
}

/// An op. Without `inputs`, as `evaluate_function` events are, the four lists are absent.
pub(super) fn op(layout: Layout, name: &str, track: Track, head: Head, inputs: Option<&[Arg<'_>]>) -> Shape {
    op_with(layout, name, track, head, |pen| {
        if let Some(args) = inputs {
            draw_inputs(pen, args);
        }
    })
}

/// An op whose arguments after `Record function id` are drawn by `rest`.
pub(super) fn op_with(layout: Layout, name: &str, track: Track, head: Head, rest: impl FnOnce(&mut Pen)) -> Shape {
    let mut pen = complete(layout, "cpu_op", |pen| pen.text(name), PID, track.tid());
    hole(&mut pen, "\n      ", "External id", Hole::Ext);
    // `evaluate_function` events and plain ops begin with the record function id; the others end their head with it.
    let outer = name.starts_with("autograd::engine::evaluate_function");
    if head == Head::Plain || outer {
        field(&mut pen, ",", "Record function id", 0);
    }
    if head != Head::Plain {
        hole(&mut pen, if outer { ", " } else { "," }, "Sequence number", Hole::Seq);
        field(&mut pen, ", ", "Fwd thread id", i64::from(head == Head::Backward));
        if !outer {
            field(&mut pen, ", ", "Record function id", 0);
        }
    }
    rest(&mut pen);
    hole(&mut pen, ", ", "Ev Idx", Hole::Ev);
    finish(pen)
}

/// A Python frame; modules carry their number.
pub(super) fn frame(layout: Layout, name: &str, module: Option<u32>) -> Shape {
    let mut pen = complete(layout, "python_function", |pen| pen.text(name), PID, PID);
    hole(&mut pen, "\n      ", "Python parent id", Hole::Parent);
    hole(&mut pen, ", ", "Python id", Hole::Py);
    if let Some(number) = module {
        field(&mut pen, ", ", "Python module id", i64::from(number));
    }
    hole(&mut pen, ", ", "Ev Idx", Hole::Ev);
    finish(pen)
}

/// A frame that was open before the trace began, of thread `tid`; the outermost has no parent.
pub(super) fn outer_frame(layout: Layout, name: &str, tid: i64, has_parent: bool) -> Shape {
    let mut pen = complete(layout, "python_function", |pen| pen.text(name), PID, tid);
    pen.key("\n      ", "Python parent id");
    if has_parent {
        pen.hole(Hole::Parent);
    } else {
        pen.raw("null");
    }
    hole(&mut pen, ", ", "Python id", Hole::Py);
    hole(&mut pen, ", ", "Ev Idx", Hole::Ev);
    finish(pen)
}

/// A user annotation.
pub(super) fn note(layout: Layout, name: Note<'_>, track: Track) -> Shape {
    let mut pen = complete(layout, "user_annotation", |pen| name.draw(pen), PID, track.tid());
    hole(&mut pen, "\n      ", "External id", Hole::Ext);
    field(&mut pen, ",", "Record function id", 0);
    hole(&mut pen, ", ", "Ev Idx", Hole::Ev);
    finish(pen)
}

/// The twin of an annotation above the kernels it covers.
pub(super) fn gpu_note(layout: Layout, name: Note<'_>) -> Shape {
    let stream = Stream::Compute.number();
    let mut pen = complete(layout, "gpu_user_annotation", |pen| name.draw(pen), DEVICE, stream);
    hole(&mut pen, "\n      ", "External id", Hole::Ext);
    finish(pen)
}

/// What GPU events and runtime calls begin their arguments with: calls outside every op have no external id.
fn external(pen: &mut Pen, in_op: bool) -> &'static str {
    if in_op {
        hole(pen, "\n      ", "External id", Hole::Ext);
        ",      "
    } else {
        "\n            "
    }
}

/// A runtime or driver call.
pub(super) fn runtime(layout: Layout, name: &str, cbid: i64, track: Track, in_op: bool) -> Shape {
    let cat = if name.starts_with("cuda") { "cuda_runtime" } else { "cuda_driver" };
    let mut pen = complete(layout, cat, |pen| pen.text(name), PID, track.tid());
    let lead = external(&mut pen, in_op);
    field(&mut pen, lead, "cbid", cbid);
    hole(&mut pen, ", ", "correlation", Hole::Corr);
    finish(pen)
}

/// A kernel; `extra` are further arguments, already in JSON.
pub(super) fn kernel(layout: Layout, kernel: &Kernel, stream: Stream, in_op: bool, extra: &[(&str, String)]) -> Shape {
    let mut pen = complete(layout, "kernel", |pen| pen.text(&kernel.name), DEVICE, stream.number());
    let lead = external(&mut pen, in_op);
    field(&mut pen, lead, "queued", 0);
    field(&mut pen, ", ", "device", DEVICE);
    field(&mut pen, ", ", "context", 1);
    field(&mut pen, ",      ", "stream", stream.number());
    hole(&mut pen, ", ", "correlation", Hole::Corr);
    field(&mut pen, ",      ", "registers per thread", kernel.registers);
    field(&mut pen, ",      ", "shared memory", kernel.shared_bytes);
    pen.key(",      ", "blocks per SM");
    pen.six_decimals(kernel.blocks_per_sm());
    pen.key(",      ", "warps per SM");
    pen.six_decimals(kernel.warps_per_sm());
    pen.key(",      ", "grid");
    pen.ints(&kernel.grid);
    pen.key(",      ", "block");
    pen.ints(&kernel.block);
    field(&mut pen, ",      ", "est. achieved occupancy %", kernel.occupancy());
    for (name, value) in extra {
        pen.key(", ", name);
        pen.raw(value);
    }
    finish(pen)
}

/// What a copy engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// A batch on its way in.
    HostToDevice,
    /// A result on its way out.
    DeviceToHost,
    /// Within the device.
    DeviceToDevice,
    /// A fill.
    Memset,
}

impl Transfer {
    /// The call that starts it, with its callback id.
    pub(super) fn launcher(self) -> (&'static str, i64) {
        match self {
            Self::Memset => ("cudaMemsetAsync", 51),
            _ => ("cudaMemcpyAsync", 41),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::HostToDevice => "Memcpy HtoD (Pinned -> Device)",
            Self::DeviceToHost => "Memcpy DtoH (Device -> Pinned)",
            Self::DeviceToDevice => "Memcpy DtoD (Device -> Device)",
            Self::Memset => "Memset (Device)",
        }
    }

    /// Time it takes: 50 GB/s over the bus, 1.9 TB/s within the device.
    pub(super) fn nominal_ns(self, bytes: i64) -> u32 {
        let bytes_per_ns = if matches!(self, Self::HostToDevice | Self::DeviceToHost) { 50 } else { 1900 };
        700 + (bytes / bytes_per_ns) as u32
    }
}

/// A copy or memset on the GPU.
pub(super) fn transfer(layout: Layout, transfer: Transfer, stream: Stream, bytes: i64, in_op: bool) -> Shape {
    let cat = if transfer == Transfer::Memset { "gpu_memset" } else { "gpu_memcpy" };
    let mut pen = complete(layout, cat, |pen| pen.text(transfer.name()), DEVICE, stream.number());
    let lead = external(&mut pen, in_op);
    field(&mut pen, lead, "device", DEVICE);
    field(&mut pen, ", ", "context", 1);
    field(&mut pen, ",      ", "stream", stream.number());
    hole(&mut pen, ", ", "correlation", Hole::Corr);
    field(&mut pen, ",      ", "bytes", bytes);
    hole(&mut pen, ", ", "memory bandwidth (GB/s)", Hole::Rate);
    finish(pen)
}

/// One end of an arrow at `place` (pid, tid); `ph` is `s` or `f`.
pub(super) fn flow(layout: Layout, ph: &str, cat: &str, place: (i64, i64), id: Hole) -> Shape {
    let mut pen = Pen::event(layout);
    pen.key("\n    ", "ph");
    pen.text(ph);
    hole(&mut pen, ", ", "id", id);
    field(&mut pen, ", ", "pid", place.0);
    field(&mut pen, ", ", "tid", place.1);
    hole(&mut pen, ", ", "ts", Hole::Ts);
    pen.key(",\n    ", "cat");
    pen.text(cat);
    pen.key(", ", "name");
    pen.text(cat);
    if ph == "f" {
        pen.key(", ", "bp");
        pen.text("e");
    }
    pen.finish()
}

/// A change of allocated memory; `total` is what is allocated after it.
pub(super) fn memory(layout: Layout, track: Track, bytes: i64, address: i64, total: i64) -> Shape {
    let mut pen = Pen::event(layout);
    pen.key("\n    ", "ph");
    pen.text("i");
    pen.key(", ", "cat");
    pen.text("cpu_instant_event");
    pen.key(", ", "s");
    pen.text("t");
    pen.key(", ", "name");
    pen.text("[memory]");
    field(&mut pen, ",\n    ", "pid", PID);
    field(&mut pen, ", ", "tid", track.tid());
    hole(&mut pen, ",\n    ", "ts", Hole::Ts);
    pen.key(",\n    ", "args");
    pen.open();
    field(&mut pen, "\n      ", "Total Reserved", RESERVED_BYTES);
    field(&mut pen, ", ", "Total Allocated", total);
    field(&mut pen, ", ", "Bytes", bytes);
    field(&mut pen, ", ", "Device Id", DEVICE);
    field(&mut pen, ", ", "Device Type", 1);
    field(&mut pen, ", ", "Addr", address);
    hole(&mut pen, ", ", "Ev Idx", Hole::Ev);
    finish(pen)
}

/// Time the profiler itself took; it has no arguments.
pub(super) fn overhead(layout: Layout) -> Shape {
    bare(layout, "overhead", |pen| pen.text("Activity Buffer Request"), -1, 0).finish()
}

#[cfg(test)]
mod tests {
    use super::super::layout::Fill;
    use super::super::tensor::Tensor;
    use super::*;

    /// Events of `h200/hf_llama_train` and `h200/item_every_step`, byte for byte.
    fn check(shape: &Shape, fill: &Fill, want: &str) {
        let mut out = Vec::new();
        shape.write(Layout::Kineto, fill, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn a_forward_op() {
        let (x, w) = (Tensor::bf16(&[4, 1024, 2048]), Tensor::bf16(&[2048, 2048]));
        let shape =
            op(Layout::Kineto, "aten::linear", Track::Main, Head::Forward, Some(&[Arg::T(&x), Arg::T(&w), Arg::No]));
        let fill = Fill {
            ts_ns: 3_844_239_017_385_442,
            dur_ns: 125_173,
            ext: 64_592,
            seq: 45_603,
            ev: 4229,
            ..Fill::default()
        };
        check(
            &shape,
            &fill,
            r#"{
    "ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 400, "tid": 400,
    "ts": 3844239017385.442, "dur": 125.173,
    "args": {
      "External id": 64592,"Sequence number": 45603, "Fwd thread id": 0, "Record function id": 0, "Concrete Inputs": ["", "", ""], "Input type": ["c10::BFloat16", "c10::BFloat16", ""], "Input Strides": [[2097152, 2048, 1], [2048, 1], []], "Input Dims": [[4, 1024, 2048], [2048, 2048], []], "Ev Idx": 4229
    }
  }"#,
        );
    }

    #[test]
    fn a_backward_pair() {
        let name = "autograd::engine::evaluate_function: ViewBackward0";
        let fill =
            Fill { ts_ns: 3_844_239_028_599_876, dur_ns: 29_035, ext: 65_545, seq: 45_901, ev: 8, ..Fill::default() };
        check(
            &op(Layout::Kineto, name, Track::Autograd, Head::Backward, None),
            &fill,
            r#"{
    "ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: ViewBackward0", "pid": 400, "tid": 458,
    "ts": 3844239028599.876, "dur": 29.035,
    "args": {
      "External id": 65545,"Record function id": 0, "Sequence number": 45901, "Fwd thread id": 1, "Ev Idx": 8
    }
  }"#,
        );
        let fill = Fill { ts_ns: 3_844_239_028_602_881, flow: 3, ..Fill::default() };
        check(
            &flow(Layout::Kineto, "f", "fwdbwd", (400, 458), Hole::Flow),
            &fill,
            r#"{
    "ph": "f", "id": 3, "pid": 400, "tid": 458, "ts": 3844239028602.881,
    "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"
  }"#,
        );
    }

    #[test]
    fn a_frame_and_an_annotation() {
        let fill = Fill {
            ts_ns: 3_844_239_017_557_642,
            dur_ns: 81_331,
            parent: 500,
            py: 539,
            ev: 6222,
            ext: 64_513,
            step: 2,
            ..Fill::default()
        };
        check(
            &frame(Layout::Kineto, "nn.Module: Linear_1", Some(1)),
            &fill,
            r#"{
    "ph": "X", "cat": "python_function", "name": "nn.Module: Linear_1", "pid": 400, "tid": 400,
    "ts": 3844239017557.642, "dur": 81.331,
    "args": {
      "Python parent id": 500, "Python id": 539, "Python module id": 1, "Ev Idx": 6222
    }
  }"#,
        );
        check(
            &note(Layout::Kineto, Note::Step, Track::Main),
            &fill,
            r#"{
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "pid": 400, "tid": 400,
    "ts": 3844239017557.642, "dur": 81.331,
    "args": {
      "External id": 64513,"Record function id": 0, "Ev Idx": 6222
    }
  }"#,
        );
    }

    #[test]
    fn a_kernel_and_its_launch() {
        let mut gather = crate::generate::kernels::named("gather", 4096, 256, 1);
        gather.registers = 32;
        let fill =
            Fill { ts_ns: 3_844_239_015_494_575, dur_ns: 11_168, ext: 64_523, corr: 2_746_712, ..Fill::default() };
        check(
            &kernel(Layout::Kineto, &gather, Stream::Compute, true, &[]),
            &fill,
            r#"{
    "ph": "X", "cat": "kernel", "name": "gather", "pid": 0, "tid": 7,
    "ts": 3844239015494.575, "dur": 11.168,
    "args": {
      "External id": 64523,      "queued": 0, "device": 0, "context": 1,      "stream": 7, "correlation": 2746712,      "registers per thread": 32,      "shared memory": 0,      "blocks per SM": 31.030304,      "warps per SM": 248.242432,      "grid": [4096, 1, 1],      "block": [256, 1, 1],      "est. achieved occupancy %": 100
    }
  }"#,
        );
        check(
            &runtime(Layout::Kineto, "cudaStreamIsCapturing", 317, Track::Main, false),
            &fill,
            r#"{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaStreamIsCapturing", "pid": 400, "tid": 400,
    "ts": 3844239015494.575, "dur": 11.168,
    "args": {
            "cbid": 317, "correlation": 2746712
    }
  }"#,
        );
    }

    #[test]
    fn a_copy() {
        let fill =
            Fill { ts_ns: 3_844_551_552_329_028, dur_ns: 1408, ext: 5178, corr: 255_010, bytes: 4, ..Fill::default() };
        check(
            &transfer(Layout::Kineto, Transfer::DeviceToHost, Stream::Compute, 4, true),
            &fill,
            r#"{
    "ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "pid": 0, "tid": 7,
    "ts": 3844551552329.028, "dur": 1.408,
    "args": {
      "External id": 5178,      "device": 0, "context": 1,      "stream": 7, "correlation": 255010,      "bytes": 4, "memory bandwidth (GB/s)": 0.002840909090909091
    }
  }"#,
        );
    }
}
