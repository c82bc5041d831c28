//! Crashes, partitions, and circuits that are closed early.

use super::calls;
use super::{Network, ScheduledEvent};
use crate::disturbance::{Disturbance, PARTITIONS_MAX, Partition};
use crate::host::{self, Host, Role};
use crate::node::Node;

/// How long users wait before they reopen a circuit that was closed early: 1 s, ps.
const REOPEN_DELAY_PS: u64 = 1_000_000_000_000;

/// Circuits a run reopens at most, so that a peer that stays away costs a bounded time.
const REOPENS_MAX: u64 = 100_000;

impl Network {
    /// Schedules a disturbance at `at_ps`.
    ///
    /// # Panics
    ///
    /// When it names a station that does not exist.
    pub fn disturb(&mut self, at_ps: u64, what: Disturbance) {
        match &what {
            Disturbance::Crash(station) | Disturbance::Restart(station, _) => {
                assert!(*station < self.hosts.len(), "station {station}");
            }
            Disturbance::Partition(cut, stations) | Disturbance::Heal(cut, stations) => {
                assert!(cut.path.is_none_or(|path| path < self.media.len()));
                assert!(stations.iter().all(|&station| station < self.hosts.len()));
            }
            Disturbance::Faults(path, _) => {
                assert!(*path < self.media.len(), "path {path}");
            }
            Disturbance::CutRings(stations) | Disturbance::AllowRings(stations) => {
                assert!(stations.iter().all(|&station| station < self.hosts.len()));
            }
        }
        let index = self.disturbances.len();
        self.disturbances.push(Some(what));
        self.queue
            .push(at_ps, 0, ScheduledEvent::Disturbance { index });
    }

    pub(super) fn apply_disturbance(&mut self, index: usize) {
        match self.disturbances[index].take() {
            Some(Disturbance::Crash(station)) => self.crash(station),
            Some(Disturbance::Restart(station, engine)) => self.restart(station, engine),
            Some(Disturbance::Partition(cut, stations)) => self.set_partition(cut, &stations, true),
            Some(Disturbance::Heal(cut, stations)) => self.set_partition(cut, &stations, false),
            Some(Disturbance::Faults(path, config)) => self.media[path].set_faults(config),
            Some(Disturbance::CutRings(stations)) => self.cut_rings(&stations),
            Some(Disturbance::AllowRings(stations)) => self.allow_rings(&stations),
            None => {}
        }
    }

    fn set_partition(&mut self, cut: Partition, stations: &[usize], apart: bool) {
        let bit = 1u64 << (cut.number % PARTITIONS_MAX);
        let paths = match cut.path {
            Some(path) => path..path + 1,
            None => 0..self.media.len(),
        };
        for of_path in &mut self.partitions[paths] {
            for &station in stations {
                match apart {
                    true => of_path[station] |= bit,
                    false => of_path[station] &= !bit,
                }
            }
        }
    }

    /// Whether frames pass from one station to another by a path.
    pub(super) fn is_reachable(&self, from: usize, to: usize, path: usize) -> bool {
        let of_path = &self.partitions[path];
        self.hosts[to].is_up && of_path[from] == of_path[to]
    }

    fn crash(&mut self, station: usize) {
        if !self.hosts[station].is_up {
            return;
        }
        for tag in self.hosts[station].stop() {
            self.frames.release(tag);
        }
        self.end_rings(&[station]);
        for role in self.hosts[station].forget_circuits() {
            match role {
                Role::Sends(flow) => {
                    self.give_up(flow);
                    self.hosts[station].interrupted.push(flow);
                }
                Role::Receives { flow, receiver } => self.flows[flow].mark_receiver_lost(receiver),
            }
        }
        self.crash_calls(station);
    }

    fn restart(&mut self, station: usize, mut engine: Node) {
        if self.hosts[station].is_up {
            return;
        }
        if let Some(users) = engine.users_mut() {
            users.listen(true);
        }
        calls::create_entity(&mut engine, station);
        self.join_groups(&mut engine, station);
        let old = &mut self.hosts[station];
        old.restart(engine);
        for flow in std::mem::take(&mut old.interrupted) {
            self.reopen_flow(flow);
        }
        self.run_processes(station);
    }

    /// The circuit of `flow` was closed early: its unsettled messages are given up.
    pub(super) fn give_up(&mut self, flow: usize) {
        let given_up = self.flows[flow].give_up();
        self.unsettled -= given_up;
        self.release_outstanding(self.flows[flow].source, given_up);
    }

    /// The user of a closed circuit opens another one after a pause.
    pub(super) fn handle_closed(&mut self, flow: usize) {
        self.give_up(flow);
        let at_ps = self.now_ps + REOPEN_DELAY_PS;
        self.queue.push(at_ps, 1, ScheduledEvent::Reopen { flow });
    }

    /// Opens a circuit in the place of `flow`.
    pub(super) fn reopen_flow(&mut self, flow: usize) {
        let (from, to) = (self.flows[flow].from, self.flows[flow].to);
        if !self.hosts[from].is_up || self.reopened >= REOPENS_MAX {
            return;
        }
        self.reopened += 1;
        let source = self.flows[flow].source;
        let Ok(new) = self.open_flow(from, to, source) else {
            return;
        };
        let sources = self.sources.iter_mut();
        let slots = sources.flat_map(|source| source.flows.iter_mut().flatten());
        for receiver in slots.filter(|receiver| **receiver == flow) {
            *receiver = new;
        }
        self.hosts[from].signal(crate::host::Process::Sender);
        self.run_processes(from);
    }
}

impl Host {
    /// Stops the station; returns the packets it had queued.
    fn stop(&mut self) -> Vec<u64> {
        let mut tags: Vec<u64> = self.receiver.drain(..).map(|packet| packet.tag).collect();
        tags.extend(self.built.take());
        self.is_up = false;
        self.halt();
        self.writer.clear();
        self.reader.clear();
        self.unread_bytes = 0;
        self.read_jobs.clear();
        self.timer_at_ps = None;
        tags
    }

    fn forget_circuits(&mut self) -> Vec<Role> {
        std::mem::take(&mut self.circuits).into_values().collect()
    }

    fn restart(&mut self, engine: Node) {
        self.report_mut().counters = self.counters();
        self.messages = host::messages_of(&engine);
        self.layer = self.layer.as_ref().map(|layer| Box::new(layer.restarted()));
        self.engine = engine;
        self.is_up = true;
    }
}
