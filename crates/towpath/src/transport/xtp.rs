//! xtp and xtp-message: XTP 4.0 over segmented UDP, as a byte stream and with messages kept apart.
//!
//! Reliable and ordered unless `error=none` says otherwise; the engine is crate `engine-xtp`, run
//! by `driver` in the user's thread. A short message leaves at once when nothing is on its way,
//! else it may wait about a millisecond for others; a flush sends it on. Both ends of a race share
//! the path with nobody, so the optional congestion controller is off unless asked for.

use crate::contract::{
    Circuit, Class, Listener, OptionHelp, Reach, Rendezvous, Transport, Unavailable,
};
use crate::hosted::{self, Setup, Sight};
use crate::medium::Udp;
use crate::options::Options;
use crate::xtp::Settings;
use engine::Framing;
use engine_xtp::{Congestion, Xtp as Engine};
use std::collections::BTreeMap;
use std::io;

/// XTP with one way of keeping messages.
#[derive(Debug)]
pub struct Xtp {
    framing: Framing,
}

/// The byte stream.
pub const STREAM: Xtp = Xtp {
    framing: Framing::Stream,
};

/// One packet a message, or more for long ones; the last is marked.
pub const MESSAGES: Xtp = Xtp {
    framing: Framing::Messages,
};

impl Transport for Xtp {
    fn name(&self) -> &'static str {
        match self.framing {
            Framing::Messages => "xtp-message",
            _ => "xtp",
        }
    }

    fn summary(&self) -> &'static str {
        match self.framing {
            Framing::Messages => "XTP 4.0 over segmented UDP, a packet or more for each message",
            _ => "XTP 4.0 over segmented UDP, a byte stream",
        }
    }

    fn options(&self) -> &'static [OptionHelp] {
        Settings::HELP
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        Settings::parse(own).map(|_| ())
    }

    fn class(&self) -> Class {
        Class {
            reliable: true,
            ordered: true,
            encrypted: false,
            stream: self.framing == Framing::Stream,
            kernel: false,
            connectionless: false,
            connects: true,
            flow_control: true,
            reach: Reach::Network,
            checksum: "Internet, 16 bit, by UDP; XTP's own over headers, and over data if asked",
            congestion: "",
            offload: "UDP segmentation and coalescing by the kernel",
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let class = self.class();
        let Ok(settings) = Settings::parse(own) else {
            return class;
        };
        Class {
            reliable: settings.is_reliable(),
            congestion: match settings.config.congestion {
                Congestion::Off => "",
                Congestion::Loss => "by loss",
                Congestion::Delay => "by delay",
                Congestion::Rate => "by rate",
            },
            offload: match settings.segmentation {
                true => class.offload,
                false => "",
            },
            ..class
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let settings = settings(options)?;
        hosted::listen::<Udp, _>(options, |_| self.setup(&settings, options))
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        let settings = settings(options)?;
        hosted::connect::<Udp, _>(rendezvous, index, options, |_| {
            self.setup(&settings, options)
        })
    }
}

fn settings(options: &Options) -> io::Result<Settings> {
    Settings::parse(&options.own).map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))
}

impl Xtp {
    fn setup(&self, settings: &Settings, options: &Options) -> Setup<Engine> {
        let no_empty = "xtp-message carries no empty messages; send at least one byte";
        let mut config = settings.config(self.framing);
        config.packet_len = hosted::packet_len(config.packet_len, options);
        Setup {
            effective: settings.effective(),
            engine: Engine::new(config),
            store_len: settings.send_queue_len,
            segmented: settings.segmentation,
            // The end of a message travels with its last byte.
            no_empty: (self.framing == Framing::Messages).then_some(no_empty),
            sight: Sight::of(settings),
            posting: settings.posting(),
        }
    }
}
