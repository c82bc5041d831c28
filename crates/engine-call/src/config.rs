//! Configuration, with its defaults.

use core::time::Duration;

/// How an endpoint behaves.
#[derive(Clone, Debug)]
pub struct CallConfig {
    /// Octets of a full packet.
    pub packet_len: usize,
    /// Octets of the longest message.
    pub message_max: u32,
    /// Time until a request, or a reply, is sent again for the first time. It doubles.
    pub retry: Duration,
    /// Times a message is sent again before the transaction is given up. With 200 ms, 8 are 102 s.
    pub retries_max: u32,
    /// How long a server remembers what it has executed. Longer than a packet lives.
    pub quarantine: Duration,
    /// Transactions at each end, at most.
    pub transactions_max: usize,
    /// The number of the first call.
    pub seed: u64,
}

impl Default for CallConfig {
    fn default() -> CallConfig {
        CallConfig {
            packet_len: 1472,
            message_max: 1 << 20,
            retry: Duration::from_millis(200),
            retries_max: 8,
            quarantine: Duration::from_secs(30),
            transactions_max: 4096,
            seed: 0,
        }
    }
}
