//! The bounded run: every target, some thousand inputs, the same in every run. `JARVIS_FUZZ_ROUNDS=N` multiplies the
//! number of inputs, for a longer run without any tool.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a target says that something is wrong")]
#![allow(clippy::print_stderr, reason = "whoever sees a failure needs the input")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use jarvis_fuzz::{Dice, TARGETS, Target, mutate};

/// Longest input.
const MOST: usize = 64 << 10;

/// Runs a target on its seeds as they are, then on spoilt ones.
fn smoke(name: &str) {
    let target = Target::find(name).unwrap();
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty());
    for (i, seed) in seeds.iter().enumerate() {
        bear(target, seed, &format!("seed {i} as it is"));
    }
    let rounds: u64 = std::env::var("JARVIS_FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let began = Instant::now();
    for round in 0..target.smoke * rounds {
        let mut dice = Dice::new(round);
        let seed = &seeds[dice.roll(seeds.len())];
        let input = mutate::mutate(target.form, seed, MOST, &mut dice);
        bear(target, &input, &format!("round {round}"));
    }
    eprintln!("{name}: {} inputs in {:.1} s", target.smoke * rounds, began.elapsed().as_secs_f64());
}

/// A failing input is kept, so that it can be tried again alone.
fn bear(target: &Target, input: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        let path = std::env::temp_dir().join(format!("jarvis_fuzz_{}", target.name));
        let kept = std::fs::write(&path, input);
        eprintln!("{}: {what} failed; the input is in {} ({kept:?})", target.name, path.display());
        std::panic::resume_unwind(panic);
    }
}

macro_rules! smoke_tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            smoke(stringify!($name));
        })*

        #[test]
        fn every_target_has_its_run() {
            let named: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
            assert_eq!(named, [$(stringify!($name)),*]);
        }
    };
}

smoke_tests! { ingest split tree tables analyze versus extension settings reports folder }
