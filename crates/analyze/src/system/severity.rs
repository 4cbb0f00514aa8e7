//! How bad something is, and how urgent that makes it.

use serde::Serialize;

use crate::finding::Priority;

/// How bad something is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// Look at this first.
    Critical,
    /// Costs much.
    High,
    /// Costs something.
    Medium,
    /// Worth a line.
    Low,
    /// As it should be.
    Acceptable,
}

/// Limits above which a percentage is critical, high, medium and low.
pub(crate) type Limits = [f64; 4];

/// Idle time in percent of the window, from the public project of the seeds' age.
pub(crate) const IDLE: Limits = [70.0, 50.0, 30.0, 20.0];

/// Exposed communication in percent of the window, from the same. Other waits of one cause are measured by it too.
pub(crate) const EXPOSED: Limits = [20.0, 10.0, 5.0, 2.0];

impl Severity {
    /// The worst level whose limit a value exceeds.
    pub(crate) fn above(value: f64, limits: Limits) -> Self {
        let levels = [Self::Critical, Self::High, Self::Medium, Self::Low];
        levels.into_iter().zip(limits).find(|&(_, limit)| value > limit).map_or(Self::Acceptable, |(level, _)| level)
    }

    /// The next better one.
    #[must_use]
    pub(crate) fn milder(self) -> Self {
        match self {
            Self::Critical => Self::High,
            Self::High => Self::Medium,
            Self::Medium => Self::Low,
            Self::Low | Self::Acceptable => Self::Acceptable,
        }
    }

    /// Whether it deserves a recommendation of its own.
    pub fn is_card(self) -> bool {
        self <= Self::Medium
    }

    /// As a priority.
    pub fn priority(self) -> Priority {
        match self {
            Self::Critical => Priority::Critical,
            Self::High => Priority::High,
            Self::Medium => Priority::Medium,
            Self::Low | Self::Acceptable => Priority::Low,
        }
    }

    /// Its name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "CRITICAL",
            Self::High => "HIGH",
            Self::Medium => "MEDIUM",
            Self::Low => "LOW",
            Self::Acceptable => "ACCEPTABLE",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_itself_is_not_above_it() {
        assert_eq!(Severity::above(70.0, IDLE), Severity::High);
        assert_eq!(Severity::above(70.1, IDLE), Severity::Critical);
        assert_eq!(Severity::above(20.0, IDLE), Severity::Acceptable);
        assert_eq!(Severity::Critical.milder().priority(), Priority::High);
        assert!(Severity::Medium.is_card() && !Severity::Low.is_card());
    }
}
