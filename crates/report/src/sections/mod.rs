//! The reports for people, as blocks that no format is chosen for yet. One file a section; [`files`] lists what is
//! written.

mod advice;
pub mod analysis_md;
mod bottleneck;
mod capture;
mod category;
mod comparative;
pub(crate) mod copies;
pub(crate) mod cross;
mod fair;
mod fusion;
mod idle;
mod kernels;
mod multi_kernel;
mod overview;
mod patterns;
mod rough;
pub(crate) mod words;

use std::path::PathBuf;

use jarvis_analyze::prepare::category::CATEGORIES;
use jarvis_analyze::rules::without_data;

use crate::blocks::Block;
use crate::data::Stems;
use crate::render::markdown;
use crate::{OutputFile, Run, Versus};

/// A file in the making: where, and what. Its blocks take many times what the file does.
struct Page {
    path: PathBuf,
    blocks: Vec<Block>,
}

impl Page {
    fn file(self) -> OutputFile {
        OutputFile::new(self.path, markdown::render(&self.blocks))
    }
}

/// All Markdown files of an analysis, each made when it is asked for: findings of each category and of the system tier,
/// and both reports.
pub fn files<'a>(run: &'a Run<'_>) -> impl Iterator<Item = OutputFile> + 'a {
    findings(run).chain([rough_page, fair_page].into_iter().map(|page| page(run))).map(Page::file)
}

/// All Markdown files of a comparison: findings of the target, and both reports.
pub fn compared_files<'a>(versus: &'a Versus<'_>) -> impl Iterator<Item = OutputFile> + 'a {
    let reports: [fn(&Versus<'_>) -> Page; 2] = [
        |versus| Page { path: "comparative_analysis_rough.md".into(), blocks: comparative::rough(versus) },
        |versus| Page { path: "comparative_analysis_fair.md".into(), blocks: comparative::fair(versus) },
    ];
    findings(&versus.target).chain(reports.into_iter().map(|page| page(versus))).map(Page::file)
}

/// Findings of each category and of the system tier.
fn findings<'a>(run: &'a Run<'_>) -> impl Iterator<Item = Page> + 'a {
    type System = (&'static str, bool, fn(&Run<'_>) -> Vec<Block>);
    let system: [System; 3] = [
        (idle::KEY, true, idle::file),
        (multi_kernel::KEY, multi_kernel::is_present(run), multi_kernel::file),
        (fusion::KEY, fusion::is_present(run), fusion::file),
    ];
    let present = system.into_iter().filter(|(_, is_present, _)| *is_present);
    let stems = Stems::of(run.analysis);
    let of_categories = run.analysis.outcomes.iter().map(move |outcome| Page {
        path: format!("category_findings/{}_findings.md", stems.get(&outcome.category)).into(),
        blocks: category::file(run.analysis, outcome),
    });
    // There is nothing to tell of these, which has to be told.
    let without_data = without_data(&run.analysis.outcomes).map(|outcome| Page {
        path: format!("category_findings/{}_findings.md", outcome.category).into(),
        blocks: category::file(run.analysis, &outcome),
    });
    of_categories.chain(without_data).chain(
        present.map(|(key, _, file)| Page {
            path: format!("system_findings/{key}_findings.md").into(),
            blocks: file(run),
        }),
    )
}

fn rough_page(run: &Run<'_>) -> Page {
    Page { path: "standalone_analysis_rough.md".into(), blocks: rough::document(run) }
}

fn fair_page(run: &Run<'_>) -> Page {
    Page { path: "standalone_analysis_fair.md".into(), blocks: fair::document(run) }
}

/// Where a file of a category is.
fn data_file(run: &Run<'_>, category: &str, what: &str) -> String {
    format!("category_data/{}_{what}", Stems::of(run.analysis).get(category))
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
