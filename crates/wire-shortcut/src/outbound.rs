//! The half of a wire that sends: rings in use, and offers on their way.

use crate::observer::RingObserver;
use crate::offer::OFFER_LEN;
use crate::ring::{RingSender, Sent};
use crate::shared::Updates;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How often an offer is sent, and when it is sent again: with the next packets after that time.
const OFFER_TRIES: u32 = 5;
const OFFER_AGAIN: Duration = Duration::from_millis(100);

/// Rings by peer, and offers.
#[derive(Debug)]
pub(crate) struct Outbound {
    updates: Arc<Updates>,
    pub(crate) rings: Vec<RingSender>,
    offers: Vec<OfferOut>,
    pub(crate) observer: Option<Arc<dyn RingObserver>>,
}

#[derive(Debug)]
struct OfferOut {
    peer: SocketAddr,
    offer: [u8; OFFER_LEN],
    tries_left: u32,
    next_at: Option<Instant>,
}

impl Outbound {
    pub(crate) fn new(updates: Arc<Updates>) -> Outbound {
        Outbound {
            updates,
            rings: Vec::new(),
            offers: Vec::new(),
            observer: None,
        }
    }

    /// Puts packets to `peer` into its ring; false when they are to go by UDP.
    #[inline]
    pub(crate) fn send(
        &mut self,
        peer: SocketAddr,
        slices: &[IoSlice<'_>],
        packet_len: usize,
    ) -> bool {
        if let Some(pending) = self.updates.take() {
            self.add(pending.rings, pending.offers);
        }
        let Some(at) = self.rings.iter().position(|one| one.state.peer == peer) else {
            return false;
        };
        let observer = self.observer.as_ref();
        let observed = observer.map(|observer| (observer, SystemTime::now()));
        match self.rings[at].send(slices, packet_len) {
            Sent::Taken => {
                if let Some((observer, at)) = observed {
                    observer.on_sent(at, peer, slices, packet_len);
                }
                true
            }
            // As a queue of the path that is full, but with a way around it.
            Sent::Full => false,
            Sent::Ended => {
                self.rings.swap_remove(at).end();
                false
            }
        }
    }

    #[cold]
    fn add(&mut self, rings: Vec<RingSender>, offers: Vec<(SocketAddr, [u8; OFFER_LEN])>) {
        for (peer, offer) in offers {
            self.offers.retain(|one| one.peer != peer);
            self.offers.push(OfferOut {
                peer,
                offer,
                tries_left: OFFER_TRIES,
                next_at: None,
            });
        }
        for ring in rings {
            let peer = ring.state.peer;
            self.offers.retain(|one| one.peer != peer);
            // Rings of a peer that began anew replace those that it left.
            self.rings.retain(|one| one.state.peer != peer);
            self.rings.push(ring);
        }
    }

    /// An offer to `peer` that is due, to be sent before other packets.
    #[inline]
    pub(crate) fn due_offer(&mut self, peer: SocketAddr) -> Option<[u8; OFFER_LEN]> {
        if self.offers.is_empty() {
            return None;
        }
        self.due_offer_at(peer, Instant::now())
    }

    #[cold]
    fn due_offer_at(&mut self, peer: SocketAddr, now: Instant) -> Option<[u8; OFFER_LEN]> {
        let at = self.offers.iter().position(|one| one.peer == peer)?;
        let one = &mut self.offers[at];
        if one.next_at.is_some_and(|at| now < at) {
            return None;
        }
        one.next_at = Some(now + OFFER_AGAIN);
        one.tries_left -= 1;
        let offer = one.offer;
        if one.tries_left == 0 {
            self.offers.swap_remove(at);
        }
        Some(offer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offer_is_sent_again_after_its_time_and_not_for_ever() {
        let updates = Arc::new(Updates::default());
        let mut outbound = Outbound::new(Arc::clone(&updates));
        let [peer, other] = [9, 10].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        updates.offer(peer, [1; OFFER_LEN]);
        assert!(!outbound.send(peer, &[IoSlice::new(b"x")], 1));
        let mut now = Instant::now();
        let mut sent = 0;
        for _ in 0..100 {
            assert_eq!(outbound.due_offer_at(other, now), None);
            sent += u32::from(outbound.due_offer_at(peer, now).is_some());
            assert_eq!(outbound.due_offer_at(peer, now), None, "not twice at once");
            now += OFFER_AGAIN / 2;
        }
        assert_eq!(sent, OFFER_TRIES);
        assert!(outbound.offers.is_empty());
    }
}
