//! Benchmark results against targets, one line each.

/// A threshold.
#[derive(Clone, Copy, Debug)]
pub enum BenchTarget {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Should be at least the goal, must be at least the floor.
    GoalAtLeast {
        /// Required minimum.
        floor: f64,
        /// Desired minimum.
        goal: f64,
    },
    /// Should be at most the goal, must be at most the floor.
    GoalAtMost {
        /// Required maximum.
        floor: f64,
        /// Desired maximum.
        goal: f64,
    },
}

impl BenchTarget {
    /// At least `floor`, better `goal`.
    pub const fn at_least(floor: f64, goal: f64) -> BenchTarget {
        BenchTarget::GoalAtLeast { floor, goal }
    }

    /// At most `floor`, better `goal`.
    pub const fn at_most(floor: f64, goal: f64) -> BenchTarget {
        BenchTarget::GoalAtMost { floor, goal }
    }
}

/// A result and its target.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// The measured value; None when it could not be measured.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: &'static str,
    /// The target.
    pub target: BenchTarget,
    /// Samples, or why there are none.
    pub note: String,
}

impl Bar {
    /// A figure with a note, or why there is none.
    pub fn of_figure(
        name: &str,
        figure: Result<(f64, String), String>,
        unit: &'static str,
        target: BenchTarget,
    ) -> Bar {
        let (value, note) = match figure {
            Ok((value, note)) => (Some(value), note),
            Err(error) => (None, error),
        };
        Bar {
            name: name.into(),
            value,
            unit,
            target,
            note,
        }
    }

    /// The median of some runs, with their values, or why there is none.
    pub fn of_median(
        name: &str,
        values: Result<Vec<f64>, String>,
        unit: &'static str,
        target: BenchTarget,
    ) -> Bar {
        let figure = values.map(|values| {
            let note = format!("median of {} runs: {values:.2?}", values.len());
            (stats::estimate::median(&values), note)
        });
        Bar::of_figure(name, figure, unit, target)
    }

    /// Whether the target is met (the goal, if it has goal and floor).
    pub fn is_met(&self) -> bool {
        self.value.is_some_and(|value| match self.target {
            BenchTarget::AtLeast(target) | BenchTarget::GoalAtLeast { goal: target, .. } => {
                value >= target
            }
            BenchTarget::AtMost(target) | BenchTarget::GoalAtMost { goal: target, .. } => {
                value <= target
            }
        })
    }

    /// Whether the floor is met (the target, if it has no floor).
    pub fn is_above_floor(&self) -> bool {
        self.is_met()
            || self.value.is_some_and(|value| match self.target {
                BenchTarget::GoalAtLeast { floor, .. } => value >= floor,
                BenchTarget::GoalAtMost { floor, .. } => value <= floor,
                _ => false,
            })
    }

    /// `BAR <name> <value> <unit> <target> met|short`, and a note.
    pub fn line(&self) -> String {
        let value = self
            .value
            .map_or("none".to_owned(), |value| format!("{value:.3}"));
        let target = match self.target {
            BenchTarget::AtLeast(target) => format!(">={target}"),
            BenchTarget::AtMost(target) => format!("<={target}"),
            BenchTarget::GoalAtLeast { floor, goal } => format!(">={goal}(floor {floor})"),
            BenchTarget::GoalAtMost { floor, goal } => format!("<={goal}(floor {floor})"),
        };
        let met = if self.is_met() { "met" } else { "short" };
        format!(
            "BAR {} {value} {} {target} {met}  # {}",
            self.name, self.unit, self.note
        )
    }
}
