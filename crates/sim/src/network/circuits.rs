//! Circuits and timers: what engines say of them.

use super::{Due, Network};
use crate::flow::{Flow, Target};
use crate::host::{Role, address};
use engine::{Address, CircuitId, CommandError, Engine, Event};

impl<E: Engine> Network<E> {
    pub(super) fn open(&mut self, from: usize, to: Target) -> Result<usize, CommandError> {
        let now = self.now();
        let index = self.flows.len();
        let host = &mut self.hosts[from];
        let (framing, layout) = (host.engine.framing(), host.engine.layout());
        let mut flow = Flow::new(from, framing, layout.payload);
        let circuit = host.engine.connect(now, address(to))?;
        flow.circuit = Some(circuit);
        host.circuits.insert(circuit, Role::Sends(index));
        match to {
            Target::Station(station) => {
                flow.add_receiver(station);
            }
            Target::All => {
                for station in (0..self.hosts.len()).filter(|&station| station != from) {
                    flow.add_receiver(station);
                }
            }
        }
        self.flows.push(flow);
        self.drain_events(from, now.as_nanos() * 1000);
        Ok(index)
    }

    pub(super) fn drain_events(&mut self, station: usize, at_ps: u64) {
        while let Some(event) = self.hosts[station].engine.poll_event() {
            match event {
                Event::Connected(circuit) => self.connected(station, circuit),
                Event::Accepted(circuit, from) => self.accepted(station, circuit, from),
                Event::Released(circuit, position) => {
                    let role = self.hosts[station].circuits.get(&circuit);
                    if let Some(&Role::Sends(flow)) = role {
                        let flow = &mut self.flows[flow];
                        let before = flow.report.settled;
                        flow.note_released(at_ps, position);
                        let settled = flow.report.settled - before;
                        self.unsettled -= settled;
                        self.settled += settled;
                    }
                }
                Event::Finished(_) | Event::Closed(..) => {}
            }
        }
    }

    pub(super) fn connected(&mut self, station: usize, circuit: CircuitId) {
        let role = self.hosts[station].circuits.get(&circuit);
        let Some(&Role::Sends(flow)) = role else {
            return;
        };
        self.flows[flow].connected = true;
        while let Some(length) = self.flows[flow].early.pop_front() {
            self.write(flow, length);
        }
    }

    /// A circuit a peer opened belongs to the first flow from there that has none here yet.
    pub(super) fn accepted(&mut self, station: usize, circuit: CircuitId, from: Address) {
        let Address::Station(from) = from else {
            return;
        };
        let bound: Vec<usize> = self.hosts[station]
            .circuits
            .values()
            .filter_map(|role| match role {
                Role::Receives { flow, .. } => Some(*flow),
                Role::Sends(_) => None,
            })
            .collect();
        let found = self.flows.iter().enumerate().find_map(|(index, flow)| {
            let place = flow.receiver(station)?;
            (flow.from == from as usize && !bound.contains(&index)).then_some((index, place))
        });
        if let Some((flow, place)) = found {
            let role = Role::Receives { flow, place };
            self.hosts[station].circuits.insert(circuit, role);
        }
    }

    /// Sees to it that the timer chip wakes when the engine wants.
    pub(super) fn arm(&mut self, station: usize) {
        let host = &mut self.hosts[station];
        let Some(deadline) = host.engine.deadline() else {
            return;
        };
        let at_ps = deadline.as_nanos().saturating_mul(1000).max(self.now_ps);
        if host.timer_at_ps.is_none_or(|known| at_ps < known) {
            host.timer_at_ps = Some(at_ps);
            self.queue.push(at_ps, 2, Due::Timer { station });
        }
    }

    pub(super) fn ring(&mut self, station: usize) {
        let (now, now_ps) = (self.now(), self.now_ps);
        let host = &mut self.hosts[station];
        if host.timer_at_ps != Some(now_ps) {
            return;
        }
        host.timer_at_ps = None;
        if host.engine.deadline().is_some_and(|at| at <= now) {
            host.engine.handle_timeout(now);
            if host.engine.deadline().is_some_and(|at| at <= now) {
                // An engine that asks for the same moment again must not stop the clock.
                host.timer_at_ps = Some(now_ps + 1000);
                self.queue.push(now_ps + 1000, 2, Due::Timer { station });
            }
            let served_ps = now_ps + host.cost.timer_ps;
            self.drain_events(station, now_ps);
            self.queue.push(served_ps, 0, Due::TimerServed { station });
        }
        self.arm(station);
    }
}
