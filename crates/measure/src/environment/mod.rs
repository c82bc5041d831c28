//! What surrounds the trials of a race: the places of the two workers, the link between them,
//! loads.
//!
//! * [`Stage`] - what a race needs to know of it. Two places that nothing else is known of are one.
//! * [`hosts`] - hosts of a testbed or this one, with loads, in as many settings as asked for.
//! * [`loads`] - loads in words.

pub mod loads;
pub mod local;

pub use loads::HostLoads;
pub use local::{EnvironmentPlan, LocalEnvironment};

use crate::worker_host::WorkerHost;
use results::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

/// What surrounds trials.
pub trait Environment {
    /// Its settings, each with the factors it adds to a cell; one without any where nothing varies.
    fn settings(&self) -> Vec<Cell> {
        vec![Cell::default()]
    }

    /// Puts a setting in force.
    ///
    /// # Errors
    ///
    /// A sentence when that cannot be done; the trials of the setting fail with it.
    fn apply_setting(&mut self, _setting: usize) -> Result<(), String> {
        Ok(())
    }

    /// Where the connecting and the listening worker run; of several pairs the first one's.
    fn worker_hosts(&self) -> (&dyn WorkerHost, &dyn WorkerHost);

    /// All pairs of places that circuits run between in this setting; a trial has workers for each, and
    /// they run at once.
    fn host_pairs(&self) -> Vec<HostPair<'_>> {
        let (connector, listener) = self.worker_hosts();
        vec![HostPair {
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
    fn workers_spawned(&mut self, _connector: u32, _listener: u32) -> Result<(), String> {
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
    fn path_delay_max(&self) -> Duration {
        Duration::ZERO
    }

    /// The measured span begins; random choices of the link follow `seed`.
    fn begin(&mut self, _seed: u64) {}

    /// The measured span has ended: what the surroundings did meanwhile.
    fn end(&mut self) -> EnvironmentReport {
        EnvironmentReport::default()
    }
}

impl Environment for (&dyn WorkerHost, &dyn WorkerHost) {
    fn worker_hosts(&self) -> (&dyn WorkerHost, &dyn WorkerHost) {
        *self
    }
}

/// Two places that circuits run between.
pub struct HostPair<'a> {
    /// What to call the pair where there are several.
    pub name: String,
    /// Where circuits are opened.
    pub connector: &'a dyn WorkerHost,
    /// Where they are awaited.
    pub listener: &'a dyn WorkerHost,
}

/// What surrounded a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvironmentReport {
    /// The link from the connecting to the listening host, and back; None where the kernel's own
    /// carries the packets.
    pub link: Option<[LinkStats; 2]>,
    /// Packets cross a network with queues and losses that nobody here can count.
    pub crosses_network: bool,
    /// Processor seconds that neither worker is charged for, by what took them: `link`, `load`.
    pub cpu_s: BTreeMap<String, f64>,
    /// Processor seconds of those that other processes than this one spent.
    pub other_process_cpu_s: f64,
    /// Evidence by name.
    pub evidence: BTreeMap<String, f64>,
    /// What makes the trial doubtful.
    pub disturbed: Vec<String>,
}

/// What one direction of a link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Frames sent into it.
    pub frames: u64,
    /// Octets of them.
    pub bytes: u64,
    /// Frames it lost, dropped or cut off.
    pub lost: u64,
    /// Frames it damaged.
    pub corrupted: u64,
    /// Frames it delivered twice.
    pub duplicated: u64,
    /// Frames on their way at the end.
    pub in_flight: u64,
}

impl std::ops::Add for LinkStats {
    type Output = LinkStats;

    fn add(self, other: LinkStats) -> LinkStats {
        LinkStats {
            frames: self.frames + other.frames,
            bytes: self.bytes + other.bytes,
            lost: self.lost + other.lost,
            corrupted: self.corrupted + other.corrupted,
            duplicated: self.duplicated + other.duplicated,
            in_flight: self.in_flight + other.in_flight,
        }
    }
}
