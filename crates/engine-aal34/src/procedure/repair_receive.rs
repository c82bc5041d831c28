//! Repair of cells, receiver: packets lie open until all of their cells have come, and those that are
//! missing are asked for (0027, Repair).

use super::segment::Segmenter;
use crate::counters::CellCounters;
use crate::outgoing::Outgoing;
use crate::pdu::control::{CONTROL_LEN, Held, mask_of_all};
use crate::pdu::cpcs::{self, CpcsHeader, CpcsMode, ENVELOPE_LEN};
use crate::pdu::sar::{PIECE_LEN, SarFormat, SarHeader, SegmentType};
use crate::spare::SpareBuffers;
use engine::{Instant, Path};
use std::collections::BTreeMap;
use std::time::Duration;

/// Peers with packets that lie open, at most.
const PEERS_MAX: usize = 256;

/// Packets of all peers that lie open, at most. With 32 cells each they are 5.6 MiB.
const OPEN_MAX: usize = 4096;

/// Packets that were skipped and are asked for, at most, because of one cell: those of a frame that was
/// lost. A cell with a forged number opens no more.
const SKIPPED_MAX: u16 = 8;

/// How often the cells of one packet are asked for, at most.
const ASKED_MAX: u8 = 3;

/// A packet that lacks cells.
#[derive(Debug)]
struct Open {
    octets: Vec<u8>,
    /// A bit for each cell that came.
    held: u32,
    /// Cells and octets of the whole, once the last cell has come.
    end: Option<(usize, usize)>,
    until: Instant,
    asked: u8,
    ask_at: Instant,
}

/// Packets of one peer.
#[derive(Debug)]
struct Peer {
    /// The identifier of the newest packet.
    newest: u16,
    open: BTreeMap<u16, Open>,
    /// A bit for each identifier whose packet was completed or given up, half of all behind `newest`.
    closed: Vec<u64>,
    heard_at: Instant,
}

/// The receiver of one wire.
#[derive(Debug)]
pub(crate) struct RepairReceiver {
    format: SarFormat,
    mode: CpcsMode,
    mids: u16,
    packet_max: usize,
    mri_timeout: Duration,
    peers: BTreeMap<Path, Peer>,
    open: usize,
    /// Memory of packets.
    pub(crate) spare: SpareBuffers,
}

/// What a receiver answers with: cells of its own.
pub(crate) struct Answer<'a> {
    pub(crate) segmenter: &'a mut Segmenter,
    pub(crate) outgoing: &'a mut Outgoing,
}

impl Answer<'_> {
    fn send(&mut self, path: Path, mid: u16, mask: u32) {
        let piece = Held { mask }.piece();
        let cells = self.outgoing.cells_to(path);
        let control = (&piece, CONTROL_LEN);
        self.segmenter
            .push_cell((SegmentType::Ssm, mid), control, cells);
    }
}

impl RepairReceiver {
    pub(crate) fn new(
        (format, mode): (SarFormat, CpcsMode),
        mids: u16,
        packet_max: usize,
        mri_timeout: Duration,
    ) -> RepairReceiver {
        RepairReceiver {
            format,
            mode,
            mids,
            packet_max,
            mri_timeout,
            peers: BTreeMap::new(),
            open: 0,
            spare: SpareBuffers::default(),
        }
    }

    /// Takes a cell of a packet of several; the packet if it is whole now.
    pub(crate) fn take(
        &mut self,
        (now, path): (Instant, Path),
        (header, piece): (SarHeader, &[u8]),
        answer: &mut Answer<'_>,
        counters: &mut CellCounters,
    ) -> Option<Vec<u8>> {
        let (mid, sn) = (header.mid, usize::from(header.sn));
        let is_first = header.segment_type == SegmentType::Bom;
        if mid == 0 || mid >= self.mids || is_first != (sn == 0) {
            counters.sequence_errors += 1;
            return None;
        }
        self.meet(now, path, mid);
        let peer = self.peers.get_mut(&path)?;
        peer.heard_at = now;
        if is_closed(&peer.closed, mid) {
            // It was repeated although it had come: the sender has to know.
            answer.send(path, mid, u32::MAX);
            return None;
        }
        self.open += advance(peer, mid, (now, self.mri_timeout), self.mids);
        self.bound(counters);
        let peer = self.peers.get_mut(&path)?;
        let open = peer.open.get_mut(&mid)?;
        if open.octets.capacity() == 0 {
            open.octets = self.spare.take(0);
        }
        place(open, sn, piece, header.segment_type);
        let is_whole = is_whole(open);
        ask_for_gaps(peer, path, (mid, now), self.mri_timeout, answer, counters);
        if !is_whole {
            return None;
        }
        let open = peer.open.remove(&mid)?;
        self.open -= 1;
        set_closed(&mut peer.closed, mid, true);
        answer.send(path, mid, u32::MAX);
        self.finish(open, counters)
    }

    /// The next time at which something is asked for again, or given up.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let open = self.peers.values().flat_map(|peer| peer.open.values());
        open.map(|open| open.until.min(open.ask_at)).min()
    }

    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        answer: &mut Answer<'_>,
        counters: &mut CellCounters,
    ) {
        for (path, peer) in &mut self.peers {
            let Peer { open, closed, .. } = peer;
            open.retain(|mid, packet| {
                if packet.until <= now {
                    counters.mri_timeouts += 1;
                    self.open -= 1;
                    set_closed(closed, *mid, true);
                    return false;
                }
                if packet.ask_at <= now {
                    ask(
                        packet,
                        (*path, *mid),
                        now,
                        self.mri_timeout,
                        answer,
                        counters,
                    );
                }
                true
            });
        }
    }

    /// Packets that lie open.
    pub(crate) fn under_way(&self) -> usize {
        self.open
    }

    /// Makes a peer known by the first identifier it uses. One that was silent for so long that its
    /// packets are forgotten may have started anew, with other identifiers.
    fn meet(&mut self, now: Instant, path: Path, mid: u16) {
        let silence = 2 * self.mri_timeout;
        match self.peers.get(&path) {
            Some(peer) if now < peer.heard_at + silence || !peer.open.is_empty() => return,
            _ => drop(self.peers.remove(&path)),
        }
        if self.peers.len() >= PEERS_MAX {
            let oldest = self.peers.iter().min_by_key(|(_, peer)| peer.heard_at);
            if let Some(oldest) = oldest.map(|(path, _)| *path)
                && let Some(peer) = self.peers.remove(&oldest)
            {
                self.open -= peer.open.len();
            }
        }
        let peer = Peer {
            newest: previous_mid(mid, self.mids),
            open: BTreeMap::new(),
            closed: vec![0; usize::from(self.mids).div_ceil(64)],
            heard_at: now,
        };
        self.peers.insert(path, peer);
    }

    /// Gives up the oldest packets when too many lie open.
    fn bound(&mut self, counters: &mut CellCounters) {
        while self.open > OPEN_MAX {
            let all = self.peers.iter();
            let all = all.flat_map(|(path, peer)| peer.open.iter().map(move |open| (*path, open)));
            let oldest = all.min_by_key(|(_, (_, open))| open.until);
            let Some((path, mid)) = oldest.map(|(path, (mid, _))| (path, *mid)) else {
                return;
            };
            if let Some(peer) = self.peers.get_mut(&path) {
                peer.open.remove(&mid);
                set_closed(&mut peer.closed, mid, true);
            }
            self.open -= 1;
            counters.evicted += 1;
        }
    }

    /// The packet that `open` is, unless it has a fault.
    fn finish(&self, open: Open, counters: &mut CellCounters) -> Option<Vec<u8>> {
        let (_, len) = open.end?;
        let mut octets = open.octets;
        octets.truncate(len);
        if self.format == SarFormat::Standard {
            let header = octets.first_chunk::<ENVELOPE_LEN>();
            let header = header.and_then(|header| CpcsHeader::parse(*header));
            let Some(header) = header else {
                counters.bad_headers += 1;
                return None;
            };
            octets.drain(..ENVELOPE_LEN);
            match cpcs::sdu_len(header, &octets, self.mode) {
                Ok(len) => octets.truncate(len),
                Err(fault) => {
                    *counters.of_cpcs(fault) += 1;
                    return None;
                }
            }
        }
        if octets.len() > self.packet_max {
            counters.bad_headers += 1;
            return None;
        }
        counters.packets_received += 1;
        Some(octets)
    }
}

/// Opens packet `mid`, and those that were skipped before it if they are few; how many.
fn advance(peer: &mut Peer, mid: u16, times: (Instant, Duration), mids: u16) -> usize {
    let ahead = distance(peer.newest, mid, mids);
    if ahead == 0 || ahead > (mids - 1) / 2 {
        // Of the past: a packet that came late, or was skipped and is open.
        let was_open = peer.open.contains_key(&mid);
        peer.open.entry(mid).or_insert_with(|| open(times));
        return usize::from(!was_open);
    }
    let mut opened = 0;
    while peer.newest != mid {
        peer.newest = next_mid(peer.newest, mids);
        // The identifier half a round ahead is free for its next packet.
        let free = half_ahead(peer.newest, mids);
        set_closed(&mut peer.closed, free, false);
        set_closed(&mut peer.closed, peer.newest, false);
        if peer.newest == mid || ahead <= SKIPPED_MAX {
            let before = peer.open.insert(peer.newest, open(times));
            opened += usize::from(before.is_none());
        }
    }
    opened
}

fn open((now, mri_timeout): (Instant, Duration)) -> Open {
    Open {
        octets: Vec::new(),
        held: 0,
        end: None,
        until: now + mri_timeout,
        asked: 0,
        ask_at: now + mri_timeout / 4,
    }
}

/// Puts a piece where its number says.
fn place(open: &mut Open, sn: usize, piece: &[u8], segment_type: SegmentType) {
    let start = sn * PIECE_LEN;
    if open.octets.len() < start + piece.len() {
        open.octets.resize(start + piece.len(), 0);
    }
    open.octets[start..start + piece.len()].copy_from_slice(piece);
    open.held |= 1 << sn;
    if segment_type == SegmentType::Eom {
        open.end = Some((sn + 1, start + piece.len()));
    }
}

fn is_whole(open: &Open) -> bool {
    open.end.is_some_and(|(count, _)| {
        let all = mask_of_all(count);
        open.held & all == all
    })
}

/// Asks for what is missing of the packets before `mid`, whose cells should have come, and of `mid` if
/// its last cell has.
fn ask_for_gaps(
    peer: &mut Peer,
    path: Path,
    (mid, now): (u16, Instant),
    mri_timeout: Duration,
    answer: &mut Answer<'_>,
    counters: &mut CellCounters,
) {
    let newest = peer.newest;
    let is_passed = |other: u16, open: &Open| match other == mid || other == newest {
        true => open.end.is_some() && other == mid,
        false => mid == newest,
    };
    for (other, open) in &mut peer.open {
        if open.asked == 0 && is_passed(*other, open) && !is_whole(open) {
            ask(open, (path, *other), now, mri_timeout, answer, counters);
        }
    }
}

fn ask(
    open: &mut Open,
    (path, mid): (Path, u16),
    now: Instant,
    mri_timeout: Duration,
    answer: &mut Answer<'_>,
    counters: &mut CellCounters,
) {
    if open.asked >= ASKED_MAX {
        open.ask_at = open.until;
        return;
    }
    open.asked += 1;
    open.ask_at = now + mri_timeout / 4;
    counters.repairs_requested += 1;
    answer.send(path, mid, open.held);
}

/// The identifier after `mid` of 1 to `mids` - 1.
fn next_mid(mid: u16, mids: u16) -> u16 {
    mid % (mids - 1) + 1
}

fn previous_mid(mid: u16, mids: u16) -> u16 {
    (mid + mids - 3) % (mids - 1) + 1
}

/// How far `to` is ahead of `from`.
fn distance(from: u16, to: u16, mids: u16) -> u16 {
    (to + (mids - 1) - from) % (mids - 1)
}

fn half_ahead(mid: u16, mids: u16) -> u16 {
    (mid - 1 + (mids - 1) / 2) % (mids - 1) + 1
}

fn is_closed(closed: &[u64], mid: u16) -> bool {
    let word = closed.get(usize::from(mid / 64));
    word.is_some_and(|word| word >> (mid % 64) & 1 != 0)
}

fn set_closed(closed: &mut [u64], mid: u16, value: bool) {
    if let Some(word) = closed.get_mut(usize::from(mid / 64)) {
        let bit = 1 << (mid % 64);
        *word = if value { *word | bit } else { *word & !bit };
    }
}
