//! All targets in one binary, so that one link serves them all: `JARVIS_FUZZ_TARGET` says which. See `run`.
#![no_main]

use std::sync::LazyLock;

use jarvis_fuzz::{Dice, Target, mutate};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("JARVIS_FUZZ_TARGET").unwrap_or_default();
    Target::find(&name).unwrap_or_else(|| panic!("JARVIS_FUZZ_TARGET: there is no target {name:?}"))
});

fuzz_target!(init: seeds(), |data: &[u8]| (TARGET.run)(data));

/// Writes the seeds where libFuzzer can pick them up, if it was told a folder.
fn seeds() {
    let Some(folder) = std::env::var_os("JARVIS_FUZZ_SEEDS") else { return };
    std::fs::create_dir_all(&folder).expect("a folder for seeds");
    for (i, seed) in (TARGET.seeds)().iter().enumerate() {
        std::fs::write(std::path::Path::new(&folder).join(format!("seed_{i:03}")), seed).expect("room for seeds");
    }
}

// Half of the inputs are spoilt by their structure, as in the bounded run, the others as libFuzzer likes.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut dice = Dice::new(u64::from(seed));
    if dice.roll(2) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let spoilt = mutate::mutate(TARGET.form, &data[..size], max_size, &mut dice);
    data[..spoilt.len()].copy_from_slice(&spoilt);
    spoilt.len()
});
