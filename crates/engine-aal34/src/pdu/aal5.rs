//! The PDU of AAL5: user octets, padding, and a trailer that ends its last cell (ITU-T I.363.5,
//! RFC 2684).

use super::cell::PAYLOAD_LEN;
use super::crc32::{Crc32, RESIDUE};

/// Octets of the trailer: user-to-user indication, CPI, length, CRC-32.
pub const TRAILER_LEN: usize = 8;

/// Octets of the longest SDU: its length has 16 bits.
pub const SDU_MAX: usize = 65_535;

/// Cells of the PDU of an SDU of `len` octets.
pub fn cells(len: usize) -> usize {
    (len + TRAILER_LEN).div_ceil(PAYLOAD_LEN)
}

/// The trailer of a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// User-to-user indication: passed on as it is.
    pub uu: u8,
    /// Common part indicator; 0.
    pub cpi: u8,
    /// Octets of the SDU; 0 aborts.
    pub length: u16,
}

impl Trailer {
    /// The trailer's octets; `crc` was updated with all of the PDU in front of it.
    pub fn octets(&self, mut crc: Crc32) -> [u8; TRAILER_LEN] {
        let [high, low] = self.length.to_be_bytes();
        let front = [self.uu, self.cpi, high, low];
        crc.update(&front);
        let [a, b, c, d] = crc.finish().to_be_bytes();
        let [uu, cpi, high, low] = front;
        [uu, cpi, high, low, a, b, c, d]
    }
}

/// Why a PDU is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduFault {
    /// The CRC-32 is wrong: octets are damaged, or cells are missing.
    Crc,
    /// The length does not agree with the number of cells, or CPI is not 0.
    Length,
    /// Its sender gave it up.
    Aborted,
}

/// Octets of the SDU at the beginning of a whole PDU.
///
/// # Errors
///
/// What is wrong with the PDU.
pub fn sdu_len(pdu: &[u8]) -> Result<usize, PduFault> {
    let mut crc = Crc32::new();
    crc.update(pdu);
    if crc.residue() != RESIDUE {
        return Err(PduFault::Crc);
    }
    let Some(&[_, cpi, high, low, ..]) = pdu.last_chunk::<TRAILER_LEN>() else {
        return Err(PduFault::Length);
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    match len {
        0 => Err(PduFault::Aborted),
        _ if cpi != 0 || cells(len) * PAYLOAD_LEN != pdu.len() => Err(PduFault::Length),
        _ => Ok(len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pdu(sdu: &[u8], uu: u8, cpi: u8) -> Vec<u8> {
        let mut pdu = sdu.to_vec();
        pdu.resize(cells(sdu.len()) * PAYLOAD_LEN - TRAILER_LEN, 0);
        let mut crc = Crc32::new();
        crc.update(&pdu);
        let length = sdu.len() as u16;
        pdu.extend(Trailer { uu, cpi, length }.octets(crc));
        pdu
    }

    fn check(sdu: &[u8], uu: u8, cpi: u8) -> u32 {
        let pdu = pdu(sdu, uu, cpi);
        let last = pdu.last_chunk::<4>().expect("a trailer");
        u32::from_be_bytes(*last)
    }

    #[test]
    fn checks_of_known_pdus() {
        let ramp = |from: u8, to: u8| (from..=to).collect::<Vec<u8>>();
        assert_eq!(check(&[0; 40], 0, 0), 0x864d_7f99);
        assert_eq!(check(&[0xff; 40], 0, 0), 0xc55e_457a);
        assert_eq!(check(&ramp(1, 0x28), 0, 0), 0xbf67_1ed0);
        assert_eq!(check(&ramp(1, 0x28), 0x11, 0x22), 0xacba_602a);
        assert_eq!(check(&ramp(0, 0x27), 0, 0), 0xa6ae_fa48);
        assert_eq!(check(&[], 0, 0), 0x3866_24c1);
        assert_eq!(pdu(&[], 0, 0).len(), 48);
        assert_eq!(check(&ramp(0, 0x28), 0, 0), 0x4eb3_b0e7);
        assert_eq!(pdu(&ramp(0, 0x28), 0, 0).len(), 96);
    }

    #[test]
    fn each_fault_has_its_name() {
        let good = pdu(&[7; 41], 0, 0);
        assert_eq!(sdu_len(&good), Ok(41));
        let mut damaged = good.clone();
        damaged[50] ^= 1;
        assert_eq!(sdu_len(&damaged), Err(PduFault::Crc));
        assert_eq!(
            sdu_len(&good[48..]),
            Err(PduFault::Crc),
            "a cell is missing"
        );
        assert_eq!(sdu_len(&pdu(&[7; 41], 0, 1)), Err(PduFault::Length));
        assert_eq!(sdu_len(&pdu(&[], 0, 0)), Err(PduFault::Aborted));
        assert_eq!(sdu_len(&[]), Err(PduFault::Crc));
    }
}
