//! Values with units, as they stand in a scenario.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// A time, ps: `"10 us"`, `"2.5 ms"`, `"96 TU"` (a time unit is 100 ns).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time(pub u64);

/// A number of bytes: `128`, `"128 B"`, `"8 KiB"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// Bits a second: `"10 Mbit/s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate(pub u64);

/// A share, parts of a million: `"1%"`, `0.01`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share(pub u32);

const TIMES: [(&str, f64); 8] = [
    ("ps", 1.0),
    ("ns", 1e3),
    ("us", 1e6),
    ("ms", 1e9),
    ("s", 1e12),
    ("min", 60e12),
    ("h", 3600e12),
    ("TU", 1e5),
];

const BYTES: [(&str, f64); 6] = [
    ("", 1.0),
    ("B", 1.0),
    ("kB", 1e3),
    ("KiB", 1024.0),
    ("MB", 1e6),
    ("MiB", 1_048_576.0),
];

const RATES: [(&str, f64); 8] = [
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("bit", 1.0),
    ("kbit", 1e3),
    ("mbit", 1e6),
    ("gbit", 1e9),
];

/// Splits `text` into a number and one of `units`, and multiplies.
fn scaled(text: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let text = text.trim();
    let digits = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    let end = text.find(|c| !digits(c)).unwrap_or(text.len());
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim());
    let known = units.iter().find(|(name, _)| *name == unit);
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let Some((_, factor)) = known else {
        return Err(format!(
            "{text:?} has no unit known here; use one of {names}"
        ));
    };
    let Ok(number) = number.parse::<f64>() else {
        return Err(format!("{text:?} is not a number with a unit ({names})"));
    };
    let value = number * factor;
    if value > 9e18 {
        return Err(format!(
            "{text:?} is too much; the limit is 9e18 of the smallest unit"
        ));
    }
    Ok(value)
}

/// A time in words, ps.
///
/// # Errors
///
/// One line that says what is wrong and what would be right.
pub fn time(text: &str) -> Result<u64, String> {
    scaled(text, &TIMES).map(|value| value.round() as u64)
}

fn share(text: &str) -> Result<u32, String> {
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

/// What a visitor makes of words and numbers.
struct Words<T> {
    expecting: &'static str,
    text: fn(&str) -> Result<T, String>,
    number: Option<fn(f64) -> Option<T>>,
}

impl<T> Visitor<'_> for Words<T> {
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

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words {
            expecting: "a time such as \"10 us\"",
            text: |text| time(text).map(Time),
            number: None,
        })
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words {
            expecting: "a number of bytes such as 128 or \"8 KiB\"",
            text: |text| scaled(text, &BYTES).map(|value| Bytes(value.round() as u64)),
            number: Some(|value| (0.0..=9e18).contains(&value).then_some(Bytes(value as u64))),
        })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words {
            expecting: "a rate such as \"10 Mbit/s\"",
            text: |text| scaled(text, &RATES).map(|value| Rate(value.round() as u64)),
            number: None,
        })
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words {
            expecting: "a share such as \"1%\"",
            text: |text| share(text).map(Share),
            number: Some(|value| {
                let share = (0.0..=1.0).contains(&value);
                share.then_some(Share((value * 1e6).round() as u32))
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_mean_what_they_say() {
        assert_eq!(time("96 TU"), Ok(9_600_000));
        assert_eq!(time("2.5ms"), Ok(2_500_000_000));
        assert_eq!(time("1_000 ns"), Ok(1_000_000));
        assert_eq!(scaled("8 KiB", &BYTES), Ok(8192.0));
        assert_eq!(scaled("10 Mbit/s", &RATES), Ok(1e7));
        assert_eq!(share("0.1%"), Ok(1000));
        assert_eq!(share("0.25"), Ok(250_000));
    }

    #[test]
    fn what_is_no_value_is_refused_with_a_remedy() {
        for text in [
            "",
            "10",
            "ten us",
            "5 parsecs",
            "-1 s",
            "1e99 s",
            "99999999 h",
        ] {
            let refusal = time(text).expect_err(text);
            assert!(
                refusal.contains("us") || refusal.contains("limit"),
                "{refusal}"
            );
        }
        assert!(share("101%").is_err() && share("x").is_err());
    }
}
