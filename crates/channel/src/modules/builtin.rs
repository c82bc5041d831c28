//! The modules that come with the crate.

use super::{Module, Verdict};
use engine::checksum::Crc32c;

/// Numbers the records, so that the receiver knows how many it missed, and where. A ring keeps the order by itself; this
/// finds out what was dropped, or damaged before it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Order {
    next: u32,
}

/// Octets of a number.
const NUMBER_LEN: usize = 4;

impl Module for Order {
    fn name(&self) -> &str {
        "order"
    }

    fn header_len(&self) -> usize {
        NUMBER_LEN
    }

    fn write_header(&mut self, _: &[u8], header: &mut [u8]) {
        header.copy_from_slice(&self.next.to_ne_bytes());
        self.next = self.next.wrapping_add(1);
    }

    fn skip(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// Numbers wrap at 2^32, so one from the half behind the last is an earlier one.
    fn judge(&mut self, _: &[u8], header: &[u8]) -> Verdict {
        let Ok(number) = header.try_into().map(u32::from_ne_bytes) else {
            return Verdict::Impossible;
        };
        match number.wrapping_sub(self.next) {
            0 => {
                self.next = number.wrapping_add(1);
                Verdict::Deliver
            }
            missing if missing < 1 << 31 => {
                self.next = number.wrapping_add(1);
                Verdict::Missing(missing)
            }
            _ => Verdict::Impossible,
        }
    }
}

/// CRC-32c of each record (polynomial of Castagnoli, RFC 9260 appendix A), computed from the sender's own memory and
/// checked on the receiver's copy: a damaged record is left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Checksum;

fn check(record: &[u8]) -> [u8; NUMBER_LEN] {
    let mut crc = Crc32c::new();
    crc.update(record);
    crc.finish().to_ne_bytes()
}

impl Module for Checksum {
    fn name(&self) -> &str {
        "checksum"
    }

    fn header_len(&self) -> usize {
        NUMBER_LEN
    }

    fn write_header(&mut self, record: &[u8], header: &mut [u8]) {
        header.copy_from_slice(&check(record));
    }

    fn skip(&mut self) {}

    fn judge(&mut self, record: &[u8], header: &[u8]) -> Verdict {
        match header == check(record) {
            true => Verdict::Deliver,
            false => Verdict::Damaged,
        }
    }
}
