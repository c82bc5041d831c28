//! AAL5, receiver: cells to packets. Cells have no number: a missing one damages its packet, and a
//! missing last one joins two packets, which the CRC-32 shows.

use crate::counters::CellCounters;
use crate::partial_table::PartialTable;
use crate::pdu::aal5::{self, PduFault};
use crate::pdu::cell::{CELL_LEN, HEADER_LEN, PAYLOAD_LEN};
use crate::spare::SpareBuffers;
use engine::{Instant, Path};
use std::time::Duration;

/// A packet under way.
#[derive(Debug)]
enum Partial {
    /// Its octets so far.
    Octets(Vec<u8>),
    /// It became too long: its cells are dropped until the last.
    Overrun,
}

/// The receiver of one wire.
#[derive(Debug)]
pub(crate) struct Reassembler5 {
    /// Octets of the longest PDU.
    pdu_max: usize,
    mri_timeout: Duration,
    partials: PartialTable<Path, Partial>,
    /// Octets of the last packet's PDU: as many are reserved for the next.
    last_len: usize,
    /// Memory of packets.
    pub(crate) spare: SpareBuffers,
}

impl Reassembler5 {
    pub(crate) fn new(packet_max: usize, mri_timeout: Duration) -> Reassembler5 {
        Reassembler5 {
            pdu_max: aal5::cells(packet_max) * PAYLOAD_LEN,
            mri_timeout,
            partials: PartialTable::new(),
            last_len: 0,
            spare: SpareBuffers::default(),
        }
    }

    /// Takes the payload of a cell, which is the last of its packet or not; appends a packet that is
    /// whole now.
    pub(crate) fn take(
        &mut self,
        (now, path): (Instant, Path),
        (payload, last): (&[u8; PAYLOAD_LEN], bool),
        counters: &mut CellCounters,
        packets: &mut Vec<(Path, Vec<u8>)>,
    ) {
        if self.partials.get_mut(&path).is_none() {
            let octets = self.spare.take(self.last_len.max(PAYLOAD_LEN));
            let (until, partial) = (now + self.mri_timeout, Partial::Octets(octets));
            counters.evicted += self.partials.insert(path, until, self.pdu_max, partial);
        }
        if let Some(partial) = self.partials.get_mut(&path) {
            append(partial, payload, self.pdu_max, counters);
        }
        if last && let Some(Partial::Octets(octets)) = self.partials.remove(&path) {
            self.last_len = octets.len();
            packets.extend(finish(octets, counters).map(|packet| (path, packet)));
        }
    }

    /// Takes those of the first of `cells` that have `cell_header` and so go on; how many it took.
    pub(crate) fn take_run(
        &mut self,
        path: Path,
        cell_header: &[u8; HEADER_LEN],
        cells: &[[u8; CELL_LEN]],
        counters: &mut CellCounters,
    ) -> usize {
        let Some(partial) = self.partials.get_mut(&path) else {
            return 0;
        };
        for (taken, cell) in cells.iter().enumerate() {
            let [a, b, c, d, e, payload @ ..] = cell;
            if [*a, *b, *c, *d, *e] != *cell_header {
                return taken;
            }
            append(partial, payload, self.pdu_max, counters);
        }
        cells.len()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.partials.poll_timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, counters: &mut CellCounters) {
        counters.mri_timeouts += self.partials.expire(now);
    }

    /// Packets under way.
    pub(crate) fn under_way(&self) -> usize {
        self.partials.len()
    }
}

fn append(
    partial: &mut Partial,
    payload: &[u8; PAYLOAD_LEN],
    pdu_max: usize,
    counters: &mut CellCounters,
) {
    match partial {
        Partial::Octets(octets) if octets.len() + PAYLOAD_LEN <= pdu_max => {
            octets.extend_from_slice(payload);
        }
        Partial::Octets(_) => {
            counters.incorrect_lengths += 1;
            *partial = Partial::Overrun;
        }
        Partial::Overrun => {}
    }
}

/// The packet that `octets` are, unless they have a fault.
fn finish(mut octets: Vec<u8>, counters: &mut CellCounters) -> Option<Vec<u8>> {
    match aal5::sdu_len(&octets) {
        Ok(len) => octets.truncate(len),
        Err(fault) => {
            *match fault {
                PduFault::Crc => &mut counters.crc_errors,
                PduFault::Length => &mut counters.incorrect_lengths,
                PduFault::Aborted => &mut counters.aborted,
            } += 1;
            return None;
        }
    }
    counters.packets_received += 1;
    Some(octets)
}
