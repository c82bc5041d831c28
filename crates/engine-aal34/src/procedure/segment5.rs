//! AAL5, sender: a packet to cells.

use crate::pdu::aal5::{TRAILER_LEN, Trailer, cells};
use crate::pdu::cell::{CELL_LEN, HEADER_LEN, PAYLOAD_LEN};
use crate::pdu::crc32::Crc32;

/// Cuts packets into cells.
#[derive(Clone, Debug)]
pub struct Segmenter5 {
    /// The header of all cells but the last of a packet, and that of the last.
    cell_header: [u8; HEADER_LEN],
    last_header: [u8; HEADER_LEN],
}

impl Segmenter5 {
    /// A sender of cells with these headers.
    pub fn new(cell_header: [u8; HEADER_LEN], last_header: [u8; HEADER_LEN]) -> Segmenter5 {
        Segmenter5 {
            cell_header,
            last_header,
        }
    }

    /// Appends the cells of `packet`, of 1 to 65,535 octets, to `out`.
    pub fn segment(&self, packet: &[u8], out: &mut Vec<u8>) {
        let count = cells(packet.len());
        let start = out.len();
        out.resize(start + count * CELL_LEN, 0);
        let (places, _) = out[start..].as_chunks_mut::<CELL_LEN>();
        for (place, octets) in places.iter_mut().zip(packet.chunks(PAYLOAD_LEN)) {
            let (header, payload) = place.split_at_mut(HEADER_LEN);
            header.copy_from_slice(&self.cell_header);
            payload[..octets.len()].copy_from_slice(octets);
        }
        let mut crc = Crc32::new();
        crc.update(packet);
        let padding = count * PAYLOAD_LEN - TRAILER_LEN - packet.len();
        crc.update(&[0; PAYLOAD_LEN][..padding]);
        let trailer = Trailer {
            uu: 0,
            cpi: 0,
            length: packet.len() as u16,
        };
        if let Some(last) = places.last_mut() {
            last[..HEADER_LEN].copy_from_slice(&self.last_header);
            last[CELL_LEN - TRAILER_LEN..].copy_from_slice(&trailer.octets(crc));
        }
    }
}
