//! Links emulated in this process: frames are read from one host's interface, delayed by the model,
//! and written to another's.
//!
//! * [`link_thread`] - the thread: read, ask the model, wait, write.
//! * [`link_report`] - what it counted.
//! * [`path_model`] - the fate of frames on a path.
//! * [`ether`] - the same for an Ethernet that all hosts share.
//! * `membership` - IGMP and MLD, which pass beside the model.
//! * `sleep_latency` - how late the thread's sleeps end, by which it shortens them.
//! * [`delay_queue`] - frames in flight, by arrival time.
//! * `queue_record` - the queue over time, on request.
//! * [`superframe`] - GSO super-frames, and their size on the wire.
//!
//! A frame's arrival is stamped when it is read; for one that ends a sleep the usual wake-up
//! latency is subtracted. How late frames are written is reported as lag. The threads' CPU time is
//! measured separately and charged to no host.

pub mod delay_queue;
pub mod ether;
pub mod link_report;
pub mod link_thread;
mod membership;
pub mod path_model;
pub(crate) mod queue_record;
mod sleep_latency;
pub mod superframe;

use crate::error::TestbedError;
use crate::plan::LinkEnds;
use ether::{EtherKind, EtherModel};
use link::Path;
use link_report::LinkReport;
use link_thread::{LinkThread, Port};
use path_model::PathModel;

/// A running emulated link.
#[derive(Debug)]
pub struct Emulator {
    lanes: Vec<LinkThread>,
}

impl Emulator {
    /// A path between the two ends of `ends`, with a thread for each direction.
    pub(crate) fn path(
        ports: Vec<Port>,
        ends: LinkEnds,
        path: &Path,
        seed: u64,
        super_frames: bool,
    ) -> Result<Emulator, TestbedError> {
        let side = |wanted: usize| -> Result<Vec<Option<Port>>, TestbedError> {
            let all = ports.iter().enumerate();
            all.map(|(at, port)| {
                (ends.of(at) == wanted)
                    .then(|| port.try_clone())
                    .transpose()
            })
            .collect::<std::io::Result<_>>()
            .map_err(TestbedError::kernel("a second descriptor of a device"))
        };
        let mut lanes = Vec::new();
        for direction in 0..2 {
            let model = PathModel::new(path.clone(), direction, seed, super_frames);
            let (from, to) = (side(direction)?, side(1 - direction)?);
            let name = if direction == 0 {
                "link-there"
            } else {
                "link-back"
            };
            lanes.push(LinkThread::start(name, from, to, model)?);
        }
        Ok(Emulator { lanes })
    }

    /// One Ethernet for all ports, with one thread.
    pub(crate) fn ether(
        ports: Vec<Port>,
        kind: EtherKind,
        seed: u64,
    ) -> Result<Emulator, TestbedError> {
        let model = EtherModel::new(kind, ports.len(), seed);
        let outputs = ports.iter().map(|port| port.try_clone().map(Some));
        let outputs = outputs
            .collect::<std::io::Result<_>>()
            .map_err(TestbedError::kernel("a second descriptor of a device"))?;
        let from = ports.into_iter().map(Some).collect();
        let lanes = vec![LinkThread::start("ether", from, outputs, model)?];
        Ok(Emulator { lanes })
    }

    /// Measures the threads' wake-up latency, while idle.
    pub(crate) fn measure_wakeup(&self) {
        self.lanes.iter().for_each(LinkThread::measure_wakeup);
    }

    /// Begins a measurement: counters and schedule restart, and `seed` decides the fate of each
    /// frame. Outside measurements the link has its rate and delay but no faults.
    pub fn begin(&self, seed: u64) {
        self.lanes.iter().for_each(|lane| lane.begin(seed));
    }

    /// Ends the measurement; reports each direction, or the shared Ethernet as one.
    pub fn end(&self) -> Vec<LinkReport> {
        self.lanes.iter().map(LinkThread::end).collect()
    }

    /// Records from now on how much waits in the queue of each direction, at most once every `every_ns`; of a
    /// shared Ethernet, at the interface of the first host and of the second.
    pub fn record_queues(&self, every_ns: u64) {
        self.lanes
            .iter()
            .for_each(|lane| lane.record_queues(every_ns));
    }

    /// Ends the record: (CLOCK_MONOTONIC in ns, octets) of each direction. It is empty for a direction
    /// without a rate, and where nothing was recorded.
    pub fn take_queues(&self) -> [Vec<(u64, u64)>; 2] {
        match &self.lanes[..] {
            [shared] => shared.take_queues(),
            lanes => {
                let mut all = lanes.iter().map(|lane| {
                    let [queue, _] = lane.take_queues();
                    queue
                });
                [0; 2].map(|_| all.next().unwrap_or_default())
            }
        }
    }

    /// Reports each direction since [`Emulator::begin`].
    pub fn report(&self) -> Vec<LinkReport> {
        self.lanes.iter().map(LinkThread::report).collect()
    }
}
