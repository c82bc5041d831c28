//! The medium between the stations: an ether, links, or a switch, behind one interface.

mod arrivals;
mod cable;
mod links;

pub use crate::link_framing::FRAME_OCTETS;
use crate::link_framing::LinkFraming;
use arrivals::{apply_faults, schedule_arrivals};
use cable::Cable;
use link::{
    EtherConfig, EtherCounters, EtherDestination, EtherEvent, EtherTime, EventQueue, FddiConfig,
    LinkConfig,
};
use links::StationLinks;
use std::collections::VecDeque;

/// The medium between the stations.
#[derive(Clone, Debug, PartialEq)]
pub enum MediumConfig {
    /// One cable for all: CSMA/CD.
    Ether {
        /// Its constants.
        ether: EtherConfig,
        /// Position of each station, as propagation from the beginning of the cable, ps; stations
        /// beyond the list are at the last position.
        positions_ps: Vec<u64>,
        /// Octets of an LLC header between a frame's own and its packet.
        llc_octets: u32,
    },
    /// A ring of all stations with one token.
    Fddi {
        /// Its constants.
        ring: FddiConfig,
        /// Position of each station, as propagation from the first one, ps, ascending; stations beyond
        /// the list are at the last position.
        positions_ps: Vec<u64>,
        /// Propagation from the last station to the first, ps.
        closing_ps: u64,
    },
    /// Two stations with a link in each direction.
    Direct(LinkConfig),
    /// Every station has a link to a switch and one from it, both of this configuration; the second
    /// has the output queue.
    Switch {
        /// Each link.
        link: LinkConfig,
        /// Octets of a frame the switch must have received before it forwards it; None for all of
        /// it (store and forward).
        cut_through: Option<u32>,
    },
    /// The same for cells of ATM, each of which is a packet: no frame is around them.
    Atm {
        /// Each link.
        link: LinkConfig,
        /// Octets in an output queue above which cells of low priority (CLP) are discarded; None to
        /// treat all alike.
        low_priority_max: Option<u64>,
    },
}

/// An event for a station's controller or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediumEvent {
    /// The controller starts with a frame; the medium may still be busy.
    Dequeued { at_ps: u64, tag: u64 },
    /// A frame was sent; `arrivals` events `Arrived` or `Lost` follow.
    Sent { at_ps: u64, tag: u64, arrivals: u32 },
    /// A frame was given up after collisions, or the queue was full.
    Dropped { at_ps: u64, tag: u64 },
    /// A frame arrived at a receiver.
    Arrived {
        at_ps: u64,
        station: usize,
        tag: u64,
        corrupt_bit: Option<u64>,
        /// When all of it has arrived; later than `at_ps` for a station that cuts through.
        complete_ps: u64,
    },
    /// A receiver does not get it.
    Lost {
        at_ps: u64,
        station: usize,
        tag: u64,
    },
    /// A transmission collided.
    Collided { at_ps: u64, station: usize },
}

/// A frame handed to the controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfferedFrame {
    pub(crate) tag: u64,
    /// Octets of its packet.
    pub(crate) packet_len: u32,
    pub(crate) to: EtherDestination,
    /// No link carries it.
    pub(crate) exceeds_mtu: bool,
    /// A cell that a congested switch discards before others.
    pub(crate) low_priority: bool,
}

pub(crate) struct Medium {
    kind: MediumKind,
    framing: LinkFraming,
    stations: usize,
    seed: u64,
    /// Faults of each receiver of a shared medium.
    faults: Option<StationLinks>,
    pending: EventQueue<PendingEvent>,
    events: VecDeque<MediumEvent>,
    events_handled: u64,
}

enum MediumKind {
    Shared {
        cable: Cable,
        /// Frames at each controller; the first is being sent.
        queues: Vec<VecDeque<u64>>,
    },
    Direct(StationLinks),
    Switch {
        up: StationLinks,
        down: StationLinks,
        cut_through: Option<u32>,
        /// Octets of the head of a frame that each station needs to forward it.
        heads: Vec<Option<u32>>,
    },
}

/// Scheduled events of links and switch.
#[derive(Clone, Copy)]
enum PendingEvent {
    Medium(MediumEvent),
    /// The switch has enough of a frame to forward it.
    Forward {
        offered: OfferedFrame,
        from: usize,
    },
}

impl Medium {
    /// A medium for `stations`. `faults` apply to arrivals at each receiver of an ether,
    /// independently.
    pub(crate) fn new(
        config: &MediumConfig,
        stations: usize,
        faults: Option<LinkConfig>,
        seed: u64,
    ) -> Medium {
        let links =
            |config: LinkConfig, first: usize| StationLinks::new(config, seed, first, stations);
        let kind = match config {
            MediumConfig::Ether { .. } | MediumConfig::Fddi { .. } => MediumKind::Shared {
                cable: Cable::new(config, stations, seed),
                queues: vec![VecDeque::new(); stations],
            },
            MediumConfig::Direct(config) => MediumKind::Direct(links(*config, 0)),
            MediumConfig::Switch { link, cut_through } => MediumKind::Switch {
                up: links(*link, 0),
                down: links(*link, stations),
                cut_through: *cut_through,
                heads: vec![None; stations],
            },
            MediumConfig::Atm { link, .. } => MediumKind::Switch {
                up: links(*link, 0),
                down: links(*link, stations),
                cut_through: None,
                heads: vec![None; stations],
            },
        };
        let framing = match config {
            MediumConfig::Atm {
                low_priority_max, ..
            } => LinkFraming::Cells {
                low_priority_max: *low_priority_max,
            },
            _ => LinkFraming::Ethernet,
        };
        Medium {
            kind,
            framing,
            stations,
            seed,
            faults: faults.map(|config| links(config, 2 * stations)),
            pending: EventQueue::new(),
            events: VecDeque::new(),
            events_handled: 0,
        }
    }

    /// Sets how many octets of a frame a station of a switch needs to forward it.
    pub(crate) fn set_cut_through(&mut self, station: usize, cut_through: Option<u32>) {
        if let MediumKind::Switch { heads, .. } = &mut self.kind {
            heads[station] = cut_through;
        }
    }

    /// The station cannot forward the frame yet: it arrives when it is complete.
    pub(crate) fn deliver_when_complete(&mut self, event: MediumEvent) {
        if let MediumEvent::Arrived {
            station,
            tag,
            corrupt_bit,
            complete_ps,
            ..
        } = event
        {
            let complete = MediumEvent::Arrived {
                at_ps: complete_ps,
                station,
                tag,
                corrupt_bit,
                complete_ps,
            };
            self.pending
                .push(complete_ps, 0, PendingEvent::Medium(complete));
        }
    }

    /// Counts and times of an ether or a ring; None for links.
    pub(crate) fn shared(&self, now_ps: u64) -> Option<(EtherCounters, EtherTime)> {
        self.cable()
            .map(|cable| (cable.counters(), cable.medium_until(now_ps)))
    }

    fn cable(&self) -> Option<&Cable> {
        match &self.kind {
            MediumKind::Shared { cable, .. } => Some(cable),
            _ => None,
        }
    }

    /// Changes the faults. Frames in flight arrive as decided before.
    pub(crate) fn set_faults(&mut self, config: LinkConfig) {
        match &mut self.kind {
            MediumKind::Direct(links) => links.change(config),
            MediumKind::Switch { up, down, .. } => {
                up.change(config);
                down.change(config);
            }
            MediumKind::Shared { .. } => {
                let (seed, stations) = (self.seed, self.stations);
                let links = self
                    .faults
                    .get_or_insert_with(|| StationLinks::new(config, seed, 2 * stations, stations));
                links.change(config);
            }
        }
    }

    /// Events handled inside the medium.
    pub(crate) fn events_handled(&self) -> u64 {
        self.events_handled + self.cable().map_or(0, |cable| cable.counters().events)
    }

    pub(crate) fn offer(&mut self, now_ps: u64, from: usize, offered: OfferedFrame) {
        match &mut self.kind {
            MediumKind::Shared { cable, queues } => {
                if queues[from].is_empty() {
                    self.events.push_back(MediumEvent::Dequeued {
                        at_ps: now_ps,
                        tag: offered.tag,
                    });
                }
                queues[from].push_back(offered.tag);
                cable.offer(now_ps, from, offered);
                self.drain_cable();
            }
            MediumKind::Direct(_) => self.offer_direct(now_ps, from, offered),
            MediumKind::Switch { .. } => self.offer_switch(now_ps, from, offered),
        }
    }

    /// How long what `station` has sent keeps its line busy, ps, and how long a packet of `packet_len`
    /// octets does; zero where no link is known.
    pub(crate) fn backlog_ps(&self, now_ps: u64, station: usize, packet_len: u32) -> (u64, u64) {
        let octets = self.framing.octets(packet_len);
        match &self.kind {
            MediumKind::Switch { up: links, .. } | MediumKind::Direct(links) => {
                links.backlog_ps(station, now_ps, octets)
            }
            MediumKind::Shared { .. } => (0, 0),
        }
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Option<u64> {
        let own = self.pending.next_time();
        let cable = self.cable().and_then(Cable::deadline);
        match (own, cable) {
            (Some(own), Some(cable)) => Some(own.min(cable)),
            (own, cable) => own.or(cable),
        }
    }

    pub(crate) fn advance(&mut self, now_ps: u64) {
        if let MediumKind::Shared { cable, .. } = &mut self.kind {
            cable.advance(now_ps);
            self.drain_cable();
        }
        while self.pending.next_time().is_some_and(|at| at <= now_ps) {
            let Some((at_ps, pending)) = self.pending.pop() else {
                return;
            };
            self.events_handled += 1;
            match pending {
                PendingEvent::Medium(event) => self.events.push_back(event),
                PendingEvent::Forward { offered, from } => self.forward(at_ps, from, offered),
            }
        }
    }

    #[inline]
    pub(crate) fn poll(&mut self) -> Option<MediumEvent> {
        self.events.pop_front()
    }

    fn drain_cable(&mut self) {
        let MediumKind::Shared { cable, queues } = &mut self.kind else {
            return;
        };
        let others = self.stations as u32 - 1;
        while let Some(event) = cable.poll_event() {
            let medium_event = match event {
                EtherEvent::Started { .. } => continue,
                EtherEvent::Sent { at_ps, from, frame } => {
                    let arrivals = if frame.to == EtherDestination::All {
                        others
                    } else {
                        1
                    };
                    self.events.push_back(MediumEvent::Sent {
                        at_ps,
                        tag: frame.tag,
                        arrivals,
                    });
                    dequeue_next(&mut queues[from], at_ps, &mut self.events);
                    continue;
                }
                EtherEvent::Dropped {
                    at_ps,
                    station,
                    frame,
                } => {
                    let tag = frame.tag;
                    self.events.push_back(MediumEvent::Dropped { at_ps, tag });
                    dequeue_next(&mut queues[station], at_ps, &mut self.events);
                    continue;
                }
                EtherEvent::Delivered {
                    at_ps,
                    station,
                    frame,
                    ..
                } => {
                    if let Some(faults) = &mut self.faults {
                        let link = faults.get_mut(station);
                        let (at_ps, event) = apply_faults(link, at_ps, station, frame);
                        self.pending.push(at_ps, 0, PendingEvent::Medium(event));
                        continue;
                    }
                    MediumEvent::Arrived {
                        at_ps,
                        station,
                        tag: frame.tag,
                        corrupt_bit: None,
                        complete_ps: at_ps,
                    }
                }
                EtherEvent::Damaged {
                    at_ps,
                    station,
                    frame,
                    ..
                } => MediumEvent::Lost {
                    at_ps,
                    station,
                    tag: frame.tag,
                },
                EtherEvent::Collided { at_ps, station, .. } => {
                    MediumEvent::Collided { at_ps, station }
                }
            };
            self.events.push_back(medium_event);
        }
    }

    fn offer_direct(&mut self, now_ps: u64, from: usize, offered: OfferedFrame) {
        let MediumKind::Direct(links) = &mut self.kind else {
            return;
        };
        let OfferedFrame {
            tag, packet_len, ..
        } = offered;
        let dequeued = MediumEvent::Dequeued { at_ps: now_ps, tag };
        self.events.push_back(dequeued);
        let fate = match offered.exceeds_mtu {
            true => link::FrameOutcome::default(),
            false => links.offer(from, now_ps, self.framing.octets(packet_len)),
        };
        let station = 1 - from.min(1);
        let arrivals = schedule_arrivals(&mut self.pending, fate, (now_ps, 0), station, tag);
        self.events.push_back(MediumEvent::Sent {
            at_ps: now_ps,
            tag,
            arrivals,
        });
    }

    fn offer_switch(&mut self, now_ps: u64, from: usize, offered: OfferedFrame) {
        let MediumKind::Switch {
            up, cut_through, ..
        } = &mut self.kind
        else {
            return;
        };
        let tag = offered.tag;
        self.events
            .push_back(MediumEvent::Dequeued { at_ps: now_ps, tag });
        let octets = self.framing.octets(offered.packet_len);
        let fate = match offered.exceeds_mtu {
            true => link::FrameOutcome::default(),
            false => up.offer(from, now_ps, octets),
        };
        let Some(arrival_ps) = fate.arrival_ps else {
            self.events
                .push_back(MediumEvent::Dropped { at_ps: now_ps, tag });
            return;
        };
        let lead_ps = lead_ps(up.config(), octets, *cut_through);
        let at_ps = arrival_ps.saturating_sub(lead_ps).max(now_ps);
        self.pending
            .push(at_ps, 0, PendingEvent::Forward { offered, from });
    }

    /// The switch puts a frame into the output queue of each destination.
    fn forward(&mut self, now_ps: u64, from: usize, offered: OfferedFrame) {
        let MediumKind::Switch { down, heads, .. } = &mut self.kind else {
            return;
        };
        let octets = self.framing.octets(offered.packet_len);
        let outputs = match offered.to {
            EtherDestination::Station(to) => to..to + 1,
            EtherDestination::All => 0..self.stations,
        };
        let mut arrivals = 0;
        for station in outputs.filter(|&station| station != from && station < self.stations) {
            let lead_ps = lead_ps(down.config(), octets, heads[station]);
            let link = down.get_mut(station);
            let waiting = || link.waiting_octets(now_ps);
            let fate = match self.framing.discards(offered.low_priority, waiting) {
                true => link::FrameOutcome::default(),
                false => link.offer(now_ps, octets),
            };
            let times = (now_ps, lead_ps);
            arrivals += schedule_arrivals(&mut self.pending, fate, times, station, offered.tag);
        }
        self.events.push_back(MediumEvent::Sent {
            at_ps: now_ps,
            tag: offered.tag,
            arrivals,
        });
    }
}

/// How much earlier than the last octet the first `cut_through` ones have come over a link, ps.
fn lead_ps(config: &LinkConfig, octets: usize, cut_through: Option<u32>) -> u64 {
    let rate = config.rate_bps.unwrap_or(u64::MAX).max(1);
    cut_through.map_or(0, |cut_through| {
        let rest = octets.saturating_sub(cut_through as usize) as u128;
        (rest * 8 * u128::from(link::PS_PER_S) / u128::from(rate)) as u64
    })
}

fn dequeue_next(queue: &mut VecDeque<u64>, at_ps: u64, events: &mut VecDeque<MediumEvent>) {
    queue.pop_front();
    if let Some(&tag) = queue.front() {
        events.push_back(MediumEvent::Dequeued { at_ps, tag });
    }
}
