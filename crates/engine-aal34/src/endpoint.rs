//! The layer: it only dispatches.

use crate::config::{Aal34Config, Adaptation, CellsConfig, ConfigFault, Repair};
use crate::counters::CellCounters;
use crate::outgoing::{Interleaver, Outgoing};
use crate::pdu::cell::{
    CELL_LEN, CellHeader, Channel, HEADER_LEN, HeaderFormat, PAYLOAD_LEN, PayloadType,
};
use crate::pdu::hec::{HeaderOutcome, HeaderReceiver};
use crate::procedure::reassemble::Reassembler;
use crate::procedure::reassemble5::Reassembler5;
use crate::procedure::segment::Segmenter;
use crate::procedure::segment5::Segmenter5;
use crate::repaired::Repaired;
use engine::{Counters, Frames, Instant, Layer, Path, Received};

/// Cells below a protocol: packets are cut into cells, cells into frames, and back.
#[derive(Debug)]
pub struct Cells {
    config: CellsConfig,
    adaptation: State,
    headers: HeaderReceiver,
    outgoing: Outgoing,
    counters: CellCounters,
    frames: Counters,
}

/// The adaptation layer with what it knows.
#[derive(Debug)]
enum State {
    Aal34(Box<Aal34>),
    Repaired(Box<Repaired>),
    Aal5 {
        segmenter: Segmenter5,
        reassembler: Reassembler5,
    },
}

#[derive(Debug)]
struct Aal34 {
    config: Aal34Config,
    segmenter: Segmenter,
    reassembler: Reassembler,
    interleaver: Interleaver,
    /// The identifier of the next packet of several cells.
    mid: u16,
}

impl Cells {
    /// A layer.
    ///
    /// # Errors
    ///
    /// When the configuration does not fit together.
    pub fn new(config: CellsConfig) -> Result<Cells, ConfigFault> {
        config.check()?;
        Ok(Cells {
            adaptation: state(&config),
            config,
            headers: HeaderReceiver::default(),
            outgoing: Outgoing::default(),
            counters: CellCounters::default(),
            frames: Counters::default(),
        })
    }

    /// Counts of cells, and of what was wrong with them.
    pub fn cell_counters(&self) -> CellCounters {
        self.counters
    }

    /// Packets being put together.
    pub fn under_way(&self) -> usize {
        match &self.adaptation {
            State::Aal34(aal34) => aal34.reassembler.under_way(),
            State::Repaired(repaired) => repaired.under_way(),
            State::Aal5 { reassembler, .. } => reassembler.under_way(),
        }
    }

    /// The header of a cell as far as it is of use here: whether it is the last of its packet.
    fn header(&mut self, header: &[u8; HEADER_LEN]) -> Option<bool> {
        let [a, b, c, d, _] = match self.headers.check(header) {
            HeaderOutcome::Good => *header,
            HeaderOutcome::Corrected(corrected) => {
                self.counters.headers_corrected += 1;
                corrected
            }
            HeaderOutcome::Discarded => {
                self.counters.headers_discarded += 1;
                return None;
            }
        };
        let header = CellHeader::from_bits(u32::from_be_bytes([a, b, c, d]), HeaderFormat::Uni);
        match header.payload_type {
            _ if header.channel == (Channel { vpi: 0, vci: 0 }) => {
                self.counters.other_cells += 1;
                None
            }
            _ if header.channel != self.config.channel => {
                self.counters.unknown_channels += 1;
                None
            }
            PayloadType::User { last, .. } => Some(last),
            _ => {
                self.counters.other_cells += 1;
                None
            }
        }
    }

    /// Takes the payload of the first of `cells`, and the others behind it that go on without any
    /// question; how many it took.
    fn take(
        &mut self,
        (now, path): (Instant, Path),
        (cells, last): (&[[u8; CELL_LEN]], bool),
        packets: &mut Vec<(Path, Vec<u8>)>,
    ) -> usize {
        let Some((first, rest)) = cells.split_first() else {
            return 0;
        };
        let (header, payload) = split(first);
        let counters = &mut self.counters;
        1 + match &mut self.adaptation {
            State::Aal34(aal34) => {
                let reassembler = &mut aal34.reassembler;
                let goes_on = reassembler.take((now, path), payload, counters, packets);
                goes_on.map_or(0, |mid| reassembler.take_run((path, mid), &header, rest))
            }
            State::Repaired(repaired) => {
                let outgoing = &mut self.outgoing;
                repaired.take((now, path), payload, outgoing, counters, packets);
                0
            }
            State::Aal5 { reassembler, .. } => {
                reassembler.take((now, path), (payload, last), counters, packets);
                match last {
                    true => 0,
                    false => reassembler.take_run(path, &header, rest, counters),
                }
            }
        }
    }

    fn take_frame(
        &mut self,
        now: Instant,
        frame: Received<'_>,
        packets: &mut Vec<(Path, Vec<u8>)>,
    ) {
        let (mut cells, rest) = frame.octets.as_chunks::<CELL_LEN>();
        if cells.is_empty() || !rest.is_empty() {
            self.counters.malformed_frames += 1;
            return;
        }
        self.counters.cells_received += cells.len() as u64;
        while let Some(first) = cells.first() {
            let taken = match self.header(&split(first).0) {
                Some(last) => self.take((now, frame.path), (cells, last), packets),
                None => 1,
            };
            if taken > 1 {
                self.headers.note_good();
            }
            cells = &cells[taken..];
        }
        if let State::Aal34(aal34) = &mut self.adaptation {
            aal34.reassembler.end_frame(now, &mut self.counters);
        }
    }
}

fn split(cell: &[u8; CELL_LEN]) -> ([u8; HEADER_LEN], &[u8; PAYLOAD_LEN]) {
    let [a, b, c, d, e, payload @ ..] = cell;
    ([*a, *b, *c, *d, *e], payload)
}

fn state(config: &CellsConfig) -> State {
    let header = CellHeader {
        clp: config.low_priority,
        ..CellHeader::user(config.channel)
    };
    let last = CellHeader {
        payload_type: PayloadType::User {
            congested: false,
            last: true,
        },
        ..header
    };
    let (packet_max, mri_timeout) = (config.packet_max, config.mri_timeout);
    let [header, last] = [header, last].map(|header| header.octets(HeaderFormat::Uni));
    match &config.adaptation {
        Adaptation::Aal34(aal34) if aal34.repair == Repair::Cells => {
            State::Repaired(Box::new(Repaired::new(aal34, config, header)))
        }
        Adaptation::Aal34(aal34) => State::Aal34(Box::new(Aal34 {
            segmenter: Segmenter::new(aal34.sar, aal34.mode, packet_max, header, config.seed),
            reassembler: Reassembler::new(aal34, packet_max, mri_timeout),
            interleaver: Interleaver::default(),
            mid: (config.seed >> 16) as u16 & (aal34.sar.mids() - 1),
            config: *aal34,
        })),
        Adaptation::Aal5 => State::Aal5 {
            segmenter: Segmenter5::new(header, last),
            reassembler: Reassembler5::new(packet_max, mri_timeout),
        },
    }
}

impl Aal34 {
    fn send(&mut self, path: Path, packet: &[u8], outgoing: &mut Outgoing) {
        let (mids, mid) = (self.config.mids, &mut self.mid);
        if self.config.interleave == 1 {
            let cells = outgoing.cells_to(path);
            self.segmenter
                .segment(packet, || next_mid(mid, mids), cells);
            return;
        }
        if self.interleaver.is_full(path, self.config.interleave) {
            self.interleaver.release(outgoing);
        }
        let mut cells = self.interleaver.buffer();
        self.segmenter
            .segment(packet, || next_mid(mid, mids), &mut cells);
        self.interleaver.hold(path, cells);
    }
}

/// The next of `mids` identifiers: 0 is that of packets of one cell, unless there is no other.
fn next_mid(mid: &mut u16, mids: u16) -> u16 {
    *mid = match mids {
        0 | 1 => 0,
        _ => *mid % (mids - 1) + 1,
    };
    *mid
}

impl Layer for Cells {
    fn packet_max(&self) -> usize {
        self.config.packet_max
    }

    fn frame_max(&self) -> usize {
        self.config.frame_cells * CELL_LEN
    }

    fn send(&mut self, now: Instant, path: Path, packet: &[u8]) {
        // The length 0 aborts a packet of AAL5.
        let is_empty = packet.is_empty() && matches!(self.adaptation, State::Aal5 { .. });
        if packet.len() > self.config.packet_max || is_empty {
            self.counters.unsendable += 1;
            return;
        }
        self.counters.packets_sent += 1;
        match &mut self.adaptation {
            State::Aal34(aal34) => aal34.send(path, packet, &mut self.outgoing),
            State::Repaired(repaired) => {
                let counters = &mut self.counters;
                repaired.send((now, path), packet, &mut self.outgoing, counters);
            }
            State::Aal5 { segmenter, .. } => {
                segmenter.segment(packet, self.outgoing.cells_to(path));
            }
        }
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        frame: Received<'_>,
        packets: &mut Vec<(Path, Vec<u8>)>,
    ) {
        self.frames.packets_parsed += 1;
        let before = packets.len();
        self.take_frame(now, frame, packets);
        let octets: usize = packets[before..]
            .iter()
            .map(|(_, packet)| packet.len())
            .sum();
        self.frames.bytes_copied += octets as u64;
    }

    fn recycle(&mut self, packet: Vec<u8>) {
        match &mut self.adaptation {
            State::Aal34(aal34) => aal34.reassembler.spare.give(packet),
            State::Repaired(repaired) => repaired.recycle(packet),
            State::Aal5 { reassembler, .. } => reassembler.spare.give(packet),
        }
    }

    fn poll_transmit(&mut self, _now: Instant, frames_max: usize, frames: &mut Frames) {
        if let State::Aal34(aal34) = &mut self.adaptation {
            aal34.interleaver.release(&mut self.outgoing);
        }
        let count = self
            .outgoing
            .poll(self.config.frame_cells, frames_max, frames);
        self.frames.packets_built += count;
        self.counters.cells_sent += (frames.octets().len() / CELL_LEN) as u64;
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.adaptation {
            State::Aal34(aal34) => aal34.reassembler.poll_timeout(),
            State::Repaired(repaired) => repaired.poll_timeout(),
            State::Aal5 { reassembler, .. } => reassembler.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let counters = &mut self.counters;
        match &mut self.adaptation {
            State::Aal34(aal34) => aal34.reassembler.handle_timeout(now, counters),
            State::Repaired(repaired) => {
                repaired.handle_timeout(now, &mut self.outgoing, counters);
            }
            State::Aal5 { reassembler, .. } => reassembler.handle_timeout(now, counters),
        }
    }

    fn counters(&self) -> Counters {
        Counters {
            packets_discarded: self.counters.discarded(),
            ..self.frames
        }
    }

    fn named_counts(&self) -> Vec<(&'static str, u64)> {
        self.counters.named().into()
    }
}
