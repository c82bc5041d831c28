//! bare: this project's least engine over segmented UDP, the limit row of every race.
//!
//! Windowed, numbered packets without retransmission, run by `driver` in the user's thread. A short
//! message leaves at once when nothing is on its way, else it may wait about a millisecond for
//! others; a flush sends it on.

use crate::contract::{Circuit, Class, Listener, Reach, Rendezvous, Transport, Unavailable};
use crate::hosted::{self, Setup, Sight};
use crate::medium::Udp;
use crate::options::Options;
use engine_bare::{Bare as Engine, Config};
use std::collections::BTreeMap;
use std::io;

/// The transport.
#[derive(Debug)]
pub struct Bare;

/// Bytes of a circuit's send store: what is sent is forgotten at once, so this is room for the
/// largest message (half of it, 128 KiB and a little) and stays in a second-level cache.
const STORE_LEN: usize = 288 << 10;

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
            ordered: true,
            encrypted: false,
            stream: false,
            kernel: false,
            connectionless: false,
            connects: true,
            flow_control: true,
            reach: Reach::Network,
            checksum: "Internet, 16 bit, by UDP",
            congestion: "",
            offload: "UDP segmentation and coalescing by the kernel",
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        hosted::listen::<Udp, _>(options, |_| setup(options))
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        hosted::connect::<Udp, _>(rendezvous, index, options, |_| setup(options))
    }
}

fn setup(options: &Options) -> Setup<Engine> {
    let usual = Config::default();
    let config = Config {
        seed: hosted::seed(),
        packet_len: hosted::packet_len(usual.packet_len, options),
        ..usual
    };
    Setup {
        effective: BTreeMap::from([("window".into(), config.window.to_string())]),
        engine: Engine::new(config),
        store_len: STORE_LEN,
        segmented: true,
        no_empty: None,
        sight: Sight::default(),
        posting: None,
        lends: false,
    }
}
