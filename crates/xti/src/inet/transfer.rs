//! Data: from the write queue to the socket, and from the socket up.

use super::urgent::send_urgent;
use super::{Link, SocketProvider, TIDU};
use crate::provider::parsed;
use crate::tpi::{Event, Primitive, State};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sendmsg};
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use streams::{Block, Context, Message, MessageKind, Pool, Side};

/// Octets that are given to the socket at once, if the queue has them: one large segment.
const BATCH: usize = 65_536;

/// Messages from this length on are sent where they lie; shorter ones are put together first, which
/// costs less than an entry in a list of parts.
const IN_PLACE: usize = 2048;

/// Messages sent where they lie in one call.
const IN_PLACE_MAX: usize = 16;

/// Arrivals shorter than this are copied into a block of their length, so that a queue pins no more
/// than twice its octets.
const LENT_MIN: usize = TIDU / 2;

/// What left the queue and was not taken by the socket.
#[derive(Default)]
pub(super) struct Outgoing {
    staged: Vec<u8>,
    sent: usize,
    in_place: VecDeque<Message>,
    /// An urgent octet behind the others.
    urgent: Option<u8>,
}

impl Outgoing {
    pub(super) fn is_pending(&self) -> bool {
        self.sent < self.staged.len() || !self.in_place.is_empty() || self.urgent.is_some()
    }

    pub(super) fn clear(&mut self, pool: &mut Pool) {
        self.staged.clear();
        self.sent = 0;
        self.urgent = None;
        for message in self.in_place.drain(..) {
            message.release(pool);
        }
    }

    /// Gives the socket what is there; false when it does not take all.
    fn send(&mut self, socket: &Socket, calls: &AtomicU64, pool: &mut Pool) -> io::Result<bool> {
        while self.sent < self.staged.len() {
            calls.fetch_add(1, Ordering::Relaxed);
            match taken(rustix::net::send(
                socket,
                &self.staged[self.sent..],
                SEND_FLAGS,
            ))? {
                None => return Ok(false),
                Some(len) => self.sent += len,
            }
        }
        self.staged.clear();
        self.sent = 0;
        while !self.in_place.is_empty() {
            calls.fetch_add(1, Ordering::Relaxed);
            match self.send_in_place(socket)? {
                None => return Ok(false),
                Some(len) => self.taken(len, pool),
            }
        }
        if let Some(octet) = self.urgent {
            calls.fetch_add(1, Ordering::Relaxed);
            if !send_urgent(socket, octet)? {
                return Ok(false);
            }
            self.urgent = None;
        }
        Ok(true)
    }

    fn send_in_place(&self, socket: &Socket) -> io::Result<Option<usize>> {
        let mut parts = [IoSlice::new(&[]); IN_PLACE_MAX];
        let blocks = self.in_place.iter().flat_map(|message| &message.data);
        let mut count = 0;
        for (part, block) in parts.iter_mut().zip(blocks) {
            *part = IoSlice::new(block.octets());
            count += 1;
        }
        send(socket, &parts[..count])
    }

    fn taken(&mut self, mut len: usize, pool: &mut Pool) {
        while let Some(first) = self.in_place.front_mut() {
            let octets = first.data_octets();
            if octets > len {
                return first.trim_front(len, pool);
            }
            len -= octets;
            if let Some(message) = self.in_place.pop_front() {
                message.release(pool);
            }
            if len == 0 {
                return;
            }
        }
    }
}

impl SocketProvider {
    /// T_DATA_REQ, or data without a control part, which mean the same here, and T_EXDATA_REQ.
    pub(super) fn data_request(&mut self, context: &mut Context<'_>, message: Message) {
        match self.state {
            State::DataTransfer | State::WaitReleaseRequest => {
                context.put_queue(Side::Write, message);
            }
            // It crossed the end of the connection.
            State::Idle => message.release(context.pool()),
            _ => {
                message.release(context.pool());
                self.fail(context);
            }
        }
    }

    /// ServiceType procedure of the write queue.
    pub(super) fn send_queued(&mut self, context: &mut Context<'_>) {
        let Link::Connected(socket) = &self.link else {
            return;
        };
        let socket = Arc::clone(socket);
        loop {
            match self
                .outgoing
                .send(&socket, &self.shared.sends, context.pool())
            {
                Ok(true) => {}
                Ok(false) => return self.shared.send_blocked.store(true, Ordering::Relaxed),
                // The end is told when the socket is read; what was sent is lost.
                Err(_) => self.outgoing.clear(context.pool()),
            }
            self.shared.send_blocked.store(false, Ordering::Relaxed);
            if !self.refill(context) {
                return;
            }
        }
    }

    /// Takes the next batch off the queue; false when it is empty, or its end was a release.
    fn refill(&mut self, context: &mut Context<'_>) -> bool {
        let mut octets = 0;
        while octets < BATCH && self.outgoing.in_place.len() < IN_PLACE_MAX {
            let Some(message) = context.get(Side::Write) else {
                break;
            };
            let len = message.data_octets();
            let in_place = len >= IN_PLACE && message.data.len() == 1;
            let request = match message.kind() {
                MessageKind::Proto => parsed(&message).ok(),
                _ => None,
            };
            let is_release = request == Some(Primitive::ReleaseRequest);
            let is_urgent = matches!(request, Some(Primitive::ExpeditedRequest { .. }));
            let mixed = if in_place {
                !self.outgoing.staged.is_empty()
            } else {
                !self.outgoing.in_place.is_empty()
            };
            if octets > 0 && (mixed || is_release || is_urgent) {
                context.put_back(Side::Write, message);
                return true;
            }
            if is_urgent {
                self.outgoing.urgent = first_octet(&message);
                message.release(context.pool());
                return true;
            }
            if is_release {
                message.release(context.pool());
                self.release();
                return false;
            }
            octets += len;
            self.stage(context, message, in_place);
        }
        octets > 0
    }

    fn stage(&mut self, context: &mut Context<'_>, message: Message, in_place: bool) {
        if in_place {
            self.outgoing.in_place.push_back(message);
            return;
        }
        for block in &message.data {
            self.outgoing.staged.extend_from_slice(block.octets());
        }
        message.release(context.pool());
    }

    /// This end sends no more.
    fn release(&mut self) {
        if let Link::Connected(socket) = &self.link {
            let _ = socket.shutdown(std::net::Shutdown::Write);
        }
        self.state.advance(Event::ReleaseRequest);
        if self.state == State::Idle {
            self.set_link(Link::None);
        }
    }

    /// What a user thread received from the socket directly; empty: the peer released.
    pub(super) fn arrived(&mut self, context: &mut Context<'_>, message: Message) {
        if message.kind() == MessageKind::Proto {
            // Expedited data, which pass those that wait.
            return context.put_next(Side::Read, message);
        }
        if context.is_empty(Side::Read) && context.can_put_next(Side::Read, 0) {
            self.pass_up(context, message);
        } else {
            context.put_queue(Side::Read, message);
        }
    }

    fn pass_up(&mut self, context: &mut Context<'_>, message: Message) {
        if message.data_octets() > 0 {
            return context.put_next(Side::Read, message);
        }
        message.release(context.pool());
        self.peer_released(context);
    }

    /// ServiceType procedure of the read queue: up with what is there while the head has room.
    pub(super) fn receive_queued(&mut self, context: &mut Context<'_>) {
        while let Some(message) = context.get(Side::Read) {
            if !context.can_put_next(Side::Read, 0) {
                return context.put_back(Side::Read, message);
            }
            self.pass_up(context, message);
        }
        if self.shared.received_outside.load(Ordering::Relaxed) {
            return;
        }
        let Link::Connected(socket) = &self.link else {
            return;
        };
        let socket = Arc::clone(socket);
        if self.has_expedited && matches!(self.state, State::DataTransfer | State::WaitRelease) {
            self.look_for_urgent(context, &socket);
        }
        while matches!(self.state, State::DataTransfer | State::WaitRelease)
            && context.can_put_next(Side::Read, 0)
            && self.receive_once(context, &socket)
        {}
    }

    /// Receives once; whether there may be more.
    fn receive_once(&mut self, context: &mut Context<'_>, socket: &Socket) -> bool {
        let spare = self.spare.take();
        let mut block = spare.unwrap_or_else(|| context.pool().allocate(0, TIDU));
        self.shared.receives.fetch_add(1, Ordering::Relaxed);
        match block.fill(|room| receive(socket, room, RecvFlags::DONTWAIT)) {
            Ok(0) => {
                self.spare = Some(block);
                self.peer_released(context);
                false
            }
            Ok(len) => {
                let message = self.take_block(context.pool(), block);
                context.put_next(Side::Read, message);
                len == TIDU
            }
            Err(error) => {
                self.spare = Some(block);
                if error.kind() != io::ErrorKind::WouldBlock {
                    self.disconnected(context, &error);
                }
                false
            }
        }
    }

    fn take_block(&mut self, pool: &mut Pool, block: Block) -> Message {
        let (message, spare) = arrival(pool, block);
        self.spare = spare;
        message
    }
}

fn first_octet(message: &Message) -> Option<u8> {
    let octets = message.data.iter().map(Block::octets);
    octets.flatten().next().copied()
}

/// A message of what was received into a block. A short arrival is copied, and the block serves
/// again.
pub(crate) fn arrival(pool: &mut Pool, mut block: Block) -> (Message, Option<Block>) {
    if block.len() >= LENT_MIN {
        return (Message::data(block), None);
    }
    let copy = pool.copy(0, block.octets());
    block.clear();
    (Message::data(copy), Some(block))
}

/// Receives from a socket. Fails with `WouldBlock` also when a signal or the socket's own time-out ended the wait.
pub(crate) fn receive(socket: &Socket, room: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    match rustix::net::recv(socket, room, flags) {
        Ok((len, _)) => Ok(len),
        Err(rustix::io::Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(error.into()),
    }
}

/// Octets that the socket took; None when it takes none now.
fn send(socket: &Socket, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    let mut nothing = SendAncillaryBuffer::default();
    taken(sendmsg(socket, parts, &mut nothing, SEND_FLAGS))
}

const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

fn taken(sent: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    match sent {
        Ok(len) => Ok(Some(len)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
