//! Transports with an engine, below which ATM cells may be: each engine's own with the option `cells`,
//! and `aal34`, `aal5` and `vmtp-aal34`, which always have them.
//!
//! Packets of the engine are cut into cells by a layer of crate `engine-aal34`, and whole cells, back to
//! back, are the packets of the wire.

use super::{bare, sctp, vmtp, xtp, xtp_calls, xtp_multicast, xtp_raw};
use crate::cells::{self, CELLS, Kind, OF_AAL34, OF_BOTH};
use crate::contract::{
    CircuitResult, CircuitsResult, Class, Listener, OptionHelp, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use engine_aal34::{Adaptation, CellsConfig, Repair};
use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

/// A transport with an engine, and cells below it.
pub struct OverCells {
    inner: &'static dyn Transport,
    fixed: Option<Fixed>,
    help: OnceLock<Vec<OptionHelp>>,
}

/// What is different of a transport that always has cells.
struct Fixed {
    name: &'static str,
    summary: &'static str,
    kind: Kind,
}

/// The longest packet if no option says it: what IP sends over SMDS (RFC 1209) and AAL5 (RFC 2225).
const IP_MTU: usize = 9180;

/// Octets of a full packet that the engines have if no option says it.
const USUAL_PACKET: usize = 1472;

/// `bare`, with cells if the user wants them.
pub static BARE: OverCells = optional(&bare::Bare);
/// `xtp`.
pub static XTP: OverCells = optional(&xtp::STREAM);
/// `xtp-message`.
pub static XTP_MESSAGES: OverCells = optional(&xtp::MESSAGES);
/// `xtp-lent`.
pub static XTP_LENT: OverCells = optional(&xtp::LENT);
/// `xtp-driver`.
pub static XTP_DRIVER: OverCells = optional(&xtp::DEVICE);
/// `xtp-transaction`.
pub static XTP_TRANSACTION: OverCells = optional(&xtp_calls::TRANSACTION);
/// `xtp-datagram`.
pub static XTP_DATAGRAM: OverCells = optional(&xtp_calls::DATAGRAM);
/// `xtp-multicast`.
pub static XTP_MULTICAST: OverCells = optional(&xtp_multicast::XtpMulticast);
/// `xtp-rawip`.
pub static XTP_RAW_IP: OverCells = optional(&xtp_raw::RawIp);
/// `xtp-ether`.
pub static XTP_ETHERNET: OverCells = optional(&xtp_raw::Ethernet);
/// `sctp`.
pub static SCTP: OverCells = optional(&sctp::Sctp);
/// `sctp-rawip`.
pub static SCTP_RAW_IP: OverCells = optional(&sctp::SctpRawIp);
/// `vmtp`.
pub static VMTP: OverCells = optional(&vmtp::UDP);
/// `vmtp-rawip`.
pub static VMTP_RAW_IP: OverCells = optional(&vmtp::RAW_IP);
/// `vmtp-ether`.
pub static VMTP_ETHERNET: OverCells = optional(&vmtp::ETHERNET);

/// `aal34`: `bare` over cells of AAL3/4.
pub static AAL34: OverCells = always(
    &bare::Bare,
    Fixed {
        name: "aal34",
        summary: "bare over ATM cells by AAL3/4 in segmented UDP",
        kind: Kind::Aal34,
    },
);

/// `aal5`: `bare` over cells of AAL5.
pub static AAL5: OverCells = always(
    &bare::Bare,
    Fixed {
        name: "aal5",
        summary: "bare over ATM cells by AAL5 in segmented UDP",
        kind: Kind::Aal5,
    },
);

/// `vmtp-aal34`: `vmtp` over cells of AAL3/4, as a study of 1994 set out to build.
pub static VMTP_AAL34: OverCells = always(
    &vmtp::UDP,
    Fixed {
        name: "vmtp-aal34",
        summary: "VMTP (RFC 1045) over ATM cells by AAL3/4 in segmented UDP",
        kind: Kind::Aal34,
    },
);

const fn optional(inner: &'static dyn Transport) -> OverCells {
    OverCells {
        inner,
        fixed: None,
        help: OnceLock::new(),
    }
}

const fn always(inner: &'static dyn Transport, fixed: Fixed) -> OverCells {
    OverCells {
        inner,
        fixed: Some(fixed),
        help: OnceLock::new(),
    }
}

impl OverCells {
    /// The options of cells, and those left for the engine.
    fn split(
        &self,
        own: &BTreeMap<String, String>,
    ) -> Result<(Option<CellsConfig>, BTreeMap<String, String>), String> {
        let known = |key: &str| self.options().iter().any(|option| option.name == key);
        if let Some(key) = own.keys().find(|key| !known(key)) {
            let names: Vec<&str> = self.options().iter().map(|option| option.name).collect();
            let (name, has) = (self.name(), names.join(", "));
            return Err(format!("{name} has no option '{key}'; it has {has}"));
        }
        let mut rest = own.clone();
        let fixed = self.fixed.as_ref().map(|fixed| fixed.kind);
        let cells = cells::take(&mut rest, fixed)?;
        if let Some(config) = &cells {
            self.fit_packets(config, &mut rest)?;
            self.check_repair(config)?;
        }
        Ok((cells, rest))
    }

    /// A sender keeps a packet until its receiver has all cells: there is one, then.
    fn check_repair(&self, config: &CellsConfig) -> Result<(), String> {
        match asks_for_cells(config) && self.is_one_to_many() {
            true => Err(format!(
                "{} has several receivers, and repair=cells is between two ends; leave repair out",
                self.name()
            )),
            false => Ok(()),
        }
    }

    /// Makes the engine's packets no longer than `config` carries.
    fn fit_packets(
        &self,
        config: &CellsConfig,
        rest: &mut BTreeMap<String, String>,
    ) -> Result<(), String> {
        let limit = config.packet_limit();
        let has_length = self.inner.options().iter().any(|own| own.name == "packet");
        match rest.get("packet").map(|text| text.parse::<usize>()) {
            Some(Ok(len)) if len > limit => {
                let (packet_max, usual) = (len, config.clone());
                let config = CellsConfig {
                    packet_max,
                    ..usual
                };
                config.check().map_err(|fault| fault.to_string())
            }
            None if has_length && limit < USUAL_PACKET => {
                rest.insert("packet".into(), limit.to_string());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// `options` for the transport inside.
    fn inner_options(&self, options: &Options) -> io::Result<Options> {
        let split = self.split(&options.transport_specific);
        let wrong = |text| io::Error::new(io::ErrorKind::InvalidInput, text);
        let (cells, transport_specific) = split.map_err(wrong)?;
        Ok(Options {
            cells,
            transport_specific,
            ..options.clone()
        })
    }
}

/// Octets of a full packet over `config` for an engine whose users do not say it.
pub(crate) fn usual_packet_len(config: &CellsConfig) -> usize {
    config.packet_limit().min(IP_MTU)
}

/// Whether a receiver asks for the cells that it misses, which a sender waits for.
fn asks_for_cells(config: &CellsConfig) -> bool {
    matches!(&config.adaptation, Adaptation::Aal34(own) if own.repair == Repair::Cells)
}

/// The checks of cells, and of what is above and below them.
fn checksum(config: &CellsConfig) -> &'static str {
    match &config.adaptation {
        Adaptation::Aal34(_) => {
            "CRC-10 of each cell, CRC-8 of its header; those of the engine and the wire"
        }
        Adaptation::Aal5 => {
            "CRC-32 of each packet, CRC-8 of cell headers; those of the engine and the wire"
        }
    }
}

impl Transport for OverCells {
    fn name(&self) -> &'static str {
        let fixed = self.fixed.as_ref();
        fixed.map_or_else(|| self.inner.name(), |fixed| fixed.name)
    }

    fn summary(&self) -> &'static str {
        let fixed = self.fixed.as_ref();
        fixed.map_or_else(|| self.inner.summary(), |fixed| fixed.summary)
    }

    fn class(&self) -> Class {
        self.class_with(&BTreeMap::new())
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let Ok((cells, rest)) = self.split(own) else {
            return self.inner.class();
        };
        let class = self.inner.class_with(&rest);
        match &cells {
            None => class,
            Some(config) => Class {
                checksum: checksum(config),
                ..class
            },
        }
    }

    fn is_one_way(&self, own: &BTreeMap<String, String>) -> bool {
        let split = self.split(own);
        split.is_ok_and(|(_, rest)| self.inner.is_one_way(&rest))
    }

    fn carries_empty(&self, own: &BTreeMap<String, String>) -> bool {
        let split = self.split(own);
        split.is_ok_and(|(_, rest)| self.inner.carries_empty(&rest))
    }

    fn sends_unanswered(&self, own: &BTreeMap<String, String>) -> bool {
        let split = self.split(own);
        split.is_ok_and(|(cells, rest)| {
            !cells.is_some_and(|config| asks_for_cells(&config))
                && self.inner.sends_unanswered(&rest)
        })
    }

    fn options(&self) -> &[OptionHelp] {
        self.help.get_or_init(|| {
            let inner = self.inner.options().iter();
            let chosen = self.fixed.is_none().then_some(&CELLS);
            let has_aal34 = self
                .fixed
                .as_ref()
                .is_none_or(|fixed| fixed.kind == Kind::Aal34);
            let of_aal34: &[OptionHelp] = if has_aal34 { &OF_AAL34 } else { &[] };
            inner
                .chain(chosen)
                .chain(&OF_BOTH)
                .chain(of_aal34)
                .copied()
                .collect()
        })
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        let (_, rest) = self.split(own)?;
        self.inner.check_options(&rest)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        self.inner.listen(&self.inner_options(options)?)
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let options = self.inner_options(options)?;
        self.inner.connect(rendezvous, index, &options)
    }

    fn connect_all(&self, rendezvous: &Rendezvous, options: &Options) -> CircuitsResult {
        let options = self.inner_options(options)?;
        self.inner.connect_all(rendezvous, &options)
    }

    engine::forward! { self.inner;
        fn is_one_to_many(&self) -> bool;
        fn only_answers(&self) -> bool;
        fn message_max(&self) -> Option<u64>;
        fn available(&self, options: &Options) -> Result<(), Unavailable>;
    }

    crate::usual_transport! { option_to_many connect_to_many }
}
