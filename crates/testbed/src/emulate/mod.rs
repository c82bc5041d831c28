//! Links emulated in this process: frames read from one host's interface, kept as long as the
//! model says, written to another's.
//!
//! * [`lane`] - a thread: read, ask the model, wait, write.
//! * [`carrier`] - what a model makes of frames, and the frames it keeps meanwhile.
//! * [`ether`] - the same for a cable that all hosts share.
//! * [`store`] - frames under way, by the time of their arrival.
//! * [`superframe`] - many segments in one frame, and what they are on a wire.
//!
//! A frame's arrival at the link is stamped when it is read; one that ends a sleep has come as long
//! before as the lane usually takes to wake. How much later than due frames were
//! written is reported as lag. The processor time of the lanes is measured by itself; no host is
//! charged for it.

pub mod delay_queue;
pub mod ether;
pub mod link_thread;
pub mod path_model;
pub mod superframe;

use crate::error::TestbedError;
use ether::{EtherKind, EtherModel};
use link::Path;
use link_thread::{LinkReport, LinkThread, Port};
use path_model::PathModel;

/// An emulated link at work.
#[derive(Debug)]
pub struct Emulator {
    lanes: Vec<LinkThread>,
}

impl Emulator {
    /// A path between ports at even places and those at odd ones, a lane for each direction.
    pub(crate) fn path(
        ports: Vec<Port>,
        path: &Path,
        seed: u64,
        super_frames: bool,
    ) -> Result<Emulator, TestbedError> {
        let side = |wanted: usize| -> Result<Vec<Option<Port>>, TestbedError> {
            let all = ports.iter().enumerate();
            all.map(|(at, port)| (at % 2 == wanted).then(|| port.try_clone()).transpose())
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

    /// One cable for all ports, and one lane.
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

    /// Learns how long its lanes take to wake, while nothing else is to do.
    pub(crate) fn measure_wakeup(&self) {
        self.lanes.iter().for_each(LinkThread::measure_wakeup);
    }

    /// Begins a measurement: counts start from zero, the schedule at its beginning, and the i-th
    /// frame meets the fate that `seed` has for it. Until then, and after [`Emulator::end`], the
    /// link has its rate and delay and no faults.
    pub fn begin(&self, seed: u64) {
        self.lanes.iter().for_each(|lane| lane.begin(seed));
    }

    /// Ends it; what each direction did since [`Emulator::begin`]; a shared ether is one
    /// lane.
    pub fn end(&self) -> Vec<LinkReport> {
        self.lanes.iter().map(LinkThread::end).collect()
    }

    /// What each direction did since [`Emulator::begin`] so far.
    pub fn report(&self) -> Vec<LinkReport> {
        self.lanes.iter().map(LinkThread::report).collect()
    }
}
