//! What may be sent to a sender before it is known to hear us (0018, Credit).

/// Whether the sender of a stream is at the address its packets carry.
#[derive(Clone, Copy, Debug)]
pub(super) enum SenderAddress {
    /// Anybody may have written it there. What is sent to it is limited by what came from it.
    Unproven(AnswerCredit),
    /// It returned the key that was sent to it in JCNTL.
    Proven,
}

/// What was received from an address, less what was sent to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerCredit {
    packets: u64,
    octets: u64,
}

impl SenderAddress {
    /// That of a sender of which nothing is known.
    pub(super) fn unproven() -> SenderAddress {
        SenderAddress::Unproven(AnswerCredit::default())
    }

    pub(super) fn is_proven(&self) -> bool {
        matches!(self, SenderAddress::Proven)
    }

    /// A packet of `len` octets came from it.
    pub(super) fn record_received(&mut self, len: usize) {
        if let SenderAddress::Unproven(credit) = self {
            credit.packets += 1;
            credit.octets += len as u64;
        }
    }

    /// Whether a packet of `len` octets may be sent to it, which is then accounted: one packet for
    /// each received, and no more octets than were received (RFC 9000 s. 8 allows three times as
    /// many; a group multiplies by its receivers already).
    pub(super) fn spend(&mut self, len: usize) -> bool {
        let SenderAddress::Unproven(credit) = self else {
            return true;
        };
        let is_covered = credit.packets > 0 && credit.octets >= len as u64;
        if is_covered {
            credit.packets -= 1;
            credit.octets -= len as u64;
        }
        is_covered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unproven_sender_gets_no_more_than_it_sent() {
        let mut address = SenderAddress::unproven();
        address.record_received(72);
        assert!(!address.spend(104));
        address.record_received(52);
        assert!(address.spend(104));
        assert!(!address.spend(21) && address.spend(20) && !address.spend(0));
    }

    #[test]
    fn unproven_sender_gets_one_packet_for_each_it_sent() {
        let mut address = SenderAddress::unproven();
        address.record_received(1472);
        assert!(address.spend(104) && !address.spend(104));
        let mut address = SenderAddress::Proven;
        assert!((0..10).all(|_| address.spend(104)));
    }
}
