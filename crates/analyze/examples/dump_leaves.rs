#![allow(missing_docs, clippy::all, clippy::pedantic, clippy::print_stdout, clippy::unwrap_used)]
use jarvis_analyze::program::Program;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{Trace, Tree, TreeOptions};
fn main() {
    for path in std::env::args().skip(1) {
        let trace = Trace::open(std::path::Path::new(&path), &Default::default()).unwrap();
        let report = build_report(&trace, &ReportOptions::default()).unwrap();
        let tree = Tree::build(&trace, TreeOptions::default().with_python());
        let p = Program::of(&trace, &tree, &report.rows.unified);
        println!(
            "# {path} leaves {} modules {} steps {} frames {} total {}",
            p.leaves.len(),
            p.modules.len(),
            p.steps,
            p.has_frames,
            report.rows.timeline.total.0
        );
        for (i, l) in p.leaves.iter().enumerate() {
            let chain: Vec<_> = p.module_chain(l).into_iter().map(|m| p.module(m).name.to_string()).collect();
            let dims: Vec<String> = l
                .inputs
                .dims
                .iter()
                .flatten()
                .map(|d| match d {
                    jarvis_perf::call::Dims::Shape(s) => format!("{s:?}"),
                    jarvis_perf::call::Dims::List(s) => format!("L{s:?}"),
                })
                .collect();
            let ty = l.inputs.types.as_ref().map(|t| t.join(",")).unwrap_or_default();
            println!(
                "{i:5} t{} s{:?} {:?} {:9.2}us {} | {} | {} | {} | {} | k{} {}",
                l.thread,
                l.step,
                l.direction,
                l.us,
                l.name,
                dims.join(" "),
                ty,
                chain.join("/"),
                l.ops_around.iter().take(3).map(|s| s.to_string()).collect::<Vec<_>>().join("<"),
                l.kernels.len(),
                l.kernels.first().map(|k| k.name.chars().take(60).collect::<String>()).unwrap_or_default()
            );
        }
    }
}
