//! Enumeration of all runs of a process that makes choices.

/// The choices of a run. The first run takes the first option of each; [`Choices::advance`] moves
/// to the next run like an odometer, until all were made.
#[derive(Debug, Default)]
pub struct Choices {
    /// The option taken at each choice, and the number of options.
    taken: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    /// Picks one of `options`; the number must depend on earlier choices only.
    pub fn pick(&mut self, options: usize) -> usize {
        if self.at == self.taken.len() {
            self.taken.push((0, options));
        }
        let (taken, known) = self.taken[self.at];
        assert_eq!(known, options, "equal choices led to different options");
        self.at += 1;
        taken
    }

    /// Whether this run has passed the choices it shares with the one before.
    pub fn is_new(&self) -> bool {
        self.at == self.taken.len()
    }

    /// Prepares the next run; false if there is none.
    pub fn advance(&mut self) -> bool {
        self.taken.truncate(self.at);
        self.at = 0;
        while let Some((taken, options)) = self.taken.pop() {
            if taken + 1 < options {
                self.taken.push((taken + 1, options));
                return true;
            }
        }
        false
    }
}
