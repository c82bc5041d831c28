//! AAL3/4, receiver: cells to packets. A packet with a fault is discarded, and counted by its cause.

use super::sar_input::{self, SarInput, Segment};
use crate::config::Aal34Config;
use crate::counters::CellCounters;
use crate::partial_table::PartialTable;
use crate::pdu::cell::{CELL_LEN, HEADER_LEN, PAYLOAD_LEN};
use crate::pdu::cpcs::{self, CpcsHeader, CpcsMode, ENVELOPE_LEN};
use crate::pdu::crc10;
use crate::pdu::sar::{self, PIECE_LEN, SarFormat, SarHeader, SarPdu, SegmentType};
use crate::spare::SpareBuffers;
use engine::{Instant, Path};
use std::time::Duration;

/// Where a packet under way comes from, and its identifier.
type Key = (Path, u16);

/// Octets reserved at once for a packet whose length is not known.
const RESERVED_UNKNOWN: usize = 16 << 10;

/// A packet under way.
#[derive(Debug)]
struct Partial {
    header: CpcsHeader,
    /// What came behind the header of the common part.
    octets: Vec<u8>,
    /// Octets that `octets` may have.
    room: usize,
    next_sn: u8,
}

/// The receiver of one wire.
#[derive(Debug)]
pub(crate) struct Reassembler {
    format: SarFormat,
    mode: CpcsMode,
    correct_bits: bool,
    packet_max: usize,
    mri_timeout: Duration,
    partials: PartialTable<Key, Partial>,
    /// The packet that began last in the frame at hand: most end in the frame in which they begin, and
    /// need no place in the table.
    fresh: Option<(Key, Partial)>,
    /// Memory of packets.
    pub(crate) spare: SpareBuffers,
}

impl Reassembler {
    pub(crate) fn new(aal34: &Aal34Config, packet_max: usize, mri_timeout: Duration) -> Self {
        Reassembler {
            format: aal34.sar,
            mode: aal34.mode,
            correct_bits: aal34.correct_bits,
            packet_max,
            mri_timeout,
            partials: PartialTable::new(),
            fresh: None,
            spare: SpareBuffers::default(),
        }
    }

    /// Takes the payload of a cell; appends a packet that is whole now. The identifier of the packet
    /// that goes on, if one does.
    pub(crate) fn take(
        &mut self,
        (now, path): (Instant, Path),
        payload: &[u8; PAYLOAD_LEN],
        counters: &mut CellCounters,
        packets: &mut Vec<(Path, Vec<u8>)>,
    ) -> Option<u16> {
        let mut corrected = [0; PAYLOAD_LEN];
        match sar_input::read(
            payload,
            &mut corrected,
            (self.format, self.correct_bits),
            counters,
        ) {
            SarInput::Segment(segment) => {
                self.take_segment((now, path), &segment, counters, packets)
            }
            SarInput::IllegalLength(mid) => {
                self.remove((path, mid));
                None
            }
            SarInput::Damaged => None,
        }
    }

    /// The same for what was read already.
    pub(crate) fn take_segment(
        &mut self,
        (now, path): (Instant, Path),
        segment: &Segment<'_>,
        counters: &mut CellCounters,
        packets: &mut Vec<(Path, Vec<u8>)>,
    ) -> Option<u16> {
        let key = (path, segment.header.mid);
        let packet = match segment.header.segment_type {
            SegmentType::Bom => return self.begin(now, key, segment, counters),
            SegmentType::Com | SegmentType::Eom => {
                if self.proceed(key, segment, counters)? {
                    return Some(segment.header.mid);
                }
                let partial = self.remove(key)?;
                finish(self.mode, self.format, partial, counters)
            }
            SegmentType::Ssm => {
                let partial = self.partial(segment, counters)?;
                finish(self.mode, self.format, partial, counters)
            }
        };
        packets.extend(packet.map(|packet| (path, packet)));
        None
    }

    /// Takes those of the first of `cells` that go on with packet `mid` and are right in every respect;
    /// how many it took.
    pub(crate) fn take_run(
        &mut self,
        (path, mid): Key,
        cell_header: &[u8; HEADER_LEN],
        cells: &[[u8; CELL_LEN]],
    ) -> usize {
        let format = self.format;
        let Some(partial) = self.partial_mut((path, mid)) else {
            return 0;
        };
        let room = (partial.room - partial.octets.len()) / PIECE_LEN;
        let mut sn = partial.next_sn;
        let goes_on = |cell: &&[u8; CELL_LEN]| {
            let segment_type = SegmentType::Com;
            let expected = SarHeader {
                segment_type,
                sn,
                mid,
            };
            sn = format.next_sn(sn);
            sar::headers_of(cell) == sar::headers(*cell_header, expected.bits(format))
                && SarPdu::new(crc10::payload_of(cell)).li() == PIECE_LEN
        };
        let count = cells.iter().take(room).take_while(goes_on).count();
        let right = crc10::count_right(&cells[..count]);
        for cell in &cells[..right] {
            let [_, _, _, _, _, _, _, piece @ .., _, _] = cell;
            partial.octets.extend_from_slice(piece);
            partial.next_sn = format.next_sn(partial.next_sn);
        }
        right
    }

    /// Ends a frame: a packet that began in it and goes on waits for the next one.
    pub(crate) fn end_frame(&mut self, now: Instant, counters: &mut CellCounters) {
        if let Some((key, partial)) = self.fresh.take() {
            let pinned = partial.octets.capacity().max(partial.room);
            let until = now + self.mri_timeout;
            counters.evicted += self.partials.insert(key, until, pinned, partial);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.partials.poll_timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, counters: &mut CellCounters) {
        counters.mri_timeouts += self.partials.expire(now);
    }

    /// Packets under way.
    pub(crate) fn under_way(&self) -> usize {
        self.partials.len() + usize::from(self.fresh.is_some())
    }

    fn partial_mut(&mut self, key: Key) -> Option<&mut Partial> {
        match &mut self.fresh {
            Some((fresh, partial)) if *fresh == key => Some(partial),
            _ => self.partials.get_mut(&key),
        }
    }

    fn remove(&mut self, key: Key) -> Option<Partial> {
        match self.fresh.take_if(|(fresh, _)| *fresh == key) {
            Some((_, partial)) => Some(partial),
            None => self.partials.remove(&key),
        }
    }

    fn begin(
        &mut self,
        now: Instant,
        key: Key,
        segment: &Segment<'_>,
        counters: &mut CellCounters,
    ) -> Option<u16> {
        if self.remove(key).is_some() {
            counters.mids_active += 1;
        }
        // Another packet of this frame, whose cells alternate with this one's.
        self.end_frame(now, counters);
        let partial = self.partial(segment, counters)?;
        self.fresh = Some((key, partial));
        Some(key.1)
    }

    /// A packet that begins with `segment`.
    fn partial(&mut self, segment: &Segment<'_>, counters: &mut CellCounters) -> Option<Partial> {
        let (header, room, octets) = match self.format {
            SarFormat::Standard => {
                let first = segment.octets().split_first_chunk::<ENVELOPE_LEN>();
                let (header, octets) = first?;
                let header = CpcsHeader::parse(*header);
                let Some(header) = header.filter(|header| self.admits(header)) else {
                    counters.bad_headers += 1;
                    return None;
                };
                (header, header.room(), octets)
            }
            SarFormat::Study => {
                let cells = usize::from(self.format.sns());
                let room = self.packet_max.min(cells * PIECE_LEN);
                (CpcsHeader { tag: 0, ba_size: 0 }, room, segment.octets())
            }
        };
        if octets.len() > room {
            counters.incorrect_lengths += 1;
            return None;
        }
        let reserved = room.min(RESERVED_UNKNOWN).max(octets.len());
        let mut all = self.spare.take(reserved);
        all.extend_from_slice(octets);
        Some(Partial {
            header,
            octets: all,
            room,
            next_sn: self.format.next_sn(segment.header.sn),
        })
    }

    fn admits(&self, header: &CpcsHeader) -> bool {
        usize::from(header.ba_size) <= self.packet_max
    }

    /// Goes on with a packet: true when more follows, false when this was its last cell. None when it
    /// was discarded, or is not under way.
    fn proceed(
        &mut self,
        key: Key,
        segment: &Segment<'_>,
        counters: &mut CellCounters,
    ) -> Option<bool> {
        let format = self.format;
        let Some(partial) = self.partial_mut(key) else {
            counters.unexpected_mids += 1;
            return None;
        };
        let fault = if segment.header.sn != partial.next_sn {
            &mut counters.sequence_errors
        } else if segment.aborts {
            &mut counters.aborted
        } else if partial.octets.len() + segment.octets().len() > partial.room {
            &mut counters.incorrect_lengths
        } else {
            partial.octets.extend_from_slice(segment.octets());
            partial.next_sn = format.next_sn(partial.next_sn);
            return Some(segment.header.segment_type == SegmentType::Com);
        };
        *fault += 1;
        self.remove(key);
        None
    }
}

/// The packet that `partial` is, unless it has a fault.
fn finish(
    mode: CpcsMode,
    format: SarFormat,
    partial: Partial,
    counters: &mut CellCounters,
) -> Option<Vec<u8>> {
    let mut octets = partial.octets;
    if format == SarFormat::Standard {
        match cpcs::sdu_len(partial.header, &octets, mode) {
            Ok(len) => octets.truncate(len),
            Err(fault) => {
                *counters.of_cpcs(fault) += 1;
                return None;
            }
        }
    }
    counters.packets_received += 1;
    Some(octets)
}
