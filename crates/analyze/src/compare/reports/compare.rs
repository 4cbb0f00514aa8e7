//! The comparison of reports: which sheets there are, and what becomes of each.

use jarvis_perf::tables::Table;
use jarvis_trace::{Fidelity, InOrder};

use super::aggregate::aggregated;
use super::join::{Keys, join};
use super::sheets::{self, SEVEN_OP_SHEETS, SHEET_GROUPS, SheetGroup, SheetSpec};
use super::split;
use crate::compare::parity::Quirks;

/// A report with the tag its columns get.
#[derive(Debug, Clone, Copy)]
pub struct NamedReport<'a> {
    /// Tag, unique among the reports.
    pub tag: &'a str,
    /// Its sheets.
    pub tables: &'a [Table],
}

/// What to compare, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompareOptions {
    /// Whether to be right or to agree with the reference.
    pub fidelity: Fidelity,
    /// The groups of sheets.
    pub groups: Vec<SheetGroup>,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { fidelity: Fidelity::Correct, groups: SHEET_GROUPS.iter().map(|g| g.1).collect() }
    }
}

/// A finished comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// The result sheets in their order.
    pub tables: Vec<Table>,
    /// Beside each sheet, the columns that a workbook hides.
    pub hidden: Vec<Vec<bool>>,
    /// What was left out, in words for the user.
    pub notes: Vec<String>,
}

/// Why reports can't be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// One report, or none.
    #[error("{0} report given: a comparison needs at least two")]
    TooFew(usize),
    /// Two reports have one tag.
    #[error("the name {0:?} stands for two reports")]
    SameTag(String),
    /// A tag that would make column names ambiguous.
    #[error(
        "the name {0:?} can't be used: it is empty or holds `::` or `__`, which separate the parts of column names"
    )]
    BadTag(String),
    /// A report lacks a sheet that the comparison needs.
    #[error("report {tag}: there is no sheet {sheet}")]
    NoSheet {
        /// The report.
        tag: String,
        /// The sheet.
        sheet: String,
    },
    /// Rows with equal keys multiply beyond all use.
    #[error("sheet {sheet}: the join has more than {most} rows, because many rows have the same key")]
    TooManyRows {
        /// The sheet.
        sheet: String,
        /// The limit.
        most: usize,
    },
    /// No report has a sheet that could be compared.
    #[error("the reports have no sheet that can be compared")]
    Nothing,
}

impl CompareError {
    /// What to do next.
    pub fn help(&self) -> &'static str {
        match self {
            Self::TooFew(_) => "name the reports one after the other, the baseline first",
            Self::SameTag(_) | Self::BadTag(_) => "give one name a report with --names",
            Self::NoSheet { .. } => {
                "leave it out with --sheets, or compare without --parity: missing sheets are then skipped"
            }
            Self::TooManyRows { .. } => "compare without --parity: rows of one key are then put together",
            Self::Nothing => "give reports as `jarvis report` writes them; --sheets may name groups they do not have",
        }
    }
}

/// Compares the tables of two or more reports; the first is the baseline.
pub fn compare_tables(reports: &[NamedReport<'_>], options: &CompareOptions) -> Result<Comparison, CompareError> {
    check_tags(reports)?;
    let quirks = Quirks::of(options.fidelity);
    let mut comparison = Comparison::default();
    for spec in specs(reports, options, quirks, &mut comparison.notes)? {
        let tables = tables_of(&spec, reports, quirks);
        let tags: Vec<&str> = reports.iter().map(|r| r.tag).collect();
        let joined = join(&spec, &tags, &tables, quirks.keys_by_type)?;
        for table in split::sheets(&joined, &spec, &tags, quirks.keys_may_vanish) {
            let hides = |header: &str| header.contains("::") && spec.hidden.iter().any(|end| header.ends_with(end));
            comparison.hidden.push(table.columns.iter().map(|c| hides(&c.header)).collect());
            comparison.tables.push(table);
        }
    }
    if comparison.tables.is_empty() { Err(CompareError::Nothing) } else { Ok(comparison) }
}

fn check_tags(reports: &[NamedReport<'_>]) -> Result<(), CompareError> {
    if reports.len() < 2 {
        return Err(CompareError::TooFew(reports.len()));
    }
    for (i, report) in reports.iter().enumerate() {
        let tag = report.tag;
        if tag.is_empty() || tag.contains("::") || tag.contains("__") {
            return Err(CompareError::BadTag(tag.to_owned()));
        }
        if reports[..i].iter().any(|other| other.tag == tag) {
            return Err(CompareError::SameTag(tag.to_owned()));
        }
    }
    Ok(())
}

fn find<'a>(report: &NamedReport<'a>, sheet: &str) -> Option<&'a Table> {
    report.tables.iter().find(|t| t.name == sheet)
}

/// The sheets to compare, in the order of their results.
fn specs(
    reports: &[NamedReport<'_>],
    options: &CompareOptions,
    quirks: Quirks,
    notes: &mut Vec<String>,
) -> Result<Vec<SheetSpec>, CompareError> {
    let wanted = |group: SheetGroup| options.groups.contains(&group);
    // The first report decides alone, or all do in their order.
    let deciding = if quirks.first_report_decides { &reports[..1] } else { reports };
    let mut found: Vec<(usize, SheetSpec)> = Vec::new();
    let mut op_sheets: Vec<&str> = Vec::new();
    for table in deciding.iter().flat_map(|r| r.tables) {
        if let (Some(place), Some(spec)) = (sheets::fixed_place(&table.name), sheets::fixed(table)) {
            let by_category = quirks.seven_op_sheets && spec.source == "ops_summary_by_category";
            if wanted(spec.group) && !by_category && found.iter().all(|f| f.1.source != spec.source) {
                found.push((place, spec));
            }
        } else if sheets::is_op_sheet(table) && !op_sheets.contains(&table.name.as_str()) {
            op_sheets.push(&table.name);
        }
    }
    found.order_by_key(|f| f.0);
    let mut specs: Vec<SheetSpec> = found.into_iter().map(|f| f.1).collect();
    if quirks.first_report_decides {
        require(reports, options, &specs)?;
    }
    if wanted(SheetGroup::Roofline) {
        let known = SEVEN_OP_SHEETS.iter().map(|s| s.0).filter(|name| op_sheets.contains(name));
        let others = op_sheets.iter().copied().filter(|name| SEVEN_OP_SHEETS.iter().all(|s| s.0 != *name));
        let more = others.filter(|_| !quirks.seven_op_sheets);
        for source in known.chain(more).collect::<Vec<_>>() {
            if quirks.first_report_decides {
                reports.iter().try_for_each(|report| has(report, source))?;
            }
            let having: Vec<&Table> = reports.iter().filter_map(|r| find(r, source)).filter(|t| t.rows() > 0).collect();
            if having.len() == reports.len() || !quirks.seven_op_sheets && !having.is_empty() {
                specs.push(sheets::op_sheet(source, &having, quirks.seven_op_sheets));
            }
        }
    }
    for spec in &specs {
        let lacking: Vec<&str> = reports.iter().filter(|r| find(r, &spec.source).is_none()).map(|r| r.tag).collect();
        if !lacking.is_empty() {
            notes.push(format!("there is no sheet {} in {}", spec.source, lacking.join(", ")));
        }
        let is_other = |r: &&NamedReport<'_>| find(r, &spec.source).is_some_and(|t| is_of_other_form(t, spec, quirks));
        let other: Vec<&str> = reports.iter().filter(is_other).map(|r| r.tag).collect();
        if !other.is_empty() {
            let (sheet, tags) = (&spec.source, other.join(", "));
            notes.push(format!("sheet {sheet} of {tags} is left out: it has not the columns that the others have"));
        }
    }
    Ok(specs)
}

/// Whether a table has none of the columns that the rows of a sheet are told apart by, as those of other versions may.
/// All its rows would be one.
fn is_of_other_form(table: &Table, spec: &SheetSpec, quirks: Quirks) -> bool {
    let has_key = spec.keys.iter().any(|key| table.column(key).is_some());
    !quirks.rows_multiply && table.rows() > 0 && !has_key
}

/// Fails where the reference does: on sheets that the first report must have, and on those of it that another lacks.
fn require(reports: &[NamedReport<'_>], options: &CompareOptions, specs: &[SheetSpec]) -> Result<(), CompareError> {
    let must = [(SheetGroup::OpsSummary, "ops_summary"), (SheetGroup::KernelSummary, "kernel_summary")];
    for (group, sheet) in must {
        if options.groups.contains(&group) {
            has(&reports[0], sheet)?;
        }
    }
    specs.iter().flat_map(|spec| reports.iter().map(move |r| (spec, r))).try_for_each(|(s, r)| has(r, &s.source))
}

/// Fails if a report lacks a sheet.
fn has(report: &NamedReport<'_>, sheet: &str) -> Result<(), CompareError> {
    match find(report, sheet) {
        Some(_) => Ok(()),
        None => Err(CompareError::NoSheet { tag: report.tag.to_owned(), sheet: sheet.to_owned() }),
    }
}

/// The tables of a sheet, one a report; empty where a report lacks it, or has it in another form.
fn tables_of(spec: &SheetSpec, reports: &[NamedReport<'_>], quirks: Quirks) -> Vec<Table> {
    let empty = || Table { name: spec.source.clone(), columns: Vec::new() };
    let table = |report: &NamedReport<'_>| {
        let Some(table) = find(report, &spec.source) else { return empty() };
        if is_of_other_form(table, spec, quirks) {
            return empty();
        }
        if quirks.rows_multiply {
            return table.clone();
        }
        aggregated(table, spec, &Keys::of(table, spec, quirks.keys_by_type))
    };
    reports.iter().map(table).collect()
}
