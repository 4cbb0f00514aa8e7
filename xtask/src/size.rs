//! Sizes on the command line: `10MB`, `1.5GB`, `4096`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes; units are powers of ten, as the sizes of files usually are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(u64);

const UNITS: [(&str, u64); 4] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000), ("B", 1)];

impl Size {
    /// The bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let upper = text.trim().to_ascii_uppercase();
        let (number, unit) = UNITS
            .iter()
            .find_map(|&(name, unit)| upper.strip_suffix(name).map(|number| (number.trim(), unit)))
            .unwrap_or((&upper, 1));
        let value: f64 = number.parse().map_err(|_| format!("{text:?} is no size; write it as 10MB or 4GB"))?;
        if value.is_finite() && value > 0.0 {
            Ok(Self((value * unit as f64) as u64))
        } else {
            Err(format!("{text:?} is no size above zero"))
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) =
            UNITS.iter().find(|&&(_, unit)| self.0 >= unit && self.0.is_multiple_of(unit)).copied().unwrap_or(("B", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print() {
        for (text, bytes, shown) in [
            ("10MB", 10_000_000, "10MB"),
            ("1.5gb", 1_500_000_000, "1500MB"),
            ("4096", 4096, "4096B"),
            (" 2 KB", 2000, "2KB"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, shown));
        }
        for wrong in ["", "MB", "-1MB", "ten", "0", "infMB"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
