//! All runs of something that makes choices, one after the other.

/// A run is a list of choices. The first run takes the first of each; [`Choices::advance`] goes on
/// to the next list, as an odometer does, until every one was tried.
#[derive(Debug, Default)]
pub struct Choices {
    /// What was taken, and of how many.
    taken: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    /// One of `options`, the same for the same choices before it.
    pub fn pick(&mut self, options: usize) -> usize {
        if self.at == self.taken.len() {
            self.taken.push((0, options));
        }
        let (taken, known) = self.taken[self.at];
        assert_eq!(known, options, "equal choices led to another place");
        self.at += 1;
        taken
    }

    /// Whether this run is beyond the choices of the one before.
    pub fn is_new(&self) -> bool {
        self.at == self.taken.len()
    }

    /// Prepares the next run; false when there is none.
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
