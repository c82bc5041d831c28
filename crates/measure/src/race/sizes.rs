//! Sizes of a race that pilots find: those at which the cost of a message jumps.

use super::{Race, RaceError};
use crate::schedule::Schedule;
use crate::size_steps::{Costs, Jump, SIZES_MAX, SizeRange, jumps, next_size};
use crate::spec::{self, RaceSpec};
use results::Cell;
use std::sync::atomic::Ordering;

/// The costs of one contestant in contests that differ in their size alone.
struct Curve {
    cell: Cell,
    contestant: usize,
    costs: Costs,
}

impl Race<'_> {
    /// Runs pilots at sizes of `range`, each chosen by those before it; the race goes on with all of them.
    pub(super) fn find_sizes(&mut self, range: SizeRange) -> Result<(), RaceError> {
        let mut sizes = Vec::new();
        for size in range.first_sizes() {
            self.try_size(size)?;
            sizes.push(size);
        }
        while sizes.len() < SIZES_MAX && !self.stop.load(Ordering::Relaxed) {
            let curves: Vec<Costs> = self.curves().into_iter().map(|curve| curve.costs).collect();
            let Some(size) = next_size(&curves, &sizes) else {
                break;
            };
            self.try_size(size)?;
            sizes.push(size);
        }
        sizes.sort_unstable();
        self.plan_sizes(sizes)
    }

    /// Adds the contests of a size, and runs their pilots.
    fn try_size(&mut self, size: u64) -> Result<(), RaceError> {
        let spec = RaceSpec {
            sizes: vec![size],
            ..self.spec.clone()
        };
        let first = self.contests.len();
        let all = spec::in_each_setting(&spec.contests(), &self.environment.settings());
        self.contests.extend(all);
        self.open.resize(self.contests.len(), true);
        self.pilots(first)?;
        let before = self.pilot_estimates.clone();
        self.pilots(first)?;
        // Disturbances only add to a cost: the faster of two pilots is nearer to it.
        for (place, estimate) in before {
            let kept = self.pilot_estimates.entry(place).or_insert(estimate);
            if kept.per_s < estimate.per_s {
                *kept = estimate;
            }
        }
        Ok(())
    }

    /// What the pilots so far say of the costs.
    fn curves(&self) -> Vec<Curve> {
        let mut curves: Vec<Curve> = Vec::new();
        for (&(contest, contestant), estimate) in &self.pilot_estimates {
            let contest = &self.contests[contest];
            let cell = contest.cell.without(Cell::SIZE);
            let known = |curve: &Curve| curve.contestant == contestant && curve.cell == cell;
            let at = curves.iter().position(known).unwrap_or_else(|| {
                curves.push(Curve {
                    cell: cell.clone(),
                    contestant,
                    costs: Costs::new(),
                });
                curves.len() - 1
            });
            curves[at].costs.insert(contest.size, 1.0 / estimate.per_s);
        }
        curves
    }

    /// The plan with the sizes found, and what is said of the jumps between them.
    fn plan_sizes(&mut self, sizes: Vec<u64>) -> Result<(), RaceError> {
        let texts = self.curves().into_iter().map(|curve| self.text_of(&curve));
        let texts: Vec<String> = texts.collect();
        self.plan
            .options
            .insert(results::STEPS.into(), texts.join("; "));
        self.plan.sizes = sizes;
        self.folder.replan(&self.plan)?;
        let pilots = self.trials.len() as u64;
        self.schedule = Schedule::new(self.spec, &self.contests, pilots);
        Ok(())
    }

    /// `throughput tcp: 1448 to 1449 B +31 %, 4096 to 4100 B +12 %`.
    fn text_of(&self, curve: &Curve) -> String {
        let found = jumps(&curve.costs);
        let (wide, known): (Vec<Jump>, Vec<Jump>) = found.into_iter().partition(Jump::is_wide);
        let each = known.iter().map(|jump| {
            let (below, above) = (jump.below, jump.above);
            format!("{below} to {above} B {:+.0} %", 100.0 * jump.rise)
        });
        let mut each: Vec<String> = each.collect();
        if !wide.is_empty() {
            each.push(format!("{} not narrowed", wide.len()));
        }
        let factors = curve.cell.0.values().map(|value| format!("{value} "));
        let found = match each.is_empty() {
            true => "no jump".to_owned(),
            false => each.join(", "),
        };
        let name = &self.spec.contestants[curve.contestant];
        format!("{}{name}: {found}", factors.collect::<String>())
    }
}
