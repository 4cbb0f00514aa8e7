//! When the GPU waits for input.

use super::*;

#[test]
fn what_a_step_does_before_it_copies_to_the_device_is_input() {
    // host  |-- load() --||copy||op||op| ... |wait|...
    let is_input = |ready_us: f64, direction: &str, bytes: i64| {
        let mut host = Host::default();
        for step in 0..3 {
            let start = host.now;
            host.b.python("train.py(7): load", host.now, ready_us);
            host.now += ready_us;
            host.b.launch("cudaMemcpyAsync", host.now, 4.0, 1000 + step);
            let at = (host.now + 8.0).max(host.gpu + 1.0);
            host.b.gpu("gpu_memcpy", direction, at, 5.0, 1000 + step, 7).arg("bytes", bytes);
            host.gpu = at + 5.0;
            for _ in 0..40 {
                host.op("aten::mm", 20.0, 25.0);
            }
            host.end_step(step as usize, start);
        }
        names(&found(&host.b)).contains(&"input_starved")
    };
    let to_device = "Memcpy HtoD (Pageable -> Device)";
    assert!(is_input(600.0, to_device, 1 << 20));
    assert!(is_input(2500.0, to_device, 1 << 14), "numbers of words are small");
    assert!(!is_input(1500.0, to_device, 1 << 14), "so little may be the calls themselves");
    assert!(!is_input(2500.0, to_device, 8), "one number is no input");
    assert!(!is_input(2500.0, "Memcpy DtoD (Device -> Device)", 1 << 20));
}

#[test]
fn input_is_a_finding_of_its_own() {
    // host  |-- dataloader 2 ms --||op||op| ... |wait||-- dataloader 2 ms --||op| ...
    // GPU                            |k| |k| ...                               |k| ...
    let build = |input: f64, call: f64| {
        let mut host = Host::default();
        for step in 0..3 {
            let start = host.now;
            host.b.python("torch/utils/data/dataloader.py(1): __next__", host.now, input);
            host.now += input;
            for _ in 0..40 {
                host.op("aten::mm", call, 25.0);
            }
            host.end_step(step, start);
        }
        host.b
    };
    let all = found(&build(2000.0, 20.0));
    assert_eq!(names(&all), ["input_starved"]);
    assert_eq!(all[0].priority, Priority::Critical);
    // 3 ms a step, of which 1 ms is left: half of the input gone gives 1.5x, all of it 3x.
    assert!(all[0].impact.speedup.high > 2.7 && all[0].impact.speedup.high < 3.2, "{:?}", all[0].impact);
    assert!(all[0].impact.speedup.low > 1.3 && all[0].impact.speedup.low < 1.6, "{:?}", all[0].impact);
    assert!(all[0].issue.contains("before the first launch"));
    assert_eq!(names(&found(&build(40.0, 20.0))), [""; 0], "5 % of the window are worth a word, 4.6 % are not");
    // 2 ms more of 80 us a call: as recorded 1.6x, and with calls of 32 us without the profiler 2.6x.
    let slowed = found(&build(2000.0, 80.0)).into_iter().find(|f| f.pattern.as_str() == "input_starved").unwrap();
    assert!(slowed.impact.speedup.high > 2.3 && slowed.impact.speedup.high < 2.7, "{:?}", slowed.impact);
    assert!(slowed.impact.speedup.low > 1.15 && slowed.impact.speedup.low < 1.4, "{:?}", slowed.impact);
}

#[test]
fn input_goes_and_the_rest_of_a_host_may_be_faster_without_the_profiler() {
    let mut host = Host::default();
    for step in 0..2 {
        let start = host.now;
        host.b.python("torch/utils/data/dataloader.py(1): __next__", host.now, 2000.0);
        host.now += 2000.0;
        for _ in 0..40 {
            host.op("aten::mm", 50.0, 5.0);
        }
        host.end_step(step, start);
    }
    let all = found(&host.b);
    let f = all.iter().find(|f| f.pattern == PatternId::INPUT_STARVED).unwrap();
    let gaps = system(&host.b).gaps;
    let (input, step) = (f.time_ms + gaps.input_before.as_ms(), (gaps.window + gaps.input_before).as_ms());
    assert!((3.9..4.1).contains(&input) && (7.9..8.2).contains(&step), "{input} {step}");
    // Who waits for input is not slowed down, so it may be a larger part of the program than of the recording.
    let rest = (step - input) / 2.5;
    let (recorded, at_most) = (step / (step - input), (rest + input) / rest);
    assert!(f.impact.speedup.high > recorded && f.impact.speedup.high < at_most + 0.1, "{:?}", f.impact);
    assert!(f.impact.speedup.low < recorded, "{:?}", f.impact);
    assert!(
        f.issue.ends_with(&format!("with them it is {} of {} ms.", shown_ms(input), shown_ms(step))),
        "{}",
        f.issue
    );
    assert!(f.impact.basis.contains("as a share of the window"), "{:?}", f.impact);
}

#[test]
fn what_a_step_does_before_its_first_copy_is_input() {
    // host  |    nothing recorded    ||copy||op||op| ... |wait||    nothing recorded    ||copy| ...
    // GPU                               |c|   |k| |k| ...                                  |c| ...
    let build = |copies: &str, us: f64, input: f64| {
        let mut host = Host::default();
        for step in 0..3 {
            let start = host.now;
            host.now += input;
            host.launch(host.now, "gpu_memcpy", copies, us);
            host.now += 20.0;
            for _ in 0..40 {
                host.op("aten::mm", 20.0, 25.0);
            }
            host.end_step(step, start);
        }
        host.b
    };
    let copy = "Memcpy HtoD (Pinned -> Device)";
    let all = found(&build(copy, 30.0, 2000.0));
    assert_eq!(all[0].pattern, PatternId::INPUT_STARVED);
    assert!(all[0].impact.speedup.high > 2.5 && all[0].impact.speedup.high < 3.2, "{:?}", all[0].impact);
    // What it takes to call; a value or a kernel instead of a batch; results.
    for (copies, us, input) in
        [(copy, 30.0, 400.0), (copy, 2.0, 2000.0), ("Memcpy DtoH (Device -> Pinned)", 30.0, 2000.0)]
    {
        assert!(!names(&found(&build(copies, us, input))).contains(&"input_starved"), "{copies} {us} {input}");
    }
}

#[test]
fn without_steps_what_takes_long_before_a_copy_is_input() {
    // host  |op||op| ... ||read|    nothing recorded    ||copy||op||op| ...
    let is_input = |read: i64, copies: &str, input: f64| {
        let mut host = Host::default();
        for step in 0..3 {
            host.now += input;
            host.launch(host.now, "gpu_memcpy", copies, 30.0);
            host.now += 20.0;
            for _ in 0..40 {
                host.op("aten::mm", 20.0, 25.0);
            }
            host.b.launch("cudaMemcpyAsync", host.now, 4.0, 1000 + step);
            let at = (host.now + 8.0).max(host.gpu + 1.0);
            host.b.gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", at, 5.0, 1000 + step, 7).arg("bytes", read);
            host.gpu = at + 5.0;
        }
        names(&found(&host.b)).contains(&"input_starved")
    };
    let copy = "Memcpy HtoD (Pinned -> Device)";
    assert!(is_input(4, copy, 3000.0));
    // The rest of the step before; what the host makes of results; nothing that is copied to the device.
    assert!(!is_input(4, copy, 1500.0));
    assert!(!is_input(1 << 20, copy, 3000.0));
    assert!(!is_input(4, "Memcpy DtoD (Device -> Device)", 3000.0));
}

#[test]
fn names_of_files_tell_loaders_alone() {
    let is_input = |frame: &str, launches: usize| {
        let mut host = Host::default();
        for step in 0..3 {
            let start = host.now;
            let us = 2000.0;
            host.b.python(frame, host.now, us);
            let end = host.now + us;
            for _ in 0..launches {
                host.op("aten::mul", 20.0, 1.0);
            }
            host.now = end;
            for _ in 0..40 {
                host.op("aten::mm", 20.0, 25.0);
            }
            host.end_step(step, start);
        }
        names(&found(&host.b)).contains(&"input_starved")
    };
    assert!(is_input("torch/utils/data/dataloader.py(741): __next__", 0));
    assert!(is_input("data/text.py(12): tokenize_batch", 0));
    assert!(is_input("transformers/tokenization_utils_base.py(2855): __call__", 0));
    assert!(!is_input("cosmos_tokenizer/layers3d.py(88): forward", 0));
    // What prepares on the GPU is no input that it waits for; a few copies of a batch are.
    assert!(is_input("rcnn.py(201): preprocess_image", 4));
    assert!(!is_input("rcnn.py(201): preprocess_image", 40));
}

#[test]
fn without_steps_the_first_input_is_a_part_of_the_program_too() {
    // host  |-- make() --||copy and wait||op| ... |-- make() --||copy and wait||op| ...
    let saved = |copy: &str| {
        let mut host = Host::default();
        for step in 0..2 {
            host.b.cpu_op("aten::sort", host.now, 4000.0);
            host.now += 4000.0;
            host.b.launch("cudaMemcpyAsync", host.now, 4.0, 1000 + step);
            let at = (host.now + 8.0).max(host.gpu + 1.0);
            host.b.gpu("gpu_memcpy", copy, at, 5.0, 1000 + step, 7).arg("bytes", 1 << 20);
            host.gpu = at + 5.0;
            for _ in 0..40 {
                host.op("aten::mm", 20.0, 25.0);
            }
        }
        let all = found(&host.b);
        let f = all.into_iter().find(|f| f.pattern == PatternId::INPUT_STARVED).unwrap();
        (system(&host.b).gaps.input_before, f)
    };
    let (before, f) = saved("Memcpy HtoD (Pinned -> Device)");
    // Two of 4 ms beside two of 1 ms, of which the window has one.
    assert!((3_700_000..4_100_000).contains(&before.0), "{before:?}");
    assert!(f.issue.contains("pass before the first launch"), "{}", f.issue);
    assert!(f.impact.speedup.high > 4.5 && f.impact.speedup.high < 5.5, "{:?}", f.impact);
}
