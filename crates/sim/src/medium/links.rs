//! One link a station, made when it is used first: of a thousand stations most may be idle.

use link::{FrameOutcome, Link, LinkConfig};

/// Links of the same configuration, one a station.
pub(super) struct StationLinks {
    config: LinkConfig,
    seed: u64,
    /// The direction of the first one, by which its random draws differ from those of others.
    first_direction: u32,
    links: Vec<Option<Box<Link>>>,
}

impl StationLinks {
    pub(super) fn new(config: LinkConfig, seed: u64, first: usize, stations: usize) -> Self {
        StationLinks {
            config,
            seed,
            first_direction: first as u32,
            links: vec![None; stations],
        }
    }

    /// The link of `station`.
    ///
    /// # Panics
    ///
    /// When there is no such station.
    pub(super) fn get_mut(&mut self, station: usize) -> &mut Link {
        let direction = self.first_direction + station as u32;
        self.links[station]
            .get_or_insert_with(|| Box::new(Link::new(self.config, self.seed, direction)))
    }

    /// What becomes of a frame of `octets` on the link of `station`.
    pub(super) fn offer(&mut self, station: usize, now_ps: u64, octets: usize) -> FrameOutcome {
        self.get_mut(station).offer(now_ps, octets)
    }

    /// How long what `station` has sent keeps its link busy, ps, and how long `octets` do; zeros where there is no
    /// such station.
    pub(super) fn backlog_ps(&self, station: usize, now_ps: u64, octets: usize) -> (u64, u64) {
        match self.links.get(station) {
            Some(Some(link)) => (link.backlog_ps(now_ps), link.time_ps(octets)),
            Some(None) => (0, Link::new(self.config, self.seed, 0).time_ps(octets)),
            None => (0, 0),
        }
    }

    /// The configuration of all of them.
    pub(super) fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Changes the configuration of all of them.
    pub(super) fn change(&mut self, config: LinkConfig) {
        self.config = config;
        let used = self.links.iter_mut().flatten();
        used.for_each(|link| link.change(config));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(mut offer: impl FnMut(usize, u64) -> FrameOutcome) -> Vec<FrameOutcome> {
        let frames = (0..300u64).map(|number| (number as usize * 7 % 5, number * 1_000_000));
        frames
            .map(|(station, at_ps)| offer(station, at_ps))
            .collect()
    }

    /// Made when they are used, links do what links do that were made before, also after a change.
    #[test]
    fn links_made_late_are_those_made_early() {
        let config = LinkConfig {
            rate_bps: Some(10_000_000),
            loss_ppm: 200_000,
            ..LinkConfig::default()
        };
        let changed = LinkConfig {
            loss_ppm: 500_000,
            ..config
        };
        let mut late = StationLinks::new(config, 9, 3, 5);
        let early = (3..8).map(|direction| Link::new(config, 9, direction));
        let mut early: Vec<Link> = early.collect();
        late.get_mut(1);
        late.change(changed);
        early.iter_mut().for_each(|link| link.change(changed));
        let of_early = outcomes(|station, at_ps| early[station].offer(at_ps, 1000));
        assert_eq!(
            outcomes(|station, at_ps| late.offer(station, at_ps, 1000)),
            of_early
        );
        assert!(of_early.iter().any(|outcome| outcome.arrival_ps.is_none()));
        let waiting = late.backlog_ps(0, 298_000_000, 1000);
        assert_eq!(
            waiting,
            (early[0].backlog_ps(298_000_000), early[0].time_ps(1000))
        );
        let unused = StationLinks::new(config, 9, 3, 5).backlog_ps(0, 0, 1000);
        assert_eq!(unused, (0, early[0].time_ps(1000)));
    }
}
