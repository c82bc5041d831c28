//! Sentences of a paper, checked on paired blocks.
//!
//! Every check is one or more *claims*: that a quantity is above 0 in every pair of blocks. The
//! quantity is the logarithm of a ratio less that of its bound, so that claims of all checks have the
//! same form. A sentence holds when all of its claims do; its p-value is then the largest of theirs
//! (an intersection-union test). It does not hold when one claim is refuted; its p-value is the
//! smallest of the refuted ones' times their number. Over the sentences of a study Holm's correction
//! keeps the probability of any wrong word at 5 %.

use super::{Outcomes, period};
use crate::form::Study;
use crate::form::formula::Formula;
use crate::form::spec::{FigureSpec, FindingSpec, RatioCheck};
use crate::judge::Limit;
use crate::judge::cost::line;
use crate::outcome::{Measures, Outcome, Point};
use stats::mean::Mean;
use std::collections::BTreeMap;

/// Probability of any wrong word on the sentences of a study.
pub const ALPHA: f64 = 0.05;

/// Most blocks that are named as enough.
const BLOCKS_MAX: usize = 10_000;

/// What became of a sentence.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// It held.
    Held,
    /// Its direction held, by less than the paper says.
    HeldByLess,
    /// It did not hold.
    DidNotHold,
    /// The blocks do not decide it; so many would, if their noise stays as it is.
    NotDecided(Option<usize>),
    /// It was not checked: why.
    NotChecked(String),
}

impl Word {
    /// As in tables and JSON.
    pub fn text(&self) -> String {
        match self {
            Word::Held => "held".to_owned(),
            Word::HeldByLess => "held by less".to_owned(),
            Word::DidNotHold => "did not hold".to_owned(),
            Word::NotDecided(None) => "not decided".to_owned(),
            Word::NotDecided(Some(blocks)) => {
                format!("not decided; {blocks} blocks would do")
            }
            Word::NotChecked(why) => format!("not checked: {why}"),
        }
    }
}

/// A sentence with its word.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The sentence.
    pub says: String,
    /// What became of it.
    pub word: Word,
    /// What was found instead or besides: a ratio, a distance.
    pub found: String,
    /// Blocks that its least measured claim rests on.
    pub blocks: usize,
}

/// Claims of a sentence: of its direction, and of its amount if it names one.
#[derive(Clone, Debug, Default)]
struct Claims {
    direction: Vec<Mean>,
    amount: Vec<Mean>,
    found: String,
}

/// Checks every finding of a study.
pub fn judge(study: &Study, outcomes: &Outcomes) -> Vec<Finding> {
    let findings = study.spec.finding.iter();
    let claims: Vec<Result<Claims, String>> = findings
        .map(|finding| claims(study, outcomes, finding))
        .collect();
    // Holm's family: direction and amount of every sentence that is checked.
    let tests: Vec<f64> = claims
        .iter()
        .flatten()
        .flat_map(|claims| [p_value(&claims.direction), p_value(&claims.amount)])
        .flatten()
        .collect();
    let levels = stats::holm::levels(&tests, ALPHA);
    let mut levels = levels.into_iter();
    let mut next = |means: &[Mean]| match means.is_empty() {
        true => ALPHA,
        false => levels.next().unwrap_or(0.0),
    };
    let judged = study
        .spec
        .finding
        .iter()
        .zip(claims)
        .map(|(finding, claims)| {
            let says = finding.says.get_ref().clone();
            match claims {
                Err(why) => Finding {
                    says,
                    word: Word::NotChecked(why),
                    found: String::new(),
                    blocks: 0,
                },
                Ok(claims) => {
                    let level = (next(&claims.direction), next(&claims.amount));
                    let all = claims.direction.iter().chain(&claims.amount);
                    Finding {
                        says,
                        word: word(&claims, level),
                        blocks: all.map(|mean| mean.n).min().unwrap_or(0),
                        found: claims.found,
                    }
                }
            }
        });
    judged.collect()
}

/// The p-value that would decide claims made together; None where there are none.
fn p_value(claims: &[Mean]) -> Option<f64> {
    if claims.is_empty() {
        return None;
    }
    let refuted: Vec<f64> = claims
        .iter()
        .filter(|claim| claim.mean < 0.0)
        .map(Mean::p_value)
        .collect();
    let p = match refuted.is_empty() {
        true => claims.iter().map(Mean::p_value).fold(0.0, f64::max),
        false => refuted.iter().copied().fold(1.0, f64::min) * refuted.len() as f64,
    };
    Some(p.min(1.0))
}

/// Whether claims made together hold; None when that is not decided at this level.
fn holds(claims: &[Mean], level: f64) -> Option<bool> {
    let decided = p_value(claims).is_some_and(|p| p <= level);
    decided.then(|| claims.iter().all(|claim| claim.mean > 0.0))
}

fn word(claims: &Claims, level: (f64, f64)) -> Word {
    let direction = holds(&claims.direction, level.0);
    let amount = holds(&claims.amount, level.1);
    match (direction, amount) {
        (Some(false), _) => Word::DidNotHold,
        // The amount includes the direction.
        (_, Some(true)) => Word::Held,
        (Some(true), Some(false)) => Word::HeldByLess,
        (Some(true), None) if claims.amount.is_empty() => Word::Held,
        (None, Some(false)) if claims.direction.is_empty() => Word::DidNotHold,
        _ => {
            let open = match direction {
                None => blocks_needed(&claims.direction, level.0),
                Some(_) => blocks_needed(&claims.amount, level.1),
            };
            Word::NotDecided(open)
        }
    }
}

/// Blocks after which all claims would be decided if means and noise stay as they are.
fn blocks_needed(claims: &[Mean], level: f64) -> Option<usize> {
    let enough = |claim: &Mean| {
        let decided = |n: &usize| claim.half_width_with(*n, level) < claim.mean.abs();
        // Half the width falls steadily: doubling, then halving the step.
        let mut high = claim.n.max(3);
        while high <= BLOCKS_MAX && !decided(&high) {
            high *= 2;
        }
        let low = (high / 2).max(3);
        (low..=high.min(BLOCKS_MAX)).find(decided)
    };
    let needed: Option<Vec<usize>> = claims.iter().map(enough).collect();
    needed?.into_iter().max()
}

fn claims(study: &Study, outcomes: &Outcomes, finding: &FindingSpec) -> Result<Claims, String> {
    let curve = |figure: &FigureSpec, x: &str| curve(study, outcomes, figure, Some(x));
    if let Some(check) = &finding.ratio {
        return ratio(study, outcomes, check);
    }
    if let Some(check) = &finding.order {
        let figures = check.falling.get_ref().iter();
        let figures = figures.map(|figure| single(study, outcomes, figure));
        let figures = figures.collect::<Result<Vec<Blocks>, String>>()?;
        let pairs = figures
            .windows(2)
            .map(|pair| log_ratios(&pair[0], &pair[1], 1.0));
        return Claims::direction(pairs.collect::<Result<_, _>>()?, "each over the next");
    }
    if let Some(check) = &finding.crossover {
        let (of, to) = (
            curve(&check.of, check.x.get_ref())?,
            curve(&check.to, check.x.get_ref())?,
        );
        let at = |x: f64| Ok::<_, String>((point(&of, x)?, point(&to, x)?));
        let (before, after) = (at(check.from)?, at(check.until)?);
        let claims = vec![
            log_ratios(before.1, before.0, 1.0)?,
            log_ratios(after.0, after.1, 1.0)?,
        ];
        return Claims::direction(claims, "before and after");
    }
    if let Some(check) = &finding.highest {
        let curve = curve(&check.of, check.x.get_ref())?;
        let top = point(&curve, check.at_x)?;
        let others = curve.iter().filter(|(x, _)| *x != check.at_x);
        let claims = others.map(|(_, other)| log_ratios(top, other, 1.0));
        return Claims::direction(claims.collect::<Result<_, _>>()?, "over the others");
    }
    if let Some(check) = &finding.linear {
        let curve = curve(&check.of, check.x.get_ref())?;
        let Ok(Limit::Part(within)) = Limit::parse(check.within.get_ref()) else {
            return Err("within is no percentage".to_owned());
        };
        return linear(&curve, within, check.logarithms);
    }
    if let Some(check) = &finding.period {
        let curve = curve(&check.of, check.x.get_ref())?;
        let Ok(Limit::Part(within)) = Limit::parse(check.within.get_ref()) else {
            return Err("within is no percentage".to_owned());
        };
        let (claim, found) = period::claim(&curve, *check.is.get_ref(), within)?;
        return Ok(Claims {
            direction: vec![claim],
            amount: Vec::new(),
            found,
        });
    }
    Err(finding.absent.clone().unwrap_or_default())
}

impl Claims {
    fn direction(means: Vec<Mean>, what: &str) -> Result<Claims, String> {
        if means.is_empty() {
            return Err("its curve has one point only".to_owned());
        }
        let least = means
            .iter()
            .map(|mean| mean.mean.exp())
            .fold(f64::INFINITY, f64::min);
        Ok(Claims {
            direction: means,
            amount: Vec::new(),
            found: format!("{what}: {least:.3} times at least"),
        })
    }
}

/// Values of each block.
type Blocks = BTreeMap<u64, f64>;

fn ratio(study: &Study, outcomes: &Outcomes, check: &RatioCheck) -> Result<Claims, String> {
    let (of, to) = (
        single(study, outcomes, &check.of)?,
        single(study, outcomes, &check.to)?,
    );
    let found = log_ratios(&of, &to, 1.0)?;
    // "At most" is "at least" from the other side.
    let (high, low, bound) = match (&check.at_least, &check.at_most) {
        (Some(ratio), _) => (&of, &to, *ratio.get_ref()),
        (None, Some(ratio)) => (&to, &of, 1.0 / ratio.get_ref()),
        (None, None) => return Err("it names no ratio".to_owned()),
    };
    let mut claims = Claims {
        found: format!("{:.3} times", found.mean.exp()),
        ..Claims::default()
    };
    let amount = log_ratios(high, low, bound)?;
    if bound > 1.0 {
        claims.direction.push(log_ratios(high, low, 1.0)?);
        claims.amount.push(amount);
    } else {
        // A bound on the other side of 1 is a claim of its own: "not much less".
        claims.direction.push(amount);
    }
    Ok(claims)
}

/// The mean of ln(of / to / bound) over the blocks that both have.
fn log_ratios(of: &Blocks, to: &Blocks, bound: f64) -> Result<Mean, String> {
    let pairs = of.iter().filter_map(|(block, of)| {
        let ratio = (of / to.get(block)? / bound).ln();
        ratio.is_finite().then_some(ratio)
    });
    let values: Vec<f64> = pairs.collect();
    Mean::of(&values).ok_or_else(|| too_few(values.len()))
}

pub(super) fn too_few(blocks: usize) -> String {
    format!("{blocks} blocks have both figures; three are needed")
}

/// No point of a line further from it than `within`: a claim of the largest distance in each block.
fn linear(curve: &[(f64, Blocks)], within: f64, logarithms: bool) -> Result<Claims, String> {
    if curve.len() < 3 {
        return Err("its curve has fewer than three points".to_owned());
    }
    let blocks = curve[0].1.keys().copied();
    let distances = blocks.filter_map(|block| {
        let points = curve
            .iter()
            .map(|(x, values)| Some((*x, *values.get(&block)?)));
        distance(&points.collect::<Option<Vec<_>>>()?, logarithms)
    });
    let distances: Vec<f64> = distances.collect();
    let margins: Vec<f64> = distances
        .iter()
        .map(|distance| (within / distance.max(1e-9)).ln())
        .collect();
    let claim = Mean::of(&margins).ok_or_else(|| too_few(margins.len()))?;
    let largest = within / claim.mean.exp();
    Ok(Claims {
        direction: vec![claim],
        amount: Vec::new(),
        found: format!("{:.1} % from its line at most", largest * 100.0),
    })
}

/// The largest distance of a point from the line of least relative squares, as a part of the line's
/// value there.
fn distance(points: &[(f64, f64)], logarithms: bool) -> Option<f64> {
    let seen = |(x, y): (f64, f64)| match logarithms {
        true => (x.ln(), y.ln()),
        false => (x, y),
    };
    let points: Vec<(f64, f64)> = points.iter().map(|point| seen(*point)).collect();
    if points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return None;
    }
    // Relative distances count alike; logarithms are relative already.
    let (base, slope) = line(&points, logarithms)?;
    let distances = points.iter().map(|(x, y)| {
        let line = base + slope * x;
        match logarithms {
            true => ((y - line).exp() - 1.0).abs(),
            false => (y / line - 1.0).abs(),
        }
    });
    let largest = distances.fold(0.0, f64::max);
    largest.is_finite().then_some(largest)
}

/// A figure that names one point.
fn single(study: &Study, outcomes: &Outcomes, figure: &FigureSpec) -> Result<Blocks, String> {
    let mut points = curve(study, outcomes, figure, None)?;
    match points.len() {
        1 => Ok(points.remove(0).1),
        count => Err(format!(
            "{count} points of run {} are meant, not one; say more in at",
            figure.run.get_ref()
        )),
    }
}

fn point(curve: &[(f64, Blocks)], wanted: f64) -> Result<&Blocks, String> {
    let near = |x: f64| (x - wanted).abs() <= 1e-9 * wanted.abs();
    let found = curve.iter().find(|(x, _)| near(*x));
    found
        .map(|(_, blocks)| blocks)
        .ok_or_else(|| format!("its curve has no point at {wanted}"))
}

/// The points of a figure, ascending in x, with the values of each block.
fn curve(
    study: &Study,
    outcomes: &Outcomes,
    figure: &FigureSpec,
    x: Option<&str>,
) -> Result<Vec<(f64, Blocks)>, String> {
    let id = figure.run.get_ref();
    let outcome: &Outcome = match outcomes.get(id) {
        Some(Ok(outcome)) => outcome,
        Some(Err(why)) => return Err(why.clone()),
        None => return Err(format!("run {id} was not asked for")),
    };
    let run = study.run(id).ok_or_else(|| format!("no run {id}"))?;
    let measures = Measures {
        study: &study.spec,
        run,
        is_measured: outcome.is_measured,
    };
    let measure = Formula::parse(figure.measure.get_ref())?;
    let x = x.map(Formula::parse).transpose()?;
    let values = |point: &Point| {
        let replicates = point.replicates.keys();
        let values = replicates
            .filter_map(|block| Some((*block, measures.of_replicate(&measure, point, *block)?)));
        values.collect::<Blocks>()
    };
    let points = outcome.select(figure.contestant.as_deref(), &figure.at);
    let points = points.filter_map(|point| {
        let at = match &x {
            Some(x) => measures.of_point(x, point)?,
            None => 0.0,
        };
        Some((at, values(point)))
    });
    let mut points: Vec<(f64, Blocks)> = points.filter(|(_, blocks)| !blocks.is_empty()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(points)
}

#[cfg(test)]
#[path = "finding_tests.rs"]
mod tests;
