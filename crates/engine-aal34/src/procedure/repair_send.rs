//! Repair of cells, sender: packets are kept until their receiver has all of their cells (0027, Repair).

use super::segment::Segmenter;
use crate::counters::CellCounters;
use crate::outgoing::Outgoing;
use crate::pdu::cell::CELL_LEN;
use crate::pdu::control::{Held, mask_of_all};
use engine::{Instant, Path};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Peers with packets that are kept, at most. Each keeps a window of at most 512 packets of at most 32
/// cells: one that takes part in a race 868 KiB, all of them 217 MiB.
const PEERS_MAX: usize = 256;

/// How often the cells of one packet are sent again, at most: as often as its receiver asks.
pub(crate) const REPEATS_MAX: u8 = 3;

#[derive(Debug)]
struct Kept {
    mid: u16,
    cells: Vec<u8>,
    until: Instant,
    /// How often its receiver asked for cells.
    asked: u8,
    /// Its receiver has all of them.
    is_done: bool,
}

/// Packets to one peer.
#[derive(Debug, Default)]
struct Peer {
    /// Number of the next packet; its identifier follows from it.
    next: u64,
    /// Packets under way, oldest first, the front not done.
    kept: VecDeque<Kept>,
    /// Packets that wait until the oldest is done.
    waiting: VecDeque<Vec<u8>>,
}

/// The sender of one wire.
#[derive(Debug)]
pub(crate) struct RepairSender {
    /// Packets under way to a peer, and as many that wait.
    window: usize,
    mids: u16,
    /// The number of the first packet to each peer.
    first: u64,
    keep: Duration,
    peers: BTreeMap<Path, Peer>,
}

impl RepairSender {
    /// A sender with `mids` identifiers, whose receivers give a packet up after `mri_timeout`.
    pub(crate) fn new(window: usize, mids: u16, first: u64, mri_timeout: Duration) -> Self {
        RepairSender {
            window,
            mids,
            first: first & 0xffff,
            keep: 2 * mri_timeout,
            peers: BTreeMap::new(),
        }
    }

    /// Sends a packet, or lets it wait for the window.
    pub(crate) fn send(
        &mut self,
        (now, path): (Instant, Path),
        packet: &[u8],
        segmenter: &mut Segmenter,
        outgoing: &mut Outgoing,
        counters: &mut CellCounters,
    ) {
        if !self.peers.contains_key(&path) {
            self.make_room(counters);
            let next = self.first;
            self.peers.insert(
                path,
                Peer {
                    next,
                    ..Peer::default()
                },
            );
        }
        let Some(peer) = self.peers.get_mut(&path) else {
            return;
        };
        if peer.kept.len() < self.window && peer.waiting.is_empty() {
            let deadline = now + self.keep;
            transmit(
                peer,
                (path, deadline),
                packet,
                self.mids,
                segmenter,
                outgoing,
            );
        } else if peer.waiting.len() < self.window {
            peer.waiting.push_back(packet.to_vec());
        } else {
            counters.unsendable += 1;
        }
    }

    /// A peer says which cells of packet `mid` it has: the others are sent again.
    pub(crate) fn handle_held(
        &mut self,
        (now, path): (Instant, Path),
        (mid, held): (u16, Held),
        segmenter: &mut Segmenter,
        outgoing: &mut Outgoing,
        counters: &mut CellCounters,
    ) {
        let kept = self.peers.get_mut(&path);
        let kept = kept.and_then(|peer| peer.kept.iter_mut().find(|kept| kept.mid == mid));
        let Some(kept) = kept.filter(|kept| !kept.is_done) else {
            counters.bad_controls += 1;
            return;
        };
        let (cells, _) = kept.cells.as_chunks::<CELL_LEN>();
        let missing = mask_of_all(cells.len()) & !held.mask;
        if missing == 0 {
            kept.is_done = true;
        } else if kept.asked < REPEATS_MAX {
            kept.asked += 1;
            let out = outgoing.cells_to(path);
            for (_, cell) in cells
                .iter()
                .enumerate()
                .filter(|(at, _)| missing >> at & 1 != 0)
            {
                out.extend_from_slice(cell);
                counters.cells_repeated += 1;
            }
        }
        self.release(now, path, segmenter, outgoing);
    }

    /// The next time at which a packet is kept no longer.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let fronts = self.peers.values().filter_map(|peer| peer.kept.front());
        fronts.map(|kept| kept.until).min()
    }

    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        segmenter: &mut Segmenter,
        outgoing: &mut Outgoing,
    ) {
        let is_due = |peer: &Peer| peer.kept.front().is_some_and(|kept| kept.until <= now);
        let due = self.peers.iter().filter(|(_, peer)| is_due(peer));
        let due: Vec<Path> = due.map(|(path, _)| *path).collect();
        for path in due {
            for kept in self
                .peers
                .get_mut(&path)
                .into_iter()
                .flat_map(|peer| &mut peer.kept)
            {
                kept.is_done |= kept.until <= now;
            }
            self.release(now, path, segmenter, outgoing);
        }
    }

    /// Forgets packets that are done, and sends some that waited for them.
    fn release(
        &mut self,
        now: Instant,
        path: Path,
        segmenter: &mut Segmenter,
        outgoing: &mut Outgoing,
    ) {
        let (window, mids, keep) = (self.window, self.mids, self.keep);
        let Some(peer) = self.peers.get_mut(&path) else {
            return;
        };
        while peer.kept.front().is_some_and(|kept| kept.is_done) {
            peer.kept.pop_front();
        }
        while peer.kept.len() < window
            && let Some(packet) = peer.waiting.pop_front()
        {
            transmit(peer, (path, now + keep), &packet, mids, segmenter, outgoing);
        }
    }

    /// Forgets the peer whose packets are oldest, one without any first, if there are too many.
    fn make_room(&mut self, counters: &mut CellCounters) {
        if self.peers.len() < PEERS_MAX {
            return;
        }
        let age = |peer: &Peer| peer.kept.front().map(|kept| kept.until);
        let oldest = self.peers.iter().min_by_key(|(_, peer)| age(peer));
        if let Some(path) = oldest.map(|(path, _)| *path)
            && let Some(peer) = self.peers.remove(&path)
        {
            counters.evicted += (peer.kept.len() + peer.waiting.len()) as u64;
        }
    }
}

/// Sends a packet for the first time, and keeps it.
fn transmit(
    peer: &mut Peer,
    (path, until): (Path, Instant),
    packet: &[u8],
    mids: u16,
    segmenter: &mut Segmenter,
    outgoing: &mut Outgoing,
) {
    segmenter.restart_numbers();
    let mid = (peer.next % u64::from(mids - 1)) as u16 + 1;
    let out = outgoing.cells_to(path);
    let start = out.len();
    segmenter.segment(packet, || mid, out);
    // A packet of one cell has the identifier 0: there is nothing to ask for when it is lost.
    if out.len() - start > CELL_LEN {
        peer.next += 1;
        peer.kept.push_back(Kept {
            mid,
            cells: out[start..].to_vec(),
            until,
            asked: 0,
            is_done: false,
        });
    }
}
