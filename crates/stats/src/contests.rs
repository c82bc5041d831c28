//! Trials grouped into contests, and the comparisons they allow.

use crate::missing::shape;
use crate::order::CellOrder;
use crate::peak;
use crate::rounds;
use crate::verdict::Comparison;
use results::{Cell, Plan, Status, Trial, metric};
use std::collections::BTreeMap;

/// The trials of one contest: all that share every factor but the transport.
#[derive(Clone, Debug)]
pub struct Contest<'a> {
    /// The cell without the transport.
    pub cell: Cell,
    /// The metric of its verdicts.
    pub metric: &'static str,
    /// Transports that ran or had a pilot, in the order of the plan.
    pub transports: Vec<String>,
    /// All its trials but pilots, in the order they ran.
    pub trials: Vec<&'a Trial>,
}

/// Groups the trials of a run into contests, in the order of the plan: by workload, other factors,
/// size. Pilots (block 0) are no trials of a contest, but what had a pilot takes part in it.
pub fn contests<'a>(plan: &Plan, trials: &'a [Trial]) -> Vec<Contest<'a>> {
    let mut contests = Contests::default();
    for trial in trials.iter().filter(|trial| trial.block > 0) {
        let contest = contests.of(&trial.cell);
        contests.0[contest].add(&trial.cell.transport());
        contests.0[contest].trials.push(trial);
    }
    contests.add_pilots(trials.iter().filter(|trial| trial.block == 0));
    let mut contests = contests.0;
    let order = CellOrder::of(plan, trials);
    contests.sort_by(|a, b| order.compare(&a.cell, &b.cell));
    for contest in &mut contests {
        let names = &mut contest.transports;
        names.sort_by_key(|name| rank(&plan.transports, name));
    }
    contests
}

/// Contests by their cell.
#[derive(Default)]
struct Contests<'a>(Vec<Contest<'a>>, BTreeMap<String, usize>);

impl Contests<'_> {
    /// What had a pilot takes part in every contest that the pilot stood for.
    fn add_pilots<'t>(&mut self, pilots: impl Iterator<Item = &'t Trial>) {
        let mut by_shape: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, contest) in self.0.iter().enumerate() {
            let key = cell_key(&shape(&contest.cell));
            by_shape.entry(key).or_default().push(index);
        }
        for pilot in pilots {
            let key = cell_key(&shape(&pilot.cell));
            let covered = by_shape.entry(key).or_default();
            if covered.is_empty() {
                covered.push(self.of(&pilot.cell));
            }
            for &index in covered.iter() {
                self.0[index].add(&pilot.cell.transport());
            }
        }
    }

    /// Index of the contest of a trial's cell; a new one if need be.
    fn of(&mut self, cell: &Cell) -> usize {
        let cell = cell.without(Cell::TRANSPORT);
        let index = *self.1.entry(cell_key(&cell)).or_insert(self.0.len());
        if index == self.0.len() {
            self.0.push(Contest {
                metric: metric::primary(&cell.workload()),
                cell,
                transports: Vec::new(),
                trials: Vec::new(),
            });
        }
        index
    }
}

/// Position of an item in a list; after all others when it is not there.
pub(crate) fn rank<T: PartialEq>(list: &[T], item: &T) -> usize {
    let found = list.iter().position(|other| other == item);
    found.unwrap_or(usize::MAX)
}

/// A cell as a unique text.
pub(crate) fn cell_key(cell: &Cell) -> String {
    let factors = cell.0.iter();
    factors
        .map(|(name, value)| format!("{name}={value:?};"))
        .collect()
}

impl<'a> Contest<'a> {
    fn add(&mut self, transport: &str) {
        if !self.transports.iter().any(|name| name == transport) {
            self.transports.push(transport.to_owned());
        }
    }

    /// The contest as it was after so many blocks.
    pub(crate) fn until(&self, block: u32) -> Contest<'a> {
        let trials = self.trials.iter().copied();
        Contest {
            trials: trials.filter(|trial| trial.block <= block).collect(),
            ..self.clone()
        }
    }

    /// Valid trials of a transport, by block; the first of a block when there are several.
    pub fn valid_trials(&self, transport: &str, control: bool) -> BTreeMap<u32, &'a Trial> {
        let mut by_block = BTreeMap::new();
        for &trial in &self.trials {
            let wanted = trial.status == Status::Ok && trial.control == control;
            if wanted && trial.cell.transport() == transport {
                by_block.entry(trial.block).or_insert(trial);
            }
        }
        by_block
    }

    /// Blocks with valid trials of both contestant and baseline: (block, contestant, baseline).
    pub fn pairs(
        &self,
        contestant: &str,
        control: bool,
        baseline: &str,
    ) -> Vec<(u32, &'a Trial, &'a Trial)> {
        let others = self.valid_trials(baseline, false);
        let pair = |(block, trial)| Some((block, trial, *others.get(&block)?));
        let counted = self.valid_trials(contestant, control);
        counted.into_iter().filter_map(pair).collect()
    }
}

/// One question of a race: a contest, or a sweep of loads that are shares of each contestant's own
/// capacity. The loads of such a sweep offer each contestant another rate, so their rates are not
/// compared one by one; the sweep has one answer, the largest rate that was delivered.
struct Question<'c, 'a> {
    cell: Cell,
    metric: &'static str,
    contests: Vec<&'c Contest<'a>>,
}

fn questions<'c, 'a>(contests: &'c [Contest<'a>]) -> Vec<Question<'c, 'a>> {
    let mut questions: Vec<Question> = Vec::new();
    for contest in contests {
        let swept = contest.cell.0.contains_key(Cell::LOAD_PERCENT);
        let cell = contest.cell.without(Cell::LOAD_PERCENT);
        let known = questions.iter_mut().find(|question| {
            swept && question.metric == metric::PEAK_PER_S && question.cell == cell
        });
        match known {
            Some(question) => question.contests.push(contest),
            None => questions.push(Question {
                cell,
                metric: if swept {
                    metric::PEAK_PER_S
                } else {
                    contest.metric
                },
                contests: vec![contest],
            }),
        }
    }
    questions
}

impl Question<'_, '_> {
    /// The contestants, in the order of the plan.
    fn transports(&self) -> Vec<&String> {
        let mut names: Vec<&String> = Vec::new();
        for name in self.contests.iter().flat_map(|contest| &contest.transports) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// A contestant's value of the metric, by block.
    fn values(&self, transport: &str, control: bool) -> BTreeMap<u32, f64> {
        let contests = self.contests.iter();
        if self.metric == metric::PEAK_PER_S {
            let trials = contests.flat_map(|contest| contest.trials.iter().copied());
            let own = trials
                .filter(|trial| trial.control == control && trial.cell.transport() == transport);
            return peak::by_block(own);
        }
        let trials = contests.flat_map(|contest| contest.valid_trials(transport, control));
        let value = |(block, trial): (u32, &Trial)| {
            let value = trial.metrics.get(self.metric)?;
            Some((block, *value))
        };
        trials.filter_map(value).collect()
    }

    /// The baseline's value by block. For a contestant it is the geometric mean of both its trials where
    /// the block has a control, which is held against the first one alone.
    fn baseline_values(&self, baseline: &str, control: bool) -> BTreeMap<u32, f64> {
        let mut values = self.values(baseline, false);
        if !control {
            let seconds = self.values(baseline, true).into_iter();
            for (block, second) in seconds.filter(|(_, value)| *value > 0.0) {
                values
                    .entry(block)
                    .and_modify(|first| *first = (*first * second).sqrt());
            }
        }
        values
    }

    /// Log-ratios of the metric, by block: of typical rounds where contestants took turns, else of the whole trials.
    fn log_ratios(&self, contestant: &str, control: bool, baseline: &str) -> BTreeMap<u32, f64> {
        let theirs = self.baseline_values(baseline, control);
        let ratio = |(block, ours): (u32, f64)| {
            let ratio = ours.ln() - theirs.get(&block)?.ln();
            ratio.is_finite().then_some((block, ratio))
        };
        let ours = self.values(contestant, control);
        let mut ratios: BTreeMap<u32, f64> = ours.into_iter().filter_map(ratio).collect();
        for contest in &self.contests {
            ratios.extend(rounds::by_block(contest, contestant, control, baseline));
        }
        ratios
    }

    fn comparison(&self, contestant: &str, control: bool, baseline: &str) -> Option<Comparison> {
        let log_ratios = self.log_ratios(contestant, control, baseline);
        (!log_ratios.is_empty()).then(|| Comparison {
            contest: self.cell.clone(),
            metric: self.metric.to_owned(),
            contestant: contestant.to_owned(),
            baseline: baseline.to_owned(),
            log_ratios: log_ratios.into_values().collect(),
        })
    }
}

/// Sweeps in per cent of capacity whose peak is unknown, one sentence each.
pub(crate) fn unsaturated(contests: &[Contest]) -> Vec<String> {
    let mut sentences = Vec::new();
    let questions = questions(contests).into_iter();
    for question in questions.filter(|question| question.metric == metric::PEAK_PER_S) {
        for name in question.transports() {
            let valid = |contest: &&Contest| !contest.valid_trials(name, false).is_empty();
            if question.contests.iter().any(valid) && question.values(name, false).is_empty() {
                let place = results::phrasing::contest_text(&question.cell);
                sentences.push(format!(
                    "{place} {name} delivered its largest load whole in every block, so its peak is \
                     unknown and not judged; offer more with --rate"
                ));
            }
        }
    }
    sentences
}

/// One comparison per contest and contestant, in order; none without a block that has valid trials
/// of both.
pub fn comparisons(contests: &[Contest], baseline: &str) -> Vec<Comparison> {
    let of_question = |question: &Question| -> Vec<Comparison> {
        let rivals = question.transports().into_iter();
        let rivals = rivals.filter(|name| *name != baseline);
        let compare = |name: &String| question.comparison(name, false, baseline);
        rivals.filter_map(compare).collect()
    };
    questions(contests).iter().flat_map(of_question).collect()
}

/// The A/A control, the baseline against itself: one comparison per contest.
pub fn control_comparisons(contests: &[Contest], baseline: &str) -> Vec<Comparison> {
    let compare = |question: &Question| question.comparison(baseline, true, baseline);
    questions(contests).iter().filter_map(compare).collect()
}

/// Comparisons over all contests of a metric, one per contestant and metric with two or more
/// contests.
pub fn overall_comparisons(contests: &[Contest], baseline: &str) -> Vec<Comparison> {
    let questions = questions(contests);
    let mut metrics: Vec<&str> = Vec::new();
    for question in &questions {
        if !metrics.contains(&question.metric) {
            metrics.push(question.metric);
        }
    }
    let of_metric = |metric: &&str| -> Vec<Comparison> {
        let same: Vec<&Question> = questions.iter().filter(|q| q.metric == *metric).collect();
        let mut rivals: Vec<&String> = Vec::new();
        for name in same.iter().flat_map(|question| question.transports()) {
            if name != baseline && !rivals.contains(&name) {
                rivals.push(name);
            }
        }
        let compare = |name: &String| overall_comparison(&same, name, baseline);
        rivals.into_iter().filter_map(compare).collect()
    };
    metrics.iter().flat_map(of_metric).collect()
}

/// The mean log-ratio over contests, block by block. Only blocks with all contests count, so that
/// the mean is always over the same contests; a contest with less than half the blocks of the
/// fullest is dropped instead of its missing blocks.
fn overall_comparison(
    questions: &[&Question],
    contestant: &str,
    baseline: &str,
) -> Option<Comparison> {
    let mut ratios: Vec<BTreeMap<u32, f64>> = questions
        .iter()
        .map(|question| question.log_ratios(contestant, false, baseline))
        .collect();
    let fullest = ratios.iter().map(BTreeMap::len).max()?;
    ratios.retain(|blocks| !blocks.is_empty() && 2 * blocks.len() >= fullest);
    if ratios.len() < 2 {
        return None;
    }
    let mean = |block: &u32| -> Option<f64> {
        let values: Option<Vec<f64>> = ratios.iter().map(|by| by.get(block).copied()).collect();
        values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
    };
    Some(Comparison {
        contest: Cell::default(),
        metric: questions.first()?.metric.to_owned(),
        contestant: contestant.to_owned(),
        baseline: baseline.to_owned(),
        log_ratios: ratios[0].keys().filter_map(mean).collect(),
    })
}
