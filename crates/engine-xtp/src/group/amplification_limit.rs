//! What may be sent to a sender before it is known to hear us (0018, Amplification).

/// Whether the sender of a stream is at the address its packets carry.
#[derive(Clone, Copy, Debug)]
pub(super) enum SenderAddress {
    /// Anybody may have written it there. What is sent to it is limited by what came from it.
    Unvalidated(AmplificationLimit),
    /// It returned the key that was sent to it in JCNTL.
    Validated,
}

/// What was received from an address, less what was sent to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AmplificationLimit {
    packets: u64,
    octets: u64,
}

impl SenderAddress {
    /// That of a sender of which nothing is known.
    pub(super) fn unvalidated() -> SenderAddress {
        SenderAddress::Unvalidated(AmplificationLimit::default())
    }

    pub(super) fn is_validated(&self) -> bool {
        matches!(self, SenderAddress::Validated)
    }

    /// A packet of `len` octets came from it.
    pub(super) fn record_received(&mut self, len: usize) {
        if let SenderAddress::Unvalidated(credit) = self {
            credit.packets += 1;
            credit.octets += len as u64;
        }
    }

    /// Whether a packet of `len` octets may be sent to it, which is then accounted: one packet for
    /// each received, and no more octets than were received (RFC 9000 s. 8 allows three times as
    /// many; a group multiplies by its receivers already).
    pub(super) fn spend(&mut self, len: usize) -> bool {
        let SenderAddress::Unvalidated(credit) = self else {
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
    fn unvalidated_sender_gets_no_more_than_it_sent() {
        let mut address = SenderAddress::unvalidated();
        address.record_received(72);
        assert!(!address.spend(104));
        address.record_received(52);
        assert!(address.spend(104));
        assert!(!address.spend(21) && address.spend(20) && !address.spend(0));
    }

    #[test]
    fn unvalidated_sender_gets_one_packet_for_each_it_sent() {
        let mut address = SenderAddress::unvalidated();
        address.record_received(1472);
        assert!(address.spend(104) && !address.spend(104));
        let mut address = SenderAddress::Validated;
        assert!((0..10).all(|_| address.spend(104)));
    }
}
