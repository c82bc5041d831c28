//! Sending: control chunks, an acknowledgement, retransmissions and new data, bundled into packets of
//! equal length (RFC 9260 sections 6.1, 6.9 and 6.10).

mod new_data;

pub(super) use new_data::window;

use crate::association::{Association, State, Timer};
use crate::endpoint_state::{EndpointState, chunk_checksum};
use crate::numbers::LongTsn;
use crate::pdu::chunk::{CHUNK_HEADER_LEN, push_pad};
use crate::pdu::sack::{SACK_LEN, push_sack};
use crate::pdu::{COMMON_HEADER_LEN, ChunkType};
use crate::procedure::control_send::{lone_sack_path, take_control, usual_auth_len};
use crate::procedure::{
    AckRequest, abandon, path_mtu, prediction, reconfiguration, retransmission, window_probe,
};
use crate::tx::{ChunkHeader, ChunkStatus};
use engine::{Batch, Fragmentation, Instant, Integrity, PacketBuilder, Store};

/// Packets that differ by no more octets are made equal with padding, so that one call of the wire
/// carries them. A tenth of an Ethernet frame costs less than a call.
const PAD_MAX: usize = 152;

/// Fills `batch` with the next packets of one path.
#[inline]
pub(crate) fn do_transmit(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    batch: &mut Batch,
) {
    if !prediction::transmit(a, ep, now, batch) {
        transmit(a, ep, now, batch);
    }
}

/// The same, whatever there is to send.
#[inline(never)]
fn transmit(a: &mut Association, ep: &mut EndpointState, now: Instant, batch: &mut Batch) {
    abandon::before_transmit(a, ep, now);
    if !a.reconfig.waiting.is_empty() {
        reconfiguration::progress(a, ep, now);
    }
    if path_mtu::transmit(a, ep, now, batch) {
        return ep.mark_ready(a.id);
    }
    let mut prefix = core::mem::take(&mut ep.prefix);
    prefix.clear();
    let data_path = a.data_path();
    let control_room = a.control_room();
    let path = take_control(a, &mut prefix, control_room)
        .or_else(|| lone_sack_path(a, data_path))
        .unwrap_or(data_path);
    batch.set_path(a.paths[path].path, Some(a.id));
    if let Some(auth) = &a.auth {
        batch.set_seal(auth.seal());
    }
    let mut sender = Sender::new(a, ep, now, (path, data_path));
    sender.transmit(batch, &mut prefix);
    let has_more = sender.has_more;
    ep.prefix = prefix;
    abandon::after_transmit(a, ep, now);
    if batch.is_empty() {
        batch.clear();
    }
    // The wire was full, or other chunks wait.
    let has_other_path = path != data_path && !batch.is_empty();
    if has_more || !a.control.is_empty() || has_other_path {
        ep.mark_ready(a.id);
    }
}

/// Marks an association for [`do_transmit`] unless that finds nothing: it is open, all of its user's messages are
/// acknowledged, and it owes its peer nothing yet.
pub(crate) fn mark_if_ready(a: &Association, ep: &mut EndpointState) {
    let has_nothing = a.state == State::Established
        && a.tx.is_empty()
        && a.control.is_empty()
        && !a.rx.is_sack_due()
        && a.reconfig.waiting.is_empty()
        && path_mtu::due_path(a).is_none();
    if !has_nothing {
        ep.mark_ready(a.id);
    }
}

/// Sends on one path of an association.
struct Sender<'a> {
    a: &'a mut Association,
    ep: &'a mut EndpointState,
    now: Instant,
    path: usize,
    /// The path is that of data.
    carries_data: bool,
    /// Octets that may be in flight there.
    window: u64,
    /// Octets of chunks in a full packet.
    pmdcs: usize,
    /// Octets of each packet that are kept for an AUTH.
    auth_len: usize,
    /// The packet at hand begins with a COOKIE-ECHO.
    with_cookie: bool,
    /// Packets remain for the next call.
    has_more: bool,
}

/// What may be sent next.
enum Next {
    Nothing,
    Marked(LongTsn),
    New,
}

impl<'a> Sender<'a> {
    fn new(
        a: &'a mut Association,
        ep: &'a mut EndpointState,
        now: Instant,
        (path, data_path): (usize, usize),
    ) -> Self {
        let window = window(a, ep, path);
        let auth_len = usual_auth_len(a);
        Sender {
            pmdcs: a.pmdcs(),
            a,
            ep,
            auth_len,
            with_cookie: false,
            now,
            path,
            carries_data: path == data_path,
            window,
            has_more: false,
        }
    }

    /// Octets of chunks in a full packet, besides an AUTH.
    fn room(&self) -> usize {
        self.pmdcs - self.auth_len
    }

    /// Octets of the AUTH in front of these control chunks, and of user data if some follow.
    fn auth_len_of(&self, prefix: &[u8], has_data: bool) -> usize {
        let Some(auth) = &self.a.auth else {
            return 0;
        };
        let data = match self.a.extensions.interleave {
            true => ChunkType::I_DATA,
            false => ChunkType::DATA,
        };
        match has_data && auth.peer_requires(data) || auth.covers(prefix) {
            true => auth.len(),
            false => 0,
        }
    }

    /// Octets in front of the user bytes of a chunk.
    fn header_len(&self) -> usize {
        self.a.tx.messages.rules().header_len
    }

    /// User bytes of a packet with one chunk.
    fn payload(&self) -> usize {
        self.room() - self.header_len()
    }

    fn transmit(&mut self, batch: &mut Batch, prefix: &mut Vec<u8>) {
        self.decay_if_idle();
        self.with_cookie = prefix.first() == Some(&ChunkType::COOKIE_ECHO.0);
        // Control chunks may need an AUTH where data need none.
        let more_auth = self
            .auth_len_of(prefix, false)
            .saturating_sub(self.auth_len);
        let packet_room = self.room() - more_auth;
        self.add_sack(prefix, packet_room);
        if !prefix.is_empty() {
            self.send_packet(batch, prefix, packet_room);
        }
        self.with_cookie = false;
        while batch.room() > 0 {
            if !self.a.tx.has_chunks() {
                return;
            }
            let Some(room) = self.packet_room(batch) else {
                return;
            };
            if !self.send_packet(batch, &[], room) {
                return;
            }
            if batch.len_of_last() < batch.packet_len() {
                break;
            }
        }
        self.has_more = true;
    }

    /// Room for chunks in the next packet of the batch; None if it has to wait for another batch.
    fn packet_room(&mut self, batch: &mut Batch) -> Option<usize> {
        let full = self.room();
        if batch.is_empty() {
            let longest = self.a.next_marked_len().filter(|octets| *octets > full);
            if longest.is_some() {
                batch.set_fragmentation(Fragmentation::Allowed);
            }
            return Some(longest.unwrap_or(full));
        }
        if batch.len_of_last() < batch.packet_len() || self.a.tx.outstanding.has_marked() {
            self.has_more = true;
            return None;
        }
        let usual = batch.packet_len() - COMMON_HEADER_LEN;
        let usual = usual.saturating_sub(self.auth_len);
        if usual > full {
            self.has_more = true;
            return None;
        }
        if full <= usual + PAD_MAX {
            return Some(usual);
        }
        let single = !self.ep.config.bundle;
        let plan = self.a.tx.messages.plan(full, self.payload(), single);
        if plan.octets <= usual + PAD_MAX {
            return Some(usual);
        }
        self.has_more = true;
        None
    }

    /// Adds an acknowledgement if one is due, or if one may travel with data that leave.
    fn add_sack(&mut self, prefix: &mut Vec<u8>, packet_room: usize) {
        let rx = &self.a.rx;
        let room = packet_room.saturating_sub(prefix.len());
        let may_leave = self.a.may_send_sack() && room >= SACK_LEN;
        if !rx.has_unsacked() || !may_leave || self.path != self.a.sack_path() {
            return;
        }
        let data_room = packet_room - SACK_LEN;
        let travels = rx.is_sack_due() || !matches!(self.next(data_room, true), Next::Nothing);
        if !travels {
            return;
        }
        // SACK comes before SHUTDOWN and DATA alike, and behind COOKIE-ACK, which is the first of its packet
        // (RFC 9260 section 5.1).
        let first = match prefix.first() == Some(&ChunkType::COOKIE_ACK.0) {
            true => CHUNK_HEADER_LEN,
            false => 0,
        };
        let rx = &mut self.a.rx;
        let before = prefix.len();
        let (cumulative, window) = (rx.cumulative(), rx.window());
        push_sack(
            prefix,
            room,
            (cumulative, window),
            rx.gaps(),
            rx.duplicates(),
        );
        rx.record_sack();
        prefix[first..].rotate_left(before - first);
        self.ep.cancel_timer(self.a.id, Timer::Sack);
    }

    /// A path that was silent for some timeouts starts with a smaller window (section 7.2.1).
    fn decay_if_idle(&mut self) {
        let path = &mut self.a.paths[self.path];
        let bounds = &path.parameters.rto;
        let idle = self.now.since(path.last_sent_at);
        // No timeout is shorter than that: the usual case needs no more.
        let is_short = idle < bounds.min.min(bounds.initial).min(bounds.max);
        if path.flight > 0 || is_short || !self.carries_data {
            return;
        }
        let rto = path.rto();
        if rto.is_zero() {
            return;
        }
        let rtos = idle.as_nanos() / rto.as_nanos();
        if rtos > 0 {
            path.control.on_idle(rtos as u64);
            path.last_sent_at = self.now;
            self.window = path.control.window();
        }
    }

    /// What may be sent next in a packet with `room`. What holds back short packets and paces them is
    /// asked before the first chunk; others travel with it.
    fn next(&mut self, room: usize, is_first: bool) -> Next {
        if !self.a.tx.has_chunks() {
            return Next::Nothing;
        }
        let may_send = self.a.may_send_data()
            || self.with_cookie && !self.a.cookie_leaves_alone(&self.ep.config);
        if !self.carries_data || !may_send || room <= self.header_len() {
            return Next::Nothing;
        }
        let flight = self.a.paths[self.path].flight;
        let is_open = flight < self.window || self.a.tx.fast_retransmit;
        if let Some(tsn) = self.a.tx.outstanding.next_marked() {
            return if is_open {
                Next::Marked(tsn)
            } else {
                Next::Nothing
            };
        }
        if self.a.reconfig.holds(self.a.tx.messages.position()) {
            return Next::Nothing;
        }
        let (payload, header_len) = (self.payload(), self.header_len());
        let tx = &mut self.a.tx;
        let Some(len) = tx.messages.next(room, payload) else {
            return Next::Nothing;
        };
        if flight >= self.window {
            return Next::Nothing;
        }
        let octets = len + header_len as u64;
        let nothing_outstanding = tx.outstanding.is_empty();
        if tx.rwnd < octets && !(nothing_outstanding && (tx.rwnd > 0 || tx.probes_window)) {
            if nothing_outstanding {
                window_probe::schedule(self.a, self.ep, self.now);
            }
            return Next::Nothing;
        }
        if !is_first {
            return Next::New;
        }
        if flight > 0 && !tx.messages.may_leave(room, payload) {
            return Next::Nothing;
        }
        if let Some(at) = self.a.paths[self.path].control.blocked_until(self.now) {
            self.ep.set_timer(self.a.id, Timer::Pacing, at);
            return Next::Nothing;
        }
        Next::New
    }

    /// Adds a packet of `prefix` and chunks of data, `room` octets behind the common header at most;
    /// false if it would be empty.
    fn send_packet(&mut self, batch: &mut Batch, prefix: &[u8], room: usize) -> bool {
        let data_room = room.saturating_sub(prefix.len());
        let mut left = data_room;
        self.a.tx.messages.begin_packet();
        let path = &self.a.paths[self.path];
        let from_idle = path.flight == 0;
        let mut next = match path.after_timeout && path.flight > 0 {
            true => Next::Nothing,
            false => self.next(left, true),
        };
        if prefix.is_empty() && matches!(next, Next::Nothing) {
            return false;
        }
        let usual = batch.packet_len();
        let auth_len = self.auth_len_of(prefix, !matches!(next, Next::Nothing));
        let mut packet = batch.begin().own(&self.a.header().emit());
        if let Some(auth) = self.a.auth.as_ref().filter(|_| auth_len > 0) {
            self.ep.scratch.clear();
            auth.push(&mut self.ep.scratch);
            packet = packet.join_own(&self.ep.scratch);
        }
        packet = packet.join_own(prefix);
        let store = Store::Association(self.a.id);
        let single = !self.ep.config.bundle;
        let mut is_fast = false;
        loop {
            let before = left;
            if matches!(next, Next::New) && !single {
                self.send_whole(&mut packet, &mut left);
            }
            if left < before {
                next = self.next(left, false);
            }
            let sent = match next {
                Next::Nothing => None,
                Next::Marked(tsn) => {
                    is_fast = self.a.tx.fast_retransmit;
                    self.send_marked(tsn, left)
                }
                Next::New => self.send_new(left),
            };
            let Some(sent) = sent else {
                break;
            };
            left -= sent.2;
            add(&mut packet, store, sent);
            if single {
                break;
            }
            next = self.next(left, false);
        }
        self.end_chunks(data_room - left, from_idle);
        if is_fast {
            self.a.tx.fast_retransmit = false;
        }
        let len = COMMON_HEADER_LEN + auth_len + room - left;
        if usual > len && self.wants_padding() {
            self.ep.scratch.clear();
            push_pad(&mut self.ep.scratch, usual - len);
            packet = packet.join_own(&self.ep.scratch);
        }
        packet.end(self.integrity(auth_len > 0));
        self.ep.counters.packets_built += 1;
        true
    }

    /// The check of the packet at hand. One with a COOKIE-ECHO has a checksum always (RFC 9653 section 5.2).
    fn integrity(&self, has_auth: bool) -> Integrity {
        let has_crc = !self.a.zero_checksum || self.with_cookie;
        let crc_at = has_crc.then(chunk_checksum);
        match (has_auth, crc_at) {
            (true, crc_at) => Integrity::Sealed { crc_at },
            (false, Some(at)) => Integrity::Crc32c { at },
            (false, None) => Integrity::None,
        }
    }

    /// Whether packets follow that must have the length of those before.
    fn wants_padding(&mut self) -> bool {
        !matches!(self.next(self.room(), true), Next::Nothing)
    }

    /// Sends a lost chunk again: its header, bytes and octets; None if it does not fit.
    fn send_marked(&mut self, tsn: LongTsn, left: usize) -> Option<Sent> {
        let next = self.a.tx.outstanding.next();
        let chunk = self.a.tx.outstanding.get_mut(tsn)?;
        let octets = chunk.octets();
        if octets > left {
            return None;
        }
        chunk.misses = 0;
        chunk.sent_before = next;
        chunk.retransmissions = chunk.retransmissions.saturating_add(1);
        chunk.was_moved |= chunk.path != self.path as u8;
        chunk.path = self.path as u8;
        let (header, range) = (chunk.header(tsn, 0), chunk.range());
        let len = chunk.len as usize;
        self.a.tx.outstanding.unmark(tsn, ChunkStatus::InFlight);
        for path in &mut self.a.paths {
            // Karn: no sample from a chunk that was sent twice (RFC 9260 section 6.3.1, C5).
            path.timed.take_if(|timed| timed.tsn == tsn);
        }
        self.ep.counters.retransmissions += 1;
        self.account(octets as u64, len as u64);
        // The earliest chunk of a path restarts its timer (section 6.3.2, R3 and 6.3.3).
        if tsn == self.a.tx.outstanding.first() {
            retransmission::restart_timer(self.a, self.ep, self.now, self.path);
        }
        Some((header, range, octets))
    }

    /// When the peer is asked to acknowledge at once.
    fn ack_request(&self) -> AckRequest {
        let full = self.room() as u64;
        let limit = self.window.min(self.ep.config.send_buffer);
        AckRequest::new(self.a, self.path, (self.window, limit), full)
    }

    /// A chunk is sent.
    fn account(&mut self, octets: u64, bytes: u64) {
        let path = &mut self.a.paths[self.path];
        path.flight += octets;
        path.sent += octets;
        self.a.tx.rwnd = self.a.tx.rwnd.saturating_sub(octets);
        self.a.tx.unasked += octets;
        self.ep.counters.bytes_sent += bytes;
    }

    /// All chunks of a packet are sent: so many octets, with nothing in flight before if `from_idle`.
    fn end_chunks(&mut self, octets: usize, from_idle: bool) {
        if octets == 0 {
            return;
        }
        let path = &mut self.a.paths[self.path];
        path.control.on_sent(self.now, octets as u64, from_idle);
        path.last_sent_at = self.now;
        if self.with_cookie {
            // They come again with the COOKIE-ECHO, whose timer runs.
            return;
        }
        retransmission::start_timer(self.a, self.ep, self.now, self.path);
    }
}

/// The header of a chunk, its bytes in the store, and all of its octets with padding.
type Sent = (ChunkHeader, core::ops::Range<u64>, usize);

/// Appends a chunk and its padding to `packet`.
#[inline]
fn add(packet: &mut PacketBuilder<'_>, store: Store, (header, range, octets): Sent) {
    let padding = octets - header.len() - (range.end - range.start) as usize;
    header.add_to(packet);
    packet.add_user(store, range);
    packet.add_own(&[0; 3][..padding]);
}
