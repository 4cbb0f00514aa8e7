//! How urgent something is: within its category, and in the whole. And whether kernel engineers need a reproducer.

use super::cx::CategoryCx;
use crate::finding::Priority;
use crate::metrics::Replay;
use crate::thresholds::Threshold;

/// Why no package is made of what is slow but not urgent.
pub(crate) const NOT_URGENT: &str = "not urgent enough";

/// What priorities are made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight {
    /// Whether the top operations account for it.
    pub(crate) in_top_ops: bool,
    /// In percent; an unknown one counts as not low.
    pub(crate) efficiency: Option<f64>,
    pub(crate) percent_of_category: f64,
    pub(crate) percent_of_compute: f64,
    /// Of the whole category.
    pub(crate) category_percent_of_compute: f64,
    /// Whether a notable pattern explains it.
    pub(crate) notable: bool,
}

impl Weight {
    fn below(&self, cx: &CategoryCx<'_>, threshold: Threshold) -> bool {
        self.efficiency.is_some_and(|e| e < cx.limit(threshold))
    }

    /// Within the category.
    pub(crate) fn in_category(&self, cx: &CategoryCx<'_>) -> Priority {
        let share = self.percent_of_compute;
        let critical = share > cx.limit(Threshold::PriorityCriticalShare);
        match () {
            () if critical && self.below(cx, Threshold::PriorityCriticalEff) => Priority::Critical,
            () if share > cx.limit(Threshold::PriorityHighShare) || self.below(cx, Threshold::PriorityHighEff) => {
                Priority::High
            }
            () if share > cx.limit(Threshold::PriorityMediumShare) || self.notable => Priority::Medium,
            () => Priority::Low,
        }
    }

    /// In the whole.
    pub(crate) fn overall(&self, cx: &CategoryCx<'_>) -> Priority {
        let (own, whole) = (self.percent_of_category, self.category_percent_of_compute);
        let weighty = own > cx.limit(Threshold::PriorityCriticalShare);
        let in_weighty = whole > cx.limit(Threshold::PriorityCriticalShare);
        let slow = self.below(cx, Threshold::PriorityHighEff) && own > cx.limit(Threshold::PriorityHighShare);
        match () {
            () if self.in_top_ops && weighty && in_weighty && self.below(cx, Threshold::PriorityCriticalEff) => {
                Priority::Critical
            }
            () if self.in_top_ops || slow => Priority::High,
            () if own > cx.limit(Threshold::PriorityMediumShare) || self.notable => Priority::Medium,
            () => Priority::Low,
        }
    }

    /// Whether kernel engineers need a reproducer. `below_band`: slower than its kind should be.
    pub(crate) fn replay(&self, cx: &CategoryCx<'_>, below_band: bool) -> Replay {
        let (share, efficiency) = (cx.limit(Threshold::ReplayShare), cx.limit(Threshold::ReplayEfficiency));
        let required = self.percent_of_compute > share && self.below(cx, Threshold::ReplayEfficiency);
        let urgent = self.overall(cx) <= Priority::High;
        let slow = self.below(cx, Threshold::BottleneckEfficiency) || below_band;
        let (recommended, reason) = match () {
            () if required => (true, format!(">{share}% of compute and <{efficiency}% of peak")),
            () if urgent && below_band => (true, "high priority and below its band".to_owned()),
            () if urgent && slow => {
                (true, format!("high priority and <{}% of peak", cx.limit(Threshold::BottleneckEfficiency)))
            }
            () if self.efficiency.is_none() => (false, "no performance model".to_owned()),
            () => (false, NOT_URGENT.to_owned()),
        };
        Replay { recommended, required, reason, package: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Scope;
    use crate::rules::Claims;
    use crate::testing::Scene;

    #[test]
    fn every_level_has_its_limits() {
        let mut scene = Scene::new();
        scene.mm(1, [4096, 4096, 4096], 500.0);
        let (prepared, claims) = (scene.prepared(), Claims::none());
        let category = &prepared.categories[0];
        let cx = CategoryCx { prepared: &prepared, category, claims: &claims, scope: Scope::Standalone };
        // Within a category: share of all computing, efficiency, whether a pattern explains it.
        for (share, efficiency, notable, wanted) in [
            (15.1, Some(29.9), false, Priority::Critical),
            (15.1, Some(30.1), false, Priority::High),
            (14.9, Some(29.9), false, Priority::High),
            (10.1, Some(50.0), false, Priority::High),
            (9.9, Some(39.9), false, Priority::High),
            (9.9, Some(40.1), false, Priority::Medium),
            (5.1, None, false, Priority::Medium),
            (4.9, Some(50.0), true, Priority::Medium),
            (4.9, Some(50.0), false, Priority::Low),
            (4.9, None, false, Priority::Low),
        ] {
            let weight = Weight {
                in_top_ops: false,
                efficiency,
                percent_of_category: share,
                percent_of_compute: share,
                category_percent_of_compute: 100.0,
                notable,
            };
            assert_eq!(weight.in_category(&cx), wanted, "{share} {efficiency:?} {notable}");
            // In the whole a slow one that no top operation accounts for is high from a tenth of its category on.
            let slow = efficiency.is_some_and(|e| e < 40.0) && share > 10.0;
            let overall = if slow {
                Priority::High
            } else if share > 5.0 || notable {
                Priority::Medium
            } else {
                Priority::Low
            };
            assert_eq!(weight.overall(&cx), overall, "{share} {efficiency:?} {notable}");
        }
    }
}
