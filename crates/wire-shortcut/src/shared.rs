//! What the halves of a wire share: the rings it receives from, and updates for the half that sends.

use crate::inbound::Inbound;
use crate::offer::OFFER_LEN;
use crate::ring::{RingSender, RingState};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State of one wire, for the wire, its receiver and reports.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Readable when the UDP socket is, when a peer asks to meet, and after a wake of a ring.
    pub(crate) epoll: Arc<OwnedFd>,
    inbound: Mutex<Inbound>,
}

impl Shared {
    pub(crate) fn new(epoll: Arc<OwnedFd>, inbound: Inbound) -> Shared {
        Shared {
            epoll,
            inbound: Mutex::new(inbound),
        }
    }

    pub(crate) fn inbound(&self) -> MutexGuard<'_, Inbound> {
        // After a panic of another thread its rings are still rings: each word of them is checked.
        self.inbound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Offers to be sent and rings to be used, for the half that sends.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    is_new: AtomicBool,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) offers: Vec<(SocketAddr, [u8; OFFER_LEN])>,
    pub(crate) rings: Vec<RingSender>,
}

impl Updates {
    pub(crate) fn offer(&self, peer: SocketAddr, offer: [u8; OFFER_LEN]) {
        self.lock().offers.push((peer, offer));
        self.is_new.store(true, Ordering::Release);
    }

    pub(crate) fn ring(&self, ring: RingSender) {
        self.lock().rings.push(ring);
        self.is_new.store(true, Ordering::Release);
    }

    /// What is new since the last call; a load where nothing is.
    #[inline]
    pub(crate) fn take(&self) -> Option<Pending> {
        if !self.is_new.load(Ordering::Relaxed) {
            return None;
        }
        let mut pending = self.lock();
        self.is_new.store(false, Ordering::Relaxed);
        Some(std::mem::take(&mut *pending))
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle on the shortcut of a wire, beside its user.
#[derive(Clone, Debug)]
pub struct ShortcutHandle(pub(crate) Arc<Shared>);

/// The rings with one peer, and what went through them since they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingReport {
    /// The peer, by its address of UDP.
    pub peer: SocketAddr,
    /// Calls that sent through the ring.
    pub sends: u64,
    /// Octets of their packets.
    pub octets_sent: u64,
    /// Calls whose packets went by UDP because the ring was full.
    pub spills: u64,
    /// Calls that received from the ring.
    pub receives: u64,
    /// Octets of their packets.
    pub octets_received: u64,
}

impl RingReport {
    pub(crate) fn of(state: &RingState) -> RingReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RingReport {
            peer: state.peer,
            sends: read(&state.sends),
            octets_sent: read(&state.octets_sent),
            spills: read(&state.spills),
            receives: read(&state.receives),
            octets_received: read(&state.octets_received),
        }
    }
}

impl ShortcutHandle {
    /// Offers rings to `peer` with the next packets to it: to be called by the side that opens an
    /// association. Once for each peer; another call while rings are there, or soon after an offer that
    /// was not answered, does nothing.
    pub fn offer_to(&self, peer: SocketAddr) {
        self.0.inbound().offer_to(peer);
    }

    /// The peers with which there are rings now.
    pub fn rings(&self) -> Vec<RingReport> {
        self.0.inbound().reports()
    }

    /// Ends all rings: packets go by UDP from now on, at both ends. What is in a ring is lost, as on a path.
    pub fn end_rings(&self) {
        self.0.inbound().end_all();
    }

    /// Calls that sent through rings and that received from them, since the wire was made.
    pub fn calls(&self) -> (u64, u64) {
        self.0.inbound().calls()
    }
}
