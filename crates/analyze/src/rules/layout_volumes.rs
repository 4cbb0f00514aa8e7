//! Batch norms on volumes: PyTorch has no kernels of theirs for channels-last ones, and those for any layout are faster than
//! those for channels first where there are few channels for the elements, and slower where there are many.

use super::layout::{Layout, is_volume};
use crate::finding::Range;
use crate::patterns::scene::{element_size, numel};
use crate::prepared::{Prepared, Row};

/// What a call takes on channels-last volumes: so many microseconds, and so many for each million of elements, at best and
/// at worst. Of six shapes from 8x512x2x7x7 to 2x32x32x112x112 on an H200.
struct Takes {
    call: f64,
    million: (f64, f64),
}

/// For a pass: of elements of two bytes, and of larger ones.
const TRAINING: [Takes; 2] = [Takes { call: 70.0, million: (14.0, 22.0) }, Takes { call: 28.0, million: (2.4, 3.4) }];
const BACKWARD: [Takes; 2] = [Takes { call: 50.0, million: (12.5, 14.5) }, Takes { call: 60.0, million: (2.6, 4.0) }];
const INFERENCE: [Takes; 2] = [Takes { call: 17.0, million: (7.8, 9.0) }, Takes { call: 14.0, million: (4.6, 7.2) }];

/// The bandwidth of that GPU in GB/s: kernels of others are taken to be as much slower as theirs.
const MEASURED_ON: f64 = 4800.0;

/// Batch norms on volumes that lie channels first.
#[derive(Debug, Default)]
pub(super) struct VolumeNorms<'a> {
    pub(super) rows: Vec<&'a Row>,
    /// What they take now, in milliseconds, and on channels-last volumes.
    pub(super) now_ms: f64,
    pub(super) then_ms: Range,
}

impl<'a> VolumeNorms<'a> {
    pub(super) fn of(p: &'a Prepared) -> Self {
        let mut found = Self::default();
        let is_one = |r: &&Row| &*r.category == "batchnorm" && is_volume(r) && Layout::of(r) != Layout::ChannelsLast;
        for row in p.rows.iter().filter(is_one) {
            let Some(then) = then_ms(row, MEASURED_ON / p.platform.mem_bw_gbps.value) else { continue };
            found.rows.push(row);
            found.now_ms += row.time_ms;
            found.then_ms = Range { low: found.then_ms.low + then.low, high: found.then_ms.high + then.high };
        }
        found
    }

    /// What another layout saves of their time, or costs.
    pub(super) fn saving(&self) -> Range {
        Range { low: self.now_ms - self.then_ms.high, high: self.now_ms - self.then_ms.low }
    }

    /// Whether they are slower then.
    pub(super) fn lose(&self) -> bool {
        self.saving().high < 0.0
    }
}

fn then_ms(row: &Row, slower: f64) -> Option<Range> {
    let volume = row.inputs.dims.as_ref()?.first()?.shape()?;
    let trains = row.inputs.concrete.as_ref().is_some_and(|c| c.get(5).is_some_and(|flag| &**flag == "True"));
    let takes = match () {
        () if row.name.contains("backward") => &BACKWARD,
        () if trains || &*row.name != "aten::batch_norm" => &TRAINING,
        () => &INFERENCE,
    };
    let size = row.inputs.types.as_ref()?.first().map_or(4.0, |t| element_size(t));
    let Takes { call, million } = &takes[usize::from(size > 2.0)];
    let us = |each: f64| row.count as f64 * (call + each * slower * numel(volume) as f64 / 1e6);
    Some(Range { low: us(million.0) / 1e3, high: us(million.1) / 1e3 })
}
