//! Comparisons: ours and peers in turn, in alternating order; the median of the ratios within
//! rounds.

use super::bar::{Bar, BenchTarget};
use super::helper_programs::ExampleProgram;
use super::trial_runner::{TrialRequest, TrialRunner};
use std::path::Path;

/// Takes one measurement.
pub type Measure = Box<dyn Fn(&mut TrialRunner) -> Result<f64, String>>;

/// Ours against the best of some peers.
pub struct Comparison {
    /// Name of the bar.
    pub name: &'static str,
    /// Ours.
    pub ours: Measure,
    /// The peers with their names; the highest value of a round is used.
    pub peers: Vec<(&'static str, Measure)>,
    /// Measurements of each.
    pub rounds: usize,
    /// The target of the median ratio of ours to the best peer.
    pub target: BenchTarget,
}

/// What the example `program` of `package` prints when it is run with `words`.
pub fn example(
    root: &Path,
    package: &'static str,
    program: &'static str,
    words: &[&'static str],
) -> Measure {
    let (root, words) = (root.to_owned(), words.to_vec());
    Box::new(move |_| ExampleProgram::build(&root, package, program)?.run(&words))
}

/// A metric of one of our trials.
pub fn metric_of(request: TrialRequest, metric: &'static str) -> Measure {
    Box::new(move |ours| ours.metric(&request, metric))
}

impl Comparison {
    /// Ours against one peer.
    pub fn of(
        name: &'static str,
        ours: Measure,
        peer: (&'static str, Measure),
        rounds: usize,
        target: BenchTarget,
    ) -> Comparison {
        Comparison {
            name,
            ours,
            peers: vec![peer],
            rounds,
            target,
        }
    }

    /// Takes all measurements. A missing peer counts as a missed target.
    pub fn run(&self, ours: &mut TrialRunner) -> Bar {
        let mut rounds = Vec::new();
        let mut failure = None;
        for round in 0..self.rounds {
            match self.round(ours, round % 2 == 0) {
                Ok(round) => rounds.push(round),
                Err(error) => failure = Some(error),
            }
        }
        let ratios: Vec<f64> = rounds.iter().map(|round| ratio(round)).collect();
        let note = match failure {
            Some(error) if rounds.is_empty() => error,
            _ => self.describe(&rounds, &ratios),
        };
        Bar {
            name: self.name.into(),
            value: (!ratios.is_empty()).then(|| stats::estimate::median(&ratios)),
            unit: "x",
            target: self.target,
            note,
        }
    }

    /// The values of one round: ours first, then the peers'.
    fn round(&self, ours: &mut TrialRunner, ours_first: bool) -> Result<Vec<f64>, String> {
        let mut all: Vec<(usize, &Measure)> = vec![(0, &self.ours)];
        all.extend(
            self.peers
                .iter()
                .map(|(_, peer)| peer)
                .zip(1..)
                .map(|(p, i)| (i, p)),
        );
        if !ours_first {
            all.reverse();
        }
        let mut values = vec![0.0; all.len()];
        for (index, measure) in all {
            values[index] = measure(ours)?;
        }
        Ok(values)
    }

    fn describe(&self, rounds: &[Vec<f64>], ratios: &[f64]) -> String {
        let median = |index: usize| {
            let values: Vec<f64> = rounds.iter().map(|round| round[index]).collect();
            stats::estimate::median(&values)
        };
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let mut note = format!(
            "{} rounds, ratio {least:.3} to {most:.3}; medians: ours {:.6}",
            rounds.len(),
            median(0)
        );
        for (index, (name, _)) in (1..).zip(&self.peers) {
            let name = if name.is_empty() { "peer" } else { name };
            note.push_str(&format!(", {name} {:.6}", median(index)));
        }
        note
    }
}

fn ratio(round: &[f64]) -> f64 {
    let best = round[1..].iter().copied().fold(0.0, f64::max);
    round[0] / best
}
