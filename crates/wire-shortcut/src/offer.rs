//! The offer of a ring: a datagram that a process of the same host recognises and no other host can make.
//!
//! ```text
//!  0           8          12         16                  32            40
//! +-----------+----------+----------+-------------------+-------------+
//! | mark (11), 0xff      | version  | nonce             | tag         |
//! +-----------+----------+----------+-------------------+-------------+
//! ```
//!
//! The tag is SipHash-2-4 of what stands before it, under the boot identifier: a number of 122 random bits
//! that the kernel draws at each boot and shows to every process of the host, and that no other host
//! knows. Octet 11, where XTP has version and format, is 0xff, which no version has.

use crate::boot::BootId;
use engine::siphash;

/// Octets of an offer.
pub const OFFER_LEN: usize = 40;

/// Octets of a nonce.
pub const NONCE_LEN: usize = 16;

/// What an offer begins with; then its version.
const MARK: [u8; 12] = *b"towpath-rin\xff";
const VERSION: u32 = 1;

/// Where the nonce and the tag begin.
const NONCE_AT: usize = 16;
const TAG_AT: usize = NONCE_AT + NONCE_LEN;

/// A number that is used for one offer. Who knows it received the offer, or made it.
pub type Nonce = [u8; NONCE_LEN];

/// The offer with `nonce`, for processes of the host with identifier `boot`.
pub fn encode(boot: &BootId, nonce: &Nonce) -> [u8; OFFER_LEN] {
    let mut offer = [0; OFFER_LEN];
    offer[..MARK.len()].copy_from_slice(&MARK);
    offer[MARK.len()..NONCE_AT].copy_from_slice(&VERSION.to_le_bytes());
    offer[NONCE_AT..TAG_AT].copy_from_slice(nonce);
    let tag = siphash(boot.key(), &offer[..TAG_AT]);
    offer[TAG_AT..].copy_from_slice(&tag.to_le_bytes());
    offer
}

/// Whether `octets` begin as an offer does: they are no packet of an engine.
#[inline]
pub fn is_marked(octets: &[u8]) -> bool {
    octets.starts_with(&MARK)
}

/// The nonce of an offer of this version that was made on the host with identifier `boot`.
pub fn decode(boot: &BootId, octets: &[u8]) -> Option<Nonce> {
    let offer: &[u8; OFFER_LEN] = octets.try_into().ok()?;
    let nonce = offer[NONCE_AT..TAG_AT].try_into().ok()?;
    // Not in constant time: a process that can measure this host so closely can read its boot identifier.
    (*offer == encode(boot, &nonce)).then_some(nonce)
}

/// The number in the name of the socket at which the maker of an offer waits. It follows from the nonce and
/// not the other way round, so that a list of the host's sockets shows no nonce.
pub(crate) fn socket_number(boot: &BootId, nonce: &Nonce) -> u64 {
    siphash(boot.key(), &[b"socket of ".as_slice(), nonce].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: BootId = BootId::new([7; 16]);

    #[test]
    fn offer_is_known_on_its_host_and_on_no_other() {
        let nonce = [3; NONCE_LEN];
        let offer = encode(&HERE, &nonce);
        assert!(is_marked(&offer));
        assert_eq!(decode(&HERE, &offer), Some(nonce));
        assert_eq!(decode(&BootId::new([8; 16]), &offer), None);
    }

    #[test]
    fn offer_changed_in_any_bit_or_length_is_unknown() {
        let offer = encode(&HERE, &[3; NONCE_LEN]);
        for bit in 0..8 * OFFER_LEN {
            let mut changed = offer;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&HERE, &changed), None, "bit {bit}");
        }
        assert_eq!(decode(&HERE, &offer[..OFFER_LEN - 1]), None);
        assert_eq!(decode(&HERE, &[offer.as_slice(), &[0]].concat()), None);
    }

    #[test]
    fn name_of_the_socket_differs_with_the_nonce() {
        let number = |octet| socket_number(&HERE, &[octet; NONCE_LEN]);
        assert_ne!(number(1), number(2));
    }
}
