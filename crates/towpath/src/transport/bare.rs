//! bare: this project's minimal engine over segmented UDP, an upper bound for the other engines.
//!
//! Windowed, numbered packets without retransmission, run by `driver` in the user's thread. A short
//! message leaves at once if nothing is in flight; otherwise it is coalesced for about a
//! millisecond or until a flush.

use crate::connection_info;
use crate::contract::{CircuitResult, Class, Listener, Rendezvous, Transport, Unavailable};
use crate::engine_circuit;
use crate::engine_setup::{self, EngineSetup, Introspection};
use crate::medium::UdpMedium;
use crate::options::Options;
use crate::transport::over_cells::usual_packet_len;
use engine_bare::{Bare as Engine, BareConfig};
use std::collections::BTreeMap;
use std::io;

/// The transport.
#[derive(Debug)]
pub struct Bare;

/// Bytes of a circuit's send buffer. Data sent are released at once, so it must only hold the
/// largest message (half of it: 128 KiB and a little), and stays in the L2 cache.
const SEND_BUFFER_LEN: usize = 288 << 10;

impl Transport for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn summary(&self) -> &'static str {
        "windowed datagrams without retransmission over segmented UDP: the limit of the others"
    }

    fn class(&self) -> Class {
        Class {
            reliable: false,
            ..engine_setup::CLASS
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        engine_circuit::listen(&UdpMedium, options, |_| setup(options))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        engine_circuit::connect(&UdpMedium, (rendezvous, index), options, |_| setup(options))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

fn setup(options: &Options) -> EngineSetup<Engine> {
    let usual = BareConfig::default();
    let config = BareConfig {
        seed: engine_setup::random_seed(),
        secret: engine_setup::random_secret(),
        packet_len: match &options.cells {
            Some(cells) => usual_packet_len(cells),
            None => engine_setup::packet_len_for_family(usual.packet_len, options),
        },
        ..usual
    };
    EngineSetup {
        ends_by_handshake: false,
        effective: BTreeMap::from([("window".into(), config.window.to_string())]),
        engine: Engine::new(config),
        send_buffer_len: SEND_BUFFER_LEN,
        use_segmentation: true,
        splice: None,
        empty_message_error: None,
        introspection: Introspection::trace_only(),
        buffer_posting: None,
        connection_info: |_, _| Err(connection_info::FIXED_WINDOW),
        zero_copy: false,
    }
}
