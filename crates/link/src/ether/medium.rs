//! Transmissions on the cable, and what a station senses of them.

use super::event::{EtherFrame, EtherTime as Account};
use std::collections::VecDeque;

/// A transmission, finished or in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transmission {
    /// The sender.
    pub(super) station: usize,
    /// The sender's position, ps from the start of the cable.
    pub(super) position_ps: u64,
    /// Start of the first bit.
    pub(super) start_ps: u64,
    /// End of the last bit; earlier when a collision truncates it.
    pub(super) end_ps: u64,
    /// The sender detected a collision.
    pub(super) collided: bool,
    /// Another transmission was close in time, so receivers must check for overlap.
    pub(super) may_overlap: bool,
    /// The frame.
    pub(super) frame: EtherFrame,
}

impl Transmission {
    /// Propagation delay to `position_ps`.
    pub(super) fn distance(&self, position_ps: u64) -> u64 {
        self.position_ps.abs_diff(position_ps)
    }

    fn interval_at(&self, position_ps: u64) -> (u64, u64) {
        let distance = self.distance(position_ps);
        (self.start_ps + distance, self.end_ps + distance)
    }
}

/// The recent transmissions, oldest first, numbered.
#[derive(Clone, Debug, Default)]
pub(super) struct Cable {
    recent: VecDeque<Transmission>,
    first: u64,
    /// Largest distance between two stations, ps.
    span_ps: u64,
    low_ps: Option<u64>,
    high_ps: u64,
    /// The account is complete up to here.
    accounted_ps: u64,
    pub(super) account: Account,
}

impl Cable {
    /// Extends the cable to a station at `position_ps`.
    pub(super) fn extend_to(&mut self, position_ps: u64) {
        let low = self.low_ps.map_or(position_ps, |low| low.min(position_ps));
        self.low_ps = Some(low);
        self.high_ps = self.high_ps.max(position_ps);
        self.span_ps = self.high_ps - low;
    }

    /// Adds a transmission that starts now and returns its number.
    pub(super) fn begin(&mut self, mut transmission: Transmission) -> u64 {
        let since = transmission.start_ps;
        let span = self.span_ps;
        for other in self.recent.iter_mut() {
            if other.end_ps + 2 * span > since {
                other.may_overlap = true;
                transmission.may_overlap = true;
            }
        }
        self.recent.push_back(transmission);
        self.first + self.recent.len() as u64 - 1
    }

    pub(super) fn get(&self, number: u64) -> Option<&Transmission> {
        self.recent.get(number.checked_sub(self.first)? as usize)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Transmission> {
        let index = number.checked_sub(self.first)?;
        self.recent.get_mut(index as usize)
    }

    /// Transmissions that are still on the cable at `now_ps`, with their numbers.
    pub(super) fn in_progress(&self, now_ps: u64) -> impl Iterator<Item = (u64, &Transmission)> {
        let span = self.span_ps;
        let numbered = (self.first..).zip(&self.recent);
        numbered.filter(move |(_, transmission)| transmission.end_ps + span >= now_ps)
    }

    /// End of the carrier at `position_ps` of all transmissions that started there before
    /// `before_ps`; None without any.
    pub(super) fn carrier_end(&self, position_ps: u64, before_ps: u64) -> Option<u64> {
        let seen = self
            .recent
            .iter()
            .map(|transmission| transmission.interval_at(position_ps));
        seen.filter(|(start, _)| *start < before_ps)
            .map(|(_, end)| end)
            .max()
    }

    /// Whether transmission `number` reaches `position_ps` without overlapping another.
    pub(super) fn is_undamaged_at(&self, number: u64, position_ps: u64) -> bool {
        let Some(transmission) = self.get(number) else {
            return false;
        };
        if transmission.collided {
            return false;
        }
        let (start, end) = transmission.interval_at(position_ps);
        !transmission.may_overlap
            || (self.first..)
                .zip(&self.recent)
                .all(|(other, transmission)| {
                    let (from, to) = transmission.interval_at(position_ps);
                    other == number || to <= start || from >= end
                })
    }

    /// Removes transmissions that no station can sense any more, alone or as an overlap.
    pub(super) fn prune(&mut self, now_ps: u64, gap_ps: u64) {
        let margin = 2 * self.span_ps + gap_ps;
        let is_gone = |transmission: &Transmission, at_ps| transmission.end_ps + margin < at_ps;
        if !self.recent.front().is_some_and(|a| is_gone(a, now_ps)) {
            return;
        }
        let under_way = self
            .in_progress(now_ps)
            .map(|(_, transmission)| transmission.start_ps);
        let since_ps = under_way.min().map_or(now_ps, |start| start.min(now_ps));
        while let Some(oldest) = self
            .recent
            .front()
            .copied()
            .filter(|a| is_gone(a, since_ps))
        {
            self.account_for(&oldest);
            self.recent.pop_front();
            self.first += 1;
        }
    }

    /// Adds a finished transmission to the account.
    fn account_for(&mut self, transmission: &Transmission) {
        let from = self.accounted_ps.max(transmission.start_ps);
        self.account.idle_ps += from - self.accounted_ps;
        let busy = transmission.end_ps.saturating_sub(from);
        if transmission.collided {
            self.account.collided_ps += busy;
        } else {
            self.account.carrying_ps += busy;
        }
        self.accounted_ps = from + busy;
    }

    /// The account up to `now_ps`, transmissions in progress included up to then.
    pub(super) fn account_at(&self, now_ps: u64) -> Account {
        let mut rest = Cable {
            account: self.account,
            accounted_ps: self.accounted_ps,
            ..Cable::default()
        };
        for transmission in &self.recent {
            let mut transmission = *transmission;
            transmission.end_ps = transmission.end_ps.min(now_ps);
            rest.account_for(&transmission);
        }
        rest.account.idle_ps += now_ps.saturating_sub(rest.accounted_ps);
        rest.account
    }
}
