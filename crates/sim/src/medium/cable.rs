//! The shared media: an ether, or a ring.

use super::{MediumConfig, OfferedFrame};
use crate::link_framing::{FDDI_FRAME_OCTETS, FRAME_OCTETS};
use link::{Ether, EtherCounters, EtherEvent, EtherFrame, EtherTime, Fddi};

/// A medium on which one station sends at a time.
pub(super) enum Cable {
    /// With octets of LLC in each frame.
    Ether(Box<Ether>, u32),
    Fddi(Box<Fddi>),
}

impl Cable {
    /// The shared medium of `config` with `stations`.
    ///
    /// # Panics
    ///
    /// When `config` is one of links.
    pub(super) fn new(config: &MediumConfig, stations: usize, seed: u64) -> Cable {
        let position = |positions_ps: &[u64], station: usize| {
            let at = positions_ps.get(station).or(positions_ps.last());
            at.copied().unwrap_or(0)
        };
        match config {
            MediumConfig::Ether {
                ether,
                positions_ps,
                llc_octets,
            } => {
                let mut cable = Ether::new(*ether, seed);
                for station in 0..stations {
                    cable.attach(position(positions_ps, station));
                }
                Cable::Ether(Box::new(cable), *llc_octets)
            }
            MediumConfig::Fddi {
                ring,
                positions_ps,
                closing_ps,
            } => {
                let at = (0..stations).map(|station| position(positions_ps, station));
                let at: Vec<u64> = at.collect();
                Cable::Fddi(Box::new(Fddi::new(*ring, &at, *closing_ps)))
            }
            _ => unreachable!("links are not shared"),
        }
    }

    pub(super) fn offer(&mut self, now_ps: u64, from: usize, offered: OfferedFrame) {
        let around = match self {
            Cable::Ether(_, llc_octets) => FRAME_OCTETS + *llc_octets,
            Cable::Fddi(_) => FDDI_FRAME_OCTETS,
        };
        let frame = EtherFrame {
            tag: offered.tag,
            octets: offered.packet_len + around,
            to: offered.to,
        };
        match self {
            Cable::Ether(ether, _) => ether.offer(now_ps, from, frame),
            Cable::Fddi(ring) => ring.offer(now_ps, from, frame),
        }
    }

    #[inline]
    pub(super) fn deadline(&self) -> Option<u64> {
        match self {
            Cable::Ether(ether, _) => ether.deadline(),
            Cable::Fddi(ring) => ring.deadline(),
        }
    }

    pub(super) fn advance(&mut self, now_ps: u64) {
        match self {
            Cable::Ether(ether, _) => ether.advance(now_ps),
            Cable::Fddi(ring) => ring.advance(now_ps),
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<EtherEvent> {
        match self {
            Cable::Ether(ether, _) => ether.poll_event(),
            Cable::Fddi(ring) => ring.poll_event(),
        }
    }

    pub(super) fn counters(&self) -> EtherCounters {
        match self {
            Cable::Ether(ether, _) => ether.counters(),
            Cable::Fddi(ring) => ring.counters(),
        }
    }

    pub(super) fn medium_until(&self, now_ps: u64) -> EtherTime {
        match self {
            Cable::Ether(ether, _) => ether.medium_until(now_ps),
            Cable::Fddi(ring) => ring.medium_until(now_ps),
        }
    }
}
