//! The shortcut in virtual time: rings of shared memory between stations of one host.
//!
//! As of the real one (crate `wire-shortcut`): the side that opens a circuit makes an offer, which goes with its packets. When one has
//! arrived, the two meet, and after the meeting each sends to the other through a ring. A ring holds so many octets, also those that
//! have arrived and were not taken yet; what has no room goes over the medium. When rings end, packets go over the medium
//! again, until another circuit is opened.

use crate::cost::PerByte;
use std::collections::BTreeMap;

/// What the rings of a host are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Octets that each ring holds.
    pub octets: u64,
    /// From the write of a packet to its arrival at the other end, ps.
    pub latency_ps: u64,
    /// The processor's copy of a packet into a ring, and out of one.
    pub copy: PerByte,
    /// Each such copy, ps.
    pub copy_fixed_ps: u64,
    /// From the arrival of an offer to the exchange of rings, ps.
    pub meeting_ps: u64,
}

/// Two stations, the lower number first.
pub(crate) type Pair = (usize, usize);

/// How far two stations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// They have no rings, and none are offered.
    Apart,
    /// A station makes an offer with each packet.
    Offered { by: usize },
    /// An offer has come.
    Meeting,
    /// Each sends through a ring.
    Joined,
}

#[derive(Clone, Copy, Debug)]
struct Rings {
    standing: Standing,
    /// Counts the rings that ended: what belongs to an earlier life is lost or stale.
    life: u32,
    /// Disturbances that forbid rings now.
    forbidden: u32,
    /// Octets in the ring of the lower station, and of the higher.
    held: [u64; 2],
}

/// All hosts with several stations.
#[derive(Debug, Default)]
pub(crate) struct Shortcuts {
    /// For each station the number of its host, if its stations take the shortcut.
    hosts: BTreeMap<usize, usize>,
    configs: Vec<RingConfig>,
    pairs: BTreeMap<Pair, Rings>,
}

pub(crate) fn pair_of(one: usize, other: usize) -> Pair {
    (one.min(other), one.max(other))
}

/// Octets that a packet takes in a ring: whole slots, as of the shortest ring of crate `channel`.
fn held_octets(packet_len: usize) -> u64 {
    (packet_len as u64).max(1).next_multiple_of(64)
}

impl Shortcuts {
    /// Whether no stations take the shortcut, which is the usual case.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The shortcut is taken between all of `stations`.
    pub(crate) fn add_host(&mut self, stations: &[usize], config: RingConfig) {
        let host = self.configs.len();
        self.configs.push(config);
        self.hosts
            .extend(stations.iter().map(|&station| (station, host)));
    }

    /// The rings of two stations, and what they are like; None of two that never have any.
    fn rings(&mut self, pair: Pair) -> Option<(&mut Rings, RingConfig)> {
        let host = *self.hosts.get(&pair.0)?;
        if pair.0 == pair.1 || self.hosts.get(&pair.1) != Some(&host) {
            return None;
        }
        let rings = self.pairs.entry(pair).or_insert(Rings {
            standing: Standing::Apart,
            life: 0,
            forbidden: 0,
            held: [0; 2],
        });
        Some((rings, self.configs[host]))
    }

    /// What rings from `from` to `to` are like, where there are any now.
    pub(crate) fn joined(&mut self, from: usize, to: usize) -> Option<RingConfig> {
        let (rings, config) = self.rings(pair_of(from, to))?;
        (rings.standing == Standing::Joined).then_some(config)
    }

    /// A station opens a circuit to another.
    pub(crate) fn offer(&mut self, from: usize, to: usize) {
        if let Some((rings, _)) = self.rings(pair_of(from, to))
            && rings.standing == Standing::Apart
        {
            rings.standing = Standing::Offered { by: from };
        }
    }

    /// A packet has come over the medium: if an offer was with it, when the two have met, as the time from now in ps, and the life of
    /// their rings.
    pub(crate) fn receive(&mut self, from: usize, to: usize) -> Option<(u64, u32)> {
        let (rings, config) = self.rings(pair_of(from, to))?;
        if rings.standing != (Standing::Offered { by: from }) || rings.forbidden > 0 {
            return None;
        }
        rings.standing = Standing::Meeting;
        Some((config.meeting_ps, rings.life))
    }

    /// A meeting is over; whether there are rings now.
    pub(crate) fn join(&mut self, pair: Pair, life: u32) -> bool {
        let Some((rings, _)) = self.rings(pair) else {
            return false;
        };
        let is_due = rings.standing == Standing::Meeting && rings.life == life;
        if is_due {
            rings.standing = Standing::Joined;
        }
        is_due
    }

    /// Takes room for a packet in the ring to `to`: when it arrives, as the time from now in ps, and the ring's life. None
    /// without a ring or room.
    pub(crate) fn put(&mut self, from: usize, to: usize, packet_len: usize) -> Option<(u64, u32)> {
        let (rings, config) = self.rings(pair_of(from, to))?;
        let held = &mut rings.held[usize::from(from > to)];
        let octets = held_octets(packet_len);
        if rings.standing != Standing::Joined || *held + octets > config.octets {
            return None;
        }
        *held += octets;
        Some((config.latency_ps, rings.life))
    }

    /// Whether the ring of that life is there.
    pub(crate) fn is_alive(&mut self, from: usize, to: usize, life: u32) -> bool {
        let rings = self.rings(pair_of(from, to));
        rings.is_some_and(|(rings, _)| rings.life == life)
    }

    /// A packet was taken out of the ring of that life.
    pub(crate) fn take(&mut self, from: usize, to: usize, packet_len: usize, life: u32) {
        if let Some((rings, _)) = self.rings(pair_of(from, to))
            && rings.life == life
        {
            let held = &mut rings.held[usize::from(from > to)];
            *held = held.saturating_sub(held_octets(packet_len));
        }
    }

    /// Ends all rings, offers and meetings of `stations`; the pairs that had rings.
    pub(crate) fn end(&mut self, stations: &[usize]) -> Vec<Pair> {
        let mut ended = Vec::new();
        for (&pair, rings) in &mut self.pairs {
            if !stations.contains(&pair.0) && !stations.contains(&pair.1) {
                continue;
            }
            if rings.standing == Standing::Joined {
                ended.push(pair);
            }
            rings.standing = Standing::Apart;
            rings.life += 1;
            rings.held = [0; 2];
        }
        ended
    }

    /// Forbids rings of `stations` once more, or once less.
    pub(crate) fn forbid(&mut self, stations: &[usize], is_forbidden: bool) {
        let all: Vec<usize> = self.hosts.keys().copied().collect();
        for &one in stations {
            for &other in &all {
                // Once for a pair that the list has whole.
                if other <= one && stations.contains(&other) {
                    continue;
                }
                if let Some((rings, _)) = self.rings(pair_of(one, other)) {
                    rings.forbidden = match is_forbidden {
                        true => rings.forbidden + 1,
                        false => rings.forbidden.saturating_sub(1),
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: RingConfig = RingConfig {
        octets: 256,
        latency_ps: 5,
        copy: PerByte::FREE,
        copy_fixed_ps: 0,
        meeting_ps: 70,
    };

    fn host() -> Shortcuts {
        let mut shortcuts = Shortcuts::default();
        shortcuts.add_host(&[1, 2, 4], CONFIG);
        shortcuts
    }

    fn joined() -> Shortcuts {
        let mut shortcuts = host();
        shortcuts.offer(2, 1);
        assert_eq!(shortcuts.receive(2, 1), Some((70, 0)));
        assert!(shortcuts.join((1, 2), 0));
        shortcuts
    }

    #[test]
    fn rings_are_there_after_an_offer_has_come_and_both_have_met() {
        let mut shortcuts = host();
        assert_eq!(shortcuts.receive(2, 1), None, "nothing was offered");
        shortcuts.offer(2, 1);
        assert_eq!(shortcuts.receive(1, 2), None, "the other one offers");
        assert_eq!(shortcuts.put(2, 1, 1), None);
        assert_eq!(shortcuts.receive(2, 1), Some((70, 0)));
        assert_eq!(shortcuts.receive(2, 1), None, "once");
        assert_eq!(shortcuts.put(2, 1, 1), None);
        assert!(shortcuts.join((1, 2), 0));
        assert_eq!(shortcuts.put(2, 1, 1), Some((5, 0)));
        assert_eq!(shortcuts.put(1, 2, 1), Some((5, 0)));
        assert_eq!(shortcuts.put(1, 4, 1), None, "another pair");
    }

    #[test]
    fn stations_of_other_hosts_have_no_rings() {
        let mut shortcuts = host();
        shortcuts.add_host(&[0, 3], CONFIG);
        for (from, to) in [(1, 0), (3, 4), (1, 1), (7, 8), (1, 7)] {
            shortcuts.offer(from, to);
            assert_eq!(shortcuts.receive(from, to), None, "{from} {to}");
        }
    }

    #[test]
    fn ring_holds_as_much_as_it_has_octets_until_a_packet_is_taken() {
        let mut shortcuts = joined();
        assert!(shortcuts.put(1, 2, 65).is_some());
        assert!(shortcuts.put(1, 2, 128).is_some());
        assert_eq!(shortcuts.put(1, 2, 1), None);
        assert!(shortcuts.put(2, 1, 256).is_some(), "the other way is free");
        shortcuts.take(1, 2, 65, 0);
        assert!(shortcuts.put(1, 2, 100).is_some());
        assert_eq!(shortcuts.put(1, 2, 1), None);
    }

    #[test]
    fn rings_that_end_take_what_is_in_them_and_come_back_with_another_offer() {
        let mut shortcuts = joined();
        assert!(shortcuts.put(1, 2, 256).is_some());
        assert!(shortcuts.end(&[4]).is_empty());
        assert_eq!(shortcuts.end(&[2, 4]), [(1, 2)]);
        assert!(!shortcuts.is_alive(1, 2, 0));
        assert_eq!(shortcuts.put(1, 2, 1), None);
        assert_eq!(shortcuts.receive(2, 1), None, "no circuit was opened since");
        shortcuts.offer(1, 2);
        assert_eq!(shortcuts.receive(1, 2), Some((70, 1)));
        assert!(!shortcuts.join((1, 2), 0), "the meeting of an earlier life");
        assert!(shortcuts.join((1, 2), 1));
        assert!(shortcuts.put(1, 2, 256).is_some());
        shortcuts.take(1, 2, 256, 0);
        assert_eq!(shortcuts.put(1, 2, 1), None, "it was of the earlier life");
    }

    #[test]
    fn forbidden_rings_are_not_exchanged_until_all_bans_are_over() {
        let mut shortcuts = host();
        shortcuts.forbid(&[1, 2], true);
        shortcuts.forbid(&[2], true);
        shortcuts.offer(1, 2);
        shortcuts.offer(1, 4);
        assert_eq!(shortcuts.receive(1, 2), None);
        assert_eq!(shortcuts.receive(1, 4), None);
        shortcuts.forbid(&[1, 2], false);
        assert_eq!(shortcuts.receive(1, 2), None, "the other ban is left");
        assert!(shortcuts.receive(1, 4).is_some());
        shortcuts.forbid(&[2], false);
        assert!(shortcuts.receive(1, 2).is_some());
    }
}
