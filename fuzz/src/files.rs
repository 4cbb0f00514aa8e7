//! Files that the command line reads beside traces: extensions, limits, platforms, reports, output folders.

use std::collections::BTreeMap;
use std::io::{Cursor, Write as _};
use std::sync::LazyLock;

use jarvis::pipeline::{AnalyzeOptions, Emit, ReplayChoice, analyze};
use jarvis_analyze::compare::reports::{CompareOptions, NamedReport, compare_tables, read};
use jarvis_analyze::thresholds::Thresholds;
use jarvis_perf::call::{Dims, InputLists, OpCall};
use jarvis_perf::extension::Extension;
use jarvis_perf::parity::Quirks;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, Table, build_report};
use jarvis_report::check::{Folder, check};
use jarvis_report::render::{csv, xlsx};
use jarvis_report::replay::{self, Origin, Selection, Tier};
use jarvis_report::{RunLabels, render};
use jarvis_trace::{Fidelity, Trace};

use crate::corpus;
use crate::mutate::gzip;

fn calls() -> Vec<InputLists> {
    let types = |all: &[&str]| Some(all.iter().map(|&t| t.to_owned()).collect());
    vec![
        InputLists {
            dims: Some([Dims::Shape(vec![4, 8]), Dims::Shape(vec![8, 16]), Dims::Shape(vec![])].into()),
            types: types(&["c10::BFloat16", "float", "Scalar"]),
            strides: Some([Dims::Shape(vec![8, 1]), Dims::Shape(vec![16, 1]), Dims::Shape(vec![])].into()),
            concrete: types(&["", "", "9223372036854775807"]),
        },
        InputLists {
            dims: Some([Dims::List(vec![vec![i64::MAX, i64::MAX], vec![-1]]), Dims::Shape(vec![i64::MIN])].into()),
            types: types(&["TensorList", "mystery"]),
            strides: None,
            concrete: types(&["[1, 2]", "1e999"]),
        },
        InputLists::default(),
    ]
}

/// An extension file: read, and used on calls good and bad.
pub(crate) fn extension(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let extension = match Extension::parse(&text, "fuzz.toml") {
        Ok(extension) => extension,
        Err(error) => return assert!(error.to_string().starts_with("fuzz.toml:"), "{error}"),
    };
    for op in extension.ops() {
        for inputs in calls() {
            let call = OpCall {
                name: &op.name,
                inputs: &inputs,
                kernels: &["k"],
                launches: &[],
                sequence: Some(1),
                annotation: None,
                extra: &[],
                forward: None,
            };
            let twice = [op.evaluate(&call, &Quirks::NONE), op.evaluate(&call, &Quirks::NONE)];
            assert_eq!(format!("{:?}", twice[0]), format!("{:?}", twice[1]));
        }
    }
    let mut both = extension.clone();
    both.overlay(extension.clone());
    assert_eq!(both, extension, "an extension over itself is itself");
}

/// Files of limits and of platforms.
pub(crate) fn settings(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Thresholds::from_text(&text) {
        Ok(thresholds) => assert_eq!(Thresholds::from_text(&text).ok(), Some(thresholds)),
        Err(error) => assert!(!error.to_string().is_empty() && !error.help().is_empty()),
    }
    match Platform::from_arch_json(&text) {
        Ok(platform) => {
            assert!(platform.mem_bw_gbps.value > 0.0 && platform.mem_bw_gbps.value.is_finite());
            for spec in ["matrix_bf16", "vector_fp32", ""] {
                assert!(platform.peak(spec).is_none_or(|f| f.value > 0.0 && f.value.is_finite()), "{spec}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.help().is_empty()),
    }
    let _ = text.parse::<ReplayChoice>();
}

/// The parts of a workbook beside its sheet.
static BOOK: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let bytes = xlsx::render(&sheet_seed()).expect("a workbook").bytes;
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).expect("a zip");
    let mut parts = Vec::new();
    for i in 0..archive.len() {
        let mut file = archive.by_index(i).expect("a member");
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).expect("a sound member");
        parts.push((file.name().expect("a name").into_owned(), bytes));
    }
    parts
});

/// Two small sheets of a real report.
pub(crate) fn sheet_seed() -> Vec<Table> {
    let trace = Trace::parse(&corpus::traces()[0]).expect("a sound trace");
    let report = build_report(&trace, &ReportOptions::default()).expect("a report");
    let wanted = ["gpu_timeline", "ops_summary"];
    report.tables().into_iter().filter(|t| wanted.contains(&t.name.as_str())).collect()
}

/// A part of the workbook that seeds are made of.
pub(crate) fn book_part(name: &str) -> Vec<u8> {
    BOOK.iter().find(|(part, _)| part == name).map(|(_, bytes)| bytes.clone()).unwrap_or_default()
}

/// A report for `compare` and `replay`: the first line says which file is meant (a part of a workbook, a whole one, or
/// a CSV file), the rest is its content.
pub(crate) fn reports(data: &[u8]) {
    let end = data.iter().position(|&b| b == b'\n').unwrap_or(data.len());
    let (name, content) = (String::from_utf8_lossy(&data[..end]), data.get(end + 1..).unwrap_or_default());
    let tables = if name == "xlsx" {
        read::workbook(content)
    } else if name.starts_with("xl/") {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        for (part, bytes) in BOOK.iter() {
            zip.start_file(part, stored).expect("memory takes everything");
            zip.write_all(if *part == name { content } else { bytes }).expect("memory takes everything");
        }
        read::workbook(&zip.finish().expect("memory takes everything").into_inner())
    } else {
        rows(content);
        read::csv(&name, content).map(|table| vec![table])
    };
    match tables {
        Ok(tables) => compare(&tables),
        Err(error) => assert!(!error.to_string().is_empty() && !error.help().is_empty()),
    }
}

/// A table can be written and read again, and compared with itself and with a sound one.
fn compare(tables: &[Table]) {
    if tables.iter().map(|t| t.rows() * t.columns.len()).sum::<usize>() > 20_000 {
        return;
    }
    let sound = sheet_seed_once();
    for (one, two) in [(tables, tables), (tables, sound), (sound, tables)] {
        for fidelity in [Fidelity::Correct, Fidelity::Reference] {
            let options = CompareOptions { fidelity, ..CompareOptions::default() };
            let named = [NamedReport { tag: "one", tables: one }, NamedReport { tag: "two", tables: two }];
            match compare_tables(&named, &options) {
                Ok(comparison) => {
                    let rendered = render::xlsx::render_hiding(&comparison.tables, &comparison.hidden);
                    read::workbook(&rendered.expect("a workbook").bytes).expect("our own workbook");
                    for table in &comparison.tables {
                        let rows = table.rows();
                        assert!(table.columns.iter().all(|c| c.cells.len() == rows), "{} is no rectangle", table.name);
                        read::csv(&table.name, &csv::render(table, csv::Texts::Guarded)).expect("our own CSV");
                    }
                }
                Err(error) => assert!(!error.to_string().is_empty() && !error.help().is_empty()),
            }
        }
    }
}

fn sheet_seed_once() -> &'static [Table] {
    static SOUND: LazyLock<Vec<Table>> = LazyLock::new(sheet_seed);
    &SOUND
}

/// `jarvis replay` reads the sheet of a finished report.
fn rows(content: &[u8]) {
    let Ok(rows) = replay::of_csv(content, None) else { return };
    let selection = Selection::of(["*"], Tier::Requested);
    let candidates = replay::candidates(&rows, &selection);
    assert!(candidates.len() <= rows.len());
    let origin = Origin { platform: None, device_name: None };
    let packages =
        replay::packages(&rows, &selection, origin, &replay::Replayer::new().expect("a replayer")).expect("packages");
    for file in &packages.files {
        zip::ZipArchive::new(Cursor::new(&file.bytes)).expect("a zip");
        let name = file.path.to_string_lossy();
        assert!(!name.contains("..") && file.path.is_relative(), "{name}");
    }
}

/// A finished output folder; packages and workbooks are not looked at.
pub(crate) static OUTPUT: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(|| {
    let trace = Trace::parse(&corpus::traces()[0]).expect("a sound trace");
    let options = AnalyzeOptions {
        platform: Platform::find("H200").expect("a platform").clone(),
        labels: RunLabels { trace_path: "fuzz.json".to_owned(), ..RunLabels::default() },
        extension: None,
        thresholds: Thresholds::default(),
        replay: ReplayChoice::None,
        emit: vec![Emit::AnalysisMd],
    };
    let files = analyze(trace, &options).expect("an analysis").files.to_vec().expect("files that were kept");
    files.into_iter().map(|f| (f.path.to_string_lossy().replace('\\', "/"), f.bytes)).collect()
});

/// `jarvis check` on an output folder with one file replaced: the first line names it, the rest is its content. The
/// file alone must be borne too.
pub(crate) fn folder(data: &[u8]) {
    let end = data.iter().position(|&b| b == b'\n').unwrap_or(data.len());
    let (name, content) = (String::from_utf8_lossy(&data[..end]).into_owned(), data.get(end + 1..).unwrap_or_default());
    let mut whole = Folder::new();
    for (known, bytes) in OUTPUT.iter().filter(|(known, _)| **known != name) {
        whole.file(known.clone(), bytes);
    }
    whole.file(name.clone(), content);
    let problems = check(&whole);
    assert!(problems.iter().all(|p| !p.to_string().contains('\n')), "one line each");
    if OUTPUT.get(&name).is_some_and(|bytes| bytes == content) {
        assert!(problems.is_empty(), "{problems:#?}");
    }
    let mut alone = Folder::new();
    alone.file(name, content);
    let _ = (alone.is_output(), check(&alone));
}

/// Seeds of [`ingest`](crate::ingest) that are packed.
pub(crate) fn packed(traces: &[Vec<u8>]) -> Vec<Vec<u8>> {
    traces.iter().map(|text| gzip(text)).collect()
}
