//! A ring of 100 Mbit/s shared by the timed token protocol: FDDI (ANSI X3.139-1987).
//!
//! One token travels around the ring; the station that has it may send. Each station times its rotation:
//! a token that comes before the target rotation time (TTRT) has passed may be held for what is left of
//! it, a late one must be passed on. All frames are asynchronous ones of one priority; a station that has
//! begun a frame ends it. The token leaves with the last frame, and frames pass all stations.
//!
//! An idle ring costs nothing to simulate: where the token is follows from when it left its last holder.
//! Claiming, recovery and the second ring are not modelled: no station fails.

use crate::ether::{EtherCounters, EtherDestination, EtherEvent, EtherFrame, EtherTime};
use crate::queue::EventQueue;
use std::collections::VecDeque;

/// Octets of a frame between delimiters at most: 4,500 of a whole frame (X3.139, 4.3.5), less 2 of
/// preamble and 3 of delimiters and status.
const FRAME_OCTETS_MAX: u32 = 4_495;

/// Constants of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FddiConfig {
    /// Time of one bit, ps.
    pub bit_ps: u64,
    /// Octets around what lies between frame control and check sequence: preamble 8, starting
    /// delimiter 1, ending delimiter and frame status 2.
    pub around_octets: u32,
    /// Octets of a token: preamble 8, starting delimiter 1, frame control 1, ending delimiter 1.
    pub token_octets: u32,
    /// Delay of a signal within a station, ps.
    pub latency_ps: u64,
    /// Target token rotation time (TTRT), ps.
    pub ttrt_ps: u64,
}

impl FddiConfig {
    /// 100 Mbit/s. A station delays by 600 ns (X3.148 allows 756), and the TTRT is 8 ms, which Jain
    /// (1991) recommends for any number of stations.
    pub const fn standard() -> FddiConfig {
        FddiConfig {
            bit_ps: 10_000,
            around_octets: 11,
            token_octets: 11,
            latency_ps: 600_000,
            ttrt_ps: 8_000_000_000,
        }
    }

    /// Transmission time of a frame with `octets` from frame control to check sequence, ps.
    pub fn frame_ps(&self, octets: u32) -> u64 {
        u64::from(octets + self.around_octets) * 8 * self.bit_ps
    }

    fn token_ps(&self) -> u64 {
        u64::from(self.token_octets) * 8 * self.bit_ps
    }
}

/// Where the token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// It left `from` at `left_ps` and passes the stations behind it.
    Passing { from: usize, left_ps: u64 },
    /// A station sends its first frame in the queue, and may begin others until `until_ps`.
    Held { by: usize, until_ps: u64 },
}

/// Scheduled steps of the ring.
#[derive(Clone, Copy, Debug)]
enum RingStep {
    /// The token reaches a station with frames; stale unless `plan` is the last one.
    Captured { station: usize, plan: u64 },
    /// A frame's last bit was sent.
    Transmitted { station: usize },
    /// A frame has arrived.
    Arrived {
        station: usize,
        from: usize,
        frame: EtherFrame,
    },
}

/// A ring of stations in the order of their numbers.
#[derive(Clone, Debug)]
pub struct Fddi {
    config: FddiConfig,
    /// From station 0 to each, propagation and delays of the stations between, ps.
    offsets_ps: Vec<u64>,
    /// Once around, ps.
    rotation_ps: u64,
    queues: Vec<VecDeque<EtherFrame>>,
    /// When the token of each station is late: its rotation timer (TRT) ends, ps.
    late_at_ps: Vec<u64>,
    token: Token,
    plan: u64,
    steps: EventQueue<RingStep>,
    events: VecDeque<EtherEvent>,
    counters: EtherCounters,
    carrying_ps: u64,
    late_tokens: u64,
}

impl Fddi {
    /// A ring of stations at `positions_ps`, propagation from the first one in the direction of the
    /// ring, ascending; `closing_ps` is that from the last one to the first. The token leaves station 0
    /// at 0.
    ///
    /// # Panics
    ///
    /// Without stations, or when one rotation takes the TTRT or longer.
    pub fn new(config: FddiConfig, positions_ps: &[u64], closing_ps: u64) -> Fddi {
        let count = positions_ps.len();
        let offset = |(station, at): (usize, &u64)| at + station as u64 * config.latency_ps;
        let offsets_ps: Vec<u64> = positions_ps.iter().enumerate().map(offset).collect();
        let last = offsets_ps.last().expect("a ring has stations");
        let rotation_ps = last + closing_ps + config.latency_ps;
        assert!(
            rotation_ps < config.ttrt_ps,
            "the TTRT is no longer than a rotation"
        );
        Fddi {
            late_at_ps: vec![config.ttrt_ps; count],
            config,
            offsets_ps,
            rotation_ps,
            queues: vec![VecDeque::new(); count],
            token: Token::Passing {
                from: 0,
                left_ps: 0,
            },
            plan: 0,
            steps: EventQueue::new(),
            events: VecDeque::new(),
            counters: EtherCounters::default(),
            carrying_ps: 0,
            late_tokens: 0,
        }
    }

    /// `station` has a frame to send; its octets are those from frame control to check sequence.
    pub fn offer(&mut self, now_ps: u64, station: usize, frame: EtherFrame) {
        self.counters.offered += 1;
        self.queues[station].push_back(frame);
        if self.queues[station].len() == 1
            && let Token::Passing { .. } = self.token
        {
            self.plan_capture(now_ps);
        }
    }

    /// When it wants to advance next.
    pub fn deadline(&self) -> Option<u64> {
        self.steps.next_time()
    }

    /// Does what is due until `now_ps`.
    pub fn advance(&mut self, now_ps: u64) {
        while self.steps.next_time().is_some_and(|at| at <= now_ps) {
            let Some((at_ps, step)) = self.steps.pop() else {
                return;
            };
            self.counters.events += 1;
            match step {
                RingStep::Captured { station, plan } if plan == self.plan => {
                    self.capture(at_ps, station);
                }
                RingStep::Captured { .. } => {}
                RingStep::Transmitted { station } => self.finish_frame(at_ps, station),
                RingStep::Arrived {
                    station,
                    from,
                    frame,
                } => {
                    self.counters.delivered += 1;
                    self.events.push_back(EtherEvent::Delivered {
                        at_ps,
                        station,
                        from,
                        frame,
                    });
                }
            }
        }
    }

    /// The next event: `Started`, `Sent`, `Delivered`, and `Dropped` of a frame that is too long.
    pub fn poll_event(&mut self) -> Option<EtherEvent> {
        self.events.pop_front()
    }

    /// Its counts; nothing collides.
    pub fn counters(&self) -> EtherCounters {
        self.counters
    }

    /// Tokens that came late to a station with frames and were passed on.
    pub fn late_tokens(&self) -> u64 {
        self.late_tokens
    }

    /// Use of the ring's time until `now_ps`: frames whose transmission has ended, and the rest.
    pub fn medium_until(&self, now_ps: u64) -> EtherTime {
        EtherTime {
            carrying_ps: self.carrying_ps,
            collided_ps: 0,
            idle_ps: now_ps.saturating_sub(self.carrying_ps),
        }
    }

    /// From one station to another, or once around to itself, ps.
    fn distance_ps(&self, from: usize, to: usize) -> u64 {
        let (start, end) = (self.offsets_ps[from], self.offsets_ps[to]);
        if to > from {
            end - start
        } else {
            end + self.rotation_ps - start
        }
    }

    /// Plans the capture by the station with frames that the token reaches first.
    fn plan_capture(&mut self, now_ps: u64) {
        let Token::Passing { from, left_ps } = self.token else {
            return;
        };
        let waiting = (0..self.queues.len()).filter(|&station| !self.queues[station].is_empty());
        let arrivals = waiting.map(|station| {
            let first_ps = left_ps + self.distance_ps(from, station);
            let missed = now_ps.saturating_sub(first_ps).div_ceil(self.rotation_ps);
            (first_ps + missed * self.rotation_ps, station)
        });
        if let Some((at_ps, station)) = arrivals.min() {
            self.plan += 1;
            let plan = self.plan;
            self.steps
                .push(at_ps, 0, RingStep::Captured { station, plan });
        }
    }

    /// The token passes a station: how long it may be held, ps. The rule of X3.139, 4.4: an early token
    /// restarts the timer, a late one lets it run on from when it ended.
    fn pass(&mut self, at_ps: u64, station: usize) -> u64 {
        let late_at_ps = &mut self.late_at_ps[station];
        let left_ps = late_at_ps.saturating_sub(at_ps);
        *late_at_ps = match left_ps {
            0 => *late_at_ps + self.config.ttrt_ps,
            _ => at_ps + self.config.ttrt_ps,
        };
        left_ps
    }

    /// The token has passed other stations on its way to `to`.
    fn pass_others(&mut self, at_ps: u64, to: usize) {
        let Token::Passing { from, left_ps } = self.token else {
            return;
        };
        for station in 0..self.queues.len() {
            let mut pass_ps = left_ps + self.distance_ps(from, station);
            let until_ps = at_ps - u64::from(station == to);
            if pass_ps > until_ps {
                continue;
            }
            self.pass(pass_ps, station);
            // Of further rotations the last two decide: a token that comes twice in a TTRT is early.
            let further = (until_ps - pass_ps) / self.rotation_ps;
            pass_ps += further.saturating_sub(2) * self.rotation_ps;
            for _ in 0..further.min(2) {
                pass_ps += self.rotation_ps;
                self.pass(pass_ps, station);
            }
        }
    }

    fn capture(&mut self, now_ps: u64, station: usize) {
        self.pass_others(now_ps, station);
        let hold_ps = self.pass(now_ps, station);
        if hold_ps == 0 {
            self.late_tokens += 1;
            self.token = Token::Passing {
                from: station,
                left_ps: now_ps,
            };
            return self.plan_capture(now_ps + 1);
        }
        self.token = Token::Held {
            by: station,
            until_ps: now_ps + hold_ps,
        };
        self.send_next(now_ps, station);
    }

    /// Sends the holder's next frame, or releases the token.
    fn send_next(&mut self, now_ps: u64, station: usize) {
        while let Some(&frame) = self.queues[station].front() {
            if frame.octets > FRAME_OCTETS_MAX {
                self.queues[station].pop_front();
                self.counters.dropped += 1;
                self.events.push_back(EtherEvent::Dropped {
                    at_ps: now_ps,
                    station,
                    frame,
                });
                continue;
            }
            self.events.push_back(EtherEvent::Started {
                at_ps: now_ps,
                from: station,
                attempt: 1,
                frame,
            });
            let end_ps = now_ps + self.config.frame_ps(frame.octets);
            self.steps
                .push(end_ps, 0, RingStep::Transmitted { station });
            return;
        }
        self.release(now_ps, station);
    }

    fn release(&mut self, now_ps: u64, station: usize) {
        let left_ps = now_ps + self.config.token_ps();
        self.token = Token::Passing {
            from: station,
            left_ps,
        };
        self.plan_capture(now_ps);
    }

    fn finish_frame(&mut self, now_ps: u64, station: usize) {
        let Token::Held { until_ps, .. } = self.token else {
            return;
        };
        let Some(frame) = self.queues[station].pop_front() else {
            return;
        };
        self.counters.sent += 1;
        self.carrying_ps += self.config.frame_ps(frame.octets);
        self.events.push_back(EtherEvent::Sent {
            at_ps: now_ps,
            from: station,
            frame,
        });
        self.deliver(now_ps, station, frame);
        match now_ps < until_ps {
            true => self.send_next(now_ps, station),
            false => self.release(now_ps, station),
        }
    }

    fn deliver(&mut self, now_ps: u64, from: usize, frame: EtherFrame) {
        let receivers = match frame.to {
            EtherDestination::Station(station) => station..station + 1,
            EtherDestination::All => 0..self.queues.len(),
        };
        for station in receivers.filter(|&station| station != from) {
            let at_ps = now_ps + self.distance_ps(from, station);
            let arrived = RingStep::Arrived {
                station,
                from,
                frame,
            };
            self.steps.push(at_ps, 0, arrived);
        }
    }
}

#[cfg(test)]
mod tests;
