//! Our figures beside the paper's.
//!
//! * [`exhibit`] - each printed figure with ours: within its limit, beyond it, or misprinted.
//! * [`finding`] - each sentence of the paper: held, held by less, did not hold, or not decided.
//! * [`cost`] - fixed cost and cost of a byte, then and now.
//! * [`mod@unit`] - units of races and papers.

pub mod cost;
pub mod exhibit;
pub mod finding;
mod period;
pub mod unit;

use crate::outcome::Outcome;
use std::collections::BTreeMap;

/// What the runs gave: by the name of the run, or why it is left out.
pub type Outcomes = BTreeMap<String, Result<Outcome, String>>;

/// How close our figure should be to the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Within this part of the printed figure.
    Part(f64),
    /// Equal in all digits that are printed.
    Digits,
    /// Not judged one by one: a machine of today measures, and curves are compared.
    Shape,
}

impl Limit {
    /// Reads `2 %`, `digits` or `shape`.
    ///
    /// # Errors
    ///
    /// One line with what would be right.
    pub fn parse(text: &str) -> Result<Limit, String> {
        let wrong = || format!("{text:?} is no limit; use \"2 %\", \"digits\" or \"shape\"");
        match text {
            "digits" => Ok(Limit::Digits),
            "shape" => Ok(Limit::Shape),
            _ => {
                let number = text.strip_suffix('%').ok_or_else(wrong)?;
                let percent: f64 = number.trim().parse().map_err(|_| wrong())?;
                match percent > 0.0 && percent <= 100.0 {
                    true => Ok(Limit::Part(percent / 100.0)),
                    false => Err(wrong()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_of_percent_and_words() {
        assert_eq!(Limit::parse("0.5 %"), Ok(Limit::Part(0.005)));
        assert_eq!(Limit::parse("digits"), Ok(Limit::Digits));
        for text in ["", "2", "-1 %", "0 %", "200 %", "NaN %"] {
            assert!(Limit::parse(text).is_err(), "{text:?}");
        }
    }
}
