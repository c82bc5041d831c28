//! Both directions of a path, and how they change with time.

use crate::config::LinkConfig;

/// Both directions of a path between two hosts, and what they change to while it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// From the first host to the second, and back.
    pub directions: [LinkConfig; 2],
    /// Changes, by ascending time.
    pub schedule: Vec<PathChange>,
}

/// A path becomes another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// When, ps since its use began.
    pub at_ps: u64,
    /// What it is from then on.
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

    /// What it is at `at_ps` since its use began.
    pub fn at(&self, at_ps: u64) -> [LinkConfig; 2] {
        let past = self.schedule.iter().take_while(|step| step.at_ps <= at_ps);
        past.last().map_or(self.directions, |step| step.directions)
    }

    /// When it changes next after `at_ps`, ps since its use began.
    pub fn next_change_ps(&self, at_ps: u64) -> Option<u64> {
        let mut times = self.schedule.iter().map(|step| step.at_ps);
        times.find(|&time| time > at_ps)
    }

    /// Everything either direction is at some time.
    pub fn all(&self) -> impl Iterator<Item = &LinkConfig> {
        let later = self.schedule.iter().flat_map(|step| &step.directions);
        self.directions.iter().chain(later)
    }
}
