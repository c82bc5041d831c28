//! xtp, xtp-message, xtp-lent and xtp-driver: XTP 4.0 over segmented UDP, as a byte stream, with message
//! boundaries, as a byte stream sent without a copy, and as the character devices of a study of 1992.
//!
//! Reliable and ordered unless `error=none` is set; the engine is crate `engine-xtp`, run by
//! `driver` in the user's thread. A short message leaves at once if nothing is in flight; otherwise
//! it is coalesced for about a millisecond or until a flush. A race has the path to itself, so
//! congestion control is off by default.

use crate::connection_info;
use crate::contract::{
    Circuit, Class, Listener, OptionHelp, Reach, Rendezvous, Transport, Unavailable,
};
use crate::engine_circuit;
use crate::engine_setup::{self, EngineSetup, Introspection};
use crate::medium::{Medium, UdpMedium};
use crate::options::Options;
use crate::shortcut_medium::ShortcutMedium;
use crate::socket;
use crate::xtp::{EndpointConfig, Shortcut};
use engine::Framing;
use engine_xtp::Xtp as Engine;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::LazyLock;

/// XTP over UDP, by one interface.
#[derive(Debug)]
pub struct Xtp(Interface);

/// What a user of an association has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Stream,
    Messages,
    Lent,
    Device,
}

/// The byte stream.
pub const STREAM: Xtp = Xtp(Interface::Stream);

/// Messages keep their boundaries: one packet or more each, the last marked (EOM).
pub const MESSAGES: Xtp = Xtp(Interface::Messages);

/// The byte stream without a copy: shared messages are lent to the engine until they are
/// acknowledged. Messages under 1 KiB are copied, and so are those of workloads that change them.
///
/// Each packet adds two entries to the kernel's I/O vector, which costs more than copying an
/// Ethernet frame. So on the loopback packets are as long as its MTU allows, as TCP's are.
pub const LENT: Xtp = Xtp(Interface::Lent);

/// Character devices (Taler 1992, figure 2): an association a direction, and a write returns when the
/// peer has acknowledged it. Long messages are lent meanwhile, as by [`LENT`].
pub const DEVICE: Xtp = Xtp(Interface::Device);

impl Xtp {
    fn framing(&self) -> Framing {
        match self.0 {
            Interface::Messages => Framing::Messages,
            _ => Framing::Stream,
        }
    }

    /// Messages are lent to the engine, not copied.
    fn is_lent(&self) -> bool {
        matches!(self.0, Interface::Lent | Interface::Device)
    }

    fn listen_on<M: Medium>(
        &self,
        medium: &M,
        options: &Options,
        setup: impl Fn(u16) -> EngineSetup<Engine>,
    ) -> io::Result<Box<dyn Listener>> {
        match self.0 {
            Interface::Device => engine_circuit::listen_devices(medium, options, setup),
            _ => engine_circuit::listen(medium, options, setup),
        }
    }

    fn connect_by<M: Medium>(
        &self,
        medium: &M,
        to: (&Rendezvous, usize),
        options: &Options,
        setup: impl Fn(u16) -> EngineSetup<Engine>,
    ) -> io::Result<Box<dyn Circuit>> {
        match self.0 {
            Interface::Device => engine_circuit::connect_device(medium, to, options, setup),
            _ => engine_circuit::connect(medium, to, options, setup),
        }
    }
}

impl Transport for Xtp {
    fn name(&self) -> &'static str {
        match self.0 {
            Interface::Stream => "xtp",
            Interface::Messages => "xtp-message",
            Interface::Lent => "xtp-lent",
            Interface::Device => "xtp-driver",
        }
    }

    fn summary(&self) -> &'static str {
        match self.0 {
            Interface::Stream => "XTP 4.0 over segmented UDP, a byte stream",
            Interface::Messages => "XTP 4.0 over segmented UDP, a packet or more for each message",
            Interface::Lent => {
                "XTP 4.0 over segmented UDP, a byte stream from buffers lent until the peer has them"
            }
            Interface::Device => {
                "XTP 4.0 over segmented UDP, devices of one direction whose write returns when the peer has it"
            }
        }
    }

    fn options(&self) -> &'static [OptionHelp] {
        if self.is_lent() {
            &LENT_HELP
        } else {
            EndpointConfig::HELP
        }
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        EndpointConfig::parse(own).map(|_| ())
    }

    fn class(&self) -> Class {
        Class {
            reliable: true,
            ordered: true,
            encrypted: false,
            stream: self.framing() == Framing::Stream,
            kernel: false,
            connectionless: false,
            connects: true,
            flow_control: true,
            half_close: true,
            calls: false,
            reach: Reach::Network,
            checksum: "Internet, 16 bit, by UDP; XTP's own over headers, and over data if asked",
            congestion: "",
            offload: "UDP segmentation and coalescing by the kernel",
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let class = self.class();
        let Ok(settings) = EndpointConfig::parse(own) else {
            return class;
        };
        Class {
            reliable: settings.is_reliable(),
            congestion: settings.congestion_class(),
            offload: match (&settings.shortcut, settings.segmentation) {
                (Shortcut::Off, true) => class.offload,
                (Shortcut::Off, false) => "",
                _ => "shared memory within the host",
            },
            reach: match settings.shortcut {
                Shortcut::Off => class.reach,
                _ => Reach::Host,
            },
            ..class
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let settings = settings(options)?;
        let host = options.bind_address();
        let setup = |_| self.setup(&settings, options, host);
        match &settings.shortcut {
            Shortcut::Off => self.listen_on(&UdpMedium, options, setup),
            other => self.listen_on(&ShortcutMedium(other.clone()), options, setup),
        }
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        let settings = settings(options)?;
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        let host = socket::decode_address(line)?.ip();
        let (to, setup) = ((rendezvous, index), |_| {
            self.setup(&settings, options, host)
        });
        match &settings.shortcut {
            Shortcut::Off => self.connect_by(&UdpMedium, to, options, setup),
            other => self.connect_by(&ShortcutMedium(other.clone()), to, options, setup),
        }
    }
}

/// The options of `xtp-lent` and `xtp-driver`, whose default packet length differs.
static LENT_HELP: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| {
    let own = |word: &OptionHelp| match word.name {
        "packet" => OptionHelp {
            meaning: "octets of a full packet, 128 to 65507; if not given, 1472, or on the loopback \
                      as many as it carries",
            ..*word
        },
        _ => *word,
    };
    EndpointConfig::HELP.iter().map(own).collect()
});

fn settings(options: &Options) -> io::Result<EndpointConfig> {
    EndpointConfig::parse(&options.transport_specific)
        .map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))
}

impl Xtp {
    /// The engine for circuits to or from `host`.
    pub(crate) fn setup(
        &self,
        settings: &EndpointConfig,
        options: &Options,
        host: IpAddr,
    ) -> EngineSetup<Engine> {
        let empty_message_error = "xtp-message carries no empty messages; send at least one byte";
        let mut config = settings.config(self.framing());
        config.packet_len = engine_setup::packet_len_for_family(config.packet_len, options);
        let is_copied_once = self.is_lent() || settings.shortcut != Shortcut::Off;
        if is_copied_once && !options.transport_specific.contains_key("packet") {
            let long = engine_setup::loopback_packet_len(host);
            config.packet_len = long.unwrap_or(config.packet_len);
        }
        EngineSetup {
            ends_by_handshake: false,
            effective: settings.effective(),
            engine: Engine::new(config),
            send_buffer_len: settings.send_buffer_len,
            use_segmentation: settings.segmentation,
            zero_copy: self.is_lent(),
            // The EOM bit travels with the last byte of a message.
            empty_message_error: (self.framing() == Framing::Messages)
                .then_some(empty_message_error),
            introspection: Introspection::from_config(settings),
            buffer_posting: settings.buffer_posting(),
            connection_info: connection_info::of_xtp,
        }
    }
}
