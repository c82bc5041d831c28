//! ATM cells as tshark reads them: records of ERF.
//!
//! Of the formats for ATM that tshark knows, ERF alone has single cells and, apart from them, PDUs of AAL5 with their
//! trailer, whose CRC-32 tshark checks. It shows the header of a cell and takes no AAL3/4 apart.
//!
//! A record is a header of 16 octets - time, type, flags, lengths - and then four octets of a cell's header, without
//! its check, and the payload (Endace, ERF types reference: TYPE_ATM, TYPE_AAL5).

use crate::pcapng::{Direction, InterfaceId, LinkType, PacketBlock, PcapngWriter};
use std::io::{self, Write};

/// Octets of a cell, and of its header with and without the check.
const CELL_LEN: usize = 53;
const HEADER_LEN: usize = 5;
const HEADER_SHORT: usize = 4;

/// Octets of a record's own header.
const RECORD_HEADER: usize = 16;

/// Record types: one cell; a PDU of AAL5.
const TYPE_ATM: u8 = 3;
const TYPE_AAL5: u8 = 4;

/// Records have different lengths (bit 2 of the flags).
const VARYING_LENGTH: u8 = 4;

/// Octets of a record: its length has 16 bits.
const RECORD_MAX: usize = 65_535;

/// The last cell of a PDU of AAL5 has this bit in the last octet of its short header, unless bit 3 says that it is no
/// user data (I.361).
const LAST: u8 = 2;
const NO_USER_DATA: u8 = 8;

/// When and which way cells crossed a wire.
#[derive(Clone, Copy, Debug)]
pub struct CellsSeen<'a> {
    /// Timestamp, ns.
    pub at_ns: u64,
    /// Direction, where known.
    pub direction: Option<Direction>,
    /// Comment for a reader; empty for none.
    pub comment: &'a str,
}

/// Writes the cells of one direction of a wire to a file: each cell, and behind the last one of a PDU of AAL5 the PDU.
#[derive(Debug)]
pub struct CellWriter {
    interface: InterfaceId,
    /// The PDU so far; None where cells are not of AAL5.
    pdu: Option<Vec<u8>>,
}

impl CellWriter {
    /// Adds the interface `name` of cells to the file; `is_aal5` where PDUs are to be written too.
    ///
    /// # Errors
    ///
    /// The first write error.
    pub fn new<W: Write>(
        writer: &mut PcapngWriter<W>,
        name: &str,
        is_aal5: bool,
    ) -> io::Result<CellWriter> {
        Ok(CellWriter {
            interface: writer.interface(name, LinkType::Erf, 0, "")?,
            pdu: is_aal5.then(Vec::new),
        })
    }

    /// Writes the cells of a frame: whole cells back to back. What is behind the last whole one is left out.
    ///
    /// # Errors
    ///
    /// The first write error.
    pub fn write<W: Write>(
        &mut self,
        writer: &mut PcapngWriter<W>,
        seen: &CellsSeen<'_>,
        frame: &[u8],
    ) -> io::Result<()> {
        for (header, payload) in parts_of_cells(frame) {
            self.write_record(writer, seen, TYPE_ATM, (header, payload))?;
            if let Some(whole) = self.add_to_pdu(header, payload) {
                self.write_record(writer, seen, TYPE_AAL5, (header, &whole))?;
            }
        }
        Ok(())
    }

    /// As [`write`](CellWriter::write), but the cells are no part of a PDU: they were written before.
    ///
    /// # Errors
    ///
    /// The first write error.
    pub fn write_cells<W: Write>(
        &self,
        writer: &mut PcapngWriter<W>,
        seen: &CellsSeen<'_>,
        frame: &[u8],
    ) -> io::Result<()> {
        parts_of_cells(frame).try_for_each(|cell| self.write_record(writer, seen, TYPE_ATM, cell))
    }

    /// Adds a cell to its PDU; the PDU if that is whole now, and not too long for a record.
    fn add_to_pdu(&mut self, header: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
        let pdu = self.pdu.as_mut()?;
        let bits = header.last().copied().unwrap_or(0);
        if bits & NO_USER_DATA != 0 {
            return None;
        }
        pdu.extend_from_slice(payload);
        let is_too_long = pdu.len() > RECORD_MAX - RECORD_HEADER - HEADER_SHORT;
        if bits & LAST == 0 && !is_too_long {
            return None;
        }
        let whole = std::mem::take(pdu);
        (!is_too_long).then_some(whole)
    }

    fn write_record<W: Write>(
        &self,
        writer: &mut PcapngWriter<W>,
        seen: &CellsSeen<'_>,
        kind: u8,
        parts: (&[u8], &[u8]),
    ) -> io::Result<()> {
        let record = record(seen.at_ns, kind, parts);
        let block = PacketBlock {
            interface: self.interface,
            at_ns: seen.at_ns,
            octets: &record,
            original_len: record.len(),
            direction: seen.direction,
            comment: seen.comment,
        };
        writer.packet(&block).map(|_| ())
    }
}

/// Short header and payload of each whole cell.
fn parts_of_cells(frame: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let (cells, _) = frame.as_chunks::<CELL_LEN>();
    cells.iter().map(|cell| {
        let (header, payload) = cell.split_at(HEADER_LEN);
        (&header[..HEADER_SHORT], payload)
    })
}

/// A record of a cell's short header and a payload, which have [`RECORD_MAX`] octets less those of its own header at
/// most.
fn record(at_ns: u64, kind: u8, (header, payload): (&[u8], &[u8])) -> Vec<u8> {
    let len = header.len() + payload.len();
    let (seconds, rest_ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    // Seconds, and parts of 2^-32 s.
    let time = (seconds << 32) | ((rest_ns << 32) / 1_000_000_000);
    let mut record = Vec::with_capacity(RECORD_HEADER + len);
    record.extend(time.to_le_bytes());
    record.extend([kind, VARYING_LENGTH]);
    record.extend(((RECORD_HEADER + len) as u16).to_be_bytes());
    // The loss counter.
    record.extend([0, 0]);
    record.extend((len as u16).to_be_bytes());
    record.extend_from_slice(header);
    record.extend_from_slice(payload);
    record
}
