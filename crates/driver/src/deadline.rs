//! When a wait ends.

use std::io;
use std::time::{Duration, Instant};

/// The end of a wait; none for a limit that no clock reaches, such as [`Duration::MAX`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// `limit` from now.
    pub(crate) fn after(limit: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(limit))
    }

    /// The time left; [`Duration::MAX`] for ever.
    ///
    /// # Errors
    ///
    /// `TimedOut` when there is none.
    pub(crate) fn left(self) -> io::Result<Duration> {
        let left = self.0.map_or(Duration::MAX, |end| {
            end.saturating_duration_since(Instant::now())
        });
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_limit_is_for_ever_and_none_is_over() {
        assert_eq!(
            Deadline::after(Duration::MAX).left().ok(),
            Some(Duration::MAX)
        );
        let over = Deadline::after(Duration::ZERO).left();
        assert_eq!(
            over.map_err(|error| error.kind()),
            Err(io::ErrorKind::TimedOut)
        );
        let left = Deadline::after(Duration::from_secs(60)).left();
        assert!(left.is_ok_and(|left| left <= Duration::from_secs(60)));
    }
}
