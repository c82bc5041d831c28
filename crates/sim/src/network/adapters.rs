//! Adapters of stations: what their queues cost the main processor, and when it looks at them.

use super::{Network, ScheduledEvent};
use crate::adapter::Notice;
use crate::host::{Process, QueuedPacket};

impl Network {
    /// Time of the processor to put the cell that the sender built into the transmit queue, ps.
    pub(super) fn adapter_send_ps(&mut self, station: usize) -> u64 {
        let host = &mut self.hosts[station];
        let (Some(adapter), Some(tag)) = (&mut host.adapter, host.built) else {
            return 0;
        };
        let frame = self.frames.get(tag);
        let (len, path) = (frame.packet.len() as u32, usize::from(frame.path));
        let (backlog_ps, cell_ps) = self.media[path].backlog_ps(self.now_ps, station, len);
        adapter.send_ps(backlog_ps, cell_ps, &frame.packet)
    }

    /// Time of the processor to take in a packet, ps: an interrupt, and what an adapter adds.
    pub(super) fn arrival_ps(&mut self, station: usize, octets: &[u8]) -> u64 {
        let host = &mut self.hosts[station];
        match &mut host.adapter {
            None => host.cost.interrupt_ps,
            Some(adapter) => adapter.receive_ps(&host.cost, octets),
        }
    }

    /// Whether the station has room for a packet that arrives.
    pub(super) fn admits(&mut self, station: usize) -> bool {
        let host = &mut self.hosts[station];
        let waiting = host.receiver.len() as u64;
        if host.cost.queue.is_some_and(|most| waiting >= most) {
            host.report_mut().arrivals_dropped += 1;
            return false;
        }
        let adapter = host.adapter.as_mut();
        adapter.is_none_or(|adapter| adapter.admit(waiting))
    }

    /// Queues a packet for the receiver, and makes the processor look at it when its adapter says so.
    pub(super) fn queue_arrival(&mut self, station: usize, arrived: QueuedPacket) {
        let host = &mut self.hosts[station];
        let is_served = host.is_receiving();
        host.receiver.push_back(arrived);
        let waiting = host.receiver.len() as u64;
        let report = host.report_mut();
        report.arrivals_max = report.arrivals_max.max(waiting);
        let adapter = host.adapter.as_mut();
        let adapter = adapter.filter(|_| arrived.ring_life.is_none());
        let notice = adapter.map_or(Notice::Now, |adapter| {
            let cell = &self.frames.get(arrived.tag).packet;
            adapter.notify(cell, waiting, is_served)
        });
        match notice {
            Notice::Now => {
                host.signal(Process::Receiver);
                self.run_processes(station);
            }
            Notice::After(delay_ps) => {
                let fills = host.adapter.as_ref().map_or(0, |adapter| adapter.fills);
                let timer = ScheduledEvent::AdapterTimer { station, fills };
                self.queue.push(self.now_ps + delay_ps, 0, timer);
            }
            Notice::Later => {}
        }
    }

    /// The timer of an adapter expires; false if its queue was looked at since.
    pub(super) fn handle_adapter_timer(&mut self, station: usize, fills: u64) -> bool {
        let host = &mut self.hosts[station];
        let is_empty = host.receiver.is_empty();
        let adapter = host.adapter.as_mut();
        let Some(adapter) = adapter.filter(|adapter| adapter.fills == fills && !is_empty) else {
            return false;
        };
        adapter.interrupt();
        host.signal(Process::Receiver);
        self.run_processes(station);
        true
    }
}
