//! The bars of one benchmark: those that were asked for are measured, and printed as they come.

use super::bar::Bar;
use super::compare::{Comparison, Measure};
use super::trial_runner::TrialRunner;
use std::path::Path;
use std::process::ExitCode;

/// A benchmark that runs.
pub struct Suite<'a> {
    ours: TrialRunner,
    /// Prefixes of the names asked for; empty for all.
    wanted: &'a [&'a str],
    is_below_floor: bool,
}

impl<'a> Suite<'a> {
    /// Builds the program, measures what `wanted` selects, and says whether a bar is below its floor.
    pub fn run(
        root: &Path,
        wanted: &'a [&'a str],
        measure: impl FnOnce(&mut Suite<'a>),
    ) -> ExitCode {
        match Suite::start(root, wanted) {
            Ok(mut suite) => {
                measure(&mut suite);
                suite.finish()
            }
            Err(error) => crate::fail(&error),
        }
    }

    /// Builds the program; `wanted` may select bars by prefix.
    ///
    /// # Errors
    ///
    /// When it does not build.
    pub fn start(root: &Path, wanted: &'a [&'a str]) -> Result<Suite<'a>, String> {
        Ok(Suite {
            ours: TrialRunner::build(root)?,
            wanted,
            is_below_floor: false,
        })
    }

    /// Measures and prints the bar `name`, if it was asked for.
    pub fn bar(&mut self, name: &str, measure: impl FnOnce(&mut TrialRunner) -> Bar) {
        if self.wants(name) {
            let bar = measure(&mut self.ours);
            println!("{}", bar.line());
            self.is_below_floor |= !bar.is_above_floor();
        }
    }

    /// Runs those of `comparisons` that were asked for.
    pub fn comparisons(&mut self, comparisons: impl IntoIterator<Item = Comparison>) {
        for comparison in comparisons {
            self.bar(comparison.name, |ours| comparison.run(ours));
        }
    }

    /// Measures and prints a figure without a target, if it was asked for.
    pub fn row(&mut self, name: &str, unit: &str, measure: &Measure) {
        if self.wants(name) {
            match measure(&mut self.ours) {
                Ok(value) => println!("ROW {name} {value:.1} {unit}"),
                Err(error) => println!("ROW {name} none  # {error}"),
            }
        }
    }

    /// Failure when a bar is below its floor.
    pub fn finish(self) -> ExitCode {
        match self.is_below_floor {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        }
    }

    /// Whether one of these bars was asked for.
    pub fn wants_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.wants(name))
    }

    /// The built program.
    pub fn program(&self) -> &Path {
        self.ours.program()
    }

    fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|start| name.starts_with(start))
    }
}
