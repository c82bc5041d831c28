//! A shared Ethernet in real time.

use super::link_report::{Lag, LinkReport};
use super::link_thread::OutputPorts;
use super::path_model::FrameModel;
use crate::host::host_number;
use link::{
    Ether, EtherConfig, EtherCounters, EtherDestination, EtherEvent, EtherFrame, LinkConfig,
};
use std::collections::BTreeMap;

/// Octets of an Ethernet header on today's interfaces.
const HEADER_LEN: u64 = 14;

/// Octets of the FCS, which TAP devices omit.
const FCS_LEN: u64 = 4;

/// Octets around the data in a frame of the 3 Mbit/s Ethernet: two addresses of one octet, type,
/// checksum.
const FRAMING_3MB_LEN: u64 = 6;

/// Frames queued in a station's interface at most; 50 was usual for systems of the time.
const STATION_QUEUE_MAX: usize = 50;

/// Distance between two stations, m.
const STATION_SPACING_M: u64 = 25;

/// Kind of Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherKind {
    /// 10 Mbit/s, IEEE 802.3.
    TenMegabit,
    /// 3 Mbit/s, the experimental Ethernet.
    ThreeMegabit,
}

impl EtherKind {
    /// Its parameters.
    pub fn config(self) -> EtherConfig {
        match self {
            EtherKind::TenMegabit => EtherConfig::ten_megabit(),
            EtherKind::ThreeMegabit => EtherConfig::three_megabit(),
        }
    }

    /// Octets on the cable of a frame that has `len` octets here.
    fn octets(self, len: usize) -> u32 {
        let len = len as u64;
        let octets = match self {
            EtherKind::TenMegabit => len + FCS_LEN,
            EtherKind::ThreeMegabit => len.saturating_sub(HEADER_LEN) + FRAMING_3MB_LEN,
        };
        u32::try_from(octets).unwrap_or(u32::MAX)
    }

    /// What a single station gets for frames of `mtu` octets of data: the rate with all gaps, and
    /// as delay the extra time of a short frame.
    pub fn uncontended(self, mtu: u32) -> LinkConfig {
        const SHORT: usize = 50;
        let config = self.config();
        let full = mtu as usize + HEADER_LEN as usize;
        let gap_ps = config.gap_ps.max(config.destination_gap_ps);
        let period_ps = config.frame_ps(self.octets(full)) + gap_ps;
        let rate_bps = full as u128 * 8 * 1_000_000_000_000 / u128::from(period_ps);
        let share_ps = SHORT as u128 * 8 * 1_000_000_000_000 / rate_bps;
        let short_ps = config.frame_ps(self.octets(SHORT));
        LinkConfig {
            rate_bps: Some(rate_bps as u64),
            delay_ps: short_ps.saturating_sub(share_ps as u64),
            queue_bytes: STATION_QUEUE_MAX as u64 * full as u64,
            ..LinkConfig::default()
        }
    }
}

/// The cable with all hosts.
#[derive(Debug)]
pub struct EtherModel {
    kind: EtherKind,
    ether: Ether,
    stations: usize,
    frames: BTreeMap<u64, FrameOnCable>,
    next: u64,
    lag: Lag,
    counts: EtherCounts,
    before: (EtherCounters, EtherCounts),
}

/// A frame on the cable or queued for it.
#[derive(Debug)]
struct FrameOnCable {
    octets: Vec<u8>,
    /// The station that sends it.
    from: usize,
    /// Receivers that it has not reached yet.
    receivers: usize,
}

/// Counters that the Ethernet model lacks.
#[derive(Clone, Copy, Debug, Default)]
struct EtherCounts {
    offered: u64,
    offered_bytes: u64,
    delivered: u64,
    delivered_bytes: u64,
    refused: u64,
}

impl EtherModel {
    /// A cable with `stations`, whose backoffs depend on `seed`.
    pub(crate) fn new(kind: EtherKind, stations: usize, seed: u64) -> EtherModel {
        let config = kind.config();
        let mut ether = Ether::new(config, seed);
        for station in 0..stations as u64 {
            ether.attach(config.position_ps(station * STATION_SPACING_M));
        }
        EtherModel {
            kind,
            ether,
            stations,
            frames: BTreeMap::new(),
            next: 0,
            lag: Lag::default(),
            counts: EtherCounts::default(),
            before: Default::default(),
        }
    }

    /// Handles the model's events.
    fn process_events(&mut self, now_ps: u64, outputs: &mut OutputPorts) {
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
                        outputs.write(Some(station), &kept.octets);
                        self.counts.delivered += 1;
                        self.counts.delivered_bytes += kept.octets.len() as u64;
                    }
                    self.receiver_done(frame.tag);
                }
                EtherEvent::Damaged { frame, .. } => self.receiver_done(frame.tag),
                EtherEvent::Dropped { frame, .. } => {
                    self.frames.remove(&frame.tag);
                }
                EtherEvent::Started { .. }
                | EtherEvent::Sent { .. }
                | EtherEvent::Collided { .. } => {}
            }
        }
    }

    /// A frame has reached one receiver.
    fn receiver_done(&mut self, tag: u64) {
        if let Some(kept) = self.frames.get_mut(&tag) {
            kept.receivers -= 1;
            if kept.receivers == 0 {
                self.frames.remove(&tag);
            }
        }
    }
}

impl FrameModel for EtherModel {
    fn ether_header_at(&self) -> usize {
        0
    }

    fn offer(&mut self, now_ps: u64, from: usize, octets: &mut [u8], outputs: &mut OutputPorts) {
        self.counts.offered += 1;
        self.counts.offered_bytes += octets.len() as u64;
        if self.ether.queued(from) >= STATION_QUEUE_MAX {
            self.counts.refused += 1;
            return;
        }
        let station = host_number(octets).filter(|&station| station < self.stations);
        let (to, receivers) = match station {
            Some(station) => (EtherDestination::Station(station), 1),
            None => (EtherDestination::All, self.stations - 1),
        };
        let tag = self.next;
        self.next += 1;
        let frame = EtherFrame {
            tag,
            octets: self.kind.octets(octets.len()),
            to,
        };
        let kept = FrameOnCable {
            octets: octets.to_vec(),
            from,
            receivers,
        };
        self.frames.insert(tag, kept);
        self.ether.offer(now_ps, from, frame);
        self.process_events(now_ps, outputs);
    }

    fn deliver(&mut self, now_ps: u64, outputs: &mut OutputPorts) {
        self.ether.advance(now_ps);
        self.process_events(now_ps, outputs);
    }

    fn due_ps(&self) -> Option<u64> {
        self.ether.deadline()
    }

    fn queued_octets(&self, _now_ps: u64) -> [Option<u64>; 2] {
        let at = |station: usize| {
            let own = self.frames.values().filter(|kept| kept.from == station);
            let octets = own.map(|kept| u64::from(self.kind.octets(kept.octets.len())));
            Some(octets.sum())
        };
        [at(0), at(1)]
    }

    /// The cable keeps its state: frames on it belong to established circuits.
    fn begin(&mut self, _now_ps: u64, _seed: u64) {
        self.before = (self.ether.counters(), self.counts);
        self.lag = Lag::default();
    }

    fn end(&mut self) {}

    fn report(&self) -> LinkReport {
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
        LinkReport {
            link,
            collisions: now.collisions - ether.collisions,
            in_flight: self.frames.len() as u64,
            lag: self.lag,
            ..LinkReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncontended_rate_excludes_gaps() {
        // 1538 octet times for a frame of 1514.
        let ten = EtherKind::TenMegabit.uncontended(1500);
        assert_eq!(ten.rate_bps, Some(9_843_953));
        // 1506 octets at 3 Mbit/s, a bit time and 1 ms: 5.017 ms for 1514 octets.
        let three = EtherKind::ThreeMegabit
            .uncontended(1500)
            .rate_bps
            .expect("a rate");
        assert!((2_410_000..2_420_000).contains(&three), "{three}");
    }
}
