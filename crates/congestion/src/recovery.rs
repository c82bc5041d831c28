//! Recovery episodes: all losses of one flight are one sign of congestion (RFC 6582 s. 3.2).

/// The recovery point `recover` of RFC 6582: losses of bytes sent before it belong to the episode
/// that set it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecoveryPoint {
    recover_bytes: Option<u64>,
}

impl RecoveryPoint {
    /// Bytes below `lost_end_bytes` were lost when `sent_bytes` had been sent. Returns whether the
    /// loss starts a new episode; if so, it ends with the bytes sent so far.
    pub fn on_loss(&mut self, lost_end_bytes: u64, sent_bytes: u64) -> bool {
        if self
            .recover_bytes
            .is_some_and(|recover| lost_end_bytes <= recover)
        {
            return false;
        }
        self.recover_bytes = Some(sent_bytes);
        true
    }

    /// The retransmission timer expired: what was sent before is an episode by itself (RFC 6582
    /// s. 3.2, step 4).
    pub fn on_rto(&mut self, sent_bytes: u64) {
        self.recover_bytes = Some(sent_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_one_flight_are_one_episode() {
        let mut recovery = RecoveryPoint::default();
        assert!(recovery.on_loss(1000, 10_000));
        assert!(!recovery.on_loss(3000, 11_000));
        assert!(!recovery.on_loss(10_000, 12_000));
        assert!(recovery.on_loss(10_001, 12_000));
        recovery.on_rto(20_000);
        assert!(!recovery.on_loss(20_000, 21_000));
        assert!(recovery.on_loss(21_000, 21_000));
    }
}
