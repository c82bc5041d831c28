//! Both directions of a path, and their changes over time.

use crate::config::LinkConfig;

/// Both directions of a path between two hosts, and their scheduled changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// From the first host to the second, and back.
    pub directions: [LinkConfig; 2],
    /// Changes, by ascending time.
    pub schedule: Vec<PathChange>,
}

/// A scheduled change of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// Time of the change, ps since the start.
    pub at_ps: u64,
    /// Both directions from then on.
    pub directions: [LinkConfig; 2],
}

impl Path {
    /// A path that is the same in both directions and never changes.
    pub fn both(config: LinkConfig) -> Path {
        Path {
            directions: [config; 2],
            schedule: Vec::new(),
        }
    }

    /// Both directions at `at_ps` since the start.
    pub fn at(&self, at_ps: u64) -> [LinkConfig; 2] {
        let past = self.schedule.iter().take_while(|step| step.at_ps <= at_ps);
        past.last().map_or(self.directions, |step| step.directions)
    }

    /// Time of the next change after `at_ps`, ps since the start.
    pub fn next_change_ps(&self, at_ps: u64) -> Option<u64> {
        let mut times = self.schedule.iter().map(|step| step.at_ps);
        times.find(|&time| time > at_ps)
    }

    /// Every configuration that either direction has at some time.
    pub fn all(&self) -> impl Iterator<Item = &LinkConfig> {
        let later = self.schedule.iter().flat_map(|step| &step.directions);
        self.directions.iter().chain(later)
    }
}
