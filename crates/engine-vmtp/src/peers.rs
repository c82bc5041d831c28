//! What an endpoint knows of the addresses it speaks with.

use crate::config::{RETRY_WAIT_MAX, RETRY_WAIT_MIN, VmtpConfig};
use congestion::rtt::{RtoBounds, RttEstimator};
use core::time::Duration;
use engine::Path;
use std::collections::{BTreeMap, VecDeque};

/// Addresses remembered, at most. One that is forgotten is measured and probed again.
const PEERS_MAX: usize = 16_384;

/// Gaps are in 1/32 of a packet's time, at most 255 (RFC 1045 section 2.5.6).
const GAP_MAX: u32 = 255;

/// Groups without a loss before the gap gets smaller.
const CLEAN_GROUPS: u32 = 16;

/// An address, and the path to it.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    rtt: RttEstimator,
    /// Times from a Request to its Response.
    response: RttEstimator,
    /// The shortest round trip seen.
    rtt_min: Option<Duration>,
    /// The address is real: this host's user named it, or it answered a probe.
    pub(crate) is_valid: bool,
    /// Octets received and sent while it was not.
    received: u64,
    sent: u64,
    /// Nanoseconds between two packets of a group, smoothed: falls slowly, rises at once.
    spacing_ns: Option<u64>,
    /// Between packets that are sent there.
    gap: Gap,
    /// Between packets of Responses that are sent there, as the peer asks.
    asked_gap: u32,
    /// Between packets of Responses that come from there: what this end asks.
    wanted_gap: Gap,
}

/// A gap between the packets of a group, as losses teach it.
#[derive(Debug, Default)]
struct Gap {
    value: u32,
    clean_groups: u32,
}

impl Gap {
    /// This many blocks of a group were lost. One may be chance; more came too fast.
    fn note_missing(&mut self, blocks: u32) {
        self.clean_groups = 0;
        if blocks > 1 {
            self.value = (self.value + self.value.div_ceil(2).max(1)).min(GAP_MAX);
        }
    }

    /// A group arrived as it was sent.
    fn note_clean(&mut self) {
        self.clean_groups += 1;
        if self.clean_groups >= CLEAN_GROUPS {
            self.clean_groups = 0;
            self.value = self.value.saturating_sub(1);
        }
    }
}

impl Peer {
    pub(crate) fn sample_rtt(&mut self, rtt: Duration) {
        self.rtt.sample(rtt);
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
    }

    /// A time in which a round trip was made, and perhaps more.
    pub(crate) fn sample_rtt_at_most(&mut self, time: Duration) {
        let srtt = self.rtt.srtt();
        if srtt.is_zero() || time < srtt {
            self.sample_rtt(time);
        }
    }

    /// A Response came so long after its Request had first left.
    pub(crate) fn sample_response(&mut self, time: Duration) {
        self.response.sample(time);
    }

    /// The wait for a Response (TC1): a round trip and what a server may take; longer where Responses take longer, as
    /// behind those of thousands of other clients.
    pub(crate) fn response_wait(&self, config: &VmtpConfig) -> Duration {
        let bounds = RtoBounds {
            initial: Duration::ZERO,
            min: Duration::ZERO,
            max: RETRY_WAIT_MAX,
        };
        let usual = self.retry_wait(config, 0) + config.service_wait;
        usual.max(self.response.rto(&bounds, 0))
    }

    /// The wait for an answer to the retransmission after `backoffs` others (TC2, TS3).
    pub(crate) fn retry_wait(&self, config: &VmtpConfig, backoffs: u32) -> Duration {
        let bounds = RtoBounds {
            initial: config.rtt_initial,
            min: RETRY_WAIT_MIN,
            max: RETRY_WAIT_MAX,
        };
        self.rtt.rto(&bounds, backoffs)
    }

    /// A time in which no answer to a packet can come; zero if none was measured.
    pub(crate) fn rtt_min(&self) -> Duration {
        self.rtt_min.unwrap_or_default()
    }

    /// A packet of a group came so long after the one before.
    pub(crate) fn note_spacing(&mut self, time: Duration) {
        let ns = time.as_nanos() as u64;
        let smoothed = self
            .spacing_ns
            .map_or(ns, |old| ns.max(old - old.div_ceil(8)));
        self.spacing_ns = Some(smoothed);
    }

    /// The wait for the next packet of a group (TC3, TS1): ten times the time of one.
    pub(crate) fn packet_wait(&self, config: &VmtpConfig) -> Duration {
        let unknown = 4 * config.packet_wait;
        let measured = |ns: u64| Duration::from_nanos(ns.saturating_mul(10));
        let wait = self.spacing_ns.map_or(unknown, measured);
        wait.clamp(config.packet_wait.min(RETRY_WAIT_MAX), RETRY_WAIT_MAX)
    }

    /// The peer lacks this many blocks of a group.
    pub(crate) fn note_missing(&mut self, blocks: u32) {
        self.gap.note_missing(blocks);
    }

    /// A group arrived there as it was sent.
    pub(crate) fn note_clean(&mut self) {
        self.gap.note_clean();
    }

    /// This many blocks of a Response from there are missing.
    pub(crate) fn note_response_missing(&mut self, blocks: u32) {
        self.wanted_gap.note_missing(blocks);
    }

    /// A Response from there came whole at once.
    pub(crate) fn note_response_clean(&mut self) {
        self.wanted_gap.note_clean();
    }

    /// The gap that this end asks for between the packets of Responses (InterpacketGap).
    pub(crate) fn wanted_gap(&self) -> u8 {
        self.wanted_gap.value.min(GAP_MAX) as u8
    }

    /// The peer asks for this gap between the packets of Responses to it.
    pub(crate) fn note_asked_gap(&mut self, gap: u8) {
        self.asked_gap = u32::from(gap);
    }

    /// Time between the starts of two packets of a group.
    pub(crate) fn gap(&self, config: &VmtpConfig, is_response: bool) -> Duration {
        let asked = if is_response { self.asked_gap } else { 0 };
        match self.gap.value.max(asked) {
            0 => Duration::ZERO,
            gap => config.packet_time * gap / 32,
        }
    }

    pub(crate) fn note_received(&mut self, octets: usize) {
        self.received = self.received.saturating_add(octets as u64);
    }

    /// Octets that may be sent there: as many as came, until the address is valid.
    pub(crate) fn credit(&self) -> u64 {
        match self.is_valid {
            true => u64::MAX,
            false => self.received.saturating_sub(self.sent),
        }
    }

    pub(crate) fn note_sent(&mut self, octets: u64) {
        self.sent = self.sent.saturating_add(octets);
    }
}

/// All addresses.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: Vec<Peer>,
    /// Places among the peers.
    known: BTreeMap<Path, usize>,
    /// In the order in which they became known.
    oldest: VecDeque<Path>,
    /// The one asked for last: packets of one path come together.
    last: Option<(Path, usize)>,
}

impl Peers {
    /// The peer at the far end of `path`.
    #[inline]
    pub(crate) fn get(&mut self, path: Path) -> &mut Peer {
        let at = match self.last {
            Some((last, at)) if last == path => at,
            _ => self.find(path),
        };
        &mut self.peers[at]
    }

    #[inline(never)]
    fn find(&mut self, path: Path) -> usize {
        let known = self.known.get(&path).copied();
        let at = known.unwrap_or_else(|| self.add(path));
        self.last = Some((path, at));
        at
    }

    /// A new one, in the place of the oldest where there is no room.
    fn add(&mut self, path: Path) -> usize {
        let is_full = self.peers.len() >= PEERS_MAX;
        let oldest = if is_full {
            self.oldest.pop_front()
        } else {
            None
        };
        let place = oldest.and_then(|oldest| self.known.remove(&oldest));
        let at = place.unwrap_or_else(|| {
            self.peers.push(Peer::default());
            self.peers.len() - 1
        });
        self.peers[at] = Peer::default();
        self.known.insert(path, at);
        self.oldest.push_back(path);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Address;

    #[test]
    fn gap_grows_with_bursts_of_loss_and_shrinks_after_clean_groups() {
        let config = VmtpConfig::default();
        let mut peer = Peer::default();
        peer.note_missing(1);
        assert_eq!(
            peer.gap(&config, false),
            Duration::ZERO,
            "one block may be chance"
        );
        for _ in 0..30 {
            peer.note_missing(2);
        }
        assert_eq!(peer.gap(&config, false), config.packet_time * 255 / 32);
        for _ in 0..16 {
            peer.note_clean();
        }
        assert_eq!(peer.gap(&config, false), config.packet_time * 254 / 32);
    }

    #[test]
    fn gap_that_a_peer_asks_for_holds_for_responses_alone() {
        let config = VmtpConfig::default();
        let mut peer = Peer::default();
        peer.note_asked_gap(64);
        assert_eq!(peer.gap(&config, false), Duration::ZERO);
        assert_eq!(peer.gap(&config, true), config.packet_time * 2);
        peer.note_response_missing(4);
        assert_eq!(peer.wanted_gap(), 1);
    }

    #[test]
    fn wait_for_a_response_follows_those_that_came_up_to_a_limit() {
        let config = VmtpConfig::default();
        let mut peer = Peer::default();
        peer.sample_rtt(Duration::from_millis(1));
        let usual = peer.response_wait(&config);
        assert_eq!(usual, RETRY_WAIT_MIN + config.service_wait);
        peer.sample_response(Duration::from_millis(20));
        assert_eq!(
            peer.response_wait(&config),
            usual,
            "quick ones change nothing"
        );
        for _ in 0..50 {
            peer.sample_response(Duration::from_millis(600));
        }
        let wait = peer.response_wait(&config);
        assert!(
            wait > Duration::from_millis(600) && wait < Duration::from_millis(700),
            "{wait:?}"
        );
        peer.sample_response(Duration::from_secs(60));
        assert_eq!(peer.response_wait(&config), RETRY_WAIT_MAX);
    }

    #[test]
    fn address_that_is_not_valid_gets_what_it_sent() {
        let mut peer = Peer::default();
        peer.note_received(100);
        peer.note_sent(68);
        assert_eq!(peer.credit(), 32);
        peer.is_valid = true;
        assert_eq!(peer.credit(), u64::MAX);
    }

    #[test]
    fn table_forgets_the_oldest_address() {
        let mut peers = Peers::default();
        let path = |station: usize| Path::to(Address::Station(station as u32));
        for station in 0..=PEERS_MAX {
            peers.get(path(station)).is_valid = true;
        }
        assert_eq!(peers.known.len(), PEERS_MAX);
        assert!(!peers.get(path(0)).is_valid && peers.get(path(PEERS_MAX)).is_valid);
    }
}
