//! Cut files: at every byte, tree and timeline are those of the same document closed after its last complete event.

use std::io::Write as _;

use jarvis_trace::{EventId, Population, Timeline, Trace, Tree, TreeOptions, Us};

use crate::damage::element_ends;
use crate::support::fixture;

/// Where every event stands, and what the GPU did.
type Result = (Vec<Option<EventId>>, Vec<EventId>, Option<Timeline<Us>>);

fn result(trace: &Trace) -> Result {
    let tree = Tree::build(trace, TreeOptions::default().with_python());
    let timeline = Timeline::<Us>::of(trace, &Population::All.of(trace, &tree), None);
    (trace.events().map(|e| tree.parent(e)).collect(), tree.roots().to_vec(), timeline)
}

/// A trace of ten kilobytes, with less blank space.
fn text() -> Vec<u8> {
    let text = std::fs::read_to_string(fixture("handmade/rocm_like.json")).unwrap();
    text.lines().map(str::trim_start).collect::<Vec<_>>().join("").into_bytes()
}

/// Results of the document closed after each of its elements, from none to all.
fn closed(text: &[u8]) -> (Vec<usize>, Vec<Result>) {
    let ends = element_ends(text);
    let head = text.windows(13).position(|w| w == b"\"traceEvents\"").unwrap() + 13;
    let open = head + text[head..].iter().position(|&b| b == b'[').unwrap() + 1;
    let cuts = std::iter::once(open).chain(ends.iter().copied());
    let results = cuts.map(|cut| result(&Trace::parse(&[&text[..cut], b"]}"].concat()).unwrap()));
    (ends.clone(), results.collect())
}

#[test]
fn a_tree_of_a_cut_document_is_that_of_the_closed_one() {
    let text = text();
    let (ends, closed) = closed(&text);
    assert!(ends.len() > 20 && text.len() < 10_000, "{} events, {} bytes", ends.len(), text.len());
    for cut in 0..text.len() {
        let complete = ends.iter().take_while(|&&end| end <= cut).count();
        match Trace::parse(&text[..cut]) {
            Ok(trace) => assert!(result(&trace) == closed[complete], "cut at {cut}"),
            Err(error) => assert!(complete == 0 && !error.help().is_empty(), "cut at {cut}: {error}"),
        }
    }
}

#[test]
fn a_tree_of_a_cut_gzip_file_is_that_of_a_closed_document() {
    let text = text();
    let (_, closed) = closed(&text);
    for level in [flate2::Compression::none(), flate2::Compression::best()] {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(&text).unwrap();
        let packed = encoder.finish().unwrap();
        // What is stored and not packed is as long as the text: every third byte will do.
        let step = if packed.len() > text.len() { 3 } else { 1 };
        let mut most = 0;
        for cut in (0..packed.len()).step_by(step) {
            let Ok(trace) = Trace::parse(&packed[..cut]) else { continue };
            assert!(result(&trace) == closed[trace.len()], "cut at {cut}");
            assert!(trace.len() >= most, "more of the file gives no less");
            most = trace.len();
        }
        assert_eq!(most, closed.len() - 1);
    }
}
