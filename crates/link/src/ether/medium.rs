//! What is on the cable, and what a station sees of it.

use super::event::{EtherFrame, EtherTime as Account};
use std::collections::VecDeque;

/// A transmission, begun and perhaps still going on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
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
    pub(super) crowded: bool,
    /// The frame.
    pub(super) frame: EtherFrame,
}

impl Activity {
    /// How long it travels to `position_ps`.
    pub(super) fn distance(&self, position_ps: u64) -> u64 {
        self.position_ps.abs_diff(position_ps)
    }

    fn seen(&self, position_ps: u64) -> (u64, u64) {
        let distance = self.distance(position_ps);
        (self.start_ps + distance, self.end_ps + distance)
    }
}

/// The recent transmissions, oldest first, numbered.
#[derive(Clone, Debug, Default)]
pub(super) struct Cable {
    recent: VecDeque<Activity>,
    first: u64,
    /// Largest distance between two stations, ps.
    span_ps: u64,
    low_ps: Option<u64>,
    high_ps: u64,
    /// The cable is accounted for up to here.
    covered_ps: u64,
    pub(super) account: Account,
}

impl Cable {
    /// Makes room for a station at `position_ps`.
    pub(super) fn reach(&mut self, position_ps: u64) {
        let low = self.low_ps.map_or(position_ps, |low| low.min(position_ps));
        self.low_ps = Some(low);
        self.high_ps = self.high_ps.max(position_ps);
        self.span_ps = self.high_ps - low;
    }

    /// Adds a transmission that begins now and gives its number.
    pub(super) fn begin(&mut self, mut activity: Activity) -> u64 {
        let since = activity.start_ps;
        let span = self.span_ps;
        for other in self.recent.iter_mut() {
            if other.end_ps + 2 * span > since {
                other.crowded = true;
                activity.crowded = true;
            }
        }
        self.recent.push_back(activity);
        self.first + self.recent.len() as u64 - 1
    }

    pub(super) fn get(&self, number: u64) -> Option<&Activity> {
        self.recent.get(number.checked_sub(self.first)? as usize)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Activity> {
        let index = number.checked_sub(self.first)?;
        self.recent.get_mut(index as usize)
    }

    /// Transmissions that may still matter to somebody at `now_ps`, with their numbers.
    pub(super) fn live(&self, now_ps: u64) -> impl Iterator<Item = (u64, &Activity)> {
        let span = self.span_ps;
        let numbered = (self.first..).zip(&self.recent);
        numbered.filter(move |(_, activity)| activity.end_ps + span >= now_ps)
    }

    /// When what `position_ps` saw begin before `before_ps` is over there; None without any.
    pub(super) fn seen_end(&self, position_ps: u64, before_ps: u64) -> Option<u64> {
        let seen = self
            .recent
            .iter()
            .map(|activity| activity.seen(position_ps));
        seen.filter(|(start, _)| *start < before_ps)
            .map(|(_, end)| end)
            .max()
    }

    /// Whether transmission `number` reaches `position_ps` without another over it.
    pub(super) fn is_whole_at(&self, number: u64, position_ps: u64) -> bool {
        let Some(activity) = self.get(number) else {
            return false;
        };
        if activity.collided {
            return false;
        }
        let (start, end) = activity.seen(position_ps);
        !activity.crowded
            || (self.first..).zip(&self.recent).all(|(other, activity)| {
                let (from, to) = activity.seen(position_ps);
                other == number || to <= start || from >= end
            })
    }

    /// Forgets what nobody can see any more, by itself or over another transmission.
    pub(super) fn forget(&mut self, now_ps: u64, gap_ps: u64) {
        let margin = 2 * self.span_ps + gap_ps;
        let is_gone = |activity: &Activity, at_ps| activity.end_ps + margin < at_ps;
        if !self.recent.front().is_some_and(|a| is_gone(a, now_ps)) {
            return;
        }
        let under_way = self.live(now_ps).map(|(_, activity)| activity.start_ps);
        let since_ps = under_way.min().map_or(now_ps, |start| start.min(now_ps));
        while let Some(oldest) = self
            .recent
            .front()
            .copied()
            .filter(|a| is_gone(a, since_ps))
        {
            self.settle(&oldest);
            self.recent.pop_front();
            self.first += 1;
        }
    }

    /// Adds a finished transmission to the account.
    fn settle(&mut self, activity: &Activity) {
        let from = self.covered_ps.max(activity.start_ps);
        self.account.idle_ps += from - self.covered_ps;
        let busy = activity.end_ps.saturating_sub(from);
        if activity.collided {
            self.account.collided_ps += busy;
        } else {
            self.account.carrying_ps += busy;
        }
        self.covered_ps = from + busy;
    }

    /// The account up to `now_ps`, transmissions under way included as far as they are.
    pub(super) fn account_at(&self, now_ps: u64) -> Account {
        let mut rest = Cable {
            account: self.account,
            covered_ps: self.covered_ps,
            ..Cable::default()
        };
        for activity in &self.recent {
            let mut activity = *activity;
            activity.end_ps = activity.end_ps.min(now_ps);
            rest.settle(&activity);
        }
        rest.account.idle_ps += now_ps.saturating_sub(rest.covered_ps);
        rest.account
    }
}
