//! The chunks of a packet, one after the other.

use crate::association::Association;
use crate::discard::DiscardReason;
use crate::endpoint::Sctp;
use crate::endpoint_state::EndpointState;
use crate::pdu::{Chunk, ChunkType, Chunks, CommonHeader};
use crate::procedure::{
    abort, asconf, association_setup, authentication, data_receive, data_send, forward_tsn,
    heartbeat, init, path_management, reconfiguration, sack_receive, shutdown,
};
use engine::{AssociationId, Deliveries, Instant, Received};

impl Sctp {
    /// Handles the chunks of a packet of association `id`, of which `skipped` are done.
    pub(crate) fn handle_chunks(
        &mut self,
        now: Instant,
        id: AssociationId,
        (header, received): (&CommonHeader, Received<'_>),
        (mut chunks, skipped): (Chunks<'_>, usize),
        deliveries: &mut Deliveries,
    ) -> Result<(), DiscardReason> {
        let Some(a) = self.associations.get_mut(&id) else {
            return Ok(());
        };
        if (header.source, header.destination) != (a.peer_port, a.local_port) {
            return Err(DiscardReason::Tag);
        }
        path_management::learn_port(a, &mut self.shared, received.path);
        let path = a.path_index(received.path);
        // Section 9.2: any packet of the peer shows that it is there.
        shutdown::note_packet(a);
        let mut result = Ok(());
        let mut data = data_receive::PacketData::new(path);
        let mut is_authenticated = skipped == 2;
        loop {
            data_receive::handle_run(a, &mut self.shared, (&data, &mut chunks), deliveries);
            let Some(chunk) = chunks.next() else {
                break;
            };
            if chunk.kind == ChunkType::AUTH && a.auth.is_some() {
                result = authentication::handle_auth(a, path, &chunk, received.octets);
                if result.is_err() {
                    break;
                }
                is_authenticated = true;
                continue;
            }
            if authentication::lacks_auth(a, chunk.kind, is_authenticated) {
                self.shared.discard(DiscardReason::Authentication);
                continue;
            }
            // Data may come with a COOKIE-ECHO.
            a.peer_is_open |= skipped == 0 && association_setup::proves_open(chunk.kind);
            let handled = handle_chunk(
                (&mut *a, &mut self.shared, now),
                (header, path, &chunk),
                received,
                &mut data,
                deliveries,
            );
            match handled {
                Ok(()) => {}
                Err(DiscardReason::Malformed) => {
                    result = Err(DiscardReason::Malformed);
                    break;
                }
                Err(reason) => self.shared.discard(reason),
            }
            if a.is_gone() {
                break;
            }
        }
        if chunks.is_broken() {
            result = Err(DiscardReason::Malformed);
        }
        if !a.is_gone() {
            data_receive::end_packet(a, &mut self.shared, now, &data);
            data_send::mark_if_ready(a, &mut self.shared);
        }
        if a.is_gone() {
            self.remove_if_gone(id);
        }
        result
    }
}

/// Handles one chunk. [`DiscardReason::Malformed`] ends the packet.
fn handle_chunk(
    (a, ep, now): (&mut Association, &mut EndpointState, Instant),
    (header, path, chunk): (&CommonHeader, usize, &Chunk<'_>),
    received: Received<'_>,
    data: &mut data_receive::PacketData,
    deliveries: &mut Deliveries,
) -> Result<(), DiscardReason> {
    let packet = received.octets;
    match chunk.kind {
        ChunkType::DATA => data_receive::handle_data(a, ep, (data, chunk), packet, deliveries),
        ChunkType::I_DATA if ep.config.has_interleave() => {
            data_receive::handle_data(a, ep, (data, chunk), packet, deliveries)
        }
        kind if forward_tsn::is_known(a, ep, kind) => {
            forward_tsn::handle_forward_tsn(a, ep, (data, chunk), deliveries)
        }
        ChunkType::RE_CONFIG if a.extensions.reconfigure => {
            reconfiguration::handle_re_config(a, ep, now, (path, chunk))
        }
        ChunkType::ASCONF if a.extensions.dynamic_addresses => {
            asconf::handle_asconf(a, ep, now, (received.path, chunk))
        }
        ChunkType::ASCONF_ACK if a.extensions.dynamic_addresses => {
            asconf::handle_asconf_ack(a, ep, now, chunk)
        }
        ChunkType::INIT_ACK => init::handle_init_ack(a, ep, now, path, chunk),
        ChunkType::SACK => sack_receive::handle_sack(a, ep, now, chunk),
        ChunkType::HEARTBEAT => heartbeat::handle_heartbeat(a, path, chunk),
        ChunkType::HEARTBEAT_ACK => heartbeat::handle_heartbeat_ack(a, ep, now, chunk),
        ChunkType::ABORT => abort::handle_abort(a),
        ChunkType::SHUTDOWN => shutdown::handle_shutdown(a, ep, now, chunk),
        ChunkType::SHUTDOWN_ACK => shutdown::handle_shutdown_ack(a, ep, header, path),
        ChunkType::ERROR => abort::handle_error(a, ep, now, chunk),
        ChunkType::COOKIE_ACK => association_setup::handle_cookie_ack(a, ep, now),
        ChunkType::SHUTDOWN_COMPLETE => shutdown::handle_shutdown_complete(a, ep),
        ChunkType::PAD | ChunkType::ECNE | ChunkType::CWR => Ok(()),
        // Only as the first chunk of a packet, and alone.
        ChunkType::INIT | ChunkType::COOKIE_ECHO => Err(DiscardReason::Malformed),
        unknown => {
            if unknown.unknown_is_reported() {
                abort::report_unknown(a, path, chunk.octets(packet));
            }
            match unknown.unknown_stops() {
                true => Err(DiscardReason::Malformed),
                false => Ok(()),
            }
        }
    }
}
