//! The adapter of a station on an ATM line: queues of cells between the main processor and the line, as
//! in a study of 1994 (0027, The adapter).

use crate::cost::HostCost;

/// Words of 32 bits that a cell is on the bus: header, 12 of payload, trailer.
pub const CELL_WORDS: u64 = 14;

/// Flushes of the write buffer a cell: before and behind its header, and before its trailer.
pub const CELL_FLUSHES: u64 = 3;

/// An adapter. Times are those of the main processor, ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterConfig {
    /// Cells of the transmit queue; a full one blocks the processor.
    pub transmit_cells: u64,
    /// Cells of the receive queue; a full one drops what comes.
    pub receive_cells: u64,
    /// How cells are moved to and from the queues.
    pub access: CellAccess,
    /// What makes the processor look at the receive queue.
    pub interrupts: Interrupts,
    /// How the last cell of a packet is known.
    pub last_cell: LastCell,
    /// What a packet that is sent costs besides its cells.
    pub packet: PacketCost,
    /// The longest time that the bus may be blocked; what is beyond it is counted as a bus error.
    pub stall_max_ps: u64,
}

/// What a packet that is sent costs besides its cells. The study's driver had a path of its own for
/// packets of up to two cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCost {
    /// Of a packet, ps.
    pub usual_ps: u64,
    /// Cells that a short packet has at most; 0 where none is short.
    pub short_cells: u64,
    /// Of a short packet, ps.
    pub short_ps: u64,
}

impl PacketCost {
    fn of_ps(&self, cells: u64) -> u64 {
        match cells <= self.short_cells {
            true => self.short_ps,
            false => self.usual_ps,
        }
    }
}

/// How cells cross the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellAccess {
    /// The processor moves each word; its write buffer is flushed around header and trailer.
    Words {
        /// A word written to the adapter or read from it, ps.
        word_ps: u64,
        /// A word of a packet that is sent crosses the bus twice: its way from memory, ps.
        memory_ps: u64,
        /// A flush, ps; of cells that are sent.
        flush_ps: u64,
    },
    /// One transfer a cell, for which the processor waits.
    Burst {
        /// Its start, ps.
        setup_ps: u64,
        /// A word, ps.
        word_ps: u64,
    },
    /// One transfer a packet, done by the adapter beside the processor.
    ScatterGather {
        /// Its start, ps.
        setup_ps: u64,
    },
}

/// What interrupts the processor. Without any it polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// So many cells in the receive queue.
    pub count: Option<u64>,
    /// So long after the queue became non-empty, ps.
    pub timer_ps: Option<u64>,
    /// The last cell of a packet.
    pub end_of_message: bool,
}

/// How the last cell of a packet is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastCell {
    /// AAL3/4: segment type EOM or SSM.
    SegmentType,
    /// AAL5: the last bit of the payload type.
    PayloadType,
}

/// The first adapter of the study: queues of 512 and 4096 words, a bus of 25 MHz. Words cost one cycle.
pub const STUDY: AdapterConfig = AdapterConfig {
    transmit_cells: 36,
    receive_cells: 292,
    access: CellAccess::Words {
        word_ps: 40_000,
        memory_ps: 0,
        flush_ps: 0,
    },
    interrupts: Interrupts {
        count: None,
        timer_ps: None,
        end_of_message: false,
    },
    last_cell: LastCell::SegmentType,
    packet: PacketCost {
        usual_ps: 0,
        short_cells: 0,
        short_ps: 0,
    },
    stall_max_ps: 256 * 40_000,
};

/// What an adapter counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdapterReport {
    /// Cells dropped because the receive queue was full.
    pub overruns: u64,
    /// Most cells in the receive queue.
    pub receive_max: u64,
    /// Interrupts of the processor.
    pub interrupts: u64,
    /// Cells that found the transmit queue full.
    pub bus_stalls: u64,
    /// Time for which the bus was blocked, ps.
    pub stall_ps: u64,
    /// Stalls longer than the bus allows.
    pub bus_errors: u64,
    /// Time of the processor for moving octets of packets into the transmit queue, ps. Headers, trailers
    /// and the filler of last cells are not among them.
    pub copy_ps: u64,
    /// All its time for sending, ps.
    pub send_ps: u64,
    /// Cells sent.
    pub cells_sent: u64,
}

/// An adapter at work.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) config: AdapterConfig,
    pub(crate) report: AdapterReport,
    /// An interrupt that the processor has not begun to serve.
    is_pending: bool,
    /// Cells sent of the packet at hand.
    packet_cells: u64,
    /// Counts the times at which the receive queue became non-empty: a timer of before is void.
    pub(crate) fills: u64,
}

impl Adapter {
    pub(crate) fn new(config: AdapterConfig) -> Adapter {
        Adapter {
            config,
            report: AdapterReport::default(),
            is_pending: false,
            packet_cells: 0,
            fills: 0,
        }
    }

    /// Time of the processor for `cell`, which is sent while `backlog_ps` of cells wait for the line, each
    /// of which takes `cell_ps`.
    pub(crate) fn send_ps(&mut self, backlog_ps: u64, cell_ps: u64, cell: &[u8]) -> u64 {
        let data_ps = self.data_ps(cell);
        let work_ps =
            self.bus_ps(cell) + data_ps.from_memory + self.flush_ps() + self.packet_ps(cell);
        self.report.copy_ps += data_ps.from_memory + data_ps.to_adapter;
        // Room for the cell when it has been copied.
        let room_ps = self.config.transmit_cells.saturating_sub(1) * cell_ps;
        let stall_ps = backlog_ps.saturating_sub(work_ps).saturating_sub(room_ps);
        if stall_ps > 0 {
            self.report.bus_stalls += 1;
            self.report.stall_ps += stall_ps;
            self.report.bus_errors += u64::from(stall_ps > self.config.stall_max_ps);
        }
        self.report.send_ps += work_ps + stall_ps;
        self.report.cells_sent += 1;
        work_ps + stall_ps
    }

    /// What the packet costs whose last cell `cell` is.
    fn packet_ps(&mut self, cell: &[u8]) -> u64 {
        self.packet_cells += 1;
        match self.config.last_cell.is_last(cell) {
            true => self
                .config
                .packet
                .of_ps(std::mem::take(&mut self.packet_cells)),
            false => 0,
        }
    }

    /// Time of the processor for `cell`, which it takes from the receive queue.
    pub(crate) fn receive_ps(&mut self, cost: &HostCost, cell: &[u8]) -> u64 {
        let interrupt_ps = match std::mem::take(&mut self.is_pending) {
            true => cost.interrupt_ps,
            false => 0,
        };
        interrupt_ps + self.bus_ps(cell)
    }

    /// A cell arrives while `waiting` are in the receive queue.
    pub(crate) fn admit(&mut self, waiting: u64) -> bool {
        let fits = waiting < self.config.receive_cells;
        match fits {
            true => self.report.receive_max = self.report.receive_max.max(waiting + 1),
            false => self.report.overruns += 1,
        }
        fits
    }

    /// Whether the cell that was put into the queue as number `waiting` makes the processor look, which
    /// serves the queue already if `is_served`.
    pub(crate) fn notify(&mut self, cell: &[u8], waiting: u64, is_served: bool) -> Notice {
        let interrupts = self.config.interrupts;
        if interrupts == Interrupts::default() || is_served {
            return Notice::Now;
        }
        let by_count = interrupts.count.is_some_and(|count| waiting >= count);
        let by_end = interrupts.end_of_message && self.config.last_cell.is_last(cell);
        if by_count || by_end {
            return self.interrupt();
        }
        match interrupts.timer_ps {
            Some(timer_ps) if waiting == 1 => {
                self.fills += 1;
                Notice::After(timer_ps)
            }
            _ => Notice::Later,
        }
    }

    /// Interrupts the processor.
    pub(crate) fn interrupt(&mut self) -> Notice {
        self.report.interrupts += 1;
        self.is_pending = true;
        self.fills += 1;
        Notice::Now
    }

    /// The time that `cell` takes on the bus, in either direction.
    fn bus_ps(&self, cell: &[u8]) -> u64 {
        match self.config.access {
            CellAccess::Words { word_ps, .. } => CELL_WORDS * word_ps,
            CellAccess::Burst { setup_ps, word_ps } => setup_ps + CELL_WORDS * word_ps,
            CellAccess::ScatterGather { setup_ps } => match self.config.last_cell.is_last(cell) {
                true => setup_ps,
                false => 0,
            },
        }
    }

    /// The time for the octets of a packet in `cell`.
    fn data_ps(&self, cell: &[u8]) -> DataTime {
        let octets = match (self.config.last_cell, cell.get(51)) {
            // The length indicator of a SAR-PDU; 63 aborts.
            (LastCell::SegmentType, Some(octet)) => u64::from(octet >> 2) % 63,
            (LastCell::PayloadType, Some(_)) => 48,
            (_, None) => 0,
        };
        let (word_ps, memory_ps) = match self.config.access {
            CellAccess::Words {
                word_ps, memory_ps, ..
            } => (word_ps, memory_ps),
            CellAccess::Burst { word_ps, .. } => (word_ps, 0),
            CellAccess::ScatterGather { .. } => (0, 0),
        };
        DataTime {
            from_memory: octets * memory_ps / WORD_OCTETS,
            to_adapter: octets * word_ps / WORD_OCTETS,
        }
    }

    fn flush_ps(&self) -> u64 {
        match self.config.access {
            CellAccess::Words { flush_ps, .. } => CELL_FLUSHES * flush_ps,
            _ => 0,
        }
    }
}

/// Octets of a word.
const WORD_OCTETS: u64 = 4;

/// Time for octets of a packet, ps.
struct DataTime {
    from_memory: u64,
    to_adapter: u64,
}

/// What a cell in the receive queue does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The processor looks at the queue.
    Now,
    /// It does after this time, ps, if nothing makes it look before.
    After(u64),
    /// Nothing.
    Later,
}

impl LastCell {
    /// Whether `cell` ends a packet.
    pub(crate) fn is_last(self, cell: &[u8]) -> bool {
        match self {
            LastCell::SegmentType => cell.get(5).is_some_and(|octet| octet >> 6 & 1 != 0),
            LastCell::PayloadType => cell.get(3).is_some_and(|octet| octet >> 1 & 1 != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_transmit_queue_blocks_until_a_cell_has_left() {
        let mut adapter = Adapter::new(STUDY);
        let cell_ps = 2_700_000;
        let copy_ps = 14 * 40_000;
        assert_eq!(adapter.send_ps(0, cell_ps, &[]), copy_ps);
        assert_eq!(adapter.send_ps(35 * cell_ps, cell_ps, &[]), copy_ps);
        assert_eq!(adapter.report.bus_stalls, 0);
        let full = adapter.send_ps(36 * cell_ps, cell_ps, &[]);
        assert_eq!(full, cell_ps, "a cell leaves meanwhile");
        assert_eq!(
            (adapter.report.bus_stalls, adapter.report.bus_errors),
            (1, 0)
        );
        adapter.send_ps(60 * cell_ps, cell_ps, &[]);
        assert_eq!(adapter.report.bus_errors, 1, "more than 256 cycles");
    }

    #[test]
    fn octets_of_packets_are_counted_without_header_trailer_and_filler() {
        let access = CellAccess::Words {
            word_ps: 40_000,
            memory_ps: 20_000,
            flush_ps: 0,
        };
        let mut adapter = Adapter::new(AdapterConfig { access, ..STUDY });
        for (li, octets) in [(44, 44), (1, 1), (0, 0), (63, 0)] {
            let mut cell = [0; 53];
            cell[51] = li << 2;
            let before = adapter.report;
            adapter.send_ps(0, 1, &cell);
            let (copy, all) = (octets * 15_000, 14 * 40_000 + octets * 5_000);
            assert_eq!(adapter.report.copy_ps - before.copy_ps, copy, "{li}");
            assert_eq!(adapter.report.send_ps - before.send_ps, all, "{li}");
        }
        assert_eq!(adapter.report.cells_sent, 4);
    }

    #[test]
    fn packet_of_up_to_two_cells_costs_what_short_ones_cost() {
        let packet = PacketCost {
            usual_ps: 700,
            short_cells: 2,
            short_ps: 50,
        };
        let access = CellAccess::ScatterGather { setup_ps: 0 };
        let config = AdapterConfig {
            packet,
            access,
            ..STUDY
        };
        let mut adapter = Adapter::new(config);
        let (com, eom) = ([0, 0, 0, 0, 0, 0x00], [0, 0, 0, 0, 0, 0x40]);
        let mut send = |cells: &[[u8; 6]]| -> u64 {
            let each = cells.iter().map(|cell| adapter.send_ps(0, 1, cell));
            each.sum()
        };
        assert_eq!((send(&[eom]), send(&[com, eom])), (50, 50));
        assert_eq!((send(&[com, com, eom]), send(&[com, eom])), (700, 50));
    }

    #[test]
    fn full_receive_queue_drops() {
        let mut adapter = Adapter::new(STUDY);
        assert!(adapter.admit(291) && !adapter.admit(292));
        assert_eq!(
            (adapter.report.overruns, adapter.report.receive_max),
            (1, 292)
        );
    }

    #[test]
    fn each_kind_of_interrupt_makes_the_processor_look() {
        let with = |interrupts| {
            Adapter::new(AdapterConfig {
                interrupts,
                ..STUDY
            })
        };
        let mut polls = with(Interrupts::default());
        assert_eq!(polls.notify(&[], 1, false), Notice::Now);
        assert_eq!(polls.report.interrupts, 0);
        let mut counts = with(Interrupts {
            count: Some(3),
            timer_ps: Some(70),
            ..Interrupts::default()
        });
        assert_eq!(counts.notify(&[], 1, false), Notice::After(70));
        assert_eq!(counts.notify(&[], 2, false), Notice::Later);
        assert_eq!(counts.notify(&[], 3, false), Notice::Now);
        assert_eq!(counts.notify(&[], 4, true), Notice::Now, "it looks already");
        assert_eq!(counts.report.interrupts, 1);
        let mut ends = with(Interrupts {
            end_of_message: true,
            ..Interrupts::default()
        });
        let (com, eom) = ([0, 0, 0, 0, 0, 0x00], [0, 0, 0, 0, 0, 0x40]);
        assert_eq!(ends.notify(&com, 1, false), Notice::Later);
        assert_eq!(ends.notify(&eom, 2, false), Notice::Now);
        assert!(LastCell::PayloadType.is_last(&[0, 0, 0, 2]));
    }

    #[test]
    fn cost_of_a_cell_is_that_of_its_way_over_the_bus() {
        let with = |access| Adapter::new(AdapterConfig { access, ..STUDY });
        let words = CellAccess::Words {
            word_ps: 10,
            memory_ps: 0,
            flush_ps: 100,
        };
        assert_eq!(with(words).send_ps(0, 1, &[]), 14 * 10 + 3 * 100);
        let cost = HostCost {
            interrupt_ps: 1000,
            ..HostCost::FREE
        };
        let mut adapter = with(words);
        assert_eq!(adapter.receive_ps(&cost, &[]), 140);
        adapter.interrupt();
        assert_eq!(adapter.receive_ps(&cost, &[]), 1140);
        assert_eq!(adapter.receive_ps(&cost, &[]), 140, "one interrupt for all");
        let burst = CellAccess::Burst {
            setup_ps: 50,
            word_ps: 1,
        };
        assert_eq!(with(burst).send_ps(0, 1, &[]), 64);
        let mut gather = with(CellAccess::ScatterGather { setup_ps: 9 });
        let last = [0, 0, 0, 0, 0, 0x40];
        assert_eq!(
            (gather.send_ps(0, 1, &last), gather.send_ps(0, 1, &[])),
            (9, 0)
        );
    }
}
