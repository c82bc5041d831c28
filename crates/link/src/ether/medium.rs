//! What is on the cable, and what a station sees of it.

use super::event::{EtherFrame, EtherTime as Account};
use std::collections::VecDeque;

/// A transmission, begun and perhaps still going on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transmission {
    /// Which station sends.
    pub(super) station: usize,
    /// Where it is, ps from the beginning of the cable.
    pub(super) position_ps: u64,
    /// The first bit leaves.
    pub(super) start_ps: u64,
    /// The last bit leaves; moved when a collision cuts it short.
    pub(super) end_ps: u64,
    /// It collided, as its sender saw it.
    pub(super) collided: bool,
    /// Another one was on the cable close in time: receivers look closely.
    pub(super) may_overlap: bool,
    /// The frame.
    pub(super) frame: EtherFrame,
}

impl Transmission {
    /// How long it travels to `position_ps`.
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
    /// The cable is accounted for up to here.
    accounted_ps: u64,
    pub(super) account: Account,
}

impl Cable {
    /// Makes room for a station at `position_ps`.
    pub(super) fn extend_to(&mut self, position_ps: u64) {
        let low = self.low_ps.map_or(position_ps, |low| low.min(position_ps));
        self.low_ps = Some(low);
        self.high_ps = self.high_ps.max(position_ps);
        self.span_ps = self.high_ps - low;
    }

    /// Adds a transmission that begins now and gives its number.
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

    /// Transmissions that may still matter to somebody at `now_ps`, with their numbers.
    pub(super) fn in_progress(&self, now_ps: u64) -> impl Iterator<Item = (u64, &Transmission)> {
        let span = self.span_ps;
        let numbered = (self.first..).zip(&self.recent);
        numbered.filter(move |(_, transmission)| transmission.end_ps + span >= now_ps)
    }

    /// When what `position_ps` saw begin before `before_ps` is over there; None without any.
    pub(super) fn carrier_end(&self, position_ps: u64, before_ps: u64) -> Option<u64> {
        let seen = self
            .recent
            .iter()
            .map(|transmission| transmission.interval_at(position_ps));
        seen.filter(|(start, _)| *start < before_ps)
            .map(|(_, end)| end)
            .max()
    }

    /// Whether transmission `number` reaches `position_ps` without another over it.
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

    /// Forgets what nobody can see any more, by itself or over another transmission.
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

    /// The account up to `now_ps`, transmissions under way included as far as they are.
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
