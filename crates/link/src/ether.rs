//! Shared Ethernet: CSMA/CD (IEEE 802.3, clause 4) as a pure state machine in picoseconds.
//!
//! Any number of stations are attached to one cable, each at a position. A station with a frame
//! defers until the cable is idle at its position, keeps the inter-frame gap, and transmits.
//! Signals take time, so two stations may start before they sense each other's carrier; each then
//! jams, backs off for a random number of slots and retries, up to 16 attempts. See [`EtherConfig`]
//! for the constants and [`Backoff`] for the backoff.
//!
//! The model moves no bytes and reads no clock. Its owner calls [`offer`](Ether::offer), sleeps or
//! jumps until [`deadline`](Ether::deadline), calls [`advance`](Ether::advance) and takes
//! [`EtherEvent`]s: the simulator in virtual time, an emulated link paced by a real clock.
//!
//! All conditions are local: a transmission from p reaches q after the propagation delay between
//! them, a collision is an overlap of signals at a sender, and a damaged frame one at a receiver.
//!
//! Each station's backoff is a random stream of its own, a function of (seed, station).

mod arrivals;
mod config;
mod event;
mod medium;
mod station;
#[cfg(test)]
mod tests;

pub use config::{Backoff, EtherConfig};
pub use event::{EtherCounters, EtherDestination, EtherEvent, EtherFrame, EtherTime};

use crate::queue::EventQueue;
use engine::SplitMix64;
use medium::{Cable, Transmission};
use station::{MacState, Station};
use std::collections::VecDeque;

/// A cable and its stations.
#[derive(Clone, Debug)]
pub struct Ether {
    config: EtherConfig,
    seed: u64,
    stations: Vec<Station>,
    /// Stations whose next attempt depends on the end of a transmission.
    deferring: Vec<usize>,
    cable: Cable,
    queue: EventQueue<Scheduled>,
    now_ps: u64,
    /// A collision truncated a transmission, and deferring stations are not yet updated.
    truncated: bool,
    events: VecDeque<EtherEvent>,
    counters: EtherCounters,
}

/// A scheduled event. The order of variants is the order at equal times.
#[derive(Clone, Copy, Debug)]
enum Scheduled {
    Arrive { activity: u64, station: u32 },
    Collide { station: u32 },
    End { station: u32 },
    Attempt { station: u32 },
}

impl Scheduled {
    fn priority(self) -> u8 {
        match self {
            Scheduled::Arrive { .. } => 0,
            Scheduled::Collide { .. } => 1,
            Scheduled::End { .. } => 2,
            Scheduled::Attempt { .. } => 3,
        }
    }
}

impl Ether {
    /// A cable without stations. Backoffs are a function of `seed`.
    pub fn new(config: EtherConfig, seed: u64) -> Ether {
        Ether {
            config,
            seed,
            stations: Vec::new(),
            deferring: Vec::new(),
            cable: Cable::default(),
            queue: EventQueue::new(),
            now_ps: 0,
            truncated: false,
            events: VecDeque::new(),
            counters: EtherCounters::default(),
        }
    }

    /// Adds a station at `position_ps` of propagation from the start of the cable (see
    /// [`EtherConfig::position_ps`]) and returns its number: 0, 1, 2 ...
    pub fn attach(&mut self, position_ps: u64) -> usize {
        let number = self.stations.len();
        self.cable.extend_to(position_ps);
        let seed = SplitMix64::at(self.seed, number as u64);
        self.stations.push(Station::new(position_ps, seed));
        number
    }

    /// The constants.
    pub fn config(&self) -> &EtherConfig {
        &self.config
    }

    /// Counts so far.
    pub fn counters(&self) -> EtherCounters {
        self.counters
    }

    /// Use of the cable's time up to the last [`advance`](Ether::advance).
    pub fn medium(&self) -> EtherTime {
        self.cable.account_at(self.now_ps)
    }

    /// Use of the cable's time up to `now_ps`, before which no event is pending.
    pub fn medium_until(&self, now_ps: u64) -> EtherTime {
        self.cable.account_at(now_ps.max(self.now_ps))
    }

    /// Frames queued at `station`, the one being sent included. The model has no queue limit.
    pub fn queued(&self, station: usize) -> usize {
        self.stations[station].frames.len()
    }

    /// Queues a frame at `station` at `now_ps`, after processing all events up to then.
    ///
    /// # Panics
    ///
    /// When there is no such station.
    pub fn offer(&mut self, now_ps: u64, station: usize, frame: EtherFrame) {
        self.advance(now_ps);
        self.counters.offered += 1;
        self.stations[station].frames.push_back(frame);
        if self.stations[station].state == MacState::Idle {
            self.next_frame(station, self.now_ps);
        }
    }

    /// Time of the next [`advance`](Ether::advance). May be early, never late.
    pub fn deadline(&self) -> Option<u64> {
        self.queue.next_time()
    }

    /// Processes all events up to `now_ps`, which never goes back.
    pub fn advance(&mut self, now_ps: u64) {
        while self.queue.next_time().is_some_and(|at| at <= now_ps) {
            let Some((at_ps, due)) = self.queue.pop() else {
                break;
            };
            self.now_ps = at_ps;
            self.counters.events += self.process(at_ps, due);
        }
        self.now_ps = self.now_ps.max(now_ps);
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<EtherEvent> {
        self.events.pop_front()
    }

    /// Processes one queue entry and counts its events. A rescheduled event leaves its old entry in the
    /// queue, which counts for none.
    fn process(&mut self, at_ps: u64, due: Scheduled) -> u64 {
        let handled = match due {
            Scheduled::Arrive { activity, station } => {
                return self.arrive(at_ps, activity, station as usize);
            }
            Scheduled::Collide { station } => {
                let collided = self.collide(at_ps, station as usize);
                // Of several collisions at one time, the last updates the deferring stations.
                let next = self.queue.peek();
                let more = matches!(next, Some((at, Scheduled::Collide { .. })) if at == at_ps);
                if self.truncated && !more {
                    self.truncated = false;
                    self.update_deferrals(at_ps);
                }
                collided
            }
            Scheduled::End { station } => self.end(at_ps, station as usize),
            Scheduled::Attempt { station } => self.attempt(at_ps, station as usize),
        };
        u64::from(handled)
    }

    fn schedule(&mut self, at_ps: u64, due: Scheduled) {
        self.queue.push(at_ps, due.priority(), due);
    }

    /// Starts with the first frame in the queue, if there is one.
    fn next_frame(&mut self, station: usize, now_ps: u64) {
        let at = &mut self.stations[station];
        at.attempts = 0;
        let Some(frame) = at.frames.front() else {
            at.state = MacState::Idle;
            return;
        };
        let free_ps = at.free_ps(frame.to, self.config.destination_gap_ps);
        self.schedule_wait(station, now_ps.max(free_ps));
    }

    fn schedule_wait(&mut self, station: usize, at_ps: u64) {
        self.stations[station].state = MacState::Waiting { at_ps };
        let station = station as u32;
        self.schedule(at_ps, Scheduled::Attempt { station });
    }

    fn attempt(&mut self, now_ps: u64, station: usize) -> bool {
        let (position_ps, state) = {
            let at = &self.stations[station];
            (at.position_ps, at.state)
        };
        match state {
            MacState::Waiting { at_ps } if at_ps == now_ps => {
                // A transmission that starts at this very time is not sensed: both will collide.
                match self.cable.carrier_end(position_ps, now_ps) {
                    Some(end) if end + self.config.gap_ps > now_ps => self.defer(station, end),
                    _ => self.send_or_wait_slot(now_ps, station, now_ps),
                }
            }
            MacState::Deferring {
                at_ps,
                idle_from_ps,
            } if at_ps == now_ps => {
                let before_ps = self.carrier_ignored_from(idle_from_ps).min(now_ps);
                let end = self.cable.carrier_end(position_ps, before_ps);
                match end.filter(|end| *end > idle_from_ps) {
                    Some(end) if end + self.config.gap_ps > now_ps => self.defer(station, end),
                    Some(end) => self.send_or_wait_slot(now_ps, station, end),
                    None => self.send_or_wait_slot(now_ps, station, idle_from_ps),
                }
            }
            _ => return false,
        }
        true
    }

    /// When a deferring station stops sensing the carrier (IEEE 802.3, 4.2.3.2.1).
    fn carrier_ignored_from(&self, idle_from_ps: u64) -> u64 {
        match self.config.backoff {
            Backoff::Binary { .. } => idle_from_ps + self.config.gap_first_ps + 1,
            Backoff::Oracle { .. } => u64::MAX,
        }
    }

    /// Transmits, or waits for the next slot if the backoff says so.
    fn send_or_wait_slot(&mut self, now_ps: u64, station: usize, idle_from_ps: u64) {
        let random = &mut self.stations[station].random;
        if self.config.backoff.transmits_now(random) {
            self.send(now_ps, station);
        } else {
            self.schedule_attempt(station, now_ps + self.config.slot_ps, idle_from_ps);
        }
    }

    /// Schedules the next attempt of `station` a gap after the cable is idle at `idle_from_ps`.
    fn defer(&mut self, station: usize, idle_from_ps: u64) {
        self.schedule_attempt(station, idle_from_ps + self.config.gap_ps, idle_from_ps);
    }

    fn schedule_attempt(&mut self, station: usize, at_ps: u64, idle_from_ps: u64) {
        let at = &mut self.stations[station];
        at.state = MacState::Deferring {
            at_ps,
            idle_from_ps,
        };
        if at.deferring_at.is_none() {
            at.deferring_at = Some(self.deferring.len());
            self.deferring.push(station);
        }
        let station = station as u32;
        self.schedule(at_ps, Scheduled::Attempt { station });
    }

    fn stop_deferring(&mut self, station: usize) {
        let Some(place) = self.stations[station].deferring_at.take() else {
            return;
        };
        self.deferring.swap_remove(place);
        if let Some(&moved) = self.deferring.get(place) {
            self.stations[moved].deferring_at = Some(place);
        }
    }

    fn send(&mut self, now_ps: u64, station: usize) {
        self.stop_deferring(station);
        self.cable.prune(now_ps, self.config.gap_ps);
        let Some(&frame) = self.stations[station].frames.front() else {
            return;
        };
        let end_ps = now_ps + self.config.frame_ps(frame.octets);
        let at = &mut self.stations[station];
        at.attempts += 1;
        self.events.push_back(EtherEvent::Started {
            at_ps: now_ps,
            from: station,
            attempt: at.attempts,
            frame,
        });
        let activity = Transmission {
            station,
            position_ps: at.position_ps,
            start_ps: now_ps,
            end_ps,
            collided: false,
            may_overlap: false,
            frame,
        };
        let number = self.cable.begin(activity);
        self.stations[station].state = MacState::Sending {
            activity: number,
            end_ps,
            collision_ps: None,
        };
        let due = station as u32;
        self.schedule(end_ps, Scheduled::End { station: due });
        self.schedule_collisions(now_ps, station, number);
    }

    /// Schedules the collisions of the transmission that starts now, at each of the senders.
    fn schedule_collisions(&mut self, now_ps: u64, station: usize, number: u64) {
        let position_ps = self.stations[station].position_ps;
        let mut met = Vec::new();
        for (other, activity) in self.cable.in_progress(now_ps) {
            if other == number || activity.station == station {
                continue;
            }
            let distance = activity.distance(position_ps);
            if now_ps + distance < activity.end_ps {
                met.push((activity.station, now_ps + distance));
            }
            if activity.end_ps + distance > now_ps {
                met.push((station, now_ps.max(activity.start_ps + distance)));
            }
        }
        for (station, at_ps) in met {
            self.schedule_collision(station, at_ps);
        }
    }

    fn schedule_collision(&mut self, station: usize, at_ps: u64) {
        let MacState::Sending {
            end_ps,
            collision_ps,
            ..
        } = &mut self.stations[station].state
        else {
            return;
        };
        if at_ps >= *end_ps || collision_ps.is_some_and(|known| known <= at_ps) {
            return;
        }
        *collision_ps = Some(at_ps);
        let station = station as u32;
        self.schedule(at_ps, Scheduled::Collide { station });
    }

    fn collide(&mut self, now_ps: u64, station: usize) -> bool {
        let at = &mut self.stations[station];
        let MacState::Sending {
            activity,
            collision_ps: Some(collision_ps),
            ..
        } = at.state
        else {
            return false;
        };
        if collision_ps != now_ps {
            return false;
        }
        let Some(transmission) = self.cable.get_mut(activity) else {
            return false;
        };
        let bit_ps = self.config.bit_ps;
        let preamble_end = transmission.start_ps + self.config.preamble_bits * bit_ps;
        let end_ps = now_ps.max(preamble_end) + self.config.jam_bits * bit_ps;
        transmission.collided = true;
        transmission.end_ps = end_ps;
        let late = now_ps - transmission.start_ps > self.config.slot_ps;
        self.counters.collisions += 1;
        self.counters.late_collisions += u64::from(late);
        at.state = MacState::Jamming { end_ps };
        self.events.push_back(EtherEvent::Collided {
            at_ps: now_ps,
            station,
            attempt: at.attempts,
        });
        let due = station as u32;
        self.schedule(end_ps, Scheduled::End { station: due });
        self.truncated = true;
        true
    }

    /// A collision truncated a transmission: deferring stations find the cable idle earlier.
    fn update_deferrals(&mut self, now_ps: u64) {
        for place in 0..self.deferring.len() {
            let station = self.deferring[place];
            let at = &self.stations[station];
            let MacState::Deferring { idle_from_ps, .. } = at.state else {
                continue;
            };
            if idle_from_ps <= now_ps {
                continue;
            }
            let end = self.cable.carrier_end(at.position_ps, now_ps);
            if let Some(end) = end.filter(|end| *end < idle_from_ps) {
                self.defer(station, end);
            }
        }
    }

    fn end(&mut self, now_ps: u64, station: usize) -> bool {
        match self.stations[station].state {
            MacState::Sending {
                activity,
                end_ps,
                collision_ps: None,
            } if end_ps == now_ps => self.end_of_frame(now_ps, station, activity),
            MacState::Jamming { end_ps } if end_ps == now_ps => self.end_of_jam(now_ps, station),
            _ => return false,
        }
        true
    }

    fn end_of_frame(&mut self, now_ps: u64, station: usize, activity: u64) {
        let at = &mut self.stations[station];
        let Some(frame) = at.frames.pop_front() else {
            return;
        };
        if self.config.destination_gap_ps > 0 {
            at.note_sent(frame.to, now_ps);
        }
        self.counters.sent += 1;
        self.events.push_back(EtherEvent::Sent {
            at_ps: now_ps,
            from: station,
            frame,
        });
        match frame.to {
            EtherDestination::Station(to) if to < self.stations.len() => {
                self.propagate(now_ps, station, activity, to);
            }
            EtherDestination::Station(_) => {}
            EtherDestination::All => self.propagate_to_all(now_ps, station, activity),
        }
        self.next_frame(station, now_ps);
    }

    fn end_of_jam(&mut self, now_ps: u64, station: usize) {
        let at = &mut self.stations[station];
        if at.attempts < self.config.attempts_max {
            let slots = self.config.backoff.slots(at.attempts, &mut at.random);
            self.schedule_wait(station, now_ps + slots * self.config.slot_ps);
            return;
        }
        if let Some(frame) = at.frames.pop_front() {
            self.counters.dropped += 1;
            self.events.push_back(EtherEvent::Dropped {
                at_ps: now_ps,
                station,
                frame,
            });
        }
        self.next_frame(station, now_ps);
    }
}
