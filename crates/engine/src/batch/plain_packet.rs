//! A packet of a header and user bytes in one range, as a message to or fro mostly is.

use super::{Batch, Integrity, Part, Store, add_to_checksum};
use crate::checksum;
use core::ops::Range;

/// The only packet of a [`Batch`], whose check is an Internet checksum, or covers its header alone.
#[derive(Debug)]
pub struct PlainPacket<'a> {
    header: &'a [u8],
    /// Positions of the user bytes in the store of their association, which is the batch's sender.
    pub user: Range<u64>,
    /// Where the header has a checksum that is to cover the user bytes too.
    check_at: Option<u16>,
}

impl PlainPacket<'_> {
    /// Appends the packet, with these user bytes, to `out`.
    #[inline]
    pub fn write(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.header);
        if let Some(at) = self.check_at {
            let sum = checksum::sum(bytes);
            add_to_checksum(&mut out[start + usize::from(at)..], sum);
        }
        out.extend_from_slice(bytes);
    }
}

impl Batch {
    /// Its packet, if it has one only, and that is plain.
    #[inline]
    pub fn plain_packet(&self) -> Option<PlainPacket<'_>> {
        let ([packet], [Part::Own(header), Part::User(Store::Association(_), user)]) =
            (&self.packets[..], &self.parts[..])
        else {
            return None;
        };
        let check_at = match packet.integrity {
            Integrity::None => None,
            Integrity::Internet { at } => Some(at),
            _ => return None,
        };
        Some(PlainPacket {
            header: self.own(header),
            user: user.clone(),
            check_at,
        })
    }
}
