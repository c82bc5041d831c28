//! Endpoints that share their configuration.

use crate::config::Config;
use crate::context_table::ContextTable;
use crate::endpoint::Xtp;
use crate::endpoint_state::EndpointState;
use crate::unvalidated::UnvalidatedQueue;
use engine::{KeyedStream, Purpose, Secret};
use std::sync::Arc;

impl Xtp {
    /// An endpoint that shares its configuration with others, as ten thousand simulated stations do. Its keys follow
    /// from `secret` and `seed`, not from those of the configuration.
    ///
    /// # Panics
    ///
    /// As [`Xtp::new`].
    pub fn with_shared_config(config: Arc<Config>, secret: &Secret, seed: u64) -> Self {
        let range = 128..=usize::from(u16::MAX);
        assert!(
            range.contains(&config.packet_len),
            "packet_len is out of range"
        );
        let stream = |purpose| KeyedStream::new(secret, purpose, seed);
        let keys_secret = stream(Purpose::Tables).next_u64();
        let state = EndpointState::new(config, stream);
        Xtp {
            table: ContextTable::new(keys_secret, !state.codec.has_long_keys()),
            state,
            unvalidated: UnvalidatedQueue::default(),
            arrival_route: None,
        }
    }
}
