//! The work of each rung.

use super::{Rung, cells_len};
use engine::{
    Address, Batch, EntityId, Instant, Note, OutgoingMessage, Protocol, Reliability, Store,
    Transactions,
};
use engine_aal34::pdu::cell::{CELL_LEN, CellHeader, Channel, HEADER_LEN, HeaderFormat};
use engine_aal34::pdu::cpcs::{CpcsMode, CpcsPdu};
use engine_aal34::pdu::sar::{PIECE_LEN, SarFormat, SarHeader, SegmentType, write_cell};
use engine_aal34::procedure::segment::Segmenter;
use engine_vmtp::{Vmtp, VmtpConfig};
use std::hint::black_box;

/// Octets of VMTP's header and check, and of the data that the header has room for.
const PACKET_MIN: usize = 68;
const HEADER_DATA_MAX: usize = 20;

/// Memory that messages lie in: more than a processor's inner caches hold.
const MEMORY_LEN: usize = 4 << 20;

/// The identifier of cells.
const MID: u16 = 9;

/// Work on one packet after the other.
pub(super) struct Work {
    source: Source,
    cutter: Cutter,
    out: Vec<u8>,
}

/// Where what is written comes from.
enum Source {
    Word(u8),
    Cells(Vec<u8>),
    Packet(Vec<u8>),
    Engine(Box<PacketSource>),
}

/// How packets are cut.
enum Cutter {
    /// As the layer cuts them.
    Special(Segmenter),
    /// Each cell like the others.
    Plain([u8; HEADER_LEN]),
}

impl Work {
    /// The work of `rung` with packets of `packet` octets.
    pub(super) fn new(rung: Rung, special: bool, packet: usize) -> Work {
        let ready: Vec<u8> = (0..packet).map(|at| at as u8).collect();
        let mut cutter = Cutter::new(special);
        let source = match rung {
            Rung::FixedWords => Source::Word(0x5a),
            Rung::ReadyCells => {
                let mut cells = Vec::new();
                cutter.cut(&ready, &mut cells);
                Source::Cells(cells)
            }
            Rung::SplitPackets => Source::Packet(ready),
            Rung::RealPackets => Source::Engine(Box::new(PacketSource::new(packet))),
        };
        Work {
            source,
            cutter,
            out: vec![0; cells_len(packet)],
        }
    }

    /// Writes the cells of the next packet.
    pub(super) fn next(&mut self) {
        match &mut self.source {
            Source::Word(word) => self.out.fill(black_box(*word)),
            Source::Cells(cells) => self.out.copy_from_slice(black_box(cells)),
            Source::Packet(packet) => {
                self.out.clear();
                self.cutter.cut(black_box(packet), &mut self.out);
            }
            Source::Engine(engine) => {
                self.out.clear();
                let cutter = &mut self.cutter;
                engine.next(|packet| cutter.cut(packet, &mut self.out));
            }
        }
        black_box(&mut self.out);
    }
}

impl Cutter {
    fn new(special: bool) -> Cutter {
        let channel = Channel { vpi: 0, vci: 32 };
        let header = CellHeader::user(channel).octets(HeaderFormat::Uni);
        let (format, mode) = (SarFormat::Study, CpcsMode::Message);
        match special {
            true => Cutter::Special(Segmenter::new(format, mode, PIECE_LEN * 32, header, 0)),
            false => Cutter::Plain(header),
        }
    }

    fn cut(&mut self, packet: &[u8], out: &mut Vec<u8>) {
        match self {
            Cutter::Special(segmenter) => segmenter.segment(packet, || MID, out),
            Cutter::Plain(header) => cut_plainly(*header, packet, out),
        }
    }
}

/// Cuts a packet without a special case: each cell is filled, from wherever its octets are, and checked alone.
fn cut_plainly(header: [u8; HEADER_LEN], packet: &[u8], out: &mut Vec<u8>) {
    let pdu = CpcsPdu::bare(packet);
    let count = pdu.cells();
    for index in 0..count {
        let mut piece = [0; PIECE_LEN];
        pdu.write_piece(index, &mut piece);
        let sar = SarHeader {
            segment_type: SegmentType::of(index, count),
            sn: index as u8,
            mid: if count == 1 { 0 } else { MID },
        };
        let mut cell = [0; CELL_LEN];
        let bits = sar.bits(SarFormat::Study);
        write_cell(&mut cell, header, bits, &piece, pdu.valid(index));
        out.extend_from_slice(&cell);
    }
}

/// The engine of VMTP, which sends messages of one packet as datagrams.
struct PacketSource {
    engine: Vmtp,
    batch: Batch,
    packet: Vec<u8>,
    memory: Vec<u8>,
    message_len: usize,
    /// Where the next message lies.
    at: usize,
    now_ns: u64,
    messages: u64,
}

/// The entity that sends, and the one that is sent to.
const SENDER: EntityId = EntityId(1 << 32);
const RECEIVER: EntityId = EntityId(2 << 32);

impl PacketSource {
    /// For packets of `packet` octets.
    fn new(packet: usize) -> PacketSource {
        let mut engine = Vmtp::new(VmtpConfig::default());
        let created = engine.create_entity(SENDER);
        created.expect("there is room for one");
        engine.locate(RECEIVER, Address::Station(2));
        PacketSource {
            engine,
            batch: Batch::limited(1, 65_535),
            packet: Vec::new(),
            memory: (0..MEMORY_LEN).map(|at| (at * 7) as u8).collect(),
            message_len: match packet - PACKET_MIN {
                0 => HEADER_DATA_MAX,
                data => data,
            },
            at: 0,
            now_ns: 0,
            messages: 0,
        }
    }

    /// Builds the next packet, and gives it to `take`.
    fn next(&mut self, take: impl FnOnce(&[u8])) {
        let now = Instant::from_nanos(self.now_ns);
        self.now_ns += 1000;
        self.messages += 1;
        self.at = (self.at + self.message_len) % (MEMORY_LEN - self.message_len);
        let note = Note {
            reliability: Reliability::Retransmissions(0),
            ..Note::default()
        };
        let message = (OutgoingMessage(self.messages), self.message_len as u64);
        let called = self.engine.call(now, SENDER, RECEIVER, message, &note);
        called.expect("datagrams end when they have left");
        self.engine.poll_transmit(now, &mut self.batch);
        self.packet.clear();
        for packet in self.batch.packets() {
            let memory = &self.memory[self.at..];
            self.batch
                .write(packet, &mut self.packet, |store, range, out| {
                    debug_assert_eq!(store, Store::Message(message.0));
                    out.extend_from_slice(&memory[range.start as usize..range.end as usize]);
                });
        }
        self.batch.clear();
        // The message is released, and the datagram over.
        while self.engine.poll_event().is_some() {}
        take(&self.packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Layer, Path, Received};
    use engine_aal34::{Aal34Config, Adaptation, Cells, CellsConfig};

    fn packets_of(cells: &[u8]) -> Vec<Vec<u8>> {
        let config = CellsConfig {
            adaptation: Adaptation::Aal34(Aal34Config {
                sar: SarFormat::Study,
                mids: SarFormat::Study.mids(),
                ..Aal34Config::default()
            }),
            packet_max: 1408,
            ..CellsConfig::default()
        };
        let mut layer = Cells::new(config).expect("it fits together");
        let mut packets = Vec::new();
        layer.handle_frame(
            Instant::from_nanos(0),
            Received::new(Path::to(Address::Station(1)), cells),
            &mut packets,
        );
        packets.into_iter().map(|(_, packet)| packet).collect()
    }

    #[test]
    fn cells_are_the_same_with_special_cases_and_without() {
        for packet in (68..=1092).step_by(8) {
            let cells = [true, false].map(|special| {
                let mut work = Work::new(Rung::SplitPackets, special, packet);
                work.next();
                work.out
            });
            assert!(cells[0] == cells[1], "{packet}");
            let ready: Vec<u8> = (0..packet).map(|at| at as u8).collect();
            assert_eq!(packets_of(&cells[0]), [ready], "{packet}");
        }
    }

    #[test]
    fn real_packets_are_those_of_vmtp_and_as_long_as_asked() {
        for packet in [68, 92, 132, 1012, 1092] {
            let mut work = Work::new(Rung::RealPackets, true, packet);
            for _ in 0..3 {
                work.next();
                let got = packets_of(&work.out);
                let lens: Vec<usize> = got.iter().map(Vec::len).collect();
                assert_eq!(lens, [packet]);
                let header = engine_vmtp::pdu::packet::parse(&got[0]).expect("its check is right");
                assert!(!header.control.is_response());
            }
        }
    }

    #[test]
    fn lower_rungs_write_as_many_octets() {
        for rung in [Rung::FixedWords, Rung::ReadyCells] {
            let mut work = Work::new(rung, true, 132);
            work.next();
            assert_eq!(work.out.len(), 3 * CELL_LEN);
        }
    }
}
