//! Chooses how many layers, samples and steps make a trace of the wanted size, and has it written.

use std::io::{self, Write};

use super::layout::Layout;
use super::step::{self, Extent};
use super::template::Template;
use super::writer::Writer;

/// Raised with every change of what is generated, so that kept files are made anew.
pub(crate) const VERSION: u32 = 1;

/// Most layers a network gets; larger traces have more steps.
const MOST_LAYERS: usize = 24;
/// Fewest steps of a trace, as a profiler records more than one; tiny traces have one all the same.
const FEWEST_STEPS: u64 = 2;
/// Samples a layer: makes about seven events in ten Python frames, as in real traces with stacks.
const SAMPLES_PER_LAYER: usize = 33;
/// How often the number of samples is corrected.
const CORRECTIONS: usize = 3;
/// Header, names and trailer.
const FIXED_BYTES: u64 = 14_000;

/// What to generate.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Bytes of JSON to come near to; never less than one layer makes (about 0.4 MB).
    pub(crate) size: u64,
    /// Decides every number in the trace.
    pub(crate) seed: u64,
    /// How it is written.
    pub(crate) layout: Layout,
}

/// What was generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Bytes of JSON, before compression.
    pub(crate) bytes: u64,
    /// Elements of `traceEvents`.
    pub(crate) events: u64,
    /// Training steps.
    pub(crate) steps: u64,
    /// Layers of the network.
    pub(crate) layers: usize,
}

/// Writes a trace to `sink`.
pub(crate) fn write_trace(options: &Options, sink: &mut dyn Write) -> io::Result<Summary> {
    let plan = Plan::new(options)?;
    let template = build(options, plan.extent);
    let name = format!("generated_seed{}.json", options.seed);
    let written = Writer::new(&template, options.seed, plan.steps, sink).trace(&name)?;
    Ok(Summary { bytes: written.bytes, events: written.events, steps: plan.steps, layers: plan.extent.layers })
}

fn build(options: &Options, extent: Extent) -> Template {
    step::build(options.layout, options.seed, extent)
}

struct Plan {
    extent: Extent,
    steps: u64,
}

impl Plan {
    /// As few steps as the size allows, with the layers that come nearest below it; samples make up the rest.
    fn new(options: &Options) -> io::Result<Self> {
        let of_layers = |layers| Extent { layers, samples: layers * SAMPLES_PER_LAYER };
        let events_bytes = options.size.saturating_sub(FIXED_BYTES);
        let largest = step_bytes(options, of_layers(MOST_LAYERS), 0)?;
        let smallest = step_bytes(options, of_layers(1), 0)?;
        let fewest = if events_bytes < FEWEST_STEPS * smallest { 1 } else { FEWEST_STEPS };
        let steps = events_bytes.div_ceil(largest).max(fewest);
        let wanted = events_bytes / steps;
        let layer = (largest - smallest) / (MOST_LAYERS as u64 - 1);
        let layers = (1 + wanted.saturating_sub(smallest) / layer).min(MOST_LAYERS as u64) as usize;

        let mut extent = of_layers(layers);
        let mut bytes = step_bytes(options, extent, steps / 2)?;
        let half = Extent { samples: extent.samples / 2, ..extent };
        let sample = (bytes - step_bytes(options, half, steps / 2)?) / (extent.samples - half.samples) as u64;
        // Samples differ in length, so one correction seldom hits; a few do.
        for _ in 0..CORRECTIONS {
            let missing = wanted as i64 - bytes as i64;
            extent.samples = (extent.samples as i64 + missing / sample.max(1) as i64).max(1) as usize;
            bytes = step_bytes(options, extent, steps / 2)?;
        }
        Ok(Self { extent, steps })
    }
}

/// Bytes of one step, with ids as long as those of step number `step`.
fn step_bytes(options: &Options, extent: Extent, step: u64) -> io::Result<u64> {
    let template = build(options, extent);
    let written = Writer::new(&template, options.seed, 2 * step.max(1), &mut io::sink()).step_alone(step)?;
    Ok(written.bytes)
}
