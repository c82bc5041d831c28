//! Quantities with units, as users write them: on the command line, in options of transports, in the words
//! of a link and in scenario files. A unit means the same in all of them.
//!
//! * [`bytes`]: `64`, `16KiB`, `2 MB`. `KiB`, `k` and `K` are 1024 bytes, `kB` is 1000; so are the larger ones.
//! * [`time_ps`]: `10us`, `2.5 ms`, `1h`, in ps, the least that the simulator knows.
//! * [`rate_bps`]: `10mbit`, `2.5 Gbit/s`, bits a second.
//!
//! Numbers are decimal, with `_` between digits where that helps; a blank may stand before the unit. What is
//! possible is for the caller to say, who knows what it is for.
#![forbid(unsafe_code)]

use std::fmt;

/// A kind of quantity.
struct Kind {
    name: &'static str,
    example: &'static str,
    /// Units, and how many of the smallest each is. Those from the first short form on are not recommended.
    units: &'static [(&'static str, u64)],
    short_forms: usize,
}

const BYTES: Kind = Kind {
    name: "size",
    example: "16KiB",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
        ("TB", 1_000_000_000_000),
        ("TiB", 1 << 40),
        ("", 1),
        ("k", 1 << 10),
        ("K", 1 << 10),
        ("m", 1 << 20),
        ("M", 1 << 20),
    ],
    short_forms: 9,
};

const TIMES: Kind = Kind {
    name: "time",
    example: "5ms",
    units: &[
        ("ps", 1),
        ("ns", 1_000),
        ("us", 1_000_000),
        ("ms", 1_000_000_000),
        ("s", 1_000_000_000_000),
        ("min", 60_000_000_000_000),
        ("h", 3_600_000_000_000_000),
        ("m", 60_000_000_000_000),
    ],
    short_forms: 7,
};

const RATES: Kind = Kind {
    name: "rate",
    example: "10mbit",
    units: &[
        ("bit", 1),
        ("kbit", 1_000),
        ("mbit", 1_000_000),
        ("gbit", 1_000_000_000),
    ],
    short_forms: 4,
};

/// The largest quantity, so that a few can be added.
const MOST: u64 = 1 << 63;

/// Why a text is no quantity: a sentence that names it and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityError(String);

impl QuantityError {
    fn malformed(text: &str, kind: &Kind) -> QuantityError {
        let names = kind.units.iter().take(kind.short_forms);
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        QuantityError(format!(
            "'{text}' is no {}; give a number and one of {}, such as {}",
            kind.name,
            names.join(", "),
            kind.example
        ))
    }

    fn too_large(text: &str, kind: &Kind) -> QuantityError {
        QuantityError(format!(
            "'{text}' is above the limit of a {}, 2^63 of the least unit; give less",
            kind.name
        ))
    }
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<QuantityError> for String {
    fn from(error: QuantityError) -> String {
        error.0
    }
}

impl std::error::Error for QuantityError {}

/// A number of bytes; a bare number is one.
///
/// # Errors
///
/// [`QuantityError`], whose text names what was given and the units there are.
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    parse(text, &BYTES, |unit, name| unit == name)
}

/// A time, ps. Errors are those of [`bytes`]; a bare number is none.
pub fn time_ps(text: &str) -> Result<u64, QuantityError> {
    parse(text, &TIMES, |unit, name| unit == name)
}

/// A rate, bits a second: `Mbit` is as good as `mbit`, and `/s` may follow.
/// Errors are those of [`bytes`]; a bare number is none.
pub fn rate_bps(text: &str) -> Result<u64, QuantityError> {
    parse(text, &RATES, |unit, name| {
        let unit = unit.strip_suffix("/s").unwrap_or(unit);
        unit.eq_ignore_ascii_case(name)
    })
}

fn parse(
    text: &str,
    kind: &Kind,
    is_unit: impl Fn(&str, &str) -> bool,
) -> Result<u64, QuantityError> {
    let whole = text.trim();
    let digits = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    let end = whole.find(|c| !digits(c)).unwrap_or(whole.len());
    let (number, unit) = (whole[..end].replace('_', ""), whole[end..].trim());
    let known = kind.units.iter().find(|(name, _)| is_unit(unit, name));
    match (number.parse::<f64>(), known) {
        (Ok(_), Some((_, factor))) => {
            scale(&number, *factor).ok_or_else(|| QuantityError::too_large(text, kind))
        }
        _ => Err(QuantityError::malformed(text, kind)),
    }
}

/// A decimal number times `factor`, rounded; exact where it has no fraction. None above [`MOST`].
fn scale(number: &str, factor: u64) -> Option<u64> {
    let value = match number.bytes().all(|byte| byte.is_ascii_digit()) {
        true => number.parse::<u64>().ok()?.checked_mul(factor)?,
        // A conversion of what is too large gives the largest.
        false => (number.parse::<f64>().ok()? * factor as f64).round() as u64,
    };
    (value <= MOST).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_mean_the_same_everywhere() {
        for (text, value) in [
            ("64", 64),
            ("64 B", 64),
            ("1kB", 1000),
            ("1k", 1024),
            ("1K", 1024),
            ("1 KiB", 1024),
            ("1.5KiB", 1536),
            ("2MB", 2_000_000),
            ("2M", 2 << 20),
            ("3GiB", 3 << 30),
            ("1_000", 1000),
        ] {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for (text, value) in [
            ("7ps", 7),
            ("2.5 ms", 2_500_000_000),
            ("1m", 60_000_000_000_000),
            ("1min", 60_000_000_000_000),
        ] {
            assert_eq!(time_ps(text), Ok(value), "{text}");
        }
        for text in ["10mbit", "10Mbit", "10 Mbit/s", "10000kbit"] {
            assert_eq!(rate_bps(text), Ok(10_000_000), "{text}");
        }
    }

    #[test]
    fn integers_are_exact() {
        assert_eq!(bytes("9223372036854775808"), Ok(1 << 63));
        assert_eq!(bytes("9007199254740993"), Ok(9_007_199_254_740_993));
    }

    #[test]
    fn errors_name_the_text_and_the_units() {
        let text = |error: Result<u64, QuantityError>| error.expect_err("a fault").to_string();
        assert_eq!(
            text(bytes("8parsec")),
            "'8parsec' is no size; give a number and one of B, kB, KiB, MB, MiB, GB, GiB, TB, TiB, such \
             as 16KiB"
        );
        assert!(text(time_ps("5")).contains("one of ps, ns, us, ms, s, min, h, such as 5ms"));
        assert!(text(rate_bps("5")).starts_with("'5' is no rate"));
        for large in ["99999999999999999999", "30000000TiB", "99999999.5TiB"] {
            assert!(text(bytes(large)).contains("above the limit"), "{large}");
        }
        for fault in ["", " ", ".", "-5", "1.2.3", "µs", "1e3"] {
            assert!(bytes(fault).is_err() && time_ps(fault).is_err(), "{fault}");
        }
    }
}
