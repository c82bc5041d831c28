//! How another clock compares with ours, with a bound that always holds.
//!
//! The agent read its clock between our sending of the question and our receiving of the answer, so
//! each round trip confines the offset to an interval as long as the round trip. Several intervals
//! hold at once; clocks drift, so one that is older is wider.

use measure::ClockOffset;
use std::collections::VecDeque;

/// Clocks of computers differ by less than this, in parts of a million (crystals have 20 to 50, and
/// NTP turns them by 500 at most, which happens at the start).
const DRIFT_PPM: u64 = 100;

/// Round trips kept.
const KEPT: usize = 256;

/// Those older than this say little, ns.
const OLD_NS: u64 = 60_000_000_000;

/// The round trips so far.
#[derive(Clone, Debug, Default)]
pub struct ClockBook {
    trips: VecDeque<Trip>,
    shortest_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Trip {
    /// Our time of the answer.
    at_ns: u64,
    /// The least and the most that theirs may be ahead of ours.
    least_ns: i64,
    most_ns: i64,
}

impl ClockBook {
    /// A question sent at `sent_ns` and answered at `received_ns` of our clock, with `theirs_ns`.
    pub fn add(&mut self, sent_ns: u64, theirs_ns: u64, received_ns: u64) {
        // A stranger's clock may say anything; what does not fit is no reading.
        let (Ok(sent), Ok(theirs), Ok(received)) = (
            i64::try_from(sent_ns),
            i64::try_from(theirs_ns),
            i64::try_from(received_ns),
        ) else {
            return;
        };
        if received < sent {
            return;
        }
        let shortest = self.shortest_ns.unwrap_or(u64::MAX);
        self.shortest_ns = Some(shortest.min(received_ns - sent_ns));
        if self.trips.len() == KEPT {
            self.trips.pop_front();
        }
        self.trips.push_back(Trip {
            at_ns: received_ns,
            least_ns: theirs - received,
            most_ns: theirs - sent,
        });
    }

    /// The offset at `now_ns`, as all round trips of the last minute allow; None without any, or when
    /// they contradict each other: a clock jumped.
    pub fn offset(&self, now_ns: u64) -> Option<ClockOffset> {
        let mut range: Option<(i64, i64)> = None;
        for trip in &self.trips {
            let age_ns = now_ns.saturating_sub(trip.at_ns);
            if age_ns > OLD_NS {
                continue;
            }
            let drift_ns = (age_ns * DRIFT_PPM / 1_000_000) as i64;
            let (least, most) = (trip.least_ns - drift_ns, trip.most_ns + drift_ns);
            range = Some(match range {
                None => (least, most),
                Some((low, high)) => (low.max(least), high.min(most)),
            });
        }
        let (low, high) = range.filter(|(low, high)| low <= high)?;
        Some(ClockOffset {
            offset_ns: low + (high - low) / 2,
            bound_ns: high.abs_diff(low).div_ceil(2),
        })
    }

    /// The shortest round trip so far, ns; 0 before the first.
    pub fn round_trip_ns(&self) -> u64 {
        self.shortest_ns.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round trip to a clock that is ahead by `offset`, with ways of these lengths.
    fn trip(book: &mut ClockBook, sent: u64, there: u64, back: u64, offset: i64) {
        let theirs = (sent + there).checked_add_signed(offset).expect("in range");
        book.add(sent, theirs, sent + there + back);
    }

    #[test]
    fn the_bound_holds_however_unequal_the_ways_are() {
        let mut state = 7u64;
        let mut next = |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        for _ in 0..500 {
            let offset = next(2_000_000_000) as i64 - 1_000_000_000;
            let mut book = ClockBook::default();
            let mut now = 10_000_000_000;
            for _ in 0..20 {
                trip(&mut book, now, next(5_000_000), next(5_000_000), offset);
                now += 100_000_000;
            }
            let found = book.offset(now).expect("readings");
            assert!(found.offset_ns.abs_diff(offset) <= found.bound_ns);
            assert!(found.bound_ns <= book.round_trip_ns() / 2 + 300_000);
        }
    }

    #[test]
    fn a_clock_that_jumps_has_no_offset() {
        let mut book = ClockBook::default();
        assert_eq!(book.offset(5), None);
        trip(&mut book, 10_000_000_000, 1000, 1000, 0);
        trip(&mut book, 10_100_000_000, 1000, 1000, 50_000_000);
        assert_eq!(book.offset(10_200_000_000), None);
    }

    #[test]
    fn readings_that_cannot_be_are_left_out() {
        let mut book = ClockBook::default();
        book.add(5, u64::MAX, 6);
        book.add(6, 1, 5);
        assert_eq!(book.offset(10), None);
        assert_eq!(book.round_trip_ns(), 0);
    }
}
