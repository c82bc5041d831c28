//! Circuits by connections of XTI whose providers run in the user's process.

use super::xti_words;
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, ConnectionInfo, Interest, NoConnectionInfo, Note, Part,
    ReceiveCounts,
};
use crate::options::Options;
use crate::parts;
use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xti::{Flags, Look, ServiceType, TliError, XtiEndpoint, XtiReceived, XtiState};

/// Accepts the next connection of a listening endpoint, on an endpoint that `open` makes.
pub(super) fn accept_one(
    listener: &XtiEndpoint,
    deadline: Instant,
    open: impl Fn() -> io::Result<XtiEndpoint>,
) -> io::Result<XtiEndpoint> {
    loop {
        let call = match listener.listen(deadline) {
            Ok(call) => call,
            Err(error) if error.tli == TliError::NoData => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no peer connected"));
            }
            // A connection was withdrawn before it was accepted.
            Err(error) if error.tli == TliError::Look => {
                listener.receive_disconnect()?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let end = open()?;
        match listener.accept(&end, call.sequence) {
            Ok(()) => return Ok(end),
            Err(error) if error.tli == TliError::BadSequence => {
                listener.receive_disconnect()?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Octets of messages that a run may have.
pub(super) const RUN_LENS: RangeInclusive<usize> = 1..=65_536;

/// The longest wait of a receive while the rest of a message waits for room.
const UNSENT_TURN: Duration = Duration::from_millis(1);

/// One end of a connection.
pub(super) struct ConnectionCircuit {
    end: XtiEndpoint,
    flags: Flags,
    /// Options in effect of what is below the provider.
    effective: BTreeMap<String, String>,
    /// An empty message is the end of a direction.
    ends_by_empty: bool,
    /// Boundaries of messages are not kept.
    is_stream: bool,
    timeout: Duration,
    has_finished: bool,
    peer_has_finished: bool,
    /// The rest of a message of which part was taken: it goes first.
    unsent: Vec<u8>,
    /// The parts of a message whose end has not come.
    partial: Vec<u8>,
}

impl ConnectionCircuit {
    /// A circuit by an endpoint of a service; each send has `flags`.
    pub(super) fn new(
        end: XtiEndpoint,
        service: ServiceType,
        options: &Options,
        flags: Flags,
    ) -> ConnectionCircuit {
        ConnectionCircuit {
            effective: BTreeMap::new(),
            is_stream: end.information().tsdu == 0,
            end,
            flags,
            ends_by_empty: service == ServiceType::Connections,
            timeout: options.blocking_timeout.unwrap_or(BLOCKING_TIMEOUT),
            has_finished: false,
            peer_has_finished: false,
            unsent: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// The same circuit, with options in effect of what is below the provider.
    pub(super) fn with_effective(
        mut self,
        effective: BTreeMap<String, String>,
    ) -> ConnectionCircuit {
        self.effective = effective;
        self
    }

    /// Sends the rest of the last message, then this one.
    #[inline]
    fn transmit(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        if self.has_finished {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if message.is_empty() && self.is_stream {
            return Ok(());
        }
        if message.is_empty() && self.ends_by_empty {
            let text =
                "a message of 0 bytes would be the end of this direction; send at least 1 byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if !self.unsent.is_empty() {
            self.send_rest(limit)?;
        }
        let sent = self.send_once(message, limit)?;
        if sent < message.len() {
            self.unsent.extend_from_slice(&message[sent..]);
        }
        Ok(())
    }

    #[inline]
    fn send_once(&self, octets: &[u8], limit: Duration) -> io::Result<usize> {
        let sent = match limit {
            Duration::ZERO => self.end.try_send(octets, self.flags),
            limit => self.end.send(octets, self.flags, limit),
        };
        sent.map_err(|error| send_error(error, octets.len(), self.end.information().tsdu))
    }

    #[cold]
    fn send_rest(&mut self, limit: Duration) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let sent = self.send_once(&self.unsent, limit)?;
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// Sends what it can of the rest of the last message; how long a receive may wait then, of `limit`.
    #[cold]
    fn push_unsent(&mut self, limit: Duration) -> io::Result<Duration> {
        match self.send_rest(Duration::ZERO) {
            Ok(()) => Ok(limit),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(limit.min(UNSENT_TURN)),
            Err(error) => Err(error),
        }
    }

    /// The next octets of a message; None at the end of the peer's direction.
    #[inline]
    fn receive_once(
        &mut self,
        buffer: &mut [u8],
        limit: Duration,
    ) -> io::Result<Option<XtiReceived>> {
        if self.peer_has_finished {
            return Ok(None);
        }
        let limit = match self.unsent.is_empty() {
            true => limit,
            false => self.push_unsent(limit)?,
        };
        let received = match limit {
            Duration::ZERO => self.end.try_receive(buffer),
            limit => self.end.receive_within(buffer, limit),
        };
        match received {
            Ok(XtiReceived {
                len: 0,
                more: false,
                ..
            }) if self.ends_by_empty && self.partial.is_empty() => {
                self.peer_has_finished = true;
                Ok(None)
            }
            Ok(received) => Ok(Some(received)),
            Err(error) => self.ended(error),
        }
    }

    /// What a receive that ended with an event means.
    #[cold]
    fn ended(&mut self, error: xti::Error) -> io::Result<Option<XtiReceived>> {
        match (error.tli, self.end.look()) {
            (TliError::Look, Some(Look::Release)) => {
                self.end.receive_release()?;
                self.peer_has_finished = true;
                Ok(None)
            }
            (TliError::Look, Some(Look::Disconnect)) => {
                let reason = self.end.receive_disconnect()?.reason;
                Err(io::Error::from_raw_os_error(reason))
            }
            (TliError::OutOfState, _) if self.end.state() == XtiState::Idle => {
                Err(io::ErrorKind::ConnectionReset.into())
            }
            _ => Err(error.into()),
        }
    }

    /// A whole message, of which `buffer` gets what fits.
    #[inline]
    fn receive(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        if self.partial.is_empty() {
            let Some(received) = self.receive_once(buffer, limit)? else {
                return Ok(None);
            };
            if !received.more {
                return Ok(Some(received.len));
            }
            self.partial.extend_from_slice(&buffer[..received.len]);
        }
        self.receive_rest(buffer, limit)
    }

    #[cold]
    fn receive_rest(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        let mut piece = [0; 16_384];
        let longest = usize::try_from(self.end.information().tsdu).unwrap_or(0);
        loop {
            let Some(received) = self.receive_once(&mut piece, limit)? else {
                return Ok(None);
            };
            keep_part(&mut self.partial, &piece[..received.len], longest);
            if !received.more {
                let len = self.partial.len().min(buffer.len());
                buffer[..len].copy_from_slice(&self.partial[..len]);
                self.partial.clear();
                return Ok(Some(len));
            }
        }
    }

    /// Receives up to `calls` whole messages without a copy, and counts them; false at the end of the peer's direction.
    fn receive_lent(&mut self, calls: usize, arrived: &mut ReceiveCounts) -> io::Result<bool> {
        if self.peer_has_finished {
            return Ok(false);
        }
        let limit = match self.unsent.is_empty() {
            true => self.timeout,
            false => self.push_unsent(self.timeout)?,
        };
        let longest = usize::try_from(self.end.information().tsdu).unwrap_or(0);
        let (partial, mut is_end) = (&mut self.partial, false);
        let ends_by_empty = self.ends_by_empty;
        let received = self.end.receive_run(calls, limit, |octets, more| {
            if more {
                keep_part(partial, octets, longest);
            } else if ends_by_empty && octets.is_empty() && partial.is_empty() {
                is_end = true;
            } else {
                arrived.add(partial.len() + octets.len());
                partial.clear();
            }
        });
        self.peer_has_finished |= is_end;
        match received {
            Ok(_) => Ok(!is_end),
            Err(error) => Ok(self.ended(error)?.is_some()),
        }
    }

    /// The same of one message, copied into `buffer`.
    fn receive_copied(
        &mut self,
        buffer: &mut [u8],
        arrived: &mut ReceiveCounts,
    ) -> io::Result<bool> {
        let received = self.receive(buffer, self.timeout)?;
        received.into_iter().for_each(|len| arrived.add(len));
        Ok(received.is_some())
    }

    /// Ends the direction, once what was sent is queued.
    fn end_direction(&mut self, limit: Duration) -> io::Result<()> {
        if self.has_finished {
            return Ok(());
        }
        self.send_rest(limit)?;
        if self.ends_by_empty {
            self.send_once(&[], limit)?;
        } else {
            self.end.send_release()?;
        }
        self.has_finished = true;
        Ok(())
    }
}

/// What a peer sends beyond the longest message is dropped.
fn keep_part(partial: &mut Vec<u8>, octets: &[u8], longest: usize) {
    let room = longest.saturating_sub(partial.len());
    partial.extend_from_slice(&octets[..octets.len().min(room)]);
}

#[cold]
fn send_error(error: xti::Error, len: usize, longest: i32) -> io::Error {
    if error.tli == TliError::BadData && len == 0 {
        let text = "this provider carries no empty messages; send at least one byte";
        return io::Error::new(io::ErrorKind::InvalidInput, text);
    }
    if error.tli == TliError::BadData {
        let text = format!(
            "a message of {len} bytes does not fit into the send store of this provider, which takes {longest}; \
             send smaller messages"
        );
        return io::Error::new(io::ErrorKind::InvalidInput, text);
    }
    error.into()
}

impl Drop for ConnectionCircuit {
    /// The peer gets an end, whether or not the user said one.
    fn drop(&mut self) {
        if self.ends_by_empty {
            let _ = self.end_direction(Duration::ZERO);
        }
    }
}

impl Circuit for ConnectionCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.transmit(message, Duration::ZERO)
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer, Duration::ZERO)
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.transmit(message, self.timeout)
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer, self.timeout)
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        let is_plain = self.flags == Flags::default() && self.unsent.is_empty();
        if is_plain && !self.has_finished && RUN_LENS.contains(&message.len()) {
            match self.end.try_send_run(message, count) {
                // A single send waits, or says what is wrong.
                Err(error) if matches!(error.tli, TliError::Flow | TliError::BadData) => {}
                taken => return Ok(taken?),
            }
        }
        self.send(message)?;
        Ok(1)
    }

    /// Messages are handed out where they lie, and `buffer` is not written; octets of a stream are copied there, and
    /// with `lent=off` all.
    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>> {
        let mut arrived = ReceiveCounts::default();
        while arrived.calls < calls as u64 {
            let received = match self.end.options().lent && !self.is_stream {
                true => self.receive_lent(calls - arrived.calls as usize, &mut arrived),
                false => self.receive_copied(buffer, &mut arrived),
            };
            match received {
                Ok(true) => {}
                Err(error) if arrived.calls == 0 => return Err(error),
                Ok(false) if arrived.calls == 0 => return Ok(None),
                Ok(false) | Err(_) => break,
            }
        }
        Ok(Some(arrived))
    }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        // What a receive of a whole message got of one that has not ended.
        let taken = self.partial.len().min(buffer.len());
        if taken > 0 {
            buffer[..taken].copy_from_slice(&self.partial[..taken]);
            self.partial.drain(..taken);
            return Ok(Some(part(taken, true)));
        }
        let received = self.receive_once(buffer, self.timeout)?;
        Ok(received.map(|received| match self.is_stream {
            true => Part::of_stream(received.len),
            false => part(received.len, received.more),
        }))
    }

    parts::lends_nothing! {}

    fn flush(&mut self) -> io::Result<()> {
        self.send_rest(BLOCKING_TIMEOUT)?;
        Ok(self.end.flush(BLOCKING_TIMEOUT)?)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.end_direction(BLOCKING_TIMEOUT)?;
        Ok(self.end.flush(BLOCKING_TIMEOUT)?)
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        self.end.run();
        if interest == Interest::Read && (self.peer_has_finished || self.end.look().is_some()) {
            return Ok(());
        }
        let limit = deadline.saturating_duration_since(Instant::now());
        Ok(self.end.wait(interest == Interest::Write, limit)?)
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NO_PATH)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.effective.clone();
        if let Some(octets) = self.end.ring_octets() {
            xti_words::ring_sizes(octets, &mut effective);
        }
        xti_words::effective(&self.end, &mut effective);
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        xti_words::counts(&self.end)
    }

    crate::usual_circuit! { send_run descriptor next_deadline }
}

fn part(len: usize, more: bool) -> Part {
    Part {
        len,
        end: !more,
        note: Note::default(),
    }
}
