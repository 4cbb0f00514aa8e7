//! What improving an operation could bring, in percent of the window: the scores of the newest form of the reference.

use jarvis_analyze::prepared::{EfficiencySource, Row};

/// Share of what is missing to the peak that is closed: cautious, expected, hopeful.
const OF_THE_GAP: [f64; 3] = [0.75, 0.875, 1.0];

/// Share of its time that an operation without a performance model is said to save. A rule of thumb, and told as one.
const OF_THE_TIME: [f64; 3] = [0.15, 0.30, 0.45];

/// A score, in percent of the window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Score {
    pub(crate) low: f64,
    pub(crate) mid: f64,
    pub(crate) high: f64,
}

impl Score {
    /// Of an operation that reaches this many percent of its peak and takes this share of the window.
    pub(crate) fn modelled(efficiency_percent: f64, percent_of_total: f64) -> Self {
        let gap = (1.0 - efficiency_percent / 100.0).max(0.0);
        let [low, mid, high] = OF_THE_GAP.map(|part| part * gap * percent_of_total);
        Self { low, mid, high }
    }

    /// Of an operation that no performance model covers. One that is known to reach at least `floor_percent` of its
    /// peak can't save more than the rest.
    pub(crate) fn heuristic(floor_percent: Option<f64>, percent_of_total: f64) -> Self {
        let most = (1.0 - floor_percent.unwrap_or_default() / 100.0).clamp(0.0, 1.0);
        let [low, mid, high] = OF_THE_TIME.map(|part| part.min(most) * percent_of_total);
        Self { low, mid, high }
    }

    /// Of a row: by its model, else by the rule of thumb. Nothing where its time can't be judged, nor of copies over the
    /// link.
    pub(crate) fn of(row: &Row) -> Option<(Self, Basis)> {
        let e = &row.efficiency;
        if row.is_link_copy || e.is_anomaly || e.is_shared || e.lacks_rate {
            return None;
        }
        let (score, basis) = match e.judged() {
            Some(reached) => (Self::modelled(reached, row.percent_of_total), Basis::Roofline),
            None => (Self::heuristic(e.efficiency_percent, row.percent_of_total), Basis::RuleOfThumb),
        };
        debug_assert!(basis == Basis::Roofline || e.source != EfficiencySource::Roofline);
        (score.high > 0.0).then_some((score, basis))
    }

    /// The same in milliseconds of a window.
    pub(crate) fn ms(self, window_ms: f64) -> Self {
        let ms = |percent: f64| percent / 100.0 * window_ms;
        Self { low: ms(self.low), mid: ms(self.mid), high: ms(self.high) }
    }
}

impl std::iter::Sum for Score {
    fn sum<I: Iterator<Item = Self>>(scores: I) -> Self {
        let add = |a: Self, b: Self| Self { low: a.low + b.low, mid: a.mid + b.mid, high: a.high + b.high };
        scores.fold(Self::default(), add)
    }
}

/// What a score rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Basis {
    /// How much is missing to the peak.
    Roofline,
    /// Nothing but the time is known.
    RuleOfThumb,
}

impl Basis {
    /// As the machine form writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Roofline => "roofline",
            Self::RuleOfThumb => "heuristic",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(score: Score, expected: [f64; 3]) -> bool {
        [score.low, score.mid, score.high].iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12)
    }

    #[test]
    fn a_modelled_operation_may_close_its_gap() {
        // 80 % of 25 % are missing: 20 %, of which three quarters, seven eighths and all.
        assert!(is(Score::modelled(20.0, 25.0), [15.0, 17.5, 20.0]));
        assert!(is(Score::modelled(0.0, 8.0), [6.0, 7.0, 8.0]));
        assert!(is(Score::modelled(104.0, 25.0), [0.0; 3]), "there is no gap");
    }

    #[test]
    fn without_a_model_a_rule_of_thumb_holds() {
        assert!(is(Score::heuristic(None, 20.0), [3.0, 6.0, 9.0]));
        // At least 70 % are reached, so no more than 30 % can be saved.
        assert!(is(Score::heuristic(Some(70.0), 20.0), [3.0, 6.0, 6.0]));
        assert!(is(Score::heuristic(Some(120.0), 20.0), [0.0; 3]));
    }

    #[test]
    fn scores_add_up_and_are_shares_of_the_window() {
        let sum: Score = [Score::modelled(20.0, 25.0), Score::heuristic(None, 20.0)].into_iter().sum();
        assert!(is(sum, [18.0, 23.5, 29.0]));
        assert!(is(sum.ms(50.0), [9.0, 11.75, 14.5]));
    }
}
