//! Configuration of an XTP endpoint.

use super::contexts::{self, EndpointIdentity};
use super::option_values::{
    self, ERROR_CONTROLS, FLOW_CONTROLS, OFF_ON, OPENINGS, PAIRS, SERVICES, STATUS_REQUEST_KINDS,
    VERSIONS, parse_bytes, parse_choice,
};
use super::shortcut::Shortcut;
use super::tracing;
use crate::contract::OptionHelp;
use crate::engine_setup::ReceiveBufferPosting;
use engine::Framing;
use engine_xtp::pdu::{HEADER_LEN, Service, Version};
use engine_xtp::{Config, Congestion, ErrorControl, FlowControl, Xtp};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use wire::trace::TraceLog;

/// Configuration of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The engine's configuration.
    pub config: Config,
    /// Bytes of a circuit's send buffer; data stay in it until they are acknowledged. The largest
    /// message is half of it.
    pub send_buffer_len: usize,
    /// SO_SNDBUF and SO_RCVBUF requested. Should hold twice the bytes in flight of all circuits,
    /// because the kernel counts its overhead too.
    pub socket_buffer_len: usize,
    /// Whether to use the kernel's segmentation and coalescing of UDP, where available.
    pub segmentation: bool,
    /// Whether first transmissions leave by reference instead of being copied, where an endpoint has one peer on the
    /// same host: an endpoint of a transport, not one of this library, which has many.
    pub splice: bool,
    /// How long a wait busy-polls before its thread sleeps. Lowers latency but occupies a CPU; zero
    /// unless one can be dedicated to it. For endpoints of this library.
    pub spin: Duration,
    /// Whether endpoints serve reports on their associations; see [`super::contexts`].
    pub contexts: bool,
    /// The packet trace, for endpoints of this library.
    pub trace: Option<Arc<TraceLog>>,
    /// Whether packets to endpoints of this host go through shared memory.
    pub shortcut: Shortcut,
}

/// Default send buffer: four times the 120 KiB between acknowledgements.
const SEND_BUFFER_LEN: usize = 512 << 10;

/// Octets of packets that leave by reference: four fill a call of 60 KiB. Longer ones are hardly faster
/// (docs/performance.md, "By reference").
pub(crate) const LONG_PACKET_LEN: usize = 15 << 10;

/// Octets of the packets of lent bytes, which go to the kernel by reference one a call: a header, and as many whole pages
/// as a datagram takes, so that packets of buffers of whole pages begin and end with one.
pub(crate) fn lent_packet_len() -> usize {
    let page = rustix::param::page_size();
    HEADER_LEN + (wire_udp::UDP_PAYLOAD_MAX - HEADER_LEN) / page * page
}

/// Options of rate limits, which are set together.
const RATES: [&str; 4] = ["rate", "input_rate", "output_rate", "burst"];

/// Valid packet lengths, octets.
const PACKET_LENS: std::ops::RangeInclusive<usize> = 128..=wire_udp::UDP_PAYLOAD_MAX;

/// Valid lengths of buffers and windows, bytes.
const QUEUE_LENS: std::ops::RangeInclusive<usize> = 4096..=64 << 20;

/// Shortest keepalive interval. Limits the load that a race can put on an agent's host.
pub(super) const CTIMER_MIN: Duration = Duration::from_millis(1);

/// Shortest WTIMER before an RTT was measured.
const WTIMER_MIN: Duration = Duration::from_micros(100);

impl Default for EndpointConfig {
    /// The engine's defaults, without XTP's checksum over data, which UDP's covers, and with detection
    /// of black holes, which networks have.
    fn default() -> EndpointConfig {
        EndpointConfig {
            config: Config {
                checksum: false,
                black_hole_detection: true,
                ..Config::default()
            },
            send_buffer_len: SEND_BUFFER_LEN,
            socket_buffer_len: wire_udp::BUFFER_LEN,
            segmentation: true,
            splice: true,
            spin: Duration::ZERO,
            contexts: false,
            trace: None,
            shortcut: Shortcut::Off,
        }
    }
}

impl EndpointConfig {
    /// The default, with circuits of peers accepted once their address is validated: for programs
    /// whose answer to a circuit costs more than memory. See [`Config::early_accept`].
    pub fn accepting_late() -> EndpointConfig {
        let mut settings = EndpointConfig::default();
        settings.config.early_accept = false;
        settings
    }

    /// The options that [`parse`](EndpointConfig::parse) accepts.
    pub const HELP: &'static [OptionHelp] = option_values::HELP;

    /// A configuration from options.
    ///
    /// # Errors
    ///
    /// A sentence that names the option and its valid values.
    pub fn parse(own: &BTreeMap<String, String>) -> Result<EndpointConfig, String> {
        EndpointConfig::default().with_options(own)
    }

    /// This configuration, changed by options. Errors are those of [`parse`](EndpointConfig::parse).
    pub fn with_options(
        mut self,
        own: &BTreeMap<String, String>,
    ) -> Result<EndpointConfig, String> {
        let is_rate = |name: &str| RATES.contains(&name);
        for (name, value) in own.iter().filter(|(name, _)| !is_rate(name)) {
            self.set(name, value)?;
        }
        self.set_rates(own)?;
        self.check_version()?;
        if self.config.gateway.is_some() {
            self.config.routes = true;
        }
        if self.config.service == Service::Isochronous && self.config.own_rate().is_none() {
            return Err("service=isochronous needs a rate; add rate=100mbit".to_owned());
        }
        Ok(self)
    }

    /// Sets the rate limits, which share a burst.
    fn set_rates(&mut self, own: &BTreeMap<String, String>) -> Result<(), String> {
        let rate = |name: &str| {
            let value = own.get(name);
            value
                .map(|value| option_values::parse_rate(name, value))
                .transpose()
        };
        let burst = own.get("burst");
        let burst = burst.map(|value| parse_bytes("burst", value, 1..=1 << 30));
        let burst = burst.transpose()?.map(|octets| octets as u32);
        let rates = [rate("rate")?, rate("input_rate")?, rate("output_rate")?];
        if burst.is_some() && rates.iter().all(Option::is_none) {
            return Err("burst needs a rate; add rate=100mbit or leave it out".to_owned());
        }
        let packet_len = self.config.packet_len;
        let limit =
            |rate: Option<u32>| rate.map(|rate| option_values::rate_limit(rate, burst, packet_len));
        let config = &mut self.config;
        let limits = [
            &mut config.rate,
            &mut config.input_rate,
            &mut config.output_rate,
        ];
        for (field, rate) in limits.into_iter().zip(rates) {
            *field = limit(rate).or(*field);
        }
        Ok(())
    }

    /// Whether the version has what is asked for.
    fn check_version(&self) -> Result<(), String> {
        let config = &self.config;
        if config.gateway.is_some() && config.version != Version::V36 {
            return Err("gateway needs dialect=3.6; add it or leave gateway out".to_owned());
        }
        if config.gateway.is_some() && config.address.is_some() {
            return Err("address is not for routers, which go by Internet addresses; leave out gateway or address".to_owned());
        }
        for (word, is_set) in [
            ("managers", !config.managers.is_empty()),
            ("routes=on", config.routes),
            ("pairs=fixed", config.fixed_pairs),
        ] {
            if is_set && !config.version.is_v3() {
                return Err(format!(
                    "{word} needs a dialect of 3.x; add dialect=3.6 or leave it out"
                ));
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let config = &mut self.config;
        match name {
            "accept_early" => config.early_accept = parse_choice(name, value, &OFF_ON)?,
            "address" => config.address = Some(option_values::parse_address(name, value)?),
            "ask" => config.status_request_kind = parse_choice(name, value, &STATUS_REQUEST_KINDS)?,
            "checksum" => config.checksum = parse_choice(name, value, &OFF_ON)?,
            "fastnak" => config.fastnak = parse_choice(name, value, &OFF_ON)?,
            "nulldata" => config.null_data = parse_choice(name, value, &OFF_ON)?,
            "segmentation" => self.segmentation = parse_choice(name, value, &OFF_ON)?,
            "splice" => self.splice = parse_choice(name, value, &OFF_ON)?,
            "congestion" => config.congestion = option_values::parse_congestion(value)?,
            "dialect" => config.version = parse_choice(name, value, &VERSIONS)?,
            "error" => config.error = parse_choice(name, value, &ERROR_CONTROLS)?,
            "flow" => config.flow = parse_choice(name, value, &FLOW_CONTROLS)?,
            "gateway" => config.gateway = Some(option_values::parse_gateway(name, value)?),
            "managers" => config.managers = option_values::parse_hosts(name, value)?,
            "open" => config.explicit = parse_choice(name, value, &OPENINGS)?,
            "pairs" => config.fixed_pairs = parse_choice(name, value, &PAIRS)?,
            "routes" => config.routes = parse_choice(name, value, &OFF_ON)?,
            "shortcut" => self.shortcut = Shortcut::parse(value)?,
            "service" => config.service = parse_choice(name, value, &SERVICES)?,
            "packet" => config.packet_len = parse_bytes(name, value, PACKET_LENS)?,
            "queue" => {
                let study = engine_xtp::config::STUDY_QUEUE_LEN.to_string();
                let value = if value == "study" { &study } else { value };
                let len = parse_bytes(name, value, QUEUE_LENS)?;
                self.send_buffer_len = len;
                config.window = len as u64;
                config.initial_window = config.initial_window.min(len as u64);
            }
            "ralloc" => config.window = parse_bytes(name, value, QUEUE_LENS)? as u64,
            "talloc" => config.initial_window = parse_bytes(name, value, QUEUE_LENS)? as u64,
            "oqmax" => config.oqmax = Some(parse_bytes(name, value, QUEUE_LENS)? as u64),
            "iqmax" => config.iqmax = Some(parse_bytes(name, value, QUEUE_LENS)? as u64),
            "retrycount" => config.retries_max = option_values::parse_count(name, value, 1..=1000)?,
            "sort" => config.sort = Some(option_values::parse_count(name, value, 0..=u16::MAX)?),
            _ => return self.set_time(name, value),
        }
        Ok(())
    }

    fn set_time(&mut self, name: &str, value: &str) -> Result<(), String> {
        let config = &mut self.config;
        match name {
            "ctimer" if option_values::parse_time(name, value)?.is_zero() => {
                config.keepalive = Duration::ZERO
            }
            "ctimer" => config.keepalive = option_values::parse_interval(name, value, CTIMER_MIN)?,
            "ctimeout" => config.handshake_max = option_values::parse_time(name, value)?,
            "rtt" => config.initial_rtt = Some(option_values::parse_time(name, value)?),
            "wtimer" => {
                config.wtimer_initial = option_values::parse_interval(name, value, WTIMER_MIN)?
            }
            _ => {
                let known: Vec<&str> = EndpointConfig::HELP.iter().map(|help| help.name).collect();
                return Err(format!(
                    "xtp has no option {name}; it has {}",
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The engine's configuration for circuits with `framing`.
    pub(crate) fn config(&self, framing: Framing) -> Config {
        Config {
            framing,
            seed: crate::engine_setup::random_seed(),
            secret: crate::engine_setup::random_secret(),
            // Its user decides in place of a cookie, which would answer before.
            early_accept: self.config.early_accept || self.config.supervised,
            ..self.config.clone()
        }
    }

    /// Whether the configuration or the environment enables reports on associations.
    pub(crate) fn serves_contexts(&self) -> bool {
        self.contexts || contexts::enabled_by_environment()
    }

    /// Receive buffers of the bulk service, and of reservation: as many bytes as the window.
    pub(crate) fn buffer_posting(&self) -> Option<ReceiveBufferPosting<Xtp>> {
        let config = &self.config;
        let posts = config.service == Service::Bulk || config.flow == FlowControl::Reservation;
        posts.then(|| ReceiveBufferPosting::new(self.config.window, Xtp::post))
    }

    /// Whether packets may be long on a path that carries them, because they leave by reference: windows and stores
    /// have room for eight, and no rate was counted in short ones.
    pub(crate) fn sends_long_by_reference(&self) -> bool {
        let config = &self.config;
        let rates = [config.rate, config.input_rate, config.output_rate];
        let room = config.window.min(self.send_buffer_len as u64);
        self.splice
            && self.segmentation
            && !config.version.is_v3()
            && rates.iter().all(Option::is_none)
            && room >= 8 * LONG_PACKET_LEN as u64
    }

    /// Whether packets of lent bytes may be as long as a call by reference takes.
    pub(crate) fn lends_pages(&self) -> bool {
        let room = self.config.window.min(self.send_buffer_len as u64);
        let len = lent_packet_len();
        self.sends_long_by_reference() && len > LONG_PACKET_LEN && room >= 4 * len as u64
    }

    /// Refuses what only an endpoint on UDP can do.
    pub(crate) fn require_no_udp_options(&self) -> io::Result<()> {
        let of_udp = [
            ("shortcut", self.shortcut != Shortcut::Off),
            ("spin", !self.spin.is_zero()),
            ("address", self.config.address.is_some()),
            ("gateway", self.config.gateway.is_some()),
        ];
        match of_udp.iter().find(|(_, is_set)| *is_set) {
            None => Ok(()),
            Some((name, _)) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{name} is for endpoints on UDP; leave it out, or bind a UDP port"),
            )),
        }
    }

    /// Whether every byte is delivered.
    pub(crate) fn is_reliable(&self) -> bool {
        let config = &self.config;
        config.error != ErrorControl::None && config.service != Service::Isochronous
    }

    /// The packet trace of an endpoint, if any.
    pub(crate) fn log(&self) -> io::Result<Option<Arc<TraceLog>>> {
        match &self.trace {
            Some(log) => Ok(Some(Arc::clone(log))),
            None => tracing::process_log(),
        }
    }

    /// The identity of an endpoint at `address`, for reports.
    pub(crate) fn identity(&self, address: String) -> EndpointIdentity {
        let mut dialects = VERSIONS.iter();
        let dialect = dialects.find(|(_, one)| *one == self.config.version);
        EndpointIdentity {
            address,
            dialect: dialect.map_or("?", |(name, _)| name).to_owned(),
            shortcut: None,
        }
    }

    /// The congestion control, as `towpath transports` shows it; empty for none.
    pub(crate) fn congestion_class(&self) -> &'static str {
        match self.config.congestion {
            Congestion::Off => "",
            Congestion::NewReno => "NewReno",
            Congestion::Ledbat => "LEDBAT-like",
            Congestion::Bbr => "BBR",
        }
    }

    /// Effective options, as shown in results.
    pub(crate) fn effective(&self) -> BTreeMap<String, String> {
        let checksum = match self.config.checksum {
            true => "on: XTP and UDP sum the data",
            false => "off: UDP sums the data",
        };
        let error = ERROR_CONTROLS
            .iter()
            .find(|(_, error)| *error == self.config.error);
        let named = |name: Option<&str>| name.unwrap_or("?").to_owned();
        let mut effective = BTreeMap::from([
            ("checksum".into(), checksum.into()),
            ("window".into(), self.config.window.to_string()),
            ("send_store".into(), self.send_buffer_len.to_string()),
            ("error".into(), named(error.map(|(name, _)| *name))),
            ("congestion".into(), self.config.congestion.name().into()),
            ("shortcut".into(), self.shortcut.name()),
        ]);
        let dialect = VERSIONS.iter().find(|(_, one)| *one == self.config.version);
        effective.insert("dialect".into(), named(dialect.map(|(name, _)| *name)));
        effective.insert("service".into(), self.config.service.name().into());
        let flow = FLOW_CONTROLS
            .iter()
            .find(|(_, flow)| *flow == self.config.flow);
        effective.insert("flow".into(), named(flow.map(|(name, _)| *name)));
        let mut openings = OPENINGS.iter();
        let opening = openings.find(|(_, explicit)| *explicit == self.config.explicit);
        effective.insert("open".into(), named(opening.map(|(name, _)| *name)));
        for (name, limit) in [
            ("rate", self.config.rate),
            ("input_rate", self.config.input_rate),
            ("output_rate", self.config.output_rate),
        ] {
            if let Some(limit) = limit {
                let rate = format!("{} bit/s", u64::from(limit.rate_bytes_per_s) * 8);
                effective.insert(name.into(), rate);
                effective.insert("burst".into(), limit.burst_bytes.to_string());
            }
        }
        if let Some(address) = &self.config.address {
            effective.insert("address".into(), address.to_string());
        }
        if let Some(sort) = self.config.sort {
            effective.insert("sort".into(), sort.to_string());
        }
        effective
    }
}

#[cfg(test)]
mod tests;
