//! loop-clts, loop-cots, loop-cotsord: the loop-back providers of STREAMS systems under XTI, between two
//! processes through rings of shared memory.
//!
//! `loop-cots` has no orderly release: an empty message ends a direction, as programs over such providers
//! agree, and empty messages are refused.

use super::xti_datagrams::{DatagramCircuit, DatagramEnds};
use super::xti_words::{self, StreamWords};
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, Class, ConnectionInfo, Interest, LentArrival, Listener,
    NoConnectionInfo, Note, OptionHelp, Part, Reach, Rendezvous, Reserved, Transport, Unavailable,
};
use crate::options::Options;
use crate::transport::{unix_dgram, unix_stream};
use crate::{parts, socket};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xti::{Flags, Look, ServiceType, TliError, XtiEndpoint, XtiReceived, XtiState, loopback};

/// `loop-clts`: datagrams.
pub static CLTS: Loopback = Loopback {
    name: "loop-clts",
    summary: "ticlts: loop-back datagrams under XTI over STREAMS, through rings of shared memory",
    service: ServiceType::Datagrams,
};

/// `loop-cots`: connections.
pub static COTS: Loopback = Loopback {
    name: "loop-cots",
    summary: "ticots: loop-back connections under XTI over STREAMS, through rings of shared memory",
    service: ServiceType::Connections,
};

/// `loop-cotsord`: connections with orderly release.
pub static COTS_ORD: Loopback = Loopback {
    name: "loop-cotsord",
    summary: "ticotsord: loop-cots with orderly release",
    service: ServiceType::ConnectionsWithRelease,
};

/// Connections that may wait to be accepted.
const QUEUE_LEN: u32 = 1024;

/// The longest that a connect waits to be accepted.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The transport.
#[derive(Debug)]
pub struct Loopback {
    name: &'static str,
    summary: &'static str,
    service: ServiceType,
}

impl Loopback {
    fn open(&self, options: &Options) -> io::Result<XtiEndpoint> {
        let own = &options.transport_specific;
        let words = StreamWords::parse(self.name, &xti_words::OF_STREAMS, own);
        let words = words.map_err(crate::options::invalid)?;
        // As the rings of `shm`: four messages of the job, or as much as the user says.
        let four = options.message_len.saturating_mul(4);
        let ring = options.buffers.unwrap_or(loopback::RING_OCTETS.max(four));
        let end = XtiEndpoint::open_loopback(self.service, ring, words.stream)?;
        Ok(end)
    }

    fn is_datagrams(&self) -> bool {
        self.service == ServiceType::Datagrams
    }
}

impl Transport for Loopback {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn class(&self) -> Class {
        let like = match self.is_datagrams() {
            true => unix_dgram::CLASS,
            false => unix_stream::CLASS,
        };
        Class {
            stream: false,
            kernel: false,
            ..like
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn options(&self) -> &[OptionHelp] {
        &xti_words::OF_STREAMS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        StreamWords::parse(self.name, &xti_words::OF_STREAMS, own).map(|_| ())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        if self.is_datagrams() {
            let mut listener = DatagramEnds::new(Reach::Host);
            for _ in 0..options.circuits.max(1) {
                let end = self.open(options)?;
                let address = end.bind(&[], 0)?.address;
                listener.add(end, address);
            }
            return Ok(Box::new(listener));
        }
        let end = self.open(options)?;
        let address = end.bind(&[], QUEUE_LEN)?.address;
        Ok(Box::new(LoopListener {
            transport: Loopback { ..*self },
            end,
            address,
            options: options.clone(),
        }))
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        let end = self.open(options)?;
        end.bind(&[], 0)?;
        if self.is_datagrams() {
            let peer = socket::rendezvous_entry(&rendezvous.bytes, index)?;
            return Ok(Box::new(DatagramCircuit::new(Arc::new(end), peer.to_vec())));
        }
        let connected = end.connect(&rendezvous.bytes, Instant::now() + CONNECT_MAX);
        connected.map_err(|error| xti_words::connect_error(&end, error))?;
        Ok(Box::new(LoopCircuit::new(end, self.service, options)))
    }
}

struct LoopListener {
    transport: Loopback,
    end: XtiEndpoint,
    address: Vec<u8>,
    options: Options,
}

impl Listener for LoopListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous {
            reach: Reach::Host,
            bytes: self.address.clone(),
            descriptors: Vec::new(),
        })
    }

    fn accept(&mut self, deadline: Instant) -> io::Result<Box<dyn Circuit>> {
        loop {
            let call = match self.end.listen(deadline) {
                Ok(call) => call,
                Err(error) if error.tli == TliError::NoData => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "no peer connected"));
                }
                // A connection was withdrawn before it was accepted.
                Err(error) if error.tli == TliError::Look => {
                    self.end.receive_disconnect()?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let end = self.transport.open(&self.options)?;
            match self.end.accept(&end, call.sequence) {
                Ok(()) => {
                    let circuit = LoopCircuit::new(end, self.transport.service, &self.options);
                    return Ok(Box::new(circuit));
                }
                Err(error) if error.tli == TliError::BadSequence => {
                    self.end.receive_disconnect()?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

struct LoopCircuit {
    end: XtiEndpoint,
    /// An empty message is the end of a direction.
    ends_by_empty: bool,
    timeout: Duration,
    has_finished: bool,
    peer_has_finished: bool,
    /// The rest of a message of which part was taken: it goes first.
    unsent: Vec<u8>,
    /// The parts of a message whose end has not come.
    partial: Vec<u8>,
}

impl LoopCircuit {
    fn new(end: XtiEndpoint, service: ServiceType, options: &Options) -> LoopCircuit {
        LoopCircuit {
            end,
            ends_by_empty: service == ServiceType::Connections,
            timeout: options.blocking_timeout.unwrap_or(BLOCKING_TIMEOUT),
            has_finished: false,
            peer_has_finished: false,
            unsent: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Sends the rest of the last message, then this one.
    #[inline]
    fn transmit(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        if self.has_finished {
            return Err(io::ErrorKind::BrokenPipe.into());
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
            Duration::ZERO => self.end.try_send(octets, Flags::default()),
            limit => self.end.send(octets, Flags::default(), limit),
        };
        sent.map_err(|error| send_error(error, octets.len()))
    }

    #[cold]
    fn send_rest(&mut self, limit: Duration) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let sent = self.send_once(&self.unsent, limit)?;
            self.unsent.drain(..sent);
        }
        Ok(())
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
        loop {
            let Some(received) = self.receive_once(&mut piece, limit)? else {
                return Ok(None);
            };
            // What a peer sends beyond the longest message is dropped.
            let room = loopback::TSDU - self.partial.len();
            let kept = received.len.min(room);
            self.partial.extend_from_slice(&piece[..kept]);
            if !received.more {
                let len = self.partial.len().min(buffer.len());
                buffer[..len].copy_from_slice(&self.partial[..len]);
                self.partial.clear();
                return Ok(Some(len));
            }
        }
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

#[cold]
fn send_error(error: xti::Error, len: usize) -> io::Error {
    if error.tli == TliError::BadData {
        let text = format!(
            "a message of {len} bytes is longer than {} bytes, the longest of a loop-back provider; send \
             smaller messages",
            loopback::TSDU
        );
        return io::Error::new(io::ErrorKind::InvalidInput, text);
    }
    error.into()
}

impl Drop for LoopCircuit {
    /// The peer gets an end, whether or not the user said one.
    fn drop(&mut self) {
        if self.ends_by_empty {
            let _ = self.end_direction(Duration::ZERO);
        }
    }
}

impl Circuit for LoopCircuit {
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

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        parts::check_plain(note)?;
        self.send(message)
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        // What a receive of a whole message got of one that has not ended.
        let taken = self.partial.len().min(buffer.len());
        if taken > 0 {
            buffer[..taken].copy_from_slice(&self.partial[..taken]);
            self.partial.drain(..taken);
            return Ok(Some(part(taken, true)));
        }
        let received = self.receive_once(buffer, self.timeout)?;
        Ok(received.map(|received| part(received.len, received.more)))
    }

    fn reserve(&mut self, _len: usize) -> io::Result<Reserved<'_>> {
        parts::no_reservation()
    }

    fn commit(&mut self, _note: &Note) -> io::Result<()> {
        parts::no_commit()
    }

    fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>> {
        parts::no_arrival()
    }

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
        let mut effective = BTreeMap::new();
        if let Some(octets) = self.end.ring_octets() {
            xti_words::ring_sizes(octets, &mut effective);
        }
        xti_words::effective(&self.end, &mut effective);
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        xti_words::counts(&self.end)
    }
}

fn part(len: usize, more: bool) -> Part {
    Part {
        len,
        end: !more,
        note: Note::default(),
    }
}
