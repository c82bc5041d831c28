//! snd and rcv. Messages of providers that keep their boundaries are in `messages`.

use super::{Inner, Look, Provider, XtiEndpoint, XtiState};
use crate::error::{Error, TliError};
use crate::inet::{TIDU, arrival, receive, receive_urgent, urgent_indication};
use crate::tpi::{Primitive, SEND_ZERO, write_data_request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use socket2::Socket;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use streams::{Block, Extra, Message, MessageKind, Priority};

/// Flags of a send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The message goes on with the next send (T_MORE). On a stream it is told to the provider and
    /// means nothing.
    pub more: bool,
    /// They may pass data that were sent before (T_EXPEDITED), where the provider has such.
    pub expedited: bool,
}

/// What a receive got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XtiReceived {
    /// Octets.
    pub len: usize,
    /// The message goes on with the next receive (T_MORE).
    pub more: bool,
    /// They are expedited (T_EXPEDITED).
    pub expedited: bool,
}

impl XtiEndpoint {
    /// Sends without waiting (t_snd with O_NONBLOCK); returns how many octets were taken.
    ///
    /// # Errors
    ///
    /// `Flow` when none, `OutOfState`, `NotSupported` for expedited data of a provider without, `Look` when the connection was lost, `BadData` for none, where the
    /// provider has no empty messages, and for more than a message may have.
    #[inline]
    pub fn try_send(&self, octets: &[u8], flags: Flags) -> Result<usize, Error> {
        self.send_once(octets, flags, &[])
    }

    /// Sends without waiting, a message of which begins here with options, if some are given.
    #[inline]
    pub(super) fn send_once(
        &self,
        octets: &[u8],
        flags: Flags,
        options: &[u8],
    ) -> Result<usize, Error> {
        let mut inner = self.lock();
        if !matches!(inner.state, XtiState::DataTransfer | XtiState::PeerReleased) {
            return Err(TliError::OutOfState.into());
        }
        inner.check_len(octets.len(), flags)?;
        if !options.is_empty() {
            inner.check_message_options(self.shared.provider, options)?;
        }
        let mut taken = inner.put_data(octets, flags, options)?;
        if taken.is_none_or(|len| len < octets.len()) {
            // The queue is full: what it holds leaves now.
            if self.shared.socket.send_blocked.load(Ordering::Relaxed) {
                inner.look_for_room(&self.shared.socket);
            }
            inner.run_and_send_on(&self.shared.socket);
            let done = taken.unwrap_or(0);
            let options = if done == 0 { options } else { &[] };
            if let Some(more) = inner.put_data(&octets[done..], flags, options)? {
                taken = Some(done + more);
            }
        }
        if !self.shared.options.deferred {
            inner.run_for_room(&self.shared.socket);
            self.shared.flush_below(&mut inner);
        }
        self.shared.note_if_deferred(&inner);
        taken.ok_or(TliError::Flow.into())
    }

    /// Sends all, waiting for room until `deadline` (t_snd); returns how many octets were taken.
    /// Errors are those of [`XtiEndpoint::try_send`]; `Flow` when none was taken until the deadline.
    pub fn send(&self, octets: &[u8], flags: Flags, limit: Duration) -> Result<usize, Error> {
        self.send_all(octets, flags, &[], limit)
    }

    pub(super) fn send_all(
        &self,
        octets: &[u8],
        flags: Flags,
        options: &[u8],
        limit: Duration,
    ) -> Result<usize, Error> {
        let (mut done, mut deadline) = (0, None);
        loop {
            let options = if done == 0 { options } else { &[] };
            match self.send_once(&octets[done..], flags, options) {
                Ok(len) => {
                    done += len;
                    if done == octets.len() {
                        return Ok(done);
                    }
                }
                Err(Error {
                    tli: TliError::Flow,
                    ..
                }) => {}
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done),
            }
            let now = Instant::now();
            let deadline = *deadline.get_or_insert(now + limit);
            if now >= deadline {
                return if done > 0 {
                    Ok(done)
                } else {
                    Err(TliError::Flow.into())
                };
            }
            self.wait_below(true, Some(deadline - now))?;
            self.lock().look_for_room(&self.shared.socket);
        }
    }

    /// Sends what is queued, waiting for room at most this long.
    ///
    /// # Errors
    ///
    /// `Flow` when some is left.
    pub fn flush(&self, limit: Duration) -> Result<(), Error> {
        let mut deadline = None;
        loop {
            self.run();
            if !self.shared.socket.send_blocked.load(Ordering::Relaxed) {
                return Ok(());
            }
            let now = Instant::now();
            let deadline = *deadline.get_or_insert(now + limit);
            if now >= deadline {
                return Err(TliError::Flow.into());
            }
            self.wait_below(true, Some(deadline - now))?;
            self.lock().look_for_room(&self.shared.socket);
        }
    }

    /// Receives without waiting (t_rcv with O_NONBLOCK).
    ///
    /// # Errors
    ///
    /// `NoData` when nothing is there, `OutOfState`, `Look` when the peer released or the connection
    /// was lost and all data before that were received.
    pub fn try_receive(&self, buffer: &mut [u8]) -> Result<XtiReceived, Error> {
        self.lock().receive_now(buffer)
    }

    /// Receives, waiting as long as the socket's own time-out says, for ever without one (t_rcv).
    /// Errors are those of [`XtiEndpoint::try_receive`]; `NoData` after the time-out.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> Result<XtiReceived, Error> {
        let mut inner = self.lock();
        if let Some(received) = inner.receive(buffer)? {
            return Ok(received);
        }
        if self.shared.provider == Provider::Tcp {
            return self.receive_outside(inner, buffer);
        }
        drop(inner);
        loop {
            match self.receive_within(buffer, Duration::from_secs(3600)) {
                Err(error) if error.tli == TliError::NoData => {}
                other => return other,
            }
        }
    }

    /// Receives, waiting at most this long. Errors are those of [`XtiEndpoint::try_receive`].
    pub fn receive_within(&self, buffer: &mut [u8], limit: Duration) -> Result<XtiReceived, Error> {
        self.repeat_within(false, limit, || self.try_receive(buffer))
    }

    /// Receives from the socket without the lock, so that others can send meanwhile, and hands the
    /// provider what came.
    fn receive_outside<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        buffer: &mut [u8],
    ) -> Result<XtiReceived, Error> {
        let receiving = &self.shared.receiving;
        let _turn = match receiving.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // Another thread receives meanwhile, and needs the lock.
                drop(inner);
                let turn = receiving.lock().unwrap_or_else(PoisonError::into_inner);
                inner = self.lock();
                turn
            }
        };
        inner.run();
        if let Some(received) = inner.receive(buffer)? {
            return Ok(received);
        }
        let socket = self.socket().ok_or(TliError::Protocol)?;
        let spare = inner.spare.take();
        let mut block = spare.unwrap_or_else(|| inner.runtime.pool_mut().allocate(0, TIDU));
        let outside = &self.shared.socket.received_outside;
        outside.store(true, Ordering::Relaxed);
        drop(inner);
        let arrived = self.await_arrival(&socket, &mut block);
        let mut inner = self.lock();
        outside.store(false, Ordering::Relaxed);
        let stream = inner.stream;
        match arrived {
            Ok(Arrived::Data) => {
                let (message, spare) = arrival(inner.runtime.pool_mut(), block);
                inner.spare = spare;
                inner.runtime.deliver(stream, message)?;
            }
            Ok(Arrived::Urgent(octet)) => {
                inner.spare = Some(block);
                let indication = urgent_indication(inner.runtime.pool_mut(), octet);
                inner.runtime.deliver(stream, indication)?;
            }
            Err(error) => {
                inner.spare = Some(block);
                if error.kind() == io::ErrorKind::WouldBlock {
                    inner.look_below();
                } else {
                    inner.lost(&error);
                }
            }
        }
        inner.receive(buffer)?.ok_or(TliError::NoData.into())
    }

    /// Waits for data, or for an urgent octet, which would not end a wait in the receive.
    /// Fails with `WouldBlock` after the socket's own time-out or a signal; those of the socket.
    fn await_arrival(&self, socket: &Socket, block: &mut Block) -> io::Result<Arrived> {
        if !self.shared.options.expedited {
            self.shared.waits.fetch_add(1, Ordering::Relaxed);
            self.shared.socket.receives.fetch_add(1, Ordering::Relaxed);
            block.fill(|room| receive(socket, room, RecvFlags::empty()))?;
            return Ok(Arrived::Data);
        }
        let limit = socket.read_timeout()?;
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        loop {
            self.shared.waits.fetch_add(1, Ordering::Relaxed);
            let mut waits = [PollFd::new(socket, PollFlags::IN | PollFlags::PRI)];
            let is_ready = poll(&mut waits, limit.as_ref()).is_ok_and(|count| count > 0);
            let ready = waits[0].revents();
            if ready.contains(PollFlags::PRI)
                && let Some(octet) = receive_urgent(socket)
            {
                return Ok(Arrived::Urgent(octet));
            }
            self.shared.socket.receives.fetch_add(1, Ordering::Relaxed);
            match block.fill(|room| receive(socket, room, RecvFlags::DONTWAIT)) {
                Ok(_) => return Ok(Arrived::Data),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && is_ready => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a wait for data ended with: some, or their end, in the block; or an urgent octet.
enum Arrived {
    Data,
    Urgent(u8),
}

impl Inner {
    /// Whether a message may have as many octets (TBADDATA), and be expedited (TNOTSUPPORT).
    #[inline]
    pub(super) fn check_len(&self, len: usize, flags: Flags) -> Result<(), Error> {
        let longest = match flags.expedited {
            true if self.information.etsdu == -2 => return Err(TliError::NotSupported.into()),
            true => self.information.etsdu,
            false => self.information.tsdu,
        };
        let is_too_long = usize::try_from(longest).is_ok_and(|longest| len > longest);
        let is_zero = len == 0 && (flags.expedited || self.information.flags & SEND_ZERO == 0);
        if (self.keeps_messages() || flags.expedited) && is_too_long || is_zero {
            return Err(TliError::BadData.into());
        }
        Ok(())
    }

    /// Puts data into the stream; returns how many octets it took, None when it takes none now.
    #[inline]
    fn put_data(
        &mut self,
        octets: &[u8],
        flags: Flags,
        options: &[u8],
    ) -> Result<Option<usize>, Error> {
        self.refuse_if_disconnected()?;
        let put = match (self.keeps_messages() || flags.expedited, flags.more) {
            (true, _) => self.put_piece_by_piece(octets, flags, options),
            (false, true) => self.put_pieces(octets),
            (false, false) => self.runtime.write(self.stream, octets),
        };
        match put {
            Ok(len) => Ok(Some(len)),
            Err(streams::Error::WouldBlock) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Each piece with its T_DATA_REQ.
    fn put_pieces(&mut self, octets: &[u8]) -> Result<usize, streams::Error> {
        let mut done = 0;
        let control = write_data_request(true);
        for piece in octets.chunks(TIDU) {
            let band = Priority::Band(0);
            match self
                .runtime
                .put_message(self.stream, Some(&control), Some(piece), band)
            {
                Ok(()) => done += piece.len(),
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// A disconnect that waits is told before anything is sent.
    #[inline]
    pub(super) fn refuse_if_disconnected(&mut self) -> Result<(), Error> {
        if self.ahead.is_some()
            || self.runtime.first_kind(self.stream) == Ok(Some(MessageKind::Proto))
        {
            self.refuse_after_disconnect()?;
        }
        Ok(())
    }

    #[cold]
    fn refuse_after_disconnect(&mut self) -> Result<(), Error> {
        match self.look() {
            Some(Look::Disconnect) => Err(TliError::Look.into()),
            _ => Ok(()),
        }
    }

    /// What waits at the head, or comes to it now.
    pub(super) fn receive_now(&mut self, buffer: &mut [u8]) -> Result<XtiReceived, Error> {
        if let Some(received) = self.receive(buffer)? {
            return Ok(received);
        }
        self.look_below();
        self.receive(buffer)?.ok_or(TliError::NoData.into())
    }

    /// What waits at the head; None when nothing does.
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<XtiReceived>, Error> {
        if !matches!(self.state, XtiState::DataTransfer | XtiState::Released) {
            return Err(TliError::OutOfState.into());
        }
        if self.keeps_messages() {
            return self.receive_message(buffer);
        }
        if self.ahead.is_some() {
            return self.receive_expedited(buffer);
        }
        match self.runtime.read(self.stream, buffer) {
            Ok(len) => Ok(Some(XtiReceived {
                len,
                more: false,
                expedited: false,
            })),
            Err(streams::Error::WouldBlock) => Ok(None),
            Err(streams::Error::BadMessage) => self.receive_expedited(buffer),
            Err(error) => Err(error.into()),
        }
    }

    /// Expedited data of a byte stream, if they are in front.
    #[cold]
    fn receive_expedited(&mut self, buffer: &mut [u8]) -> Result<Option<XtiReceived>, Error> {
        let Some(Primitive::ExpeditedIndication { more }) = self.primitive_in_front() else {
            return Err(TliError::Look.into());
        };
        let message = self.ahead.as_ref().ok_or(TliError::Protocol)?;
        let len = message.copy_data(0, buffer);
        self.take_primitive();
        Ok(Some(XtiReceived {
            len,
            more,
            expedited: true,
        }))
    }

    /// The socket failed while it was read outside of the provider, which is told.
    fn lost(&mut self, error: &io::Error) {
        let errors = Extra::Errors {
            read: error.raw_os_error(),
            write: None,
        };
        let message = Message::with_extra(MessageKind::Error, errors);
        let _ = self.runtime.deliver(self.stream, message);
    }
}
