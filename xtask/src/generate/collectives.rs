//! Gradient all-reduce of a data-parallel job, as `DistributedDataParallel` runs it on its own stream.
//!
//! The traces this generator was modelled on are of one GPU; the collective fields follow the list of them in the
//! description of the trace format (names, and which are strings).

use super::builder::Builder;
use super::draw::{self, Head, Note};
use super::kernels;
use super::template::Stream;
use super::tensor::{Arg, Tensor, draw_inputs};

/// Gradients are reduced when this many elements are ready: PyTorch's default of 25 MiB in bfloat16.
const BUCKET_ELEMENTS: i64 = 13_107_200;
/// GPUs in the job.
pub(super) const WORLD_SIZE: i64 = 8;

/// Counts a gradient in, and reduces the bucket once it is full.
pub(super) fn gradient_ready(b: &mut Builder, grad: &Tensor) {
    b.bucket_elements += grad.elements();
    if b.bucket_elements >= BUCKET_ELEMENTS {
        let elements = std::mem::take(&mut b.bucket_elements);
        all_reduce(b, elements);
    }
}

/// Fields that the op and its kernel share, in JSON.
fn fields(elements: i64) -> Vec<(&'static str, String)> {
    vec![
        ("Collective name", "\"allreduce\"".to_owned()),
        ("In msg nelems", elements.to_string()),
        ("Out msg nelems", elements.to_string()),
        ("Group size", WORLD_SIZE.to_string()),
        ("dtype", "\"BFloat16\"".to_owned()),
        ("In split size", "\"[]\"".to_owned()),
        ("Out split size", "\"[]\"".to_owned()),
        ("Process Group Name", "\"0\"".to_owned()),
        ("Process Group Description", "\"default_pg\"".to_owned()),
        ("Process Group Ranks", "\"[0, 1, 2, 3, 4, 5, 6, 7]\"".to_owned()),
    ]
}

fn all_reduce(b: &mut Builder, elements: i64) {
    let bucket = Tensor::bf16(&[elements]);
    let buckets = [bucket.clone()];
    let args = [Arg::Ts(&buckets), Arg::No, Arg::S("False"), Arg::S("-1")];
    b.note(Note::Fixed("nccl:all_reduce"), false, |b| {
        b.op("c10d::allreduce_", &args, |b| {
            let (layout, track) = b.style();
            let shape = draw::op_with(layout, "record_param_comms", track, Head::Plain, |pen| {
                for (name, value) in fields(elements) {
                    pen.key(", ", name);
                    pen.raw(&value);
                }
                draw_inputs(
                    pen,
                    &[Arg::T(&bucket), Arg::N(7), Arg::S("0"), Arg::S("allreduce"), Arg::L(&[]), Arg::L(&[])],
                );
            });
            b.op_of(shape, None, |b| {
                b.runtime("cudaEventRecord", 135, 900);
                b.runtime("cudaStreamWaitEvent", 147, 800);
                b.launch_on(&kernels::all_reduce(bucket.bytes()), Stream::Nccl, &fields(elements));
                b.runtime("cudaEventRecord", 135, 900);
            });
        });
    });
}
