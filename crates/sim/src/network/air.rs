//! Events of the medium, passed to the stations.

use super::{Network, Observation, PacketEvent};
use crate::host::QueuedPacket;
use crate::medium::{MediumEvent, OfferedFrame};

impl Network {
    pub(super) fn offer_to_controller(&mut self, tag: u64) {
        if self.offer_to_ring(tag) {
            return;
        }
        let frame = self.frames.get_mut(tag);
        frame.offered_ps = self.now_ps;
        let (from, to, path) = (frame.from, frame.to, usize::from(frame.path));
        let packet_len = frame.packet.len() as u32;
        let exceeds_mtu = frame.contents.exceeds_mtu;
        // CLP, where packets are cells.
        let low_priority = frame.packet.get(3).is_some_and(|octet| octet & 1 != 0);
        self.notify_observer(PacketEvent::Offered, from, tag);
        self.hosts[from].change_controller_queue(self.now_ps, 1);
        let offered = OfferedFrame {
            exceeds_mtu,
            tag,
            packet_len,
            to,
            low_priority,
        };
        self.media[path].offer(self.now_ps, from, offered);
    }

    /// Passes on what the media of all paths say, those of the first path first.
    pub(super) fn drain_media(&mut self) {
        while let Some((path, event)) = self.poll_media() {
            match event {
                MediumEvent::Dequeued { at_ps, tag } => self.note_dequeued(at_ps, tag),
                MediumEvent::Sent {
                    at_ps,
                    tag,
                    arrivals,
                } => {
                    self.note_departure(at_ps, tag);
                    self.frames.replace_with(tag, arrivals);
                }
                MediumEvent::Dropped { at_ps, tag } => self.drop_before_departure(at_ps, tag),
                MediumEvent::Arrived { .. } => self.handle_arrival(path, event),
                MediumEvent::Lost { station, tag, .. } => {
                    self.lose(PacketEvent::Lost, station, tag);
                }
                MediumEvent::Collided { at_ps, station } => {
                    self.notify_collision(at_ps, path, station);
                }
            }
        }
    }

    fn note_dequeued(&mut self, at_ps: u64, tag: u64) {
        if let Some((flow, start, end)) = self.frames.get(tag).contents.carries {
            self.flows[flow].note_dequeued(at_ps, start, end);
        }
    }

    /// The controller gave a frame up, or had no room for it.
    fn drop_before_departure(&mut self, at_ps: u64, tag: u64) {
        let from = self.frames.get(tag).from;
        self.notify_observer(PacketEvent::Dropped, from, tag);
        self.hosts[from].report_mut().frames_dropped += 1;
        self.note_departure(at_ps, tag);
        self.frames.release(tag);
    }

    /// A frame begins to arrive, or has arrived, on `path`. A station that does not forward it before all of it has
    /// arrived gets it then.
    fn handle_arrival(&mut self, path: usize, event: MediumEvent) {
        let MediumEvent::Arrived {
            at_ps,
            station,
            tag,
            corrupt_bit,
            complete_ps,
        } = event
        else {
            return;
        };
        if at_ps < complete_ps && !self.supports_cut_through(station, tag) {
            self.media[path].deliver_when_complete(event);
            return;
        }
        if let Some(why) = self.refusal(station, path, tag) {
            self.lose(why, station, tag);
            return;
        }
        self.notify_observer(PacketEvent::Arrived, station, tag);
        self.note_offer(tag, station);
        let arrived = QueuedPacket {
            tag,
            at_ps,
            corrupt_bit,
            ring_life: None,
        };
        self.queue_arrival(station, arrived);
    }

    fn notify_collision(&mut self, at_ps: u64, path: usize, station: usize) {
        if let Some(observer) = &mut self.observer {
            observer(&Observation {
                at_ps,
                event: PacketEvent::Collided,
                station,
                from: station,
                path: path as u16,
                by_ring: false,
                packet: &[],
            });
        }
    }

    /// Why a station does not get a packet that has arrived, if it does not.
    fn refusal(&mut self, station: usize, path: usize, tag: u64) -> Option<PacketEvent> {
        if !self.is_reachable(self.frames.get(tag).from, station, path) {
            return Some(PacketEvent::Lost);
        }
        if self.filters_out(station, tag) {
            return Some(PacketEvent::Filtered);
        }
        (!self.admits(station)).then_some(PacketEvent::Dropped)
    }

    /// A receiver does not get a packet.
    pub(super) fn lose(&mut self, event: PacketEvent, station: usize, tag: u64) {
        self.notify_observer(event, station, tag);
        self.frames.release(tag);
    }

    #[inline]
    fn poll_media(&mut self) -> Option<(usize, MediumEvent)> {
        match &mut self.media[..] {
            [only] => Some((0, only.poll()?)),
            several => {
                let mut media = several.iter_mut().enumerate();
                media.find_map(|(path, medium)| Some((path, medium.poll()?)))
            }
        }
    }

    /// Whether the station can forward a frame before all of it has arrived.
    fn supports_cut_through(&self, station: usize, tag: u64) -> bool {
        let frame = self.frames.get(tag);
        let path = frame.arrival_path();
        let host = &self.hosts[station];
        // A layer gives whole packets.
        let router = host.engine.as_router().filter(|_| host.layer.is_none());
        router.is_some_and(|router| router.supports_cut_through(path, &frame.packet))
    }

    fn note_departure(&mut self, at_ps: u64, tag: u64) {
        let frame = self.frames.get(tag);
        let host = &mut self.hosts[frame.from];
        host.report_mut().sojourn_ps += u128::from(at_ps.saturating_sub(frame.offered_ps));
        host.change_controller_queue(at_ps, -1);
    }

    pub(super) fn notify_observer(&mut self, event: PacketEvent, station: usize, tag: u64) {
        if let Some(observer) = &mut self.observer {
            let frame = self.frames.get(tag);
            observer(&Observation {
                at_ps: self.now_ps,
                event,
                station,
                from: frame.from,
                path: frame.path,
                by_ring: frame.by_ring,
                packet: &frame.packet,
            });
        }
    }
}
