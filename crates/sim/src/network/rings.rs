//! Packets through rings of a host, beside the medium.

use super::{Network, Observation, PacketEvent, ScheduledEvent};
use crate::host::QueuedPacket;
use crate::shortcut::{Pair, RingConfig};
use link::EtherDestination;

impl Network {
    /// These stations are on one host, and take the shortcut between each other: packets of two of them go through rings once a
    /// circuit that one opened has brought them together. To be called before there is traffic.
    ///
    /// # Panics
    ///
    /// When it names a station that does not exist.
    pub fn add_shortcuts(&mut self, stations: &[usize], config: RingConfig) {
        assert!(stations.iter().all(|&station| station < self.hosts.len()));
        self.shortcuts.add_host(stations, config);
    }

    /// Time of the processor to copy the packet that the sender built into a ring, if there is one to where it goes, ps.
    pub(super) fn ring_send_ps(&mut self, station: usize) -> u64 {
        let built = self.hosts[station]
            .built
            .filter(|_| !self.shortcuts.is_empty());
        let Some(tag) = built else {
            return 0;
        };
        let frame = self.frames.get(tag);
        let EtherDestination::Station(to) = frame.to else {
            return 0;
        };
        let ring = self.shortcuts.joined(station, to);
        ring.map_or(0, |ring| copy_ps(&ring, frame.packet.len()))
    }

    /// Puts a packet into the ring to its station; false without one, or without room.
    pub(super) fn offer_to_ring(&mut self, tag: u64) -> bool {
        if self.shortcuts.is_empty() {
            return false;
        }
        let frame = self.frames.get_mut(tag);
        let EtherDestination::Station(to) = frame.to else {
            return false;
        };
        let put = self.shortcuts.put(frame.from, to, frame.packet.len());
        let Some((after_ps, life)) = put else {
            return false;
        };
        (frame.by_ring, frame.offered_ps) = (true, self.now_ps);
        let (from, carries) = (frame.from, frame.contents.carries);
        self.notify_observer(PacketEvent::Offered, from, tag);
        self.hosts[from].report_mut().ring_packets += 1;
        if let Some((flow, start, end)) = carries {
            self.flows[flow].note_dequeued(self.now_ps, start, end);
        }
        let arrival = ScheduledEvent::RingArrival { tag, to, life };
        self.queue.push(self.now_ps + after_ps, 0, arrival);
        true
    }

    /// A packet has come through a ring of that life. Partitions are of the medium.
    pub(super) fn arrive_by_ring(&mut self, tag: u64, to: usize, life: u32) {
        let from = self.frames.get(tag).from;
        if !self.shortcuts.is_alive(from, to, life) || !self.hosts[to].is_up {
            self.lose(PacketEvent::Lost, to, tag);
            return;
        }
        self.notify_observer(PacketEvent::Arrived, to, tag);
        let arrived = QueuedPacket {
            tag,
            at_ps: self.now_ps,
            corrupt_bit: None,
            ring_life: Some(life),
        };
        self.queue_arrival(to, arrived);
    }

    /// The receiver takes a packet out of a ring: how long the copy takes, ps.
    pub(super) fn take_from_ring(&mut self, tag: u64, to: usize, len: usize, life: u32) -> u64 {
        let from = self.frames.get(tag).from;
        self.shortcuts.take(from, to, len, life);
        let ring = self.shortcuts.joined(from, to);
        ring.map_or(0, |ring| copy_ps(&ring, len))
    }

    /// A packet has come over the medium: with an offer of rings, the two stations meet.
    pub(super) fn note_offer(&mut self, tag: u64, to: usize) {
        if self.shortcuts.is_empty() {
            return;
        }
        let from = self.frames.get(tag).from;
        if let Some((after_ps, life)) = self.shortcuts.receive(from, to) {
            let met = ScheduledEvent::RingsMet {
                stations: crate::shortcut::pair_of(from, to),
                life,
            };
            self.queue.push(self.now_ps + after_ps, 0, met);
        }
    }

    /// A meeting is over; false if its stations have parted since.
    pub(super) fn join_rings(&mut self, stations: Pair, life: u32) -> bool {
        let is_joined = self.shortcuts.join(stations, life);
        if is_joined {
            self.notify_rings(PacketEvent::RingsBegan, stations);
        }
        is_joined
    }

    /// The rings of `stations` end, with what is in them.
    pub(super) fn end_rings(&mut self, stations: &[usize]) {
        for pair in self.shortcuts.end(stations) {
            self.notify_rings(PacketEvent::RingsEnded, pair);
        }
    }

    /// The same, and none are exchanged until as many calls of [`Self::allow_rings`].
    pub(super) fn cut_rings(&mut self, stations: &[usize]) {
        self.shortcuts.forbid(stations, true);
        self.end_rings(stations);
    }

    pub(super) fn allow_rings(&mut self, stations: &[usize]) {
        self.shortcuts.forbid(stations, false);
    }

    fn notify_rings(&mut self, event: PacketEvent, (station, from): Pair) {
        if let Some(observer) = &mut self.observer {
            observer(&Observation {
                at_ps: self.now_ps,
                event,
                station,
                from,
                path: 0,
                by_ring: true,
                packet: &[],
            });
        }
    }
}

fn copy_ps(ring: &RingConfig, len: usize) -> u64 {
    ring.copy_fixed_ps + ring.copy.cost_ps(len as u64)
}
