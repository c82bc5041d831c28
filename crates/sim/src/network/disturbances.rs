//! Crashes, cuts, and circuits that end before their time.

use super::{Due, Network};
use crate::disturbance::{CUTS_MAX, Disturbance};
use crate::host::{Host, Role};
use engine::Engine;

/// How long users wait before they open a circuit again that ended before its time: 1 s, ps.
const AGAIN_PS: u64 = 1_000_000_000_000;

/// Circuits a run opens again at most, so that a peer that is away for good costs a bounded time.
const AGAIN_MAX: u64 = 100_000;

impl<E: Engine> Network<E> {
    /// Lets something happen at `at_ps`.
    ///
    /// # Panics
    ///
    /// When it names a station that does not exist.
    pub fn disturb(&mut self, at_ps: u64, what: Disturbance<E>) {
        match &what {
            Disturbance::Crash(station) | Disturbance::Restart(station, _) => {
                assert!(*station < self.hosts.len(), "station {station}");
            }
            Disturbance::Cut(_, stations) | Disturbance::Join(_, stations) => {
                assert!(stations.iter().all(|&station| station < self.hosts.len()));
            }
            Disturbance::Faults(_) => {}
        }
        let index = self.disturbances.len();
        self.disturbances.push(Some(what));
        self.queue.push(at_ps, 0, Due::Disturbed { index });
    }

    pub(super) fn happen(&mut self, index: usize) {
        match self.disturbances[index].take() {
            Some(Disturbance::Crash(station)) => self.crash(station),
            Some(Disturbance::Restart(station, engine)) => self.restart(station, engine),
            Some(Disturbance::Cut(cut, stations)) => self.move_apart(cut, &stations, true),
            Some(Disturbance::Join(cut, stations)) => self.move_apart(cut, &stations, false),
            Some(Disturbance::Faults(config)) => self.medium.change(config),
            None => {}
        }
    }

    fn move_apart(&mut self, cut: u32, stations: &[usize], apart: bool) {
        let bit = 1u64 << (cut % CUTS_MAX);
        for &station in stations {
            let side = &mut self.hosts[station].side;
            *side = if apart { *side | bit } else { *side & !bit };
        }
    }

    /// Whether frames pass from one station to another.
    pub(super) fn passes(&self, from: usize, to: usize) -> bool {
        let (from, to) = (&self.hosts[from], &self.hosts[to]);
        to.is_up && from.side == to.side
    }

    fn crash(&mut self, station: usize) {
        if !self.hosts[station].is_up {
            return;
        }
        for tag in self.hosts[station].stop() {
            self.frames.release(tag);
        }
        for role in self.hosts[station].forget_circuits() {
            match role {
                Role::Sends(flow) => {
                    self.give_up(flow);
                    self.hosts[station].interrupted.push(flow);
                }
                Role::Receives { flow, place } => self.flows[flow].forget(place),
            }
        }
    }

    fn restart(&mut self, station: usize, mut engine: E) {
        if self.hosts[station].is_up {
            return;
        }
        engine.listen(true);
        let old = &mut self.hosts[station];
        old.restart(engine);
        for flow in std::mem::take(&mut old.interrupted) {
            self.open_again(flow);
        }
        self.serve(station);
    }

    /// The circuit of `flow` ended before its time: what is not settled never will be.
    pub(super) fn give_up(&mut self, flow: usize) {
        let given_up = self.flows[flow].give_up();
        self.unsettled -= given_up;
        self.room_for_more(self.flows[flow].source, given_up);
    }

    /// The user of a circuit that ended opens another one after a pause.
    pub(super) fn ended(&mut self, flow: usize) {
        self.give_up(flow);
        let at_ps = self.now_ps + AGAIN_PS;
        self.queue.push(at_ps, 1, Due::Again { flow });
    }

    /// Opens a circuit in the place of `flow`.
    pub(super) fn open_again(&mut self, flow: usize) {
        let (from, to) = (self.flows[flow].from, self.flows[flow].to);
        if !self.hosts[from].is_up || self.opened_again >= AGAIN_MAX {
            return;
        }
        self.opened_again += 1;
        let source = self.flows[flow].source;
        let Ok(new) = self.open(from, to, source) else {
            return;
        };
        let sources = self.sources.iter_mut();
        let places = sources.flat_map(|source| source.flows.iter_mut().flatten());
        for place in places.filter(|place| **place == flow) {
            *place = new;
        }
        self.hosts[from].signal(crate::host::Process::Sender);
        self.serve(from);
    }
}

impl<E: Engine> Host<E> {
    /// Stops at once; gives the packets it had before it.
    fn stop(&mut self) -> Vec<u64> {
        let mut tags: Vec<u64> = self.receiver.drain(..).map(|packet| packet.tag).collect();
        tags.extend(self.built.take());
        self.is_up = false;
        self.halt();
        self.writer.clear();
        self.reader.clear();
        self.found.clear();
        self.batch.clear();
        self.timer_at_ps = None;
        tags
    }

    fn forget_circuits(&mut self) -> Vec<Role> {
        std::mem::take(&mut self.circuits).into_values().collect()
    }

    fn restart(&mut self, engine: E) {
        self.report.counters = self.counters();
        self.engine = engine;
        self.is_up = true;
    }
}
