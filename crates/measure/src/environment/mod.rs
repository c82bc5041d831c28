//! The environment of trials: hosts of the workers, the link between them, background loads.
//!
//! * [`Environment`] - the trait; a plain pair of worker hosts implements it.
//! * [`local`] - this machine or hosts of a testbed on it, with loads.
//! * `links` - what emulated links did, as evidence.
//! * [`loads`] - parser of loads.

mod links;
pub mod loads;
pub mod local;

pub use loads::HostLoads;
pub use local::{EnvironmentPlan, LocalEnvironment};

use loadgen::worker_host::WorkerHost;
use results::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

/// Hosts, link and loads of trials.
pub trait Environment {
    /// Its settings, each with the factors it adds to a cell; a single empty one where nothing
    /// varies.
    fn settings(&self) -> Vec<Cell> {
        vec![Cell::default()]
    }

    /// Applies a setting.
    ///
    /// # Errors
    ///
    /// A sentence, with which the trials of the setting fail.
    fn apply_setting(&mut self, _setting: usize) -> Result<(), String> {
        Ok(())
    }

    /// Hosts of the connecting and the listening worker; those of the first pair if there are
    /// several.
    fn worker_hosts(&self) -> (&dyn WorkerHost, &dyn WorkerHost);

    /// All host pairs of this setting. A trial has two workers for each pair, and all run at once.
    fn host_pairs(&self) -> Vec<HostPair<'_>> {
        let (connector, listener) = self.worker_hosts();
        vec![HostPair {
            name: String::new(),
            connector,
            listener,
        }]
    }

    /// Called after the workers were spawned and before set-up, with the PIDs of the first pair.
    ///
    /// # Errors
    ///
    /// A sentence, with which the trial fails.
    fn workers_spawned(&mut self, _connector: u32, _listener: u32) -> Result<(), String> {
        Ok(())
    }

    /// Why so many contestants could not pause while others run, or would not measure the same here;
    /// None where they can.
    fn pause_hindrance(&self, _contestants: usize) -> Option<String> {
        None
    }

    /// Counters of the participating hosts.
    fn snapshot(&self) -> host::Snapshot {
        host::Snapshot::take()
    }

    /// The interfaces the traffic runs over, one a link.
    fn interfaces(&self) -> Vec<String> {
        vec!["lo".to_owned()]
    }

    /// Largest one-way delay between the hosts.
    fn path_delay_max(&self) -> Duration {
        Duration::ZERO
    }

    /// The next span's report has the queues of the first link, a point at most every `every_ns`.
    fn record_queues(&mut self, _every_ns: u64) {}

    /// The measured span begins; `seed` drives the random choices of the link.
    fn begin(&mut self, _seed: u64) {}

    /// The measured span has ended; returns what link and loads did.
    fn end(&mut self) -> EnvironmentReport {
        EnvironmentReport::default()
    }
}

impl Environment for (&dyn WorkerHost, &dyn WorkerHost) {
    fn worker_hosts(&self) -> (&dyn WorkerHost, &dyn WorkerHost) {
        *self
    }
}

/// The two hosts of a trial's circuits.
pub struct HostPair<'a> {
    /// Name of the pair where there are several.
    pub name: String,
    /// Host that opens circuits.
    pub connector: &'a dyn WorkerHost,
    /// Host that accepts circuits.
    pub listener: &'a dyn WorkerHost,
}

/// What link and loads did during a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvironmentReport {
    /// The emulated links side by side, each from the connecting to the listening host and back;
    /// empty without one.
    pub links: Vec<[LinkStats; 2]>,
    /// Bits a second that the links side by side carry together; None where one has no limit.
    pub link_rate: Option<LinkRate>,
    /// The queue of the first link over time, to the listening host and back: (CLOCK_MONOTONIC in ns,
    /// octets). Empty unless asked for, and where nothing waits.
    pub queues: [Vec<(u64, u64)>; 2],
    /// Why there are none although they were asked for: what the queue "is".
    pub no_queue: Option<String>,
    /// Packets cross a network whose drops are not visible here.
    pub crosses_network: bool,
    /// CPU seconds outside the workers, by consumer: `link`, `load`.
    pub cpu_s: BTreeMap<String, f64>,
    /// CPU seconds of these that other processes than this one spent.
    pub other_process_cpu_s: f64,
    /// Evidence by name.
    pub evidence: BTreeMap<String, f64>,
    /// Disturbances of the trial.
    pub disturbed: Vec<String>,
}

/// Bits a second that links carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkRate {
    /// To the listening host, and back.
    EachWay([f64; 2]),
    /// Both ways together: a shared Ethernet.
    Shared(f64),
}

/// Counters of one link direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Frames sent into it.
    pub frames: u64,
    /// Octets of them.
    pub bytes: u64,
    /// Frames lost, dropped, or cut off by an outage.
    pub lost: u64,
    /// Frames corrupted.
    pub corrupted: u64,
    /// Frames duplicated.
    pub duplicated: u64,
    /// Frames in flight at the end.
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
