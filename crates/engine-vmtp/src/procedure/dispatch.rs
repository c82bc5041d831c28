//! Packets on their way to their procedures.

use crate::endpoint::Vmtp;
use crate::pdu::{
    CHECK_LEN, Control, HEADER_LEN, NotifyClient, PACKET_MIN, PacketFault, ResponseCode,
    VmtpHeader, packet,
};
use crate::records::RecordId;
use crate::server::State;
use engine::{Deliveries, Instant, Path, Received};

/// The packet group that the last packet was of, and whose Request is being received. Packets of a group come together
/// and differ in their blocks alone (RFC 1045 section 2.5): those behind the first ones need no look at the tables.
#[derive(Debug)]
pub(crate) struct LastGroup {
    path: Path,
    header: VmtpHeader,
    /// The words of the header, of which those of the group count.
    words: [u64; WORDS],
    known: (RecordId, u16),
}

/// Words of a header.
const WORDS: usize = HEADER_LEN / 8;

/// Bits of these words that packets of a group have in common: all but Length and PacketDelivery.
const OF_GROUP: [u64; WORDS] = {
    let mut bits = [u64::MAX; WORDS];
    bits[1] = !(0x1fff << 32);
    bits[2] = !0xffff_ffff;
    bits
};

fn words(octets: &[u8; HEADER_LEN]) -> [u64; WORDS] {
    let (words, _) = octets.as_chunks::<8>();
    std::array::from_fn(|at| u64::from_be_bytes(words[at]))
}

/// Whether a header is of the group with these words.
fn is_of_group(octets: &[u8; HEADER_LEN], group: &[u64; WORDS]) -> bool {
    let own = words(octets);
    let differs = |at: usize| (own[at] ^ group[at]) & OF_GROUP[at];
    (0..WORDS).fold(0, |all, at| all | differs(at)) == 0
}

impl Vmtp {
    pub(crate) fn dispatch(
        &mut self,
        now: Instant,
        received: Received<'_>,
        deliveries: &mut Deliveries,
    ) -> Option<()> {
        let path = received.path;
        if let Some((known, header)) = self.next_of_group(&received) {
            self.sh.peers.get(path).note_received(received.octets.len());
            return self.handle_blocks(now, known, &header, deliveries);
        }
        if self.handle_predicted(now, &received, deliveries) {
            return Some(());
        }
        self.last_group = None;
        let header = match packet::parse(received.octets) {
            Ok(header) => header,
            Err(PacketFault::Size(header)) => {
                self.refuse_malformed(path, &header);
                return None;
            }
            Err(_) => return None,
        };
        if header.domain != self.sh.config.domain {
            return None;
        }
        self.sh.peers.get(path).note_received(received.octets.len());
        if header.control.is_response() {
            return self.handle_response(path, &header, deliveries);
        }
        if self.is_for_manager(&header) {
            return self.handle_management(now, path, &header);
        }
        self.handle_request(path, &header, deliveries)
    }

    /// A packet whose length is wrong: the client of a Request is told (RFC 1045 section 4.7).
    fn refuse_malformed(&mut self, path: Path, header: &VmtpHeader) {
        let is_request = !header.control.is_response() && !self.is_for_manager(header);
        if is_request && header.domain == self.sh.config.domain && !header.multicast {
            self.sh.peers.get(path).note_received(PACKET_MIN);
            let count = u32::from(header.control.retransmit_count());
            let notification = NotifyClient {
                is_remote: false,
                client: header.client,
                control: Control::response(0).with_retransmit_count(count),
                receive_sequence: 0,
                transaction: header.transaction,
                delivery: Default::default(),
                code: ResponseCode::VMTP_ERROR,
            };
            self.sh.notify_client(path, &notification);
        }
    }

    /// Keeps in mind that the next packets are of this group, perhaps.
    pub(super) fn note_group(&mut self, path: Path, known: (RecordId, u16), header: &VmtpHeader) {
        let has_blocks = header.has_segment() && !header.checks_header_only;
        self.last_group = has_blocks.then(|| LastGroup {
            path,
            header: *header,
            words: words(&header.emit()),
            known,
        });
    }

    /// The group and the header of a packet that is of the same group as the last one, and has the right length and check.
    fn next_of_group(&mut self, received: &Received<'_>) -> Option<((RecordId, u16), VmtpHeader)> {
        let last = self.last_group.as_mut()?;
        let octets: &[u8; HEADER_LEN] = received.octets.first_chunk()?;
        if !is_of_group(octets, &last.words) || received.path != last.path {
            return None;
        }
        (last.header.delivery, last.header.data_words) = VmtpHeader::blocks(octets);
        let is_right = received.octets.len() == HEADER_LEN + last.header.data_len() + CHECK_LEN
            && packet::is_check_right(received.octets);
        let record = self.records.get(&last.known.0)?;
        let is_open = matches!(record.state, State::Receiving(_));
        (is_right && is_open).then_some((last.known, last.header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_group_differ_in_length_and_delivery_alone() {
        let octets: [u8; HEADER_LEN] = std::array::from_fn(|at| at as u8);
        let group = words(&octets);
        for bit in 0..8 * HEADER_LEN {
            let mut other = octets;
            other[bit / 8] ^= 0x80 >> (bit % 8);
            // Length: the last 13 bits of the half word at 10; PacketDelivery: the word at 20.
            let is_free = (83..96).contains(&bit) || (160..192).contains(&bit);
            assert_eq!(is_of_group(&other, &group), is_free, "bit {bit}");
        }
    }
}
