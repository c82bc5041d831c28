//! What happens on the medium, as stations notice it.

use super::{Happening, Network, Observation};
use crate::host::{Arrived, Process};
use crate::medium::{MediumEvent, Offered};
use engine::{Address, Engine};

impl<E: Engine> Network<E> {
    pub(super) fn offer(&mut self, tag: u64) {
        let frame = self.frames.get_mut(tag);
        frame.offered_ps = self.now_ps;
        let (from, to) = (frame.from, frame.to);
        let packet = frame.packet.len() as u32;
        self.note(Happening::Offered, from, tag);
        self.hosts[from].note_controller(self.now_ps, 1);
        let offered = Offered { tag, packet, to };
        self.medium.offer(self.now_ps, from, offered);
    }

    pub(super) fn drain_medium(&mut self) {
        while let Some(event) = self.medium.poll() {
            match event {
                MediumEvent::Taken { at_ps, tag } => {
                    if let Some((flow, start, end)) = self.frames.get(tag).carries {
                        self.flows[flow].note_taken(at_ps, start, end);
                    }
                }
                MediumEvent::Sent {
                    at_ps,
                    tag,
                    arrivals,
                } => {
                    self.left_controller(at_ps, tag);
                    self.frames.spread(tag, arrivals);
                }
                MediumEvent::Dropped { at_ps, tag } => {
                    let from = self.frames.get(tag).from;
                    self.note(Happening::Dropped, from, tag);
                    self.left_controller(at_ps, tag);
                    self.frames.release(tag);
                }
                MediumEvent::Arrived {
                    at_ps,
                    station,
                    tag,
                    corrupt_bit,
                    whole_ps,
                } => {
                    if at_ps < whole_ps && !self.takes_head(station, tag) {
                        self.medium.wait_for_whole(event);
                        continue;
                    }
                    if !self.passes(self.frames.get(tag).from, station) {
                        self.note(Happening::Lost, station, tag);
                        self.frames.release(tag);
                        continue;
                    }
                    self.note(Happening::Arrived, station, tag);
                    let host = &mut self.hosts[station];
                    host.receiver.push_back(Arrived {
                        tag,
                        at_ps,
                        corrupt_bit,
                    });
                    let waiting = host.receiver.len() as u64;
                    host.report.arrivals_max = host.report.arrivals_max.max(waiting);
                    host.signal(Process::Receiver);
                    self.serve(station);
                }
                MediumEvent::Lost { station, tag, .. } => {
                    self.note(Happening::Lost, station, tag);
                    self.frames.release(tag);
                }
                MediumEvent::Collided { at_ps, station } => {
                    if let Some(observer) = &mut self.observer {
                        observer(&Observation {
                            at_ps,
                            what: Happening::Collided,
                            station,
                            from: station,
                            packet: &[],
                        });
                    }
                }
            }
        }
    }

    /// Whether a station can pass a frame on before all of it is there.
    fn takes_head(&self, station: usize, tag: u64) -> bool {
        let frame = self.frames.get(tag);
        let from = Address::Station(frame.from as u32);
        self.hosts[station].engine.supports_cut_through(from, &frame.packet)
    }

    fn left_controller(&mut self, at_ps: u64, tag: u64) {
        let frame = self.frames.get(tag);
        let host = &mut self.hosts[frame.from];
        host.report.sojourn_ps += u128::from(at_ps.saturating_sub(frame.offered_ps));
        host.note_controller(at_ps, -1);
    }

    pub(super) fn note(&mut self, what: Happening, station: usize, tag: u64) {
        if let Some(observer) = &mut self.observer {
            let frame = self.frames.get(tag);
            observer(&Observation {
                at_ps: self.now_ps,
                what,
                station,
                from: frame.from,
                packet: &frame.packet,
            });
        }
    }
}
