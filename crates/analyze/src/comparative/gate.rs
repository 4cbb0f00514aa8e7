//! A limit on how much slower the target may be, for those who let a program decide.

use std::str::FromStr;

use super::Comparative;
use super::both::Both;
use crate::prepare::category::CATEGORIES;
use jarvis_trace::InOrder;

/// The word that stands for the total time.
const TOTAL: &str = "slowdown";

/// A limit: `slowdown=5%` on the total time, `gemm=10%` on the kernel time of a category.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// `slowdown` or the key of a category.
    pub what: String,
    /// Most percent that the target may take more.
    pub percent: f64,
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("expected NAME=PERCENT, such as {TOTAL}=5% or gemm=10%, and not {text:?}");
        let (what, percent) = text.split_once('=').ok_or_else(form)?;
        let percent: f64 = percent.trim().trim_end_matches('%').trim().parse().map_err(|_| form())?;
        if !percent.is_finite() || percent < 0.0 {
            return Err("the limit must be a number of percent that is not negative".to_owned());
        }
        let what = what.trim();
        let known = what == TOTAL || CATEGORIES.iter().any(|c| c.key == what);
        if !known {
            let keys: Vec<&str> = CATEGORIES.iter().map(|c| c.key).collect();
            return Err(format!("{what:?} is neither {TOTAL} nor a category ({})", keys.join(", ")));
        }
        Ok(Self { what: what.to_owned(), percent })
    }
}

/// A limit that did not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Broken {
    /// The limit.
    pub gate: Gate,
    /// Time on each side.
    pub ms: Both<f64>,
    /// What takes more time, the largest first: name, arguments, time on each side.
    pub rows: Vec<(String, Both<f64>)>,
}

/// Most rows that a broken limit names.
const MOST_ROWS: usize = 10;

impl Gate {
    /// Whether the limit holds.
    pub fn check(&self, c: &Comparative) -> Option<Broken> {
        let ms = if self.what == TOTAL && c.normalization.has_other_length() {
            // Where it can't be told, a warning says so.
            c.pace?
        } else if self.what == TOTAL {
            Both::of(c.totals.as_ref(), |t| t.total_ms)
        } else {
            c.categories.iter().find(|k| *k.category == *self.what).map(|k| k.ms).unwrap_or_default()
        };
        // Work that the reference does not do at all is more by any measure.
        let holds = ms.target <= ms.reference * (1.0 + self.percent / 100.0) + 1e-9;
        if holds {
            return None;
        }
        let mut rows: Vec<(String, Both<f64>)> = if self.what == TOTAL {
            c.changes.iter().map(|change| (change.what.clone(), change.ms)).collect()
        } else {
            let own = c.operations.iter().filter(|o| *o.category == *self.what);
            let own = own.map(|o| (format!("`{}` {}", o.name, o.args.replace("<br>", ", ")), o.ms));
            let alone = c.left.target.iter().filter(|p| *p.category == *self.what);
            own.chain(
                alone.map(|p| (format!("`{}`, only in the target", p.name), Both { reference: 0.0, target: p.ms })),
            )
            .collect()
        };
        rows.retain(|(_, ms)| ms.delta() > 0.0);
        rows.order_by(|a, b| b.1.delta().total_cmp(&a.1.delta()).then_with(|| a.0.cmp(&b.0)));
        rows.truncate(MOST_ROWS);
        Some(Broken { gate: self.clone(), ms, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!("slowdown=5%".parse(), Ok(Gate { what: "slowdown".to_owned(), percent: 5.0 }));
        assert_eq!("gemm = 2.5 %".parse(), Ok(Gate { what: "gemm".to_owned(), percent: 2.5 }));
        for wrong in ["", "gemm", "gemm=", "gemm=x", "gemm=-1%", "gemm=nan", "nothing=5%"] {
            assert!(wrong.parse::<Gate>().is_err(), "{wrong}");
        }
    }
}
