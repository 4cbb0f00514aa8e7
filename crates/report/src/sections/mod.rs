//! The reports for people, as blocks that no format is chosen for yet. One file a section; [`PAGES`] lists what is
//! written.

mod advice;
mod bottleneck;
mod capture;
mod category;
mod comparative;
mod cross;
mod fair;
mod fusion;
mod idle;
mod kernels;
mod multi_kernel;
mod overview;
mod rough;
mod words;

use std::path::PathBuf;

use jarvis_analyze::prepare::category::CATEGORIES;

use crate::blocks::Block;
use crate::render::markdown;
use crate::{OutputFile, Run, Versus};

/// A file in the making: where, and what.
struct Page {
    path: PathBuf,
    blocks: Vec<Block>,
}

/// What makes pages.
type Pages = fn(&Run<'_>) -> Vec<Page>;

/// All that is written, in the order in which it is listed.
const PAGES: &[Pages] = &[compute_pages, system_pages, rough_page, fair_page];

/// All Markdown files of an analysis: findings of each category and of the system tier, and both reports.
pub fn files(run: &Run<'_>) -> Vec<OutputFile> {
    let pages = PAGES.iter().flat_map(|pages| pages(run));
    pages.map(|p| OutputFile::new(p.path, markdown::render(&p.blocks))).collect()
}

/// All Markdown files of a comparison: findings of the target, and both reports.
pub fn compared_files(versus: &Versus<'_>) -> Vec<OutputFile> {
    let run = &versus.target;
    let mut pages = compute_pages(run);
    pages.extend(system_pages(run));
    pages.push(Page { path: "comparative_analysis_rough.md".into(), blocks: comparative::rough(versus) });
    pages.push(Page { path: "comparative_analysis_fair.md".into(), blocks: comparative::fair(versus) });
    pages.into_iter().map(|p| OutputFile::new(p.path, markdown::render(&p.blocks))).collect()
}

fn compute_pages(run: &Run<'_>) -> Vec<Page> {
    let page = |o: &jarvis_analyze::rules::CategoryOutcome| Page {
        path: format!("category_findings/{}_findings.md", o.category).into(),
        blocks: category::file(run.analysis, o),
    };
    run.analysis.outcomes.iter().map(page).collect()
}

fn system_pages(run: &Run<'_>) -> Vec<Page> {
    type System = (&'static str, bool, fn(&Run<'_>) -> Vec<Block>);
    let all: [System; 3] = [
        (idle::KEY, true, idle::file),
        (multi_kernel::KEY, multi_kernel::is_present(run), multi_kernel::file),
        (fusion::KEY, fusion::is_present(run), fusion::file),
    ];
    let present = all.into_iter().filter(|(_, is_present, _)| *is_present);
    present
        .map(|(key, _, file)| Page { path: format!("system_findings/{key}_findings.md").into(), blocks: file(run) })
        .collect()
}

fn rough_page(run: &Run<'_>) -> Vec<Page> {
    vec![Page { path: "standalone_analysis_rough.md".into(), blocks: rough::document(run) }]
}

fn fair_page(run: &Run<'_>) -> Vec<Page> {
    vec![Page { path: "standalone_analysis_fair.md".into(), blocks: fair::document(run) }]
}

/// What a category is called in reports, also where it has no rows.
fn detail_name(run: &Run<'_>, key: &str) -> String {
    let system = [
        (idle::KEY, "Idle Time"),
        (multi_kernel::KEY, "Memory Copies and Communication"),
        (fusion::KEY, "Kernel Fusion"),
        ("recomputation", "Recomputation"),
    ];
    let known = system.iter().find(|(k, _)| *k == key).map(|(_, name)| (*name).to_owned());
    known
        .or_else(|| run.analysis.outcomes.iter().find(|o| *o.category == *key).map(|o| o.display.to_string()))
        .or_else(|| CATEGORIES.iter().find(|c| c.key == key).map(|c| c.display.to_owned()))
        .unwrap_or_else(|| key.to_owned())
}
