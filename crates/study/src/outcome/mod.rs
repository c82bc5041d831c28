//! What a run gave: points, each with its factors and a set of values for every seed or block.
//!
//! * `rows` - rows of `towpath sim sweep`, `towpath cells` and `towpath channel`.
//! * `race` - the folder of a race.
//! * `profile` - the profile of a message.
//! * `Outcome::values` - measures of a study at a point.

mod profile;
mod race;
mod rows;

use crate::form::formula::Formula;
use crate::form::spec::{FactorSpec, RunSpec, StudySpec, leading_number};
use results::Factor;
use std::collections::BTreeMap;
use std::path::Path;

/// Measures by name.
pub type Values = BTreeMap<String, f64>;

/// One point of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// What was varied.
    pub factors: BTreeMap<String, Factor>,
    /// Values of each seed or block, by its number. Equal numbers belong together.
    pub replicates: BTreeMap<u64, Values>,
    /// Replicates that ended as they should.
    pub complete: usize,
}

/// All points of a run, in the order they were asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The points.
    pub points: Vec<Point>,
    /// Replicates are summed up by their median, not their mean: a machine measured.
    pub is_measured: bool,
}

/// Name of the file of a sweep's rows in the folder of a run.
pub const ROWS_FILE: &str = "rows.jsonl";

/// Name of the file of a profile in the folder of a run.
pub const PROFILE_FILE: &str = "profile.json";

impl Outcome {
    /// Reads what a run left in its folder.
    ///
    /// # Errors
    ///
    /// One line: a file is missing or damaged.
    pub fn read(run: &RunSpec, folder: &Path) -> Result<Outcome, String> {
        let is_measured = run.sim.is_none();
        match (&run.race, run.leaves_rows()) {
            (Some(_), _) => race::read(folder),
            (_, true) => rows::read(&folder.join(ROWS_FILE), is_measured),
            _ => profile::read(&folder.join(PROFILE_FILE)),
        }
    }

    /// Points of a contestant, or of all, that have these factors.
    pub fn select<'a>(
        &'a self,
        contestant: Option<&'a str>,
        at: &'a BTreeMap<String, FactorSpec>,
    ) -> impl Iterator<Item = &'a Point> {
        self.points.iter().filter(move |point| {
            let transport = point.factors.get(results::Cell::TRANSPORT);
            let own = contestant
                .is_none_or(|name| transport.is_some_and(|factor| factor.to_string() == name));
            own && at.iter().all(|(name, wanted)| {
                point
                    .factors
                    .get(name)
                    .is_some_and(|factor| wanted.is(factor))
            })
        })
    }
}

/// Evaluates measures of a run.
#[derive(Clone, Copy, Debug)]
pub struct Measures<'a> {
    /// The study, for measures made from others.
    pub study: &'a StudySpec,
    /// The run, for the factors all its points have.
    pub run: &'a RunSpec,
    /// Replicates are summed up by their median.
    pub is_measured: bool,
}

/// Before the name of what was measured: its standard deviation over the replicates of a point.
const DEVIATION: &str = "deviation.";

/// How deep a measure may be made from others.
const DEPTH_MAX: u32 = 8;

impl Measures<'_> {
    /// A formula over the means (or medians) of a point's replicates.
    pub fn of_point(&self, formula: &Formula, point: &Point) -> Option<f64> {
        self.value(formula, point, DEPTH_MAX, &|name| {
            let (name, is_deviation) = match name.strip_prefix(DEVIATION) {
                Some(of) => (of, true),
                None => (name, false),
            };
            let values = point
                .replicates
                .values()
                .map(|values| values.get(name).copied());
            let values = values.collect::<Option<Vec<f64>>>()?;
            match (values.is_empty(), is_deviation, self.is_measured) {
                (true, _, _) => None,
                (false, true, _) => deviation(&values),
                (false, false, true) => Some(stats::estimate::median(&values)),
                (false, false, false) => Some(mean(&values)),
            }
        })
    }

    /// A formula over one replicate.
    pub fn of_replicate(&self, formula: &Formula, point: &Point, replicate: u64) -> Option<f64> {
        let values = point.replicates.get(&replicate)?;
        self.value(formula, point, DEPTH_MAX, &|name| values.get(name).copied())
    }

    fn value(
        &self,
        formula: &Formula,
        point: &Point,
        depth: u32,
        measured: &dyn Fn(&str) -> Option<f64>,
    ) -> Option<f64> {
        formula.value(&|name| {
            if let Some(value) = measured(name) {
                return Some(value);
            }
            if let Some(made) = self.study.measure.get(name) {
                let made = Formula::parse(made.get_ref()).ok()?;
                return self.value(&made, point, depth.checked_sub(1)?, measured);
            }
            if let Some(factor) = self.run.is.get(name) {
                return factor.number();
            }
            match point.factors.get(name)? {
                Factor::Integer(value) => Some(*value as f64),
                Factor::Number(value) => Some(*value),
                Factor::Text(text) => leading_number(text),
            }
        })
    }
}

/// A name as formulas can say it: `delay_p50_us.xtp,dialect=3.6` as `delay_p50_us.xtp_dialect_3.6`.
fn plain(name: &str) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() || c == '.' {
        true => c.to_ascii_lowercase(),
        false => '_',
    };
    name.chars().map(plain).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The standard deviation of a sample; None for one value.
fn deviation(values: &[f64]) -> Option<f64> {
    (values.len() > 1).then(|| stats::spread::variance(values).sqrt())
}
