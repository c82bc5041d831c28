//! A shared ether, paced by the clock.

use super::carrier::Carrier;
use super::lane::{Lag, LaneReport, Outlets};
use crate::host::number_of;
use link::{Ether, EtherConfig, EtherCounters, EtherEvent, EtherFrame, EtherTo, LinkConfig};
use std::collections::BTreeMap;

/// Octets of an Ethernet header as interfaces of today have it.
const HEADER: u64 = 14;

/// Octets of the check sequence, which a TAP device does not hand over.
const CHECK: u64 = 4;

/// Octets around the data of a frame of the 3 Mbit/s Ethernet: two addresses of one octet, the
/// type, the check sequence.
const AROUND_THREE: u64 = 6;

/// Frames that wait in a station's interface at most; 50 was usual for the systems of the time.
const QUEUE: usize = 50;

/// Metres between two stations.
const APART: u64 = 25;

/// Which ether.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherKind {
    /// 10 Mbit/s, IEEE 802.3.
    Ten,
    /// 3 Mbit/s, the experimental Ethernet.
    Three,
}

impl EtherKind {
    /// Its constants.
    pub fn config(self) -> EtherConfig {
        match self {
            EtherKind::Ten => EtherConfig::ten_megabit(),
            EtherKind::Three => EtherConfig::three_megabit(),
        }
    }

    /// Octets on the ether of a frame that has `len` octets here.
    fn octets(self, len: usize) -> u32 {
        let len = len as u64;
        let octets = match self {
            EtherKind::Ten => len + CHECK,
            EtherKind::Three => len.saturating_sub(HEADER) + AROUND_THREE,
        };
        u32::try_from(octets).unwrap_or(u32::MAX)
    }

    /// What one station alone gets for frames of `mtu` octets of data: the rate with all gaps, and
    /// as delay what a short frame takes beyond that rate.
    pub fn alone(self, mtu: u32) -> LinkConfig {
        const SHORT: usize = 50;
        let config = self.config();
        let full = mtu as usize + HEADER as usize;
        let gap_ps = config.gap_ps.max(config.destination_gap_ps);
        let period_ps = config.frame_ps(self.octets(full)) + gap_ps;
        let rate_bps = full as u128 * 8 * 1_000_000_000_000 / u128::from(period_ps);
        let share_ps = SHORT as u128 * 8 * 1_000_000_000_000 / rate_bps;
        let short_ps = config.frame_ps(self.octets(SHORT));
        LinkConfig {
            rate_bps: Some(rate_bps as u64),
            delay_ps: short_ps.saturating_sub(share_ps as u64),
            queue_bytes: QUEUE as u64 * full as u64,
            ..LinkConfig::default()
        }
    }
}

/// All hosts on one cable.
#[derive(Debug)]
pub struct EtherCarrier {
    kind: EtherKind,
    ether: Ether,
    stations: usize,
    frames: BTreeMap<u64, Kept>,
    next: u64,
    lag: Lag,
    counts: Counts,
    before: (EtherCounters, Counts),
}

/// A frame on the cable or waiting for it.
#[derive(Debug)]
struct Kept {
    octets: Vec<u8>,
    /// Receivers that have not yet heard the last of it.
    receivers: usize,
}

/// What the ether itself does not count.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    offered: u64,
    offered_bytes: u64,
    delivered: u64,
    delivered_bytes: u64,
    refused: u64,
}

impl EtherCarrier {
    /// A cable with `stations`, whose backoffs follow `seed`.
    pub(crate) fn new(kind: EtherKind, stations: usize, seed: u64) -> EtherCarrier {
        let config = kind.config();
        let mut ether = Ether::new(config, seed);
        for station in 0..stations as u64 {
            ether.attach(config.position_ps(station * APART));
        }
        EtherCarrier {
            kind,
            ether,
            stations,
            frames: BTreeMap::new(),
            next: 0,
            lag: Lag::default(),
            counts: Counts::default(),
            before: Default::default(),
        }
    }

    /// Does what happened on the cable.
    fn follow(&mut self, now_ps: u64, outlets: &mut Outlets) {
        while let Some(event) = self.ether.poll_event() {
            match event {
                EtherEvent::Delivered {
                    at_ps,
                    station,
                    frame,
                    ..
                } => {
                    if let Some(kept) = self.frames.get(&frame.tag) {
                        self.lag.record(at_ps, now_ps);
                        outlets.write(Some(station), &kept.octets);
                        self.counts.delivered += 1;
                        self.counts.delivered_bytes += kept.octets.len() as u64;
                    }
                    self.heard(frame.tag);
                }
                EtherEvent::Damaged { frame, .. } => self.heard(frame.tag),
                EtherEvent::Dropped { frame, .. } => {
                    self.frames.remove(&frame.tag);
                }
                EtherEvent::Started { .. }
                | EtherEvent::Sent { .. }
                | EtherEvent::Collided { .. } => {}
            }
        }
    }

    /// One receiver has heard the last of a frame.
    fn heard(&mut self, tag: u64) {
        if let Some(kept) = self.frames.get_mut(&tag) {
            kept.receivers -= 1;
            if kept.receivers == 0 {
                self.frames.remove(&tag);
            }
        }
    }
}

impl Carrier for EtherCarrier {
    fn offer(&mut self, now_ps: u64, from: usize, octets: &mut [u8], outlets: &mut Outlets) {
        self.counts.offered += 1;
        self.counts.offered_bytes += octets.len() as u64;
        if self.ether.queued(from) >= QUEUE {
            self.counts.refused += 1;
            return;
        }
        let station = number_of(octets).filter(|&station| station < self.stations);
        let (to, receivers) = match station {
            Some(station) => (EtherTo::Station(station), 1),
            None => (EtherTo::All, self.stations - 1),
        };
        let tag = self.next;
        self.next += 1;
        let frame = EtherFrame {
            tag,
            octets: self.kind.octets(octets.len()),
            to,
        };
        let kept = Kept {
            octets: octets.to_vec(),
            receivers,
        };
        self.frames.insert(tag, kept);
        self.ether.offer(now_ps, from, frame);
        self.follow(now_ps, outlets);
    }

    fn deliver(&mut self, now_ps: u64, outlets: &mut Outlets) {
        self.ether.advance(now_ps);
        self.follow(now_ps, outlets);
    }

    fn due_ps(&self) -> Option<u64> {
        self.ether.deadline()
    }

    /// The cable goes on as it is: frames on it belong to circuits already made.
    fn begin(&mut self, _now_ps: u64, _seed: u64) {
        self.before = (self.ether.counters(), self.counts);
        self.lag = Lag::default();
    }

    fn end(&mut self) {}

    fn report(&self) -> LaneReport {
        let (ether, counts) = &self.before;
        let now = self.ether.counters();
        let link = link::LinkCounters {
            offered: self.counts.offered - counts.offered,
            offered_bytes: self.counts.offered_bytes - counts.offered_bytes,
            delivered: self.counts.delivered - counts.delivered,
            delivered_bytes: self.counts.delivered_bytes - counts.delivered_bytes,
            lost: now.damaged - ether.damaged,
            dropped: self.counts.refused - counts.refused + now.dropped - ether.dropped,
            ..Default::default()
        };
        LaneReport {
            link,
            collisions: now.collisions - ether.collisions,
            in_flight: self.frames.len() as u64,
            lag: self.lag,
            ..LaneReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_a_station_gets_what_the_gaps_leave() {
        // 1538 octets of time for 1514 of frame.
        let ten = EtherKind::Ten.alone(1500);
        assert_eq!(ten.rate_bps, Some(9_843_953));
        // 1506 octets at 3 Mbit/s, a bit, and a millisecond: 5.017 ms for 1514 octets.
        let three = EtherKind::Three.alone(1500).rate_bps.expect("a rate");
        assert!((2_410_000..2_420_000).contains(&three), "{three}");
    }
}
