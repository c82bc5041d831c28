//! What happens on the medium, as stations notice it.

use super::{Happening, Network, Observation};
use crate::host::{Arrived, Process};
use crate::medium::{MediumEvent, Offered};
use engine::Engine;

impl<E: Engine> Network<E> {
    pub(super) fn offer(&mut self, tag: u64) {
        let frame = self.frames.get(tag);
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
                    let from = self.frames.get(tag).from;
                    self.hosts[from].note_controller(at_ps, -1);
                    self.frames.spread(tag, arrivals);
                }
                MediumEvent::Dropped { at_ps, tag } => {
                    let from = self.frames.get(tag).from;
                    self.note(Happening::Dropped, from, tag);
                    self.hosts[from].note_controller(at_ps, -1);
                    self.frames.release(tag);
                }
                MediumEvent::Arrived {
                    at_ps,
                    station,
                    tag,
                    corrupt_bit,
                } => {
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
