//! The TLS end of a connection, in memory: records in, plain text out, and the other way.

use crate::listener_keys;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Octets of the longest record: header, 2^14 octets of plain text, 256 of the cipher (RFC 8446
/// s. 5.2).
pub(super) const RECORD_MAX: usize = 5 + (1 << 14) + 256;

/// The library asks clients for a name; a raw public key certifies none (RFC 7250).
const NO_NAME: &str = "towpath.invalid";

/// One end of a TLS connection.
pub(super) enum Session {
    /// The end that connected.
    Client(UnbufferedClientConnection),
    /// The end that accepted.
    Server(UnbufferedServerConnection),
}

/// Octets in a row that come in at one end and leave at the other.
#[derive(Debug, Default)]
pub(super) struct Queue {
    bytes: Vec<u8>,
    held: Range<usize>,
}

/// What an end asks of its user after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Another step.
    Again,
    /// Records of the peer, to complete the handshake.
    Handshaking,
    /// Nothing: what was to be sent is sealed, and all whole records are opened.
    Ready,
    /// Nothing: the peer has ended its direction.
    PeerClosed,
}

/// What an end seals once it may.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seal<'a> {
    /// Nothing.
    Nothing,
    /// One message, in records of at most 2^14 octets.
    Message(&'a [u8]),
    /// The end of this direction.
    Close,
}

/// Where the plain text of a record goes: the user's buffer, and what does not fit, `rest`.
#[derive(Debug)]
pub(super) struct PlainText<'a> {
    pub(super) buffer: &'a mut [u8],
    pub(super) filled: usize,
    pub(super) rest: &'a mut Queue,
}

impl Session {
    /// The client of a listener that has the public key `key`.
    pub(super) fn client(key: Vec<u8>) -> io::Result<Session> {
        let mut config: ClientConfig = listener_keys::client(key)?;
        config.resumption = rustls::client::Resumption::disabled();
        let name = ServerName::try_from(NO_NAME).map_err(io::Error::other)?;
        UnbufferedClientConnection::new(Arc::new(config), name)
            .map(Session::Client)
            .map_err(io::Error::other)
    }

    /// The server's end of a new connection.
    pub(super) fn server(config: &Arc<ServerConfig>) -> io::Result<Session> {
        UnbufferedServerConnection::new(Arc::clone(config))
            .map(Session::Server)
            .map_err(io::Error::other)
    }

    /// Whether the handshake is not complete.
    pub(super) fn is_handshaking(&self) -> bool {
        match self {
            Session::Client(end) => end.is_handshaking(),
            Session::Server(end) => end.is_handshaking(),
        }
    }

    /// One step with the records in `arrived`: opens at most one of them into `plain`, and puts
    /// records to send into `out`.
    /// Fails with `InvalidData` when the peer breaks the protocol, or a record is not its own.
    pub(super) fn step(
        &mut self,
        arrived: &mut Queue,
        plain: &mut PlainText<'_>,
        seal: Seal<'_>,
        out: &mut Queue,
    ) -> io::Result<Step> {
        let records = arrived.held_mut();
        let (discard, step) = match self {
            Session::Client(end) => handle(end.process_tls_records(records), plain, seal, out),
            Session::Server(end) => handle(end.process_tls_records(records), plain, seal, out),
        }?;
        arrived.discard(discard);
        Ok(step)
    }

    /// Seals `seal` into `out`; no record of the peer is opened.
    pub(super) fn seal(&mut self, seal: Seal<'_>, out: &mut Queue) -> io::Result<()> {
        let (mut nothing, mut rest) = (Queue::default(), Queue::default());
        let mut plain = PlainText {
            buffer: &mut [],
            filled: 0,
            rest: &mut rest,
        };
        loop {
            match self.step(&mut nothing, &mut plain, seal, out)? {
                Step::Ready => return Ok(()),
                Step::Handshaking => return Err(io::ErrorKind::NotConnected.into()),
                Step::Again | Step::PeerClosed => {}
            }
        }
    }
}

/// Does what the library asks for; returns how many octets that arrived are used up.
fn handle<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &mut PlainText<'_>,
    seal: Seal<'_>,
    out: &mut Queue,
) -> io::Result<(usize, Step)> {
    let mut discard = status.discard;
    let step = match status.state.map_err(tls_error)? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(tls_error)?;
                discard += record.discard;
                plain.put(record.payload);
            }
            Step::Again
        }
        ConnectionState::EncodeTlsData(mut records) => {
            out.put_with(|room| {
                records.encode(room).map_err(|error| match error {
                    EncodeError::InsufficientSize(size) => Room::Needed(size.required_size),
                    error @ EncodeError::AlreadyEncoded => Room::Failed(io::Error::other(error)),
                })
            })?;
            Step::Again
        }
        ConnectionState::TransmitTlsData(records) => {
            // `out` keeps them until they are sent.
            records.done();
            Step::Again
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            out.put_with(|room| {
                let sealed = match seal {
                    Seal::Nothing => Ok(0),
                    Seal::Message(message) => traffic.encrypt(message, room),
                    Seal::Close => traffic.queue_close_notify(room),
                };
                sealed.map_err(|error| match error {
                    EncryptError::InsufficientSize(size) => Room::Needed(size.required_size),
                    error @ EncryptError::EncryptExhausted => Room::Failed(io::Error::other(error)),
                })
            })?;
            Step::Ready
        }
        ConnectionState::PeerClosed | ConnectionState::Closed => Step::PeerClosed,
        ConnectionState::BlockedHandshake => Step::Handshaking,
        other => return Err(io::Error::other(format!("an unexpected state: {other:?}"))),
    };
    Ok((discard, step))
}

fn tls_error(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl PlainText<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let room = &mut self.buffer[self.filled..];
        let fits = bytes.len().min(room.len());
        room[..fits].copy_from_slice(&bytes[..fits]);
        self.filled += fits;
        self.rest.extend(&bytes[fits..]);
    }
}

/// Why nothing was written into a room.
enum Room {
    /// It must have this many octets.
    Needed(usize),
    Failed(io::Error),
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn held(&self) -> &[u8] {
        &self.bytes[self.held.clone()]
    }

    fn held_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.held.clone()]
    }

    /// Drops the first `len` octets.
    pub(super) fn discard(&mut self, len: usize) {
        self.held.start += len;
        if self.held.is_empty() {
            self.held = 0..0;
        }
    }

    /// At least `len` free octets behind those held.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() - self.held.end < len {
            self.bytes.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
            let needed = self.held.end + len;
            if self.bytes.len() < needed {
                self.bytes.resize(needed, 0);
            }
        }
        &mut self.bytes[self.held.end..]
    }

    /// Takes in the first `len` octets of the room.
    pub(super) fn fill(&mut self, len: usize) {
        self.held.end += len;
    }

    fn extend(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
            self.fill(bytes.len());
        }
    }

    /// Takes in what `write` writes into the room, which is made as long as it asks for.
    fn put_with(
        &mut self,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, Room>,
    ) -> io::Result<()> {
        let mut needed = 0;
        loop {
            match write(self.room(needed)) {
                Ok(len) => {
                    self.fill(len);
                    return Ok(());
                }
                Err(Room::Needed(more)) if more > needed => needed = more,
                Err(Room::Needed(_)) => return Err(io::ErrorKind::InvalidData.into()),
                Err(Room::Failed(error)) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener_keys::ListenerKeys;

    /// An end and what arrived at it.
    struct End {
        session: Session,
        arrived: Queue,
    }

    impl End {
        /// Steps until it asks for something; the plain text that arrived, and the last step.
        fn run(&mut self, out: &mut Queue) -> io::Result<(Vec<u8>, Step)> {
            let mut text = Queue::default();
            loop {
                let mut plain = PlainText {
                    buffer: &mut [],
                    filled: 0,
                    rest: &mut text,
                };
                let nothing = Seal::Nothing;
                let step = self
                    .session
                    .step(&mut self.arrived, &mut plain, nothing, out)?;
                if step != Step::Again {
                    return Ok((text.held().to_vec(), step));
                }
            }
        }
    }

    fn ends(key: Vec<u8>, keys: &ListenerKeys) -> [End; 2] {
        let config = Arc::new(keys.server().expect("a configuration"));
        let sessions = [Session::client(key), Session::server(&config)];
        sessions.map(|session| End {
            session: session.expect("an end"),
            arrived: Queue::default(),
        })
    }

    fn handshake(ends: &mut [End; 2]) -> io::Result<()> {
        for _ in 0..4 {
            for from in [0, 1] {
                let mut out = Queue::default();
                ends[from].run(&mut out)?;
                ends[1 - from].arrived.extend(out.held());
            }
        }
        Ok(())
    }

    fn connected() -> [End; 2] {
        let keys = ListenerKeys::generate().expect("random numbers");
        let mut ends = ends(keys.public(), &keys);
        handshake(&mut ends).expect("the right key");
        ends
    }

    #[test]
    fn message_is_one_record_until_2_to_the_14() {
        let [mut client, mut server] = connected();
        for (len, records) in [(1, 1), (64, 1), (1 << 14, 1), ((1 << 14) + 1, 2)] {
            let mut out = Queue::default();
            let message = vec![7; len];
            let seal = Seal::Message(&message);
            client.session.seal(seal, &mut out).expect("it may send");
            // Five octets of header, one of type, sixteen of the tag (RFC 8446 s. 5.2).
            assert_eq!(out.len(), len + records * 22, "{len}");
            server.arrived.extend(out.held());
            let (text, step) = server.run(&mut out).expect("the client's records");
            assert_eq!((text, step), (message, Step::Ready));
        }
    }

    #[test]
    fn altered_record_is_an_error() {
        let [mut client, mut server] = connected();
        let mut out = Queue::default();
        let sealed = client.session.seal(Seal::Message(b"text"), &mut out);
        sealed.expect("it may send");
        let mut records = out.held().to_vec();
        assert!(!records.windows(4).any(|text| text == b"text"));
        *records.last_mut().expect("a tag") ^= 1;
        server.arrived.extend(&records);
        let error = server.run(&mut out).expect_err("not the client's record");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn other_key_is_refused() {
        let [keys, other] = [0, 1].map(|_| ListenerKeys::generate().expect("random numbers"));
        handshake(&mut ends(other.public(), &keys)).expect_err("another server");
    }

    #[test]
    fn closing_ends_one_direction() {
        let [mut client, mut server] = connected();
        let mut out = Queue::default();
        client.session.seal(Seal::Close, &mut out).expect("an end");
        server.arrived.extend(out.held());
        let (_, step) = server.run(&mut out).expect("an end");
        assert_eq!(step, Step::PeerClosed);
        let mut answer = Queue::default();
        let sealed = server.session.seal(Seal::Message(b"last"), &mut answer);
        sealed.expect("the other direction goes on");
        client.arrived.extend(answer.held());
        assert_eq!(client.run(&mut out).expect("a record").0, b"last");
    }
}
