//! What surrounds the trials of a race: the places of the two workers, the link between them,
//! loads.
//!
//! * [`Stage`] - what a race needs to know of it. Two places that nothing else is known of are one.
//! * [`hosts`] - hosts of a testbed or this one, with loads, in as many settings as asked for.
//! * [`loads`] - loads in words.

pub mod hosts;
pub mod loads;

pub use hosts::{HostsStage, StagePlan};
pub use loads::HostLoads;

use crate::place::Place;
use results::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

/// What surrounds trials.
pub trait Stage {
    /// Its settings, each with the factors it adds to a cell; one without any where nothing varies.
    fn settings(&self) -> Vec<Cell> {
        vec![Cell::default()]
    }

    /// Puts a setting in force.
    ///
    /// # Errors
    ///
    /// A sentence when that cannot be done; the trials of the setting fail with it.
    fn set(&mut self, _setting: usize) -> Result<(), String> {
        Ok(())
    }

    /// Where the connecting and the listening worker run; of several pairs the first one's.
    fn places(&self) -> (&dyn Place, &dyn Place);

    /// All pairs of places that circuits run between in this setting; a trial has workers for each, and
    /// they run at once.
    fn between(&self) -> Vec<Between<'_>> {
        let (connector, listener) = self.places();
        vec![Between {
            name: String::new(),
            connector,
            listener,
        }]
    }

    /// The workers of a trial are there, the first pair's by their processes' numbers, and have done nothing yet.
    ///
    /// # Errors
    ///
    /// A sentence when the trial cannot go on; it fails with it.
    fn spawned(&mut self, _connector: u32, _listener: u32) -> Result<(), String> {
        Ok(())
    }

    /// Counters of the hosts that take part.
    fn snapshot(&self) -> host::Snapshot {
        host::Snapshot::take()
    }

    /// The interface the traffic runs over.
    fn interface(&self) -> &str {
        "lo"
    }

    /// The longest that a packet may be on its way between the places.
    fn longest_way(&self) -> Duration {
        Duration::ZERO
    }

    /// The measured span begins; random choices of the link follow `seed`.
    fn begin(&mut self, _seed: u64) {}

    /// The measured span has ended: what the surroundings did meanwhile.
    fn end(&mut self) -> Surroundings {
        Surroundings::default()
    }
}

impl Stage for (&dyn Place, &dyn Place) {
    fn places(&self) -> (&dyn Place, &dyn Place) {
        *self
    }
}

/// Two places that circuits run between.
pub struct Between<'a> {
    /// What to call the pair where there are several.
    pub name: String,
    /// Where circuits are opened.
    pub connector: &'a dyn Place,
    /// Where they are awaited.
    pub listener: &'a dyn Place,
}

/// What surrounded a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// The link from the connecting to the listening host, and back; None where the kernel's own
    /// carries the packets.
    pub link: Option<[Way; 2]>,
    /// Packets cross a network with queues and losses that nobody here can count.
    pub network: bool,
    /// Processor seconds that neither worker is charged for, by what took them: `link`, `load`.
    pub cpu_s: BTreeMap<String, f64>,
    /// Processor seconds of those that other processes than this one spent.
    pub outside_s: f64,
    /// Evidence by name.
    pub evidence: BTreeMap<String, f64>,
    /// What makes the trial doubtful.
    pub disturbed: Vec<String>,
}

/// What one direction of a link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Frames sent into it.
    pub frames: u64,
    /// Octets of them.
    pub bytes: u64,
    /// Frames it lost, dropped or cut off.
    pub lost: u64,
    /// Frames it damaged.
    pub damaged: u64,
    /// Frames it delivered twice.
    pub doubled: u64,
    /// Frames on their way at the end.
    pub in_flight: u64,
}

impl std::ops::Add for Way {
    type Output = Way;

    fn add(self, other: Way) -> Way {
        Way {
            frames: self.frames + other.frames,
            bytes: self.bytes + other.bytes,
            lost: self.lost + other.lost,
            damaged: self.damaged + other.damaged,
            doubled: self.doubled + other.doubled,
            in_flight: self.in_flight + other.in_flight,
        }
    }
}
