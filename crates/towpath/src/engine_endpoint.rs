//! An endpoint of an engine on a wire, as transports open it.

use crate::cells;
use crate::contract::BLOCKING_TIMEOUT;
use crate::engine_circuit::CLOSE_TIMEOUT;
use crate::engine_setup::{EngineSetup, ReadConnection, ReceiveBufferPosting};
use crate::medium::{Medium, OpenedWire};
use crate::options::Options;
use crate::source_filter;
use crate::xtp::contexts::{self, EndpointIdentity};
use driver::Endpoint;
use engine::{Address, Associations};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};
use wire::Wire;
use wire::trace::Traced;
use wire_shortcut::ShortcutHandle;

/// How often the end of a dropped circuit is looked for.
const END_TICK: Duration = Duration::from_millis(1);

/// An endpoint of an engine, and what its circuits get.
pub(crate) struct EngineEndpoint<M: Medium, E> {
    pub(crate) endpoint: Endpoint<E, Traced<M::Wire>>,
    pub(crate) line: String,
    pub(crate) effective: BTreeMap<String, String>,
    pub(crate) empty_message_error: Option<&'static str>,
    pub(crate) zero_copy: bool,
    pub(crate) ends_by_handshake: bool,
    pub(crate) recv_timeout: Duration,
    pub(crate) buffer_posting: Option<ReceiveBufferPosting<E>>,
    pub(crate) connection_info: ReadConnection<E>,
    pub(crate) shortcut: Option<ShortcutHandle>,
    splice: Option<bool>,
}

impl<M: Medium, E: Associations> EngineEndpoint<M, E> {
    /// Restricts the wire of a listener to the only peer it will have; returns whether it sends by reference from now on,
    /// if the transport has that option.
    pub(crate) fn restrict_to_peer(&self, peer: Address) -> io::Result<Option<&'static str>> {
        self.endpoint.command_with_wire(|_, wire, _| {
            M::restrict_to_peer(wire.wire(), peer)?;
            let splice = self.splice.map(|wanted| M::splice(wire.wire_mut(), wanted));
            splice.transpose()
        })?
    }

    /// Waits until circuits that were dropped have ended at both ends, or would have long since.
    pub(crate) fn await_ends(&self) {
        let end = Instant::now() + CLOSE_TIMEOUT;
        // The helper thread receives meanwhile.
        while self.endpoint.has_dropped_circuits() && Instant::now() < end {
            std::thread::sleep(END_TICK);
        }
    }
}

/// Opens an endpoint on a wire.
pub(crate) fn open_endpoint<M: Medium, E: Associations + Send + 'static>(
    opened: OpenedWire<M::Wire>,
    options: &Options,
    setup: EngineSetup<E>,
) -> io::Result<EngineEndpoint<M, E>> {
    let own = opened.local_address();
    let OpenedWire {
        mut wire,
        rendezvous_entry: line,
        ..
    } = opened;
    for (link, socket) in M::sockets(&wire).into_iter().enumerate() {
        if M::takes_source_filter(options) {
            source_filter::attach(socket, options.only_from_by(link))?;
        }
        if let Some(len) = options.buffers {
            wire_udp::sys::set_buffers(socket, len);
        }
    }
    if options.blocking_timeout.is_none() {
        M::disable_receive_timeout(&mut wire)?;
    }
    let packet_len = setup.engine.layout(None).packet();
    let layer = match &options.cells {
        None => None,
        Some(config) => {
            let packet_max = setup.engine.properties().packet_max;
            let payload = setup.engine.layout(None).payload.max(1) as u64;
            let in_flight = setup.engine.receive_window().div_ceil(payload);
            Some(cells::layer(config, packet_max, in_flight as usize)?)
        }
    };
    let frame_len = layer.as_ref().map_or(packet_len, |layer| layer.frame_max());
    let most = wire.capabilities().packet_max;
    if layer.is_none() && packet_len > most {
        let text = format!(
            "packets of {packet_len} octets do not fit the interface, which takes {most}; give \
             packet={most}, or raise its MTU"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut effective = setup.effective;
    if let Some(wanted) = setup.splice {
        let splice = M::splice(&mut wire, wanted)?;
        effective.insert("splice".into(), splice.into());
    }
    let segmentation = M::segmentation(&mut wire, setup.use_segmentation, frame_len)?;
    if let Some(config) = &options.cells {
        effective.insert("cells".into(), cells::name(config).into());
    }
    effective.insert("segmentation".into(), segmentation);
    effective.insert("packet_len".into(), packet_len.to_string());
    let shortcut = M::shortcut(&wire);
    let wire = Traced::new(wire, setup.introspection.log?, own);
    let wire = wire.discarding_into(options.discard.clone());
    let endpoint = match layer {
        None => Endpoint::new(setup.engine, wire, setup.send_buffer_len)?,
        Some(layer) => Endpoint::with_layer(setup.engine, wire, layer, setup.send_buffer_len)?,
    };
    if let Some((identity, snapshot)) = setup.introspection.served_contexts {
        let address = contexts::report::address(own);
        contexts::serve(
            &endpoint,
            EndpointIdentity {
                address,
                shortcut: shortcut.clone(),
                ..identity
            },
            snapshot,
        )?;
    }
    Ok(EngineEndpoint {
        endpoint,
        line,
        effective,
        empty_message_error: setup.empty_message_error,
        zero_copy: setup.zero_copy,
        ends_by_handshake: setup.ends_by_handshake,
        // A wait without timeout needs a wire without timeout.
        recv_timeout: options
            .blocking_timeout
            .map_or(Duration::MAX, |_| BLOCKING_TIMEOUT),
        buffer_posting: setup.buffer_posting,
        connection_info: setup.connection_info,
        shortcut,
        splice: setup.splice,
    })
}
