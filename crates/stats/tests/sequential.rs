//! The level of a whole race under every kind of noise, and the blocks it takes: families of log-ratios
//! judged look by look, without trials.

use random::SplitMix64;
use results::{Cell, Verdict, VerdictKind, metric};
use stats::verdict::{Comparison, judge};

/// Looks of a race of 3 to 20 blocks.
const LOOKS: [usize; 4] = [3, 5, 10, 20];

/// A family-wise level, and a band of equality.
const ALPHA: f64 = 0.05;
const EQUAL_WITHIN: f64 = 0.03;

/// The noise of a machine, and what runs on it.
#[derive(Clone, Copy)]
struct Machine {
    /// Contestants beside the baseline and its control.
    contestants: usize,
    /// Contests, each with an own start.
    contests: usize,
    /// Share of the trials at 0.8 of the speed.
    slow: f64,
    /// How much noisier the last contestant is.
    noisy_contestant: f64,
    /// How much noisier the first contest is.
    noisy_contest: f64,
    /// How much slower the machine is from trial to trial.
    drift: f64,
}

/// 3 % noise and nothing else.
const CALM: Machine = Machine {
    contestants: 6,
    contests: 6,
    slow: 0.0,
    noisy_contestant: 1.0,
    noisy_contest: 1.0,
    drift: 0.0,
};

impl Machine {
    /// The logarithm of one trial's value.
    fn draw(&self, random: &mut SplitMix64, contest: usize, contestant: usize) -> f64 {
        let mut deviation = 0.03;
        if contestant == self.contestants {
            deviation *= self.noisy_contestant;
        }
        if contest == 0 {
            deviation *= self.noisy_contest;
        }
        let slow = if random.unit() < self.slow {
            0.8_f64.ln()
        } else {
            0.0
        };
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        slow + deviation * radius * (std::f64::consts::TAU * random.unit()).cos()
    }

    /// Log-ratios of a block, by contest and contestant, against the mean of both baseline trials. The
    /// first contestant is faster by `effect`.
    fn block(&self, random: &mut SplitMix64, effect: f64) -> Vec<Vec<f64>> {
        let of_contest = |contest: usize| {
            let control = self.contestants + 1;
            let mut order: Vec<usize> = (0..=control).collect();
            random.shuffle(&mut order);
            let mut values = vec![0.0; control + 1];
            for (place, &who) in order.iter().enumerate() {
                values[who] = self.draw(random, contest, who) - self.drift * place as f64;
            }
            values[1] += effect;
            let baseline = (values[0] + values[control]) / 2.0;
            values[1..control]
                .iter()
                .map(|value| value - baseline)
                .collect()
        };
        (0..self.contests).map(of_contest).collect()
    }

    /// The comparisons by contest, and over all contests where there are several.
    fn family(&self, blocks: &[Vec<Vec<f64>>]) -> Vec<Comparison> {
        let comparison = |contest: Cell, who: usize, log_ratios: Vec<f64>| Comparison {
            contest,
            metric: metric::MESSAGES_PER_S.into(),
            contestant: who.to_string(),
            baseline: "tcp".into(),
            log_ratios,
        };
        let mut family = Vec::new();
        for who in 0..self.contestants {
            for contest in 0..self.contests {
                let cell = Cell::default().with(Cell::SIZE, contest as u64);
                let logs = blocks.iter().map(|block| block[contest][who]);
                family.push(comparison(cell, who, logs.collect()));
            }
            let mean = |block: &Vec<Vec<f64>>| {
                let sum: f64 = block.iter().map(|contest| contest[who]).sum();
                sum / self.contests as f64
            };
            if self.contests > 1 {
                let means = blocks.iter().map(mean).collect();
                family.push(comparison(Cell::default(), who, means));
            }
        }
        family
    }

    /// A race: its verdicts, and the blocks until each was decided.
    fn race(&self, seed: u64, effect: f64) -> (Vec<Verdict>, Vec<usize>) {
        self.race_at(seed, effect, &stats::levels_of_looks(ALPHA, LOOKS.len()))
    }

    /// The same with a level for each look.
    fn race_at(&self, seed: u64, effect: f64, levels: &[f64]) -> (Vec<Verdict>, Vec<usize>) {
        let mut random = SplitMix64::new(seed);
        let blocks: Vec<_> = (0..20).map(|_| self.block(&mut random, effect)).collect();
        let (mut verdicts, mut decided_at) = (Vec::new(), Vec::new());
        for (look, &alpha) in LOOKS.into_iter().zip(levels) {
            let family = self.family(&blocks[..look]);
            decided_at.resize(family.len(), usize::MAX);
            verdicts = judge(&family, &verdicts, alpha, EQUAL_WITHIN);
            for (verdict, at) in verdicts.iter().zip(&mut decided_at) {
                if verdict.kind != VerdictKind::NotEnoughData {
                    *at = (*at).min(look);
                }
            }
        }
        (verdicts, decided_at)
    }

    /// Of so many races in which the first contestant is faster by `effect`: how many had any false
    /// faster, slower or equal.
    fn false_races(&self, races: u64, effect: f64) -> usize {
        let is_false = |verdict: &Verdict| {
            let truth = if verdict.contestant == "0" {
                effect
            } else {
                0.0
            };
            match verdict.kind {
                VerdictKind::Faster => truth <= 0.0,
                VerdictKind::Slower => truth >= 0.0,
                VerdictKind::Equal => truth.exp_m1().abs() > EQUAL_WITHIN,
                VerdictKind::NotEnoughData => false,
            }
        };
        let races = (0..races).map(|seed| self.race(seed, effect).0);
        races
            .filter(|verdicts| verdicts.iter().any(is_false))
            .count()
    }
}

/// Races of each case: `TOWPATH_RACES=1000` for the figures of docs/method.md.
fn races() -> u64 {
    let asked = std::env::var("TOWPATH_RACES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// 5 % of the races, and two standard deviations of a count that is that in the mean.
fn most(races: u64) -> usize {
    let mean = races as f64 * ALPHA;
    (mean + 2.0 * (mean * (1.0 - ALPHA)).sqrt()) as usize
}

#[test]
fn false_verdicts_and_equals_keep_the_level_under_every_noise() {
    let noises = [
        ("3 % noise", CALM),
        ("slow phases", Machine { slow: 0.12, ..CALM }),
        (
            "one contestant noisier",
            Machine {
                noisy_contestant: 3.0,
                ..CALM
            },
        ),
        (
            "one contest noisier",
            Machine {
                noisy_contest: 3.0,
                ..CALM
            },
        ),
        (
            "drift",
            Machine {
                drift: 0.01,
                ..CALM
            },
        ),
    ];
    let shapes = [(6, 6), (6, 3), (2, 3), (3, 1), (1, 1)];
    let races = races();
    for (noise, machine) in noises {
        for (contestants, contests) in shapes {
            let machine = Machine {
                contestants,
                contests,
                ..machine
            };
            for effect in [0.0, EQUAL_WITHIN.ln_1p() + 1e-9] {
                let wrong = machine.false_races(races, effect);
                println!(
                    "{noise}, {contestants} x {contests}, effect {effect:.3}: {wrong} of {races}"
                );
                assert!(
                    wrong <= most(races),
                    "{noise}, {contestants} x {contests}, effect {effect:.3}: {wrong} of {races}"
                );
            }
        }
    }
}

#[test]
fn ten_percent_is_found_in_fewer_blocks_than_a_rule_for_one_comparison_alone() {
    let mean_blocks = |machine: &Machine| {
        let of_race = |seed: u64| {
            let (verdicts, at) = machine.race(seed, 0.1_f64.ln_1p());
            let found = verdicts
                .iter()
                .zip(at)
                .filter(|(verdict, _)| verdict.contestant == "0" && !verdict.contest.0.is_empty());
            let blocks: Vec<f64> = found.map(|(_, at)| at.min(30) as f64).collect();
            blocks.iter().sum::<f64>() / blocks.len() as f64
        };
        (0..50).map(of_race).sum::<f64>() / 50.0
    };
    // Without moderated variances, a second baseline and a look at three blocks it was 14.2, and 20.7
    // with slow phases.
    let calm = mean_blocks(&CALM);
    assert!(calm < 7.5, "{calm} blocks");
    let slow = mean_blocks(&Machine { slow: 0.12, ..CALM });
    println!("a true 10 %: {calm} blocks, with slow phases {slow}");
    assert!(slow < 19.5, "{slow} blocks");
}

#[test]
fn half_of_the_level_at_the_last_look_finds_more_of_what_is_small() {
    let found = |levels: &[f64]| {
        let of_race = |seed: u64| {
            let (verdicts, _) = Machine {
                contestants: 1,
                contests: 1,
                ..CALM
            }
            .race_at(seed, 0.025_f64.ln_1p(), levels);
            verdicts[0].kind == VerdictKind::Faster
        };
        (0..races()).filter(|&seed| of_race(seed)).count()
    };
    let equal_shares = found(&[ALPHA / LOOKS.len() as f64; LOOKS.len()]);
    let half_last = found(&stats::levels_of_looks(ALPHA, LOOKS.len()));
    println!(
        "a true 2.5 % in 20 blocks: {half_last} and, with equal shares, {equal_shares} of {}",
        races()
    );
    assert!(half_last > equal_shares, "{half_last} and {equal_shares}");
}
