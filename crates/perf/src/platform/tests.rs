use super::*;

const GIB: u64 = 1 << 30;

#[test]
fn every_shipped_file_is_complete_and_plausible() {
    let all = Platform::all();
    assert_eq!(all.len(), FILES.len(), "{:?}", FILES.iter().find_map(|text| parse(text, Origin::Shipped).err()));
    let names: Vec<&str> = all.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["MI300X", "MI325X", "MI355X", "MI400", "MI210", "A100", "H100", "H200", "B200"]);
    for platform in all {
        let name = &platform.name;
        assert!(matches!(platform.vendor.as_deref(), Some("AMD" | "NVIDIA")), "{name}");
        assert!(platform.basis.is_some(), "{name}");
        assert!(!platform.notes.is_empty(), "{name}: no note");
        assert!((500.0..50_000.0).contains(&platform.mem_bw_gbps.value), "{name}: bandwidth");
        assert!((16.0..1000.0).contains(&platform.memory_gb.unwrap().value), "{name}: memory");
        assert!(platform.num_cus.is_none_or(|n| (64..1024).contains(&n)), "{name}: compute units");
        assert!(platform.peaks.contains_key("matrix_bf16"), "{name}: every analysis needs bf16");
        for (spec, peak) in &platform.peaks {
            assert!(COMPUTE_SPECS.contains(&spec.as_str()), "{name}: unknown key {spec}");
            assert!((5.0..50_000.0).contains(&peak.value), "{name}: {spec}");
        }
        // Halving the precision never lowers the rate.
        for pair in ["matrix_fp64", "matrix_fp32", "matrix_bf16", "matrix_fp8", "matrix_fp4"].windows(2) {
            if let (Some(wide), Some(narrow)) = (platform.peak(pair[0]), platform.peak(pair[1])) {
                assert!(narrow.value >= wide.value, "{name}: {pair:?}");
            }
        }
    }
}

#[test]
fn every_key_of_a_shipped_file_is_one_we_read() {
    let known = [
        "name",
        "vendor",
        "basis",
        "derive_matrix",
        "mem_bw_gbps",
        "memory_gb",
        "num_cus",
        "max_achievable_tflops",
        "source",
        "notes",
    ];
    for text in FILES {
        let Ok(Value::Object(root)) = serde_json::from_str(text) else { panic!("{text}") };
        for key in root.keys() {
            assert!(known.contains(&key.as_str()), "{key}");
        }
        // No source without a figure: it would be a leftover.
        let rates = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(rates(&root["max_achievable_tflops"]), rates(&root["source"]["max_achievable_tflops"]));
    }
}

#[test]
fn seed_figures_come_first() {
    for (name, tbs, bf16, gb) in [
        ("MI300X", 5.3, 708.0, 192.0),
        ("MI325X", 6.0, 708.0, 256.0),
        ("MI355X", 6.5, 850.0, 288.0),
        ("MI400", 7.0, 1000.0, 320.0),
        ("A100", 2.0, 312.0, 80.0),
        ("H100", 3.35, 990.0, 80.0),
        ("H200", 4.8, 990.0, 141.0),
    ] {
        let platform = Platform::find(name).unwrap();
        assert_eq!(platform.mem_bw_gbps, Figure { value: tbs * 1e3, source: Source::Seed }, "{name}");
        assert_eq!(platform.peak("matrix_bf16"), Some(Figure { value: bf16, source: Source::Seed }), "{name}");
        assert_eq!(platform.memory_gb, Some(Figure { value: gb, source: Source::Seed }), "{name}");
    }
    let mi300x = Platform::find("MI300X").unwrap();
    assert_eq!(mi300x.peak("matrix_fp16"), Some(Figure { value: 654.0, source: Source::Reference }));
    assert_eq!(mi300x.peak("matrix_tf32"), Some(Figure { value: 654.0, source: Source::Datasheet }));
    assert_eq!(mi300x.peak("matrix_fp4"), None);
}

#[test]
fn names_resolve_whatever_their_dress() {
    for (name, key) in [
        ("mi300x", "MI300X"),
        ("AMD Instinct MI300X VF", "MI300X"),
        ("H100 SXM", "H100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("nvidia-h200-sxm", "H200"),
        ("A100-SXM4-80GB", "A100"),
        ("h-200", "H200"),
        ("H100SXM", "H100"),
    ] {
        assert_eq!(Platform::find(name).unwrap().name, key, "{name}");
    }
    // Other devices whose names contain a key.
    for name in ["NVIDIA GH200 480GB", "NVIDIA RTX A1000", "MI300A", "H100 or H200", ""] {
        assert!(Platform::find(name).is_err(), "{name}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_what_to_do() {
    let error = Platform::find("MI300").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown platform `MI300`; known are MI300X, MI325X, MI355X, MI400, MI210, A100, H100, H200, B200"
    );
    assert!(error.help().starts_with("did you mean MI300X?\nany other GPU: "), "{}", error.help());
    let error = Platform::find("TPU v5").unwrap_err();
    assert!(matches!(error, PlatformError::Unknown { suggestion: None, .. }));
    // The example of the help text must itself be a good file.
    let (_, example) = error.help().split_once("\n  ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert_eq!(Platform::from_arch_json(&example).unwrap().name, "MyGPU");
}

#[test]
fn devices_of_real_traces() {
    let guess = |name, sms, mem| Platform::from_device(name, sms, mem);
    for (name, sms, bytes, key) in [
        ("NVIDIA H200", 132, 150_109_880_320, "H200"),
        ("AMD Instinct MI210", 104, 68_702_699_520, "MI210"),
        ("AMD Instinct MI300X", 304, 206_141_652_992, "MI300X"),
    ] {
        let by_name = guess(name, Some(sms), Some(bytes)).unwrap();
        assert_eq!((by_name.platform.name.as_str(), by_name.doubt), (key, None));
        let by_size = guess("", Some(sms), Some(bytes)).unwrap();
        assert_eq!((by_size.platform.name.as_str(), by_size.doubt), (key, None));
    }
    assert_eq!(guess("NVIDIA H200", None, None).unwrap().platform.name, "H200");
    assert_eq!(guess("", Some(132), Some(80 * GIB)).unwrap().platform.name, "H100");
    assert_eq!(guess("", Some(148), Some(179 * GIB)).unwrap().platform.name, "B200");
    assert_eq!(guess("", Some(132), Some(96 * GIB)), None);
    assert_eq!(guess("", Some(132), None), None);
    assert_eq!(guess("", None, None), None);
}

#[test]
fn variants_of_a_device_are_doubted() {
    let pcie = Platform::from_device("NVIDIA H100 PCIe", Some(114), Some(80 * GIB)).unwrap();
    assert_eq!(
        pcie.doubt.unwrap(),
        "`NVIDIA H100 PCIe` has 114 compute units and 80 GB, the H100 of the table 132 compute units and 80 GB: its \
         peaks may differ"
    );
    let small = Platform::from_device("NVIDIA A100-SXM4-40GB", None, Some(40 * GIB)).unwrap();
    assert!(small.doubt.unwrap().contains("has 40 GB"));
    let sibling = Platform::from_device("NVIDIA H800", Some(132), Some(80 * GIB)).unwrap();
    assert_eq!(sibling.platform.name, "H100");
    assert!(sibling.doubt.unwrap().contains("is not a known device; its size is that of the H100"));
}

/// The arch file behind the reference tables of the H200 traces.
const H200_ARCH: &str = r#"{"name":"H200","mem_bw_gbps":4800,"memory_gb":141,"max_achievable_tflops":{"matrix_fp16":990,
"matrix_bf16":990,"matrix_fp32":67,"matrix_tf32":495,"matrix_fp64":67,"matrix_fp8":1979,"matrix_int8":1979,
"vector_fp16":134,"vector_bf16":134,"vector_fp32":67,"vector_fp64":34}}"#;

#[test]
fn an_arch_file_is_taken_as_it_stands() {
    let arch = Platform::from_arch_json(H200_ARCH).unwrap();
    assert_eq!(arch.mem_bw_gbps, Figure { value: 4800.0, source: Source::ArchFile });
    assert_eq!(arch.listed_peak("matrix_fp8"), Some(Figure { value: 1979.0, source: Source::ArchFile }));
    assert_eq!(arch.peak("vector_bfloat16"), None);
    // The shipped H200 has the same numbers.
    let values = |p: &Platform| p.peaks.iter().map(|(k, f)| (k.clone(), f.value)).collect::<Vec<_>>();
    assert_eq!(values(&arch), values(Platform::find("H200").unwrap()));
}

#[test]
fn an_arch_file_may_hold_more_and_less() {
    let text = r#"{"mem_bw_gbps": 5.5e3, "l1_bw_gbps": "?", "num_cus": [],
                   "max_achievable_tflops": {"matrix_bf16": 708.5, "matrix_fp6": 1, "vector_int8": 9,
                   "matrix_fp8": null, "matrix_bf17": 990, "sparse_bf16": 1}}"#;
    let arch = Platform::from_arch_json(text).unwrap();
    assert_eq!((arch.name.as_str(), arch.memory_gb, arch.num_cus), ("custom", None, None));
    assert_eq!(arch.peaks.len(), 3);
    let told = arch.doubt.as_deref().unwrap();
    assert!(told.contains("`matrix_bf17` (did you mean `matrix_bf16`?), `sparse_bf16`"), "{told}");
    assert!(told.ends_with("in max_achievable_tflops are no Compute Specs and not used"), "{told}");
    let short = r#"{"mem_bw_gbps": 1, "max_achievable_tflops": {"bf16": 990}}"#;
    assert_eq!(
        Platform::from_arch_json(short).unwrap().doubt.as_deref(),
        Some("`bf16` (did you mean `matrix_bf16`?) in max_achievable_tflops is no Compute Spec and not used")
    );
    assert_eq!(Platform::from_arch_json(H200_ARCH).unwrap().doubt, None);
    assert_eq!(arch.peak("matrix_fp16"), None, "nothing is derived for a user's file");
}

#[test]
fn a_bad_arch_file_is_told_which_key() {
    for (text, message) in [
        ("[]", "the arch file is not valid JSON: expected an object, found a list"),
        ("{\"mem_bw_gbps\": }", "the arch file is not valid JSON: expected value at line 1 column 17"),
        ("{}", "arch file, key `max_achievable_tflops`: missing"),
        (r#"{"max_achievable_tflops": {}}"#, "arch file, key `mem_bw_gbps`: missing"),
        (
            r#"{"max_achievable_tflops": 7}"#,
            "arch file, key `max_achievable_tflops`: expected an object of Compute Spec: TFLOPS, found a number",
        ),
        (
            r#"{"mem_bw_gbps": 1, "max_achievable_tflops": {"matrix_bf16": "990"}}"#,
            "arch file, key `max_achievable_tflops.matrix_bf16`: expected a number, found text",
        ),
        (
            r#"{"mem_bw_gbps": 0, "max_achievable_tflops": {}}"#,
            "arch file, key `mem_bw_gbps`: expected a number above 0, found 0",
        ),
        (
            r#"{"mem_bw_gbps": 1, "memory_gb": -3.5, "max_achievable_tflops": {}}"#,
            "arch file, key `memory_gb`: expected a number above 0, found -3.5",
        ),
        (
            r#"{"mem_bw_gbps": 1, "max_achievable_tflops": {"matrix_bf16": 1e308}}"#,
            "arch file, key `max_achievable_tflops.matrix_bf16`: no device has a figure of 1e308",
        ),
        (
            r#"{"mem_bw_gbps": 1, "name": 3, "max_achievable_tflops": {}}"#,
            "arch file, key `name`: expected text, found a number",
        ),
    ] {
        assert_eq!(Platform::from_arch_json(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_mark_at_the_beginning_is_no_part_of_an_arch_file() {
    let marked = format!("\u{feff}{H200_ARCH}");
    assert_eq!(Platform::from_arch_json(&marked).unwrap(), Platform::from_arch_json(H200_ARCH).unwrap());
}

#[test]
fn options_replace_figures() {
    let mi300x = Platform::find("MI300X").unwrap();
    let overrides = Overrides { peak_hbm_tbs: Some(4.0), peak_maf_tflops: Some(600.0), memory_gb: Some(128.0) };
    let changed = mi300x.with_overrides(&overrides).unwrap();
    let flag = |value| Figure { value, source: Source::Flag };
    assert_eq!(changed.mem_bw_gbps, flag(4000.0));
    assert_eq!(changed.memory_gb, Some(flag(128.0)));
    assert_eq!(changed.peak("matrix_bf16"), Some(flag(600.0)));
    assert_eq!(changed.peak("matrix_fp16"), Some(flag(600.0)));
    assert_eq!(changed.peak("matrix_fp8"), mi300x.peak("matrix_fp8"));
    assert_eq!(&mi300x.with_overrides(&Overrides::default()).unwrap(), mi300x);
    let bad = Overrides { memory_gb: Some(f64::NAN), ..Overrides::default() };
    assert_eq!(mi300x.with_overrides(&bad).unwrap_err().to_string(), "--memory-gb must be a number above 0, not NaN");
    let rate = |rate| Overrides { peak_maf_tflops: Some(rate), ..Overrides::default() };
    let bandwidth = |tbs| Overrides { peak_hbm_tbs: Some(tbs), ..Overrides::default() };
    for (absurd, problem) in [
        (rate(1e308), "--peak-maf-tflops: no device has 1e308 TFLOPS"),
        (bandwidth(1.1e6), "--peak-hbm-tbs: no device has 1.1e6 TB/s"),
        (bandwidth(1e-300), "--peak-hbm-tbs: no device has 1e-300 TB/s"),
    ] {
        assert_eq!(mi300x.with_overrides(&absurd).unwrap_err().to_string(), problem);
    }
    assert!(mi300x.with_overrides(&bandwidth(1e-6)).is_ok());
}

#[test]
fn missing_matrix_rates_are_derived_only_where_the_platform_says_so() {
    let derived = |value| Some(Figure { value, source: Source::Derived });
    let mi400 = Platform::find("MI400").unwrap();
    assert_eq!(mi400.peak("matrix_fp16"), derived(1000.0));
    assert_eq!(mi400.peak("matrix_fp8"), derived(2000.0));
    assert_eq!(mi400.peak("matrix_fp4"), derived(4000.0));
    assert_eq!(mi400.peak("matrix_fp32"), None);
    assert_eq!(mi400.peak("vector_bf16"), None);
    assert_eq!(mi400.listed_peak("matrix_fp16"), None);
    assert_eq!(Platform::find("MI210").unwrap().peak("matrix_fp8"), None);
}

#[test]
fn knee_of_an_h200() {
    // 990e12 / 4800e9
    assert_eq!(Platform::find("H200").unwrap().knee("matrix_bf16"), Some(206.25));
}

#[test]
fn the_manual_shows_the_shipped_figures() {
    let docs = include_str!("../../../../docs/platforms.md");
    let specs: Vec<&str> = COMPUTE_SPECS.iter().copied().filter(|spec| *spec != "matrix_fp6").collect();
    let cell = |figure: Option<Figure>, scale: f64| match figure {
        None => "–".to_owned(),
        Some(Figure { value, source }) => {
            let letter = match source {
                Source::Seed => "S",
                Source::Reference => "R",
                Source::Datasheet => "D",
                _ => "*",
            };
            format!("{} {letter}", value / scale)
        }
    };
    for platform in Platform::all() {
        let mut row = vec![platform.name.clone()];
        row.push(cell(Some(platform.mem_bw_gbps), 1e3));
        row.push(cell(platform.memory_gb, 1.0));
        row.extend(specs.iter().map(|spec| cell(platform.peak(spec), 1.0)));
        let row = format!("| {} |", row.join(" | "));
        assert!(docs.contains(&row), "docs/platforms.md lacks the row\n{row}");
    }
    let header = specs.iter().map(|spec| spec.replace('_', " ")).collect::<Vec<_>>().join(" | ");
    assert!(docs.contains(&header), "{header}");
    let example = docs.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(Platform::from_arch_json(example).unwrap().name, "MyGPU");
}
