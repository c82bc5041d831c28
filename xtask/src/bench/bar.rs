//! One line a target.

/// Which side of its target a value should be on.
#[derive(Clone, Copy, Debug)]
pub enum BenchTarget {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// At least the goal; short of it, at least the floor is asked.
    GoalAtLeast {
        /// What must be reached.
        floor: f64,
        /// What should be.
        goal: f64,
    },
    /// At most the goal; above it, at most the floor is asked.
    GoalAtMost {
        /// What must not be exceeded.
        floor: f64,
        /// What should not be.
        goal: f64,
    },
}

/// A result held against its target.
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
    /// Whether the target (the goal, where there are two) is met.
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

    /// Whether the floor is met, or the target where there is one only.
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
