//! xtp, xtp-message, xtp-lent and xtp-driver: XTP 4.0 over segmented UDP, as a byte stream, with message
//! boundaries, as a byte stream sent without a copy, and as the character devices of a study of 1992.
//!
//! Reliable and ordered unless `error=none` is set; the engine is crate `engine-xtp`, run by
//! `driver` in the user's thread. A short message leaves at once if nothing is in flight; otherwise
//! it is coalesced for about a millisecond or until a flush. A race has the path to itself, so
//! congestion control is off by default.

use crate::connection_info;
use crate::contract::{
    CircuitResult, Class, Listener, OptionHelp, Reach, Rendezvous, Transport, Unavailable,
};
use crate::engine_circuit;
use crate::engine_setup::{self, EngineSetup, Introspection};
use crate::medium::{Medium, UdpMedium};
use crate::options::{Options, invalid};
use crate::shortcut_medium::ShortcutMedium;
use crate::socket;
use crate::xtp::{EndpointConfig, LONG_PACKET_LEN, Shortcut, lent_packet_len};
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
/// Ethernet frame. So on the loopback packets are as long as a call by reference takes, or the MTU allows. A run of
/// receives reads what arrived where it lies.
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

    /// The longest packets on the loopback, if they are not given: as many octets as it carries where that saves a copy;
    /// a quarter of a call by reference in a byte stream, which saves most of the cost of a packet.
    fn packet_len_max(&self, settings: &EndpointConfig) -> usize {
        match self.0 {
            _ if settings.shortcut != Shortcut::Off => usize::MAX,
            Interface::Lent | Interface::Device if settings.lends_pages() => lent_packet_len(),
            Interface::Lent | Interface::Device => usize::MAX,
            Interface::Stream if settings.sends_long_by_reference() => LONG_PACKET_LEN,
            Interface::Stream | Interface::Messages => 0,
        }
    }

    fn listen_on<M: Medium>(
        &self,
        medium: &M,
        options: &Options,
        setup: impl Fn(u16) -> EngineSetup<Engine>,
    ) -> io::Result<Box<dyn Listener>> {
        match self.0 {
            _ if has_sorts(options) => engine_circuit::listen_shared(medium, options, setup),
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
    ) -> CircuitResult {
        match self.0 {
            _ if has_sorts(options) => {
                let sorts = parse_sorts(&options.transport_specific).map_err(invalid)?;
                let sort = sorts[to.1 % sorts.len()];
                let prepare = |engine: &mut Engine, id| engine.set_sort(id, Some(sort));
                engine_circuit::connect_shared(medium, to, options, setup, prepare)
            }
            Interface::Device => engine_circuit::connect_device(medium, to, options, setup),
            _ => engine_circuit::connect_again(medium, to, options, setup),
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
        match self.0 {
            Interface::Device => &DEVICE_HELP,
            Interface::Lent => &LENT_HELP,
            Interface::Stream | Interface::Messages => &HELP,
        }
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        if self.0 == Interface::Device && own.contains_key(SORTS.name) {
            return Err(format!(
                "xtp-driver has no option {}: its associations have an endpoint each; leave it out",
                SORTS.name
            ));
        }
        parse(own).map(|_| ())
    }

    fn class(&self) -> Class {
        Class {
            stream: self.framing() == Framing::Stream,
            checksum: "Internet, 16 bit, by UDP; XTP's own over headers, and over data if asked",
            ..engine_setup::CLASS
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let class = self.class();
        let Ok(settings) = parse(own) else {
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

    fn carries_empty(&self, _own: &BTreeMap<String, String>) -> bool {
        false
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

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let settings = settings(options)?;
        // Circuits that share an endpoint share its entry.
        let entry = if has_sorts(options) { 0 } else { index };
        let line = socket::rendezvous_entry(&rendezvous.bytes, entry)?;
        let host = socket::decode_address(line)?.ip();
        let (to, setup) = ((rendezvous, index), |_| {
            self.setup(&settings, options, host)
        });
        match &settings.shortcut {
            Shortcut::Off => self.connect_by(&UdpMedium, to, options, setup),
            other => self.connect_by(&ShortcutMedium(other.clone()), to, options, setup),
        }
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered option_to_many message_max connect_all connect_to_many
    }
}

/// Priorities of circuits, which then share an endpoint.
const SORTS: OptionHelp = OptionHelp {
    name: "sorts",
    values: "COUNT/COUNT",
    meaning: "the circuits of an end share an endpoint and have these priorities in turn, the lowest served first, such as 1/9",
};

/// The options of `xtp` and `xtp-message`.
static HELP: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| with_sorts(EndpointConfig::HELP));

/// The options of `xtp-lent`.
static LENT_HELP: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| with_sorts(&DEVICE_HELP));

fn with_sorts(words: &[OptionHelp]) -> Vec<OptionHelp> {
    words.iter().copied().chain([SORTS]).collect()
}

/// Circuits share an endpoint.
fn has_sorts(options: &Options) -> bool {
    options.transport_specific.contains_key(SORTS.name)
}

/// The priorities of circuits; empty without the option.
fn parse_sorts(own: &BTreeMap<String, String>) -> Result<Vec<u16>, String> {
    let Some(value) = own.get(SORTS.name) else {
        return Ok(Vec::new());
    };
    let sorts: Result<Vec<u16>, _> = value.split('/').map(str::parse).collect();
    sorts.map_err(|_| {
        format!("sorts={value} is not possible; give numbers from 0 to 65535 with / between them, such as 1/9")
    })
}

/// The configuration of an endpoint.
fn parse(own: &BTreeMap<String, String>) -> Result<EndpointConfig, String> {
    let sorts = parse_sorts(own)?;
    let mut own = own.clone();
    if own.remove(SORTS.name).is_some() && own.contains_key("sort") {
        return Err(format!(
            "sort and sorts={sorts:?} are both given; leave one of them out"
        ));
    }
    EndpointConfig::parse(&own)
}

/// The options of `xtp-driver`, whose default packet length differs from that of `xtp`.
static DEVICE_HELP: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| {
    let own = |word: &OptionHelp| match word.name {
        "packet" => OptionHelp {
            meaning: "octets of a full packet, 128 to 65507; if not given, 1472, or on the loopback \
                      61472 with splice=on, else as many as it carries",
            ..*word
        },
        _ => *word,
    };
    EndpointConfig::HELP.iter().map(own).collect()
});

fn settings(options: &Options) -> io::Result<EndpointConfig> {
    parse(&options.transport_specific).map_err(invalid)
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
        if !options.transport_specific.contains_key("packet") {
            let long = engine_setup::loopback_packet_len(host);
            let long = long.map(|len| len.min(self.packet_len_max(settings)));
            config.packet_len = long.map_or(config.packet_len, |len| len.max(config.packet_len));
        }
        let mut effective = settings.effective();
        if let Some(sorts) = options.transport_specific.get(SORTS.name) {
            effective.insert(SORTS.name.into(), sorts.clone());
        }
        EngineSetup {
            ends_by_handshake: false,
            effective,
            engine: Engine::new(config),
            send_buffer_len: settings.send_buffer_len,
            use_segmentation: settings.segmentation,
            splice: Some(settings.splice),
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
