//! Providers over a protocol that runs in the user's process and is no part of this crate: what such a
//! protocol implements, and the provider's side of it.

use crate::connections::{Frame, FrameKind, Link, Next, Protocol, Sleep, Waiter, introduction};
use crate::inet::TIDU;
use crate::provider::answer_without_options;
use crate::tpi::{Information, Primitive, ServiceType, State};
use socket2::Socket;
use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use streams::{Block, Message, Pool};

/// Octets of an address of the Internet ([`crate::inet::encode`]).
const ADDRESS_LEN: i32 = 28;

/// EPIPE: the peer takes no more data.
const BROKEN_PIPE: u32 = 32;

/// EMSGSIZE: a message is longer than the protocol carries.
const TOO_LONG: u32 = 90;

/// A protocol that carries the connections of a provider ([`XtiEndpoint::open_over`]).
///
/// Addresses are those of [`crate::inet::encode`]. No call waits.
///
/// [`XtiEndpoint::open_over`]: crate::XtiEndpoint::open_over
pub trait Carrier: Send + 'static {
    /// The name of the provider, such as `xtp`.
    fn name(&self) -> &'static str;

    /// Octets of the longest message where boundaries are kept; None for a byte stream.
    fn message_max(&self) -> Option<usize>;

    /// Whether a user may send after the peer has ended its direction.
    fn has_half_close(&self) -> bool;

    /// Binds to an address, None for any, and listens if asked to; returns the address.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    fn bind(&mut self, address: Option<&[u8]>, listens: bool) -> io::Result<Vec<u8>>;

    /// Refuses connections from here on.
    fn stop_listening(&mut self);

    /// The next connection that a peer opened.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is none.
    fn try_accept(&mut self) -> io::Result<Box<dyn Carried>>;

    /// Begins to open a connection.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for what is no address, else why there will be none.
    fn begin_connect(&mut self, destination: &[u8]) -> io::Result<Box<dyn Carried>>;

    /// What waits for connections, and how much had arrived at the last [`try_accept`](Carrier::try_accept).
    fn waiter(&self) -> Option<(Arc<dyn Waiter>, u64)>;
}

/// A connection of a [`Carrier`]. Dropped, it ends after what was sent, unless it was aborted.
pub trait Carried: Send + 'static {
    /// The peer's address.
    fn peer(&self) -> &[u8];

    /// Whether the peer has answered.
    ///
    /// # Errors
    ///
    /// Why there is no connection.
    fn is_open(&mut self) -> io::Result<bool>;

    /// Sends a message, or octets of a stream, as a whole.
    ///
    /// # Errors
    ///
    /// `WouldBlock` without room, `InvalidInput` for what never has room, else why the connection is lost.
    fn try_send(&mut self, octets: &[u8]) -> io::Result<()>;

    /// Receives the next piece of a message, or octets of a stream; None at the end of the peer's direction.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is none, else why the connection is lost.
    fn try_receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Piece>>;

    /// What was sent leaves now, as far as the peer has room.
    ///
    /// # Errors
    ///
    /// Those of the wire.
    fn flush(&mut self) -> io::Result<()>;

    /// Sends no more.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while something that was sent waits for room.
    fn finish(&mut self) -> io::Result<()>;

    /// Whether part of what was sent waits for room, for the next call to go on with.
    fn has_unsent(&self) -> bool;

    /// Ends both directions at once.
    fn abort(&mut self);

    /// The socket of its endpoint, to read options back.
    fn socket(&self) -> Option<Socket>;

    /// What waits for this connection, and how much had arrived when a send returned `WouldBlock` last, or, not
    /// for room, when a receive did.
    fn waiter(&self, for_room: bool) -> (Arc<dyn Waiter>, u64);

    /// System calls that sent and that received, of all connections that share its endpoint.
    fn system_calls(&self) -> (u64, u64);
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Octets.
    pub len: usize,
    /// The message goes on with the next piece; means nothing on a byte stream.
    pub more: bool,
}

/// The provider's side of a carrier.
pub(crate) struct CarriedProtocol(pub(crate) Box<dyn Carrier>);

impl Protocol for CarriedProtocol {
    type Link = CarriedLink;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn information(&self) -> Information {
        let longest = |octets: usize| i32::try_from(octets).unwrap_or(i32::MAX);
        Information {
            tsdu: self.0.message_max().map_or(0, longest),
            etsdu: -2,
            connect: -2,
            disconnect: -2,
            address: ADDRESS_LEN,
            options: -2,
            tidu: TIDU as i32,
            service: ServiceType::ConnectionsWithRelease,
            state: State::Unbound as u32,
            flags: 0,
        }
    }

    fn bind(&mut self, address: &[u8], listens: bool) -> io::Result<Vec<u8>> {
        if !address.is_empty() && crate::inet::decode(address).is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let address = (!address.is_empty()).then_some(address);
        self.0.bind(address, listens)
    }

    fn stop_listening(&mut self) {
        self.0.stop_listening();
    }

    fn accept(&mut self, _pool: &mut Pool) -> Option<CarriedLink> {
        let connection = self.0.try_accept().ok()?;
        Some(CarriedLink::new(connection, &*self.0, Stage::Open))
    }

    fn is_arriving(&self) -> bool {
        false
    }

    fn connect(&mut self, _own: &[u8], destination: &[u8], _: &[u8]) -> io::Result<CarriedLink> {
        if crate::inet::decode(destination).is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let connection = self.0.begin_connect(destination)?;
        Ok(CarriedLink::new(connection, &*self.0, Stage::Opening))
    }

    fn sleep(&mut self) -> Sleep {
        match self.0.waiter() {
            Some((waiter, seen)) => Sleep::By(waiter, seen),
            None => Sleep::OnDescriptor,
        }
    }

    fn waitable(&self) -> Option<Socket> {
        None
    }

    fn answer_options(&mut self, octets: &[u8], flags: u32) -> Primitive {
        answer_without_options(octets, flags)
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Open,
    /// The peer sends no more.
    PeerEnded,
    /// It is lost; the system's number.
    Lost(u32),
}

/// A connection of a carrier.
pub(crate) struct CarriedLink {
    connection: Box<dyn Carried>,
    stage: Stage,
    message_max: Option<usize>,
    has_half_close: bool,
    /// Pieces of a message of the user whose end has not come.
    unfinished: Vec<u8>,
    /// A block to receive into.
    spare: Option<Block>,
}

impl CarriedLink {
    fn new(connection: Box<dyn Carried>, of: &dyn Carrier, stage: Stage) -> CarriedLink {
        CarriedLink {
            connection,
            stage,
            message_max: of.message_max(),
            has_half_close: of.has_half_close(),
            unfinished: Vec::new(),
            spare: None,
        }
    }

    fn lose(&mut self, error: &io::Error) {
        self.stage = Stage::Lost(reason(error));
    }

    /// Sends data; false while there is no room.
    fn send_data(&mut self, message: &Message, more: bool) -> bool {
        if self.stage == Stage::PeerEnded && !self.has_half_close {
            self.stage = Stage::Lost(BROKEN_PIPE);
        }
        if let Stage::Lost(_) = self.stage {
            return true;
        }
        let blocks = &message.data;
        let octets = match &blocks[..] {
            [block] => Cow::Borrowed(block.octets()),
            _ => Cow::Owned(
                blocks
                    .iter()
                    .flat_map(|block| block.octets())
                    .copied()
                    .collect(),
            ),
        };
        match self.message_max {
            Some(longest) if more || !self.unfinished.is_empty() => {
                self.send_piece(&octets, more, longest)
            }
            _ => self.send_whole(&octets),
        }
    }

    /// A message is sent when its end comes.
    fn send_piece(&mut self, octets: &[u8], more: bool, longest: usize) -> bool {
        if self.unfinished.len() + octets.len() > longest {
            self.stage = Stage::Lost(TOO_LONG);
            return true;
        }
        let before = self.unfinished.len();
        self.unfinished.extend_from_slice(octets);
        if more {
            return true;
        }
        let message = std::mem::take(&mut self.unfinished);
        let sent = self.send_whole(&message);
        self.unfinished = message;
        self.unfinished.truncate(if sent { 0 } else { before });
        sent
    }

    fn send_whole(&mut self, octets: &[u8]) -> bool {
        match self.connection.try_send(octets) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                // What the peer said last is told first.
                if self.stage != Stage::Open {
                    self.lose(&error);
                }
                true
            }
        }
    }

    fn frame(kind: FrameKind, octets: Block) -> Next {
        Next::Frame(Frame { kind, octets })
    }

    fn look_at_opening(&mut self, pool: &mut Pool) -> Next {
        match self.connection.is_open() {
            Ok(false) => Next::Nothing,
            Ok(true) => {
                self.stage = Stage::Open;
                let octets = pool.copy(0, &introduction(self.connection.peer(), &[]));
                CarriedLink::frame(FrameKind::Confirm, octets)
            }
            Err(error) => Next::End(Some(reason(&error))),
        }
    }

    fn receive(&mut self, pool: &mut Pool) -> Next {
        let spare = self.spare.take();
        let mut block = spare.unwrap_or_else(|| pool.allocate(0, TIDU));
        let mut more = false;
        let keeps_messages = self.message_max.is_some();
        let connection = &mut self.connection;
        let received = block.fill(|room| {
            let piece = connection.try_receive(room)?;
            more = keeps_messages && piece.is_some_and(|piece| piece.more);
            Ok(piece.map_or(0, |piece| piece.len))
        });
        match received {
            Ok(0) => {
                self.spare = Some(block);
                self.stage = Stage::PeerEnded;
                CarriedLink::frame(FrameKind::Release, pool.copy(0, &[]))
            }
            Ok(_) => {
                let octets = self.arrived(pool, block);
                match more {
                    true => CarriedLink::frame(FrameKind::DataMore, octets),
                    false => CarriedLink::frame(FrameKind::Data, octets),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.spare = Some(block);
                Next::Nothing
            }
            Err(error) => {
                self.spare = Some(block);
                self.lose(&error);
                Next::End(Some(reason(&error)))
            }
        }
    }

    /// The block of an arrival; a short one is copied, so that a queue pins no more than twice its octets.
    fn arrived(&mut self, pool: &mut Pool, mut block: Block) -> Block {
        if block.len() >= TIDU / 2 {
            return block;
        }
        let copy = pool.copy(0, block.octets());
        block.clear();
        self.spare = Some(block);
        copy
    }
}

impl Link for CarriedLink {
    fn peer(&self) -> &[u8] {
        self.connection.peer()
    }

    fn said(&self) -> &[u8] {
        &[]
    }

    fn send(&mut self, kind: FrameKind, message: &Message) -> bool {
        match kind {
            FrameKind::Data => self.send_data(message, false),
            FrameKind::DataMore => self.send_data(message, true),
            FrameKind::Release => match self.connection.finish() {
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
                Ok(()) => true,
            },
            // The provider has none of the others.
            _ => true,
        }
    }

    fn send_short(&mut self, kind: FrameKind, _octets: &[u8]) {
        match kind {
            FrameKind::Disconnect => self.connection.abort(),
            FrameKind::Release => {
                // What waits for room is lost with the circuit, as it is when a socket is closed late.
                let _ = self.connection.finish();
            }
            // The protocol has answered the peer already.
            _ => {}
        }
    }

    fn flush(&mut self) {
        // A wire that failed is told by the next receive.
        let _ = self.connection.flush();
    }

    fn has_unsent(&self) -> bool {
        self.connection.has_unsent()
    }

    fn next(&mut self, pool: &mut Pool) -> Next {
        match self.stage {
            Stage::Opening => self.look_at_opening(pool),
            Stage::Open => self.receive(pool),
            Stage::PeerEnded => Next::Nothing,
            Stage::Lost(reason) => Next::End(Some(reason)),
        }
    }

    fn has_ended(&mut self, _pool: &mut Pool) -> bool {
        self.connection.is_open().is_err()
    }

    fn sleep(&mut self, room_for: Option<usize>) -> Sleep {
        let (waiter, seen) = self.connection.waiter(room_for.is_some());
        Sleep::By(waiter, seen)
    }

    fn take_wakes(&mut self) {}

    fn waitable(&self) -> Option<Socket> {
        self.connection.socket()
    }

    fn system_calls(&self) -> (u64, u64) {
        self.connection.system_calls()
    }

    fn ring_octets(&self) -> Option<u64> {
        None
    }
}

/// The system's number of why a connection is lost.
fn reason(error: &io::Error) -> u32 {
    let number = error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::ConnectionRefused => 111,
        io::ErrorKind::TimedOut => 110,
        io::ErrorKind::ConnectionAborted => 103,
        io::ErrorKind::BrokenPipe => BROKEN_PIPE as i32,
        io::ErrorKind::InvalidInput => TOO_LONG as i32,
        _ => 104,
    });
    number as u32
}
