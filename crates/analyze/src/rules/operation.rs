//! What is kept of a row that was judged.

use std::sync::Arc;

use super::cx::CategoryCx;
use super::judge::Judged;
use crate::metrics::{Classification, IntensityClass, JudgedOperation};

pub(crate) fn operation(cx: &CategoryCx<'_>, judged: &Judged<'_>, classification: Classification) -> JudgedOperation {
    let (row, judgement) = (judged.row, &judged.judgement);
    let (compute, memory) = judgement.intensity;
    let class = |flops_per_byte: f64| match () {
        () if flops_per_byte > compute => IntensityClass::Compute,
        () if flops_per_byte < memory => IntensityClass::Memory,
        () => IntensityClass::Mixed,
    };
    JudgedOperation {
        row: row.id,
        intensity: row.efficiency.flops_per_byte.map(class),
        expected: judgement.band,
        assessment: judgement.assessment,
        set_aside: judged.set_aside,
        fusion_candidate: cx.claims.flagged(row.id).map(Arc::clone),
        classification,
    }
}
