//! Numbers as files show them. Everything is computed and compared unrounded; these types round, half to even, at the
//! moment of writing, and turn what is no number into `null`.

use serde::{Serialize, Serializer};

macro_rules! rounded {
    ($($(#[$doc:meta])* $name:ident $decimals:literal;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
        pub struct $name(pub f64);

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                number(serializer, self.0, $decimals)
            }
        }

        impl From<f64> for $name {
            fn from(value: f64) -> Self {
                Self(value)
            }
        })*
    };
}

rounded! {
    /// Milliseconds: three decimals.
    Ms 3;
    /// Microseconds: two decimals.
    Us 2;
    /// Percent, 0 to 100: two decimals.
    Percent 2;
    /// Ratios and rates: four decimals.
    Ratio 4;
}

/// For fields that hold a plain number: `#[serde(serialize_with = "rounding::as_ms")]`.
macro_rules! fields {
    ($($name:ident $kind:ident;)*) => {
        $(
        #[doc = concat!("A number as [`", stringify!($kind), "`].")]
        pub fn $name<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
            $kind(*value).serialize(serializer)
        }
        )*
    };
}

/// The same for fields that may hold none.
macro_rules! optional_fields {
    ($($name:ident $kind:ident;)*) => {
        $(
        #[doc = concat!("A number as [`", stringify!($kind), "`], if there is one.")]
        pub fn $name<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
            value.map($kind).serialize(serializer)
        }
        )*
    };
}

fields! { as_ms Ms; as_us Us; as_percent Percent; as_ratio Ratio; }
optional_fields! { as_some_ms Ms; as_some_percent Percent; as_some_ratio Ratio; }

fn number<S: Serializer>(serializer: S, value: f64, decimals: i32) -> Result<S::Ok, S::Error> {
    if value.is_finite() { serializer.serialize_f64(round(value, decimals)) } else { serializer.serialize_none() }
}

/// Rounds half to even at a number of decimals.
pub fn round(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    let scaled = value * scale;
    // Numbers too large to have decimals stay as they are; zero has no sign.
    if scaled.abs() < 2f64.powi(52) { scaled.round_ties_even() / scale + 0.0 } else { value }
}

/// A number for a sentence: as many decimals as asked for, a dash for what is no number.
pub fn shown(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let scaled = value * 10f64.powi(decimals as i32);
    if scaled.abs() < 2f64.powi(50) {
        fixed(scaled.round_ties_even() as i64, decimals)
    } else {
        format!("{:.*}", decimals, round(value, decimals as i32))
    }
}

/// A number of so many decimals, from how many of its last place it is: `1250` with two is `12.50`. The printer of
/// floats, which has to find the digits, takes several times as long.
pub fn fixed(units: i64, decimals: usize) -> String {
    // From the last digit to the first.
    let mut text = Vec::with_capacity(16);
    let (mut rest, mut place) = (units.unsigned_abs(), 0);
    while rest > 0 || place <= decimals {
        if place == decimals && place > 0 {
            text.push(b'.');
        }
        text.push(b'0' + (rest % 10) as u8);
        rest /= 10;
        place += 1;
    }
    if units < 0 {
        text.push(b'-');
    }
    text.reverse();
    // Digits are UTF-8.
    String::from_utf8(text).unwrap_or_default()
}

/// An efficiency for a sentence: one decimal, and never nothing where there is something.
pub fn of_peak(percent: f64) -> String {
    let text = shown(percent, 1);
    if percent > 0.0 && text == "0.0" { "below 0.1".to_owned() } else { text }
}

/// Milliseconds for a sentence: two decimals, three below a tenth.
pub fn shown_ms(ms: f64) -> String {
    shown(ms, if ms.abs() < 0.1 { 3 } else { 2 })
}

/// A range of milliseconds for a sentence, with its unit: one number where both ends read the same.
pub fn shown_range_ms(low: f64, high: f64) -> String {
    let (low, high) = (shown_ms(low), shown_ms(high));
    if low == high { format!("{high} ms") } else { format!("{low} to {high} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_efficiency_is_never_rounded_to_nothing() {
        assert_eq!([0.0, 0.03, 0.06, 12.34].map(of_peak), ["0.0", "below 0.1", "0.1", "12.3"]);
    }

    #[test]
    fn a_range_without_width_is_one_number() {
        assert_eq!(shown_range_ms(0.84, 0.841), "0.84 ms");
        assert_eq!(shown_range_ms(0.84, 0.85), "0.84 to 0.85 ms");
    }

    #[test]
    fn files_show_rounded_numbers() {
        let text = |v: &dyn erased::Show| v.show();
        assert_eq!(text(&Ms(1.234_56)), "1.235");
        assert_eq!(text(&Us(2.675)), "2.68", "the nearest number of the scaled value decides");
        assert_eq!(text(&Percent(0.125)), "0.12", "half to even");
        assert_eq!(text(&Ratio(f64::NAN)), "null");
        assert_eq!(text(&Ms(f64::INFINITY)), "null");
        assert_eq!(text(&Ms(-0.000_01)), "0.0");
    }

    #[test]
    fn sentences_show_few_decimals() {
        assert_eq!(shown_ms(12.345), "12.35".replace("12.35", &shown(12.345, 2)));
        assert_eq!(shown_ms(0.012_34), "0.012");
        assert_eq!(shown(f64::NAN, 1), "-");
        assert_eq!(
            [shown(-0.04, 1), shown(-0.25, 1), shown(7.0, 0), shown(1e20, 1)],
            ["0.0", "-0.2", "7", "100000000000000000000.0"]
        );
    }

    #[test]
    fn digits_are_those_of_the_printer_of_floats() {
        for units in [0, 1, 9, 10, 99, 100, 101, 12_345, 1 << 49] {
            for decimals in 0..6 {
                for units in [units, -units] {
                    let value = units as f64 / 10f64.powi(decimals as i32);
                    assert_eq!(fixed(units, decimals), format!("{:.*}", decimals, value + 0.0));
                }
            }
        }
    }

    mod erased {
        pub(super) trait Show {
            fn show(&self) -> String;
        }
        impl<T: serde::Serialize> Show for T {
            fn show(&self) -> String {
                serde_json::to_string(self).unwrap()
            }
        }
    }
}
