//! One line a target.

/// Which side of its target a value should be on.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// At least the goal; short of it, at least the floor is asked.
    Goal {
        /// What must be reached.
        floor: f64,
        /// What should be.
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
    pub target: Target,
    /// Samples, or why there are none.
    pub note: String,
}

impl Bar {
    /// Whether the target (the goal, where there are two) is met.
    pub fn is_met(&self) -> bool {
        self.value.is_some_and(|value| match self.target {
            Target::AtLeast(target) | Target::Goal { goal: target, .. } => value >= target,
            Target::AtMost(target) => value <= target,
        })
    }

    /// `BAR <name> <value> <unit> <target> met|short`, and a note.
    pub fn line(&self) -> String {
        let value = self
            .value
            .map_or("none".to_owned(), |value| format!("{value:.3}"));
        let target = match self.target {
            Target::AtLeast(target) => format!(">={target}"),
            Target::AtMost(target) => format!("<={target}"),
            Target::Goal { floor, goal } => format!(">={goal}(floor {floor})"),
        };
        let met = if self.is_met() { "met" } else { "short" };
        format!(
            "BAR {} {value} {} {target} {met}  # {}",
            self.name, self.unit, self.note
        )
    }
}
