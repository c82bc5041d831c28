//! A shared ether: CSMA/CD as a pure state machine in picoseconds.
//!
//! Any number of stations sit on one cable, each at its place. A station with a frame waits until
//! the cable is silent where it is, leaves a gap, and sends. Signals take time, so two may begin
//! before they hear each other; each then jams, waits a random number of slots and tries again,
//! up to 16 times. See [`EtherConfig`] for the constants and [`Backoff`] for the waiting.
//!
//! The model moves no bytes and reads no clock. Its owner hands it frames with
//! [`offer`](Ether::offer), sleeps or jumps until [`deadline`](Ether::deadline), calls
//! [`advance`](Ether::advance) and takes [`EtherEvent`]s. The simulator does so in virtual time;
//! an emulated link does so paced by a real clock.
//!
//! Everything is judged where it happens: a transmission from p is seen at q later by the
//! propagation between them, a collision is what one station sees overlap, and a frame is damaged
//! for a receiver when anything lies over it there.
//!
//! Each station draws its backoff from a stream of its own, a function of (seed, station), so that
//! one station's luck does not depend on what the others do.

mod config;
mod event;
mod medium;
mod station;
#[cfg(test)]
mod tests;

pub use config::{Backoff, EtherConfig};
pub use event::{EtherCounters, EtherEvent, EtherFrame, EtherTime, EtherTo};

use crate::queue::EventQueue;
use engine::SplitMix64;
use medium::{Activity, Cable};
use station::{State, Station};
use std::collections::VecDeque;

/// A cable with its stations.
#[derive(Clone, Debug)]
pub struct Ether {
    config: EtherConfig,
    seed: u64,
    stations: Vec<Station>,
    /// Stations whose turn is reckoned from the end of something still on the cable.
    deferring: Vec<usize>,
    cable: Cable,
    queue: EventQueue<Due>,
    now_ps: u64,
    /// A transmission was cut short, and those that wait for silence do not know yet.
    cut_short: bool,
    events: VecDeque<EtherEvent>,
    counters: EtherCounters,
}

/// What is due. The order of variants is the order at equal times.
#[derive(Clone, Copy, Debug)]
enum Due {
    Arrive { activity: u64, station: u32 },
    Collide { station: u32 },
    End { station: u32 },
    Turn { station: u32 },
}

impl Due {
    fn priority(self) -> u8 {
        match self {
            Due::Arrive { .. } => 0,
            Due::Collide { .. } => 1,
            Due::End { .. } => 2,
            Due::Turn { .. } => 3,
        }
    }
}

impl Ether {
    /// A cable without stations, whose backoffs are a function of `seed`.
    pub fn new(config: EtherConfig, seed: u64) -> Ether {
        Ether {
            config,
            seed,
            stations: Vec::new(),
            deferring: Vec::new(),
            cable: Cable::default(),
            queue: EventQueue::new(),
            now_ps: 0,
            cut_short: false,
            events: VecDeque::new(),
            counters: EtherCounters::default(),
        }
    }

    /// Adds a station `position_ps` of propagation from the beginning of the cable (see
    /// [`EtherConfig::position_ps`]) and gives its number: 0, 1, 2 ...
    pub fn attach(&mut self, position_ps: u64) -> usize {
        let number = self.stations.len();
        self.cable.reach(position_ps);
        let seed = SplitMix64::at(self.seed, number as u64);
        self.stations.push(Station::new(position_ps, seed));
        number
    }

    /// The constants.
    pub fn config(&self) -> &EtherConfig {
        &self.config
    }

    /// What happened so far.
    pub fn counters(&self) -> EtherCounters {
        self.counters
    }

    /// Where the time of the cable went up to the last [`advance`](Ether::advance).
    pub fn medium(&self) -> EtherTime {
        self.cable.account_at(self.now_ps)
    }

    /// The same up to `now_ps`, before which nothing is due any more.
    pub fn medium_until(&self, now_ps: u64) -> EtherTime {
        self.cable.account_at(now_ps.max(self.now_ps))
    }

    /// Frames waiting at `station`, the one being sent included. The model sets no limit; an
    /// owner that has one asks here before it offers.
    pub fn queued(&self, station: usize) -> usize {
        self.stations[station].frames.len()
    }

    /// Gives `station` a frame to send at `now_ps`, after what is due until then.
    ///
    /// # Panics
    ///
    /// When there is no such station.
    pub fn offer(&mut self, now_ps: u64, station: usize, frame: EtherFrame) {
        self.advance(now_ps);
        self.counters.offered += 1;
        self.stations[station].frames.push_back(frame);
        if self.stations[station].state == State::Idle {
            self.next_frame(station, self.now_ps);
        }
    }

    /// When [`advance`](Ether::advance) has something to do. May be early, never late.
    pub fn deadline(&self) -> Option<u64> {
        self.queue.next_time()
    }

    /// Does everything due up to `now_ps`, which never goes back.
    pub fn advance(&mut self, now_ps: u64) {
        while self.queue.next_time().is_some_and(|at| at <= now_ps) {
            let Some((at_ps, due)) = self.queue.pop() else {
                break;
            };
            self.now_ps = at_ps;
            // What was moved or cut short leaves its first entry behind, which is no event.
            self.counters.events += u64::from(self.work_off(at_ps, due));
        }
        self.now_ps = self.now_ps.max(now_ps);
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<EtherEvent> {
        self.events.pop_front()
    }

    /// Whether there was anything to do.
    fn work_off(&mut self, at_ps: u64, due: Due) -> bool {
        match due {
            Due::Arrive { activity, station } => self.arrive(at_ps, activity, station as usize),
            Due::Collide { station } => {
                let collided = self.collide(at_ps, station as usize);
                // Of many collisions at one moment the last tells those that wait.
                let next = self.queue.peek();
                let more = matches!(next, Some((at, Due::Collide { .. })) if at == at_ps);
                if self.cut_short && !more {
                    self.cut_short = false;
                    self.reckon_again(at_ps);
                }
                collided
            }
            Due::End { station } => self.end(at_ps, station as usize),
            Due::Turn { station } => self.take_turn(at_ps, station as usize),
        }
    }

    fn schedule(&mut self, at_ps: u64, due: Due) {
        self.queue.push(at_ps, due.priority(), due);
    }

    /// Begins with the first frame in the queue, if there is one.
    fn next_frame(&mut self, station: usize, now_ps: u64) {
        let at = &mut self.stations[station];
        at.attempts = 0;
        let Some(frame) = at.frames.front() else {
            at.state = State::Idle;
            return;
        };
        let free_ps = at.free_ps(frame.to, self.config.destination_gap_ps);
        self.wait_until(station, now_ps.max(free_ps));
    }

    fn wait_until(&mut self, station: usize, at_ps: u64) {
        self.stations[station].state = State::Waiting { at_ps };
        let station = station as u32;
        self.schedule(at_ps, Due::Turn { station });
    }

    fn take_turn(&mut self, now_ps: u64, station: usize) -> bool {
        let (position_ps, state) = {
            let at = &self.stations[station];
            (at.position_ps, at.state)
        };
        match state {
            State::Waiting { at_ps } if at_ps == now_ps => {
                // What begins here at this very moment is not yet seen: both will collide.
                match self.cable.seen_end(position_ps, now_ps) {
                    Some(end) if end + self.config.gap_ps > now_ps => self.defer(station, end),
                    _ => self.send_or_pass(now_ps, station, now_ps),
                }
            }
            State::Deferring { at_ps, silent_ps } if at_ps == now_ps => {
                let before_ps = self.deaf_from(silent_ps).min(now_ps);
                let end = self.cable.seen_end(position_ps, before_ps);
                match end.filter(|end| *end > silent_ps) {
                    Some(end) if end + self.config.gap_ps > now_ps => self.defer(station, end),
                    Some(end) => self.send_or_pass(now_ps, station, end),
                    None => self.send_or_pass(now_ps, station, silent_ps),
                }
            }
            _ => return false,
        }
        true
    }

    /// From when on a station that defers since `silent_ps` ignores a carrier.
    fn deaf_from(&self, silent_ps: u64) -> u64 {
        match self.config.backoff {
            Backoff::Binary { .. } => silent_ps + self.config.gap_first_ps + 1,
            Backoff::Oracle { .. } => u64::MAX,
        }
    }

    /// Takes a turn, or lets it pass if the backoff says so.
    fn send_or_pass(&mut self, now_ps: u64, station: usize, silent_ps: u64) {
        let random = &mut self.stations[station].random;
        if self.config.backoff.takes_turn(random) {
            self.send(now_ps, station);
        } else {
            self.turn_at(station, now_ps + self.config.slot_ps, silent_ps);
        }
    }

    /// Reckons the turn of `station` from the silence that begins at `silent_ps`.
    fn defer(&mut self, station: usize, silent_ps: u64) {
        self.turn_at(station, silent_ps + self.config.gap_ps, silent_ps);
    }

    fn turn_at(&mut self, station: usize, at_ps: u64, silent_ps: u64) {
        let at = &mut self.stations[station];
        at.state = State::Deferring { at_ps, silent_ps };
        if at.deferring_at.is_none() {
            at.deferring_at = Some(self.deferring.len());
            self.deferring.push(station);
        }
        let station = station as u32;
        self.schedule(at_ps, Due::Turn { station });
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
        self.cable.forget(now_ps, self.config.gap_ps);
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
        let activity = Activity {
            station,
            position_ps: at.position_ps,
            start_ps: now_ps,
            end_ps,
            collided: false,
            crowded: false,
            frame,
        };
        let number = self.cable.begin(activity);
        self.stations[station].state = State::Sending {
            activity: number,
            end_ps,
            collision_ps: None,
        };
        let due = station as u32;
        self.schedule(end_ps, Due::End { station: due });
        self.foresee_collisions(now_ps, station, number);
    }

    /// Finds when the transmission that begins now meets others, at each of the senders.
    fn foresee_collisions(&mut self, now_ps: u64, station: usize, number: u64) {
        let position_ps = self.stations[station].position_ps;
        let mut met = Vec::new();
        for (other, activity) in self.cable.live(now_ps) {
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
            self.expect_collision(station, at_ps);
        }
    }

    fn expect_collision(&mut self, station: usize, at_ps: u64) {
        let State::Sending {
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
        self.schedule(at_ps, Due::Collide { station });
    }

    fn collide(&mut self, now_ps: u64, station: usize) -> bool {
        let at = &mut self.stations[station];
        let State::Sending {
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
        at.state = State::Jamming { end_ps };
        self.events.push_back(EtherEvent::Collided {
            at_ps: now_ps,
            station,
            attempt: at.attempts,
        });
        let due = station as u32;
        self.schedule(end_ps, Due::End { station: due });
        self.cut_short = true;
        true
    }

    /// A transmission was cut short: those that wait for silence get it earlier.
    fn reckon_again(&mut self, now_ps: u64) {
        for place in 0..self.deferring.len() {
            let station = self.deferring[place];
            let at = &self.stations[station];
            let State::Deferring { silent_ps, .. } = at.state else {
                continue;
            };
            if silent_ps <= now_ps {
                continue;
            }
            let end = self.cable.seen_end(at.position_ps, now_ps);
            if let Some(end) = end.filter(|end| *end < silent_ps) {
                self.defer(station, end);
            }
        }
    }

    fn end(&mut self, now_ps: u64, station: usize) -> bool {
        match self.stations[station].state {
            State::Sending {
                activity,
                end_ps,
                collision_ps: None,
            } if end_ps == now_ps => self.end_of_frame(now_ps, station, activity),
            State::Jamming { end_ps } if end_ps == now_ps => self.end_of_jam(now_ps, station),
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
            EtherTo::Station(to) if to < self.stations.len() => {
                self.travel(now_ps, station, activity, to);
            }
            EtherTo::Station(_) => {}
            EtherTo::All => {
                for to in (0..self.stations.len()).filter(|&to| to != station) {
                    self.travel(now_ps, station, activity, to);
                }
            }
        }
        self.next_frame(station, now_ps);
    }

    fn travel(&mut self, now_ps: u64, from: usize, activity: u64, to: usize) {
        let (here, there) = (&self.stations[from], &self.stations[to]);
        let distance = here.position_ps.abs_diff(there.position_ps);
        let station = to as u32;
        self.schedule(now_ps + distance, Due::Arrive { activity, station });
    }

    fn arrive(&mut self, now_ps: u64, activity: u64, station: usize) -> bool {
        let position_ps = self.stations[station].position_ps;
        let Some(transmission) = self.cable.get(activity) else {
            return false;
        };
        let (from, frame) = (transmission.station, transmission.frame);
        if !self.cable.is_whole_at(activity, position_ps) {
            self.counters.damaged += 1;
            self.events.push_back(EtherEvent::Damaged {
                at_ps: now_ps,
                station,
                from,
                frame,
            });
            return true;
        }
        self.counters.delivered += 1;
        self.events.push_back(EtherEvent::Delivered {
            at_ps: now_ps,
            station,
            from,
            frame,
        });
        true
    }

    fn end_of_jam(&mut self, now_ps: u64, station: usize) {
        let at = &mut self.stations[station];
        if at.attempts < self.config.attempts_max {
            let slots = self.config.backoff.slots(at.attempts, &mut at.random);
            self.wait_until(station, now_ps + slots * self.config.slot_ps);
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
