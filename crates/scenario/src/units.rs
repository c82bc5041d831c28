//! Values with units in scenario files.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// A time, ps: `"10 us"`, `"2.5 ms"`, `"96 TU"` (a time unit is 100 ns).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimTime(pub u64);

/// A number of bytes: `128`, `"128 B"`, `"8 KiB"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCount(pub u64);

/// Bits a second: `"10 Mbit/s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitRate(pub u64);

/// A fraction, parts per million: `"1%"`, `0.01`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fraction(pub u32);

/// Parses a time, ps; `TU`, a time unit of a study of 1992, is 100 ns.
///
/// # Errors
///
/// One line that says what is wrong and what would be right.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let Some(number) = text.trim().strip_suffix("TU") else {
        return Ok(quantity::time_ps(text)?);
    };
    let hundredth = quantity::time_ps(&format!("{number}ns"))?;
    let time = hundredth.checked_mul(100);
    time.ok_or_else(|| format!("{text:?} is above the limit of a time"))
}

fn parse_fraction(text: &str) -> Result<u32, String> {
    let (number, factor) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 1e4),
        None => (text, 1e6),
    };
    let value = number.trim().parse::<f64>().unwrap_or(-1.0) * factor;
    if (0.0..=1e6).contains(&value) {
        return Ok(value.round() as u32);
    }
    Err(format!(
        "{text:?} is not a share; use \"1%\" or a number from 0 to 1"
    ))
}

/// Parses text, or a number without unit, for serde.
struct UnitVisitor<T> {
    expecting: &'static str,
    text: fn(&str) -> Result<T, String>,
    number: Option<fn(f64) -> Option<T>>,
}

impl<T> Visitor<'_> for UnitVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.text)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        let made = self.number.and_then(|number| number(value));
        made.ok_or_else(|| E::custom(format!("{value} needs a unit: {}", self.expecting)))
    }
}

impl<'de> Deserialize<'de> for SimTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor {
            expecting: "a time such as \"10 us\"",
            text: |text| parse_time(text).map(SimTime),
            number: None,
        })
    }
}

impl<'de> Deserialize<'de> for ByteCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor {
            expecting: "a number of bytes such as 128 or \"8 KiB\"",
            text: |text| Ok(ByteCount(quantity::bytes(text)?)),
            number: Some(|value| {
                (0.0..=9e18)
                    .contains(&value)
                    .then_some(ByteCount(value as u64))
            }),
        })
    }
}

impl<'de> Deserialize<'de> for BitRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor {
            expecting: "a rate such as \"10 Mbit/s\"",
            text: |text| Ok(BitRate(quantity::rate_bps(text)?)),
            number: None,
        })
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor {
            expecting: "a share such as \"1%\"",
            text: |text| parse_fraction(text).map(Fraction),
            number: Some(|value| {
                let share = (0.0..=1.0).contains(&value);
                share.then_some(Fraction((value * 1e6).round() as u32))
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_factors_as_documented() {
        assert_eq!(parse_time("96 TU"), Ok(9_600_000));
        assert_eq!(parse_time("2.5ms"), Ok(2_500_000_000));
        assert_eq!(parse_time("1_000 ns"), Ok(1_000_000));
        assert_eq!(parse_fraction("0.1%"), Ok(1000));
        assert_eq!(parse_fraction("0.25"), Ok(250_000));
    }

    #[test]
    fn invalid_value_error_names_units_or_limit() {
        for text in [
            "",
            "10",
            "ten us",
            "5 parsecs",
            "-1 s",
            "1e99 s",
            "99999999 h",
        ] {
            let refusal = parse_time(text).expect_err(text);
            assert!(
                refusal.contains("us") || refusal.contains("limit"),
                "{refusal}"
            );
        }
        assert!(parse_fraction("101%").is_err() && parse_fraction("x").is_err());
    }
}
