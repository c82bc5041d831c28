//! AAL3/4 whose missing cells are asked for again.

use crate::config::{Aal34Config, CellsConfig};
use crate::counters::CellCounters;
use crate::outgoing::Outgoing;
use crate::pdu::cell::{HEADER_LEN, PAYLOAD_LEN};
use crate::pdu::control::Held;
use crate::pdu::sar::{SarFormat, SegmentType};
use crate::procedure::reassemble::Reassembler;
use crate::procedure::repair_receive::{Answer, RepairReceiver};
use crate::procedure::repair_send::RepairSender;
use crate::procedure::sar_input::{self, SarInput};
use crate::procedure::segment::Segmenter;
use engine::{Instant, Path};

/// Both directions.
#[derive(Debug)]
pub(crate) struct Repaired {
    format: SarFormat,
    correct_bits: bool,
    segmenter: Segmenter,
    sender: RepairSender,
    receiver: RepairReceiver,
    /// Packets of one cell.
    singles: Reassembler,
}

impl Repaired {
    pub(crate) fn new(
        aal34: &Aal34Config,
        config: &CellsConfig,
        cell_header: [u8; HEADER_LEN],
    ) -> Repaired {
        let (format, mode) = (aal34.sar, aal34.mode);
        let (packet_max, mri_timeout) = (config.packet_max, config.mri_timeout);
        let first = config.seed >> 16;
        Repaired {
            format,
            correct_bits: aal34.correct_bits,
            segmenter: Segmenter::new(format, mode, packet_max, cell_header, config.seed),
            sender: RepairSender::new(aal34.window(), aal34.mids, first, mri_timeout),
            receiver: RepairReceiver::new((format, mode), aal34.mids, packet_max, mri_timeout),
            singles: Reassembler::new(aal34, packet_max, mri_timeout),
        }
    }

    pub(crate) fn send(
        &mut self,
        (now, path): (Instant, Path),
        packet: &[u8],
        outgoing: &mut Outgoing,
        counters: &mut CellCounters,
    ) {
        let (sender, segmenter) = (&mut self.sender, &mut self.segmenter);
        sender.send((now, path), packet, segmenter, outgoing, counters);
    }

    /// Takes the payload of a cell; appends a packet that is whole now.
    pub(crate) fn take(
        &mut self,
        (now, path): (Instant, Path),
        payload: &[u8; PAYLOAD_LEN],
        outgoing: &mut Outgoing,
        counters: &mut CellCounters,
        packets: &mut Vec<(Path, Vec<u8>)>,
    ) {
        let mut corrected = [0; PAYLOAD_LEN];
        let input = sar_input::read(
            payload,
            &mut corrected,
            (self.format, self.correct_bits),
            counters,
        );
        let SarInput::Segment(segment) = input else {
            return;
        };
        let header = segment.header;
        let segmenter = &mut self.segmenter;
        match header.segment_type {
            SegmentType::Ssm if header.mid == 0 => {
                let singles = &mut self.singles;
                singles.take_segment((now, path), &segment, counters, packets);
            }
            SegmentType::Ssm => match Held::parse(segment.octets()) {
                Some(held) => {
                    let held = (header.mid, held);
                    self.sender
                        .handle_held((now, path), held, segmenter, outgoing, counters);
                }
                None => counters.bad_controls += 1,
            },
            // Nobody aborts packets here.
            _ if segment.aborts => counters.aborted += 1,
            _ => {
                let mut answer = Answer {
                    segmenter,
                    outgoing,
                };
                let cell = (header, segment.octets());
                let whole = self.receiver.take((now, path), cell, &mut answer, counters);
                packets.extend(whole.map(|packet| (path, packet)));
            }
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let both = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
        both.into_iter().flatten().min()
    }

    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        outgoing: &mut Outgoing,
        counters: &mut CellCounters,
    ) {
        let segmenter = &mut self.segmenter;
        self.sender.handle_timeout(now, segmenter, outgoing);
        let mut answer = Answer {
            segmenter,
            outgoing,
        };
        self.receiver.handle_timeout(now, &mut answer, counters);
    }

    /// Takes back the memory of a packet.
    pub(crate) fn recycle(&mut self, packet: Vec<u8>) {
        match self.singles.spare.is_empty() {
            true => self.singles.spare.give(packet),
            false => self.receiver.spare.give(packet),
        }
    }

    /// Packets that lie open.
    pub(crate) fn under_way(&self) -> usize {
        self.receiver.under_way()
    }
}
