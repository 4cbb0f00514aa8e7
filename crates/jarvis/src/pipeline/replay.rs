//! Which operations get a replay package, and who is told of it.

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::finding::FindingOperation;
use jarvis_analyze::metrics::Bottleneck;
use jarvis_analyze::rules::{ask_for_package_of, refuse_package, refuse_package_of};
use jarvis_report::replay::{
    self, Matching, Origin, Packages, ReplayError, Replayer, Selection, Skipped, Tier, Wanted,
};
use jarvis_report::{OutputFile, ReplayEntry};
use jarvis_trace::side_by_side::both;
use jarvis_trace::{InOrder, Trace};

use jarvis_perf::tables::Report;

/// Share of a finding's time from which on an operation can stand for it.
const WEIGHTY: f64 = 0.2;

/// Which replay packages to write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReplayChoice {
    /// Those that the analysis recommends.
    #[default]
    Auto,
    /// None.
    None,
    /// Those of every bottleneck.
    All,
    /// Those of these operations; `*` stands for any text.
    Ops(Vec<String>),
    /// Those of operations whose names contain one of these texts, capitals or not.
    Containing(Vec<String>),
}

impl ReplayChoice {
    /// What the user named; nothing where the analysis chooses.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Ops(names) | Self::Containing(names) => names,
            Self::Auto | Self::None | Self::All => &[],
        }
    }

    fn matching(&self) -> Matching {
        if matches!(self, Self::Containing(_)) { Matching::Contains } else { Matching::Whole }
    }
}

impl std::str::FromStr for ReplayChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Err("expected auto, none, all, or names of operations with commas between".to_owned()),
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            "all" => Ok(Self::All),
            names => {
                let names: Vec<String> =
                    names.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
                if names.is_empty() {
                    return Err("there is no name of an operation between the commas".to_owned());
                }
                Ok(Self::Ops(names))
            }
        }
    }
}

/// Packages of an analysis.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) entries: Vec<ReplayEntry>,
    pub(super) files: Vec<OutputFile>,
    /// Names that the user gave and no operation has.
    pub(super) missed: Vec<String>,
}

/// Operations that get a package, with all that the trace knows of them.
#[derive(Debug)]
pub(super) struct Chosen {
    selection: Selection,
    rows: Vec<replay::Row>,
    replayer: Result<Replayer, ReplayError>,
}

/// Chooses them; `None` if there are none. Further operations get one unless the user chose others.
pub(super) fn choose(
    trace: &Trace,
    report: &Report,
    analysis: &Analysis,
    choice: &ReplayChoice,
    further: &[String],
) -> Option<Chosen> {
    let wanted = wanted(analysis, choice, further);
    if wanted.is_empty() {
        return None;
    }
    let selection = Selection { wanted, matching: choice.matching(), ..Selection::of([], Tier::Requested) };
    let is_wanted = |op: &str| selection.tier_of(op).is_some();
    let (replayer, rows) = both(Replayer::new, || replay::of_report_where(trace, report, &is_wanted));
    Some(Chosen { selection, rows, replayer })
}

/// Makes the packages and tells the analysis where they are.
pub(super) fn replay(chosen: Option<Chosen>, analysis: &mut Analysis) -> Result<Replay, ReplayError> {
    let Some(Chosen { selection, rows, replayer }) = chosen else {
        analysis.findings.iter_mut().for_each(ask_for_package_of);
        return Ok(Replay::default());
    };
    let origin =
        Origin { platform: Some(&analysis.prepared.platform), device_name: analysis.prepared.device_name.as_deref() };
    let made = replay::packages(&rows, &selection, origin, &replayer?)?;
    tell(analysis, &made);
    analysis.warnings.extend(no_such_operations(&made.missed));
    let entry = |p: &replay::PackageInfo| ReplayEntry {
        op: p.op_name.clone(),
        path: format!("{}/{}", replay::FOLDER, p.package),
        shapes: p.entries,
        time_ms: p.time_ms,
    };
    let entries = made.packages.iter().map(entry).collect();
    Ok(Replay { entries, files: made.files.into_iter().chain([made.index]).collect(), missed: made.missed })
}

fn wanted(analysis: &Analysis, choice: &ReplayChoice, further: &[String]) -> Vec<Wanted> {
    let tier = |b: &Bottleneck| match (b.replay.required, b.replay.recommended) {
        (true, _) => Some(Tier::Required),
        (false, true) => Some(Tier::Recommended),
        (false, false) => None,
    };
    let bottlenecks = analysis.outcomes.iter().filter_map(|o| o.metrics()).flat_map(|m| &m.bottlenecks);
    let mut wanted: Vec<Wanted> = match choice {
        ReplayChoice::None => Vec::new(),
        ReplayChoice::Ops(names) | ReplayChoice::Containing(names) => {
            names.iter().map(|n| Wanted { pattern: n.clone(), tier: Tier::Requested }).collect()
        }
        ReplayChoice::Auto => {
            bottlenecks.filter_map(|b| Some(Wanted { pattern: b.operation.to_string(), tier: tier(b)? })).collect()
        }
        ReplayChoice::All => bottlenecks
            .map(|b| Wanted { pattern: b.operation.to_string(), tier: tier(b).unwrap_or(Tier::Requested) })
            .collect(),
    };
    if matches!(choice, ReplayChoice::Auto | ReplayChoice::All) {
        wanted.extend(further.iter().map(|op| Wanted { pattern: op.clone(), tier: Tier::Required }));
    }
    // The first that fits a name decides its tier.
    wanted.order_by_key(|w| w.tier);
    wanted
}

/// That nothing is called as the user named it, if anything is not.
pub fn no_such_operations(missed: &[String]) -> Option<String> {
    let names: Vec<String> = missed.iter().map(|name| format!("`{}`", name.replace('`', "'"))).collect();
    let it = if names.len() == 1 { "it" } else { "them" };
    (!names.is_empty()).then(|| {
        format!(
            "No operation of the trace that uses the GPU is called {}: no replay package was made of {it}.",
            names.join(" or ")
        )
    })
}

/// Bottlenecks and findings say which package is theirs, or why there is none.
fn tell(analysis: &mut Analysis, made: &Packages) {
    let package = |op: &str| made.packages.iter().find(|p| p.op_name == op).map(|p| p.package.clone());
    let refusal = |op: &str| made.skipped.iter().find(|s| s.op_name == op);
    for outcome in &mut analysis.outcomes {
        for b in outcome.bottlenecks_mut().iter_mut().filter(|b| b.replay.recommended) {
            b.replay.package = package(&b.operation);
            match refusal(&b.operation).filter(|_| b.replay.package.is_none()) {
                Some(skipped) if skipped.is_impossible() => refuse_package(b, &skipped.reason),
                Some(skipped) => b.replay.reason.clone_from(&skipped.reason),
                None => {}
            }
        }
    }
    for finding in &mut analysis.findings {
        // The operations stand in order of time; a small one's package would not help. One package holds all shapes.
        let all_ms = |name: &str| finding.operations.iter().filter(|o| o.name == name).map(|o| o.time_ms).sum::<f64>();
        let weighty = |o: &&FindingOperation| all_ms(&o.name) >= WEIGHTY * finding.time_ms;
        let own = finding.operations.iter().filter(weighty).find_map(|o| package(&o.name));
        if let Some(own) = own {
            finding.replay_package = Some(format!("{}/{own}", replay::FOLDER));
            finding.replay_reason = None;
        } else {
            let skipped = finding.operations.first().and_then(|o| refusal(&o.name));
            if skipped.is_some_and(Skipped::is_impossible) {
                refuse_package_of(finding);
            }
            ask_for_package_of(finding);
            finding.replay_reason = skipped.map(|s| s.reason.clone()).or(finding.replay_reason.take());
        }
    }
}
