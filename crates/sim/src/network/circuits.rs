//! Circuits and timers: events of the engines.

use super::{Network, ScheduledEvent};
use crate::flow::{Flow, Target};
use crate::host::{Role, address};
use crate::node::Node;
use engine::{AbandonedMessage, AssociationId, CommandError, Event, Framing};

impl Network {
    pub(super) fn open_flow(
        &mut self,
        from: usize,
        to: Target,
        source: usize,
    ) -> Result<usize, CommandError> {
        if matches!(self.hosts[from].engine, Node::Transactions(_)) {
            return self.open_calls(from, to, source);
        }
        let index = self.flows.len();
        let host = &mut self.hosts[from];
        let now = host.local_time(self.now_ps);
        let users = host.engine.users_mut();
        let users = users.ok_or(CommandError::Unsupported)?;
        let (framing, layout) = (users.properties().framing, users.layout(None));
        let mut flow = Flow::new((from, to, source), framing, layout.payload);
        let circuit = users.connect(now, &[address(to)])?;
        flow.circuit = Some(circuit);
        flow.notes = host.notes.filter(|_| framing == Framing::Messages);
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
        if let Target::Station(station) = to {
            self.shortcuts.offer(from, station);
        }
        self.drain_events(from, self.now_ps);
        Ok(index)
    }

    pub(super) fn drain_events(&mut self, station: usize, at_ps: u64) {
        while let Some(event) = self.hosts[station].engine.protocol_mut().poll_event() {
            match event {
                Event::Connected(circuit) => self.handle_connected(station, circuit),
                Event::Accepted(circuit, _) => self.handle_accepted(station, circuit),
                Event::Released(circuit, range) => {
                    self.settle_messages(station, circuit, |flow| flow.note_released(at_ps, range));
                }
                Event::Abandoned(circuit, AbandonedMessage { range, .. }) => {
                    self.settle_messages(station, circuit, |flow| {
                        flow.note_abandoned(at_ps, range)
                    });
                }
                Event::Closed(circuit, _) => match self.hosts[station].circuits.remove(&circuit) {
                    Some(Role::Sends(flow)) => self.handle_closed(flow),
                    Some(Role::Receives { .. }) | None => {}
                },
                Event::Transaction(event) => self.handle_transaction(station, at_ps, event),
                Event::Finished(_) | Event::LayoutChanged(..) => {}
            }
        }
    }

    /// Messages of the flow of a circuit are settled by `note`.
    fn settle_messages(
        &mut self,
        station: usize,
        circuit: AssociationId,
        note: impl FnOnce(&mut Flow),
    ) {
        let role = self.hosts[station].circuits.get(&circuit);
        let Some(&Role::Sends(flow)) = role else {
            return;
        };
        let flow = &mut self.flows[flow];
        let before = flow.report.settled;
        note(flow);
        let (settled, source) = (flow.report.settled - before, flow.source);
        self.unsettled -= settled;
        self.settled += settled;
        self.release_outstanding(source, settled);
    }

    pub(super) fn handle_connected(&mut self, station: usize, circuit: AssociationId) {
        let role = self.hosts[station].circuits.get(&circuit);
        let Some(&Role::Sends(flow)) = role else {
            return;
        };
        self.flows[flow].connected = true;
        while let Some(length) = self.flows[flow].queued_lengths.pop_front() {
            self.queue_message(flow, length);
        }
    }

    /// Assigns a circuit a peer opened to the flow whose packet opened it.
    pub(super) fn handle_accepted(&mut self, station: usize, circuit: AssociationId) {
        let Some(flow) = self.arriving_flow else {
            return;
        };
        if let Some(receiver) = self.flows[flow].unbound_receiver(station) {
            self.flows[flow].bind(receiver);
            let role = Role::Receives { flow, receiver };
            self.hosts[station].circuits.insert(circuit, role);
        }
    }

    /// Sets the timer chip to the next timeout.
    pub(super) fn arm_timer(&mut self, station: usize) {
        let host = &mut self.hosts[station];
        let Some(deadline) = host.poll_timeout().filter(|_| host.is_up) else {
            return;
        };
        let at_ps = host.simulated_ps(deadline).max(self.now_ps);
        if host.timer_at_ps.is_none_or(|known| at_ps < known) {
            host.timer_at_ps = Some(at_ps);
            self.queue
                .push(at_ps, 2, ScheduledEvent::TimerExpired { station });
        }
    }

    /// The timer chip expired; false when it was set to an earlier time since.
    pub(super) fn handle_timer(&mut self, station: usize) -> bool {
        let now_ps = self.now_ps;
        let host = &mut self.hosts[station];
        let now = host.local_time(now_ps);
        if host.timer_at_ps != Some(now_ps) {
            return false;
        }
        host.timer_at_ps = None;
        if host.poll_timeout().is_some_and(|at| at <= now) {
            host.handle_timeout(now);
            if host.poll_timeout().is_some_and(|at| at <= now) {
                // An engine whose timeout stays due must not stop the clock.
                host.timer_at_ps = Some(now_ps + 1000);
                self.queue
                    .push(now_ps + 1000, 2, ScheduledEvent::TimerExpired { station });
            }
            let served_ps = now_ps + host.cost.timer_ps;
            self.drain_events(station, now_ps);
            self.queue
                .push(served_ps, 0, ScheduledEvent::TimerServiceDone { station });
        }
        self.arm_timer(station);
        true
    }
}
