//! Providers over a protocol that runs in the user's process and is no part of this crate: what such a
//! protocol implements, and the provider's side of it.
//!
//! * `link` - the provider's side of a connection.

mod link;

use crate::connections::{ConnectionProvider, Protocol, Sleep, Waiter};
use crate::inet::TIDU;
use crate::options::OPTIONS_MAX;
use crate::provider::answer_without_options;
use crate::sctp::{self, MessageOptions, SctpOptions, SctpPath, SctpStatus, Situation};
use crate::tpi::{Information, Primitive, ServiceType, State};
use link::{CarriedLink, Stage};
/// A socket of the kernel.
pub use socket2::Socket;
use std::io;
use std::sync::Arc;
use streams::{Marks, Module, Pool};

/// Octets of an address of the Internet ([`crate::inet::encode`]).
const ADDRESS_LEN: i32 = 28;

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

    /// The options of SCTP that a new endpoint has; None for a carrier without options.
    fn options(&self) -> Option<SctpOptions>;

    /// What the user has set: what the carrier begins from here on has it.
    fn set_options(&mut self, options: &SctpOptions);

    /// The options of what carries connections that are opened from here on, if that is there already.
    fn running_options(&self) -> Option<SctpOptions>;

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

    /// The options of what carries it, with what both ends agreed on; None for a carrier without options.
    fn options(&self) -> Option<SctpOptions>;

    /// How the association stands that carries it; None for a carrier without options.
    fn status(&self) -> Option<SctpStatus>;

    /// Decides what a user may of the path that `path` names by its address. A path that went meanwhile needs nothing.
    fn set_path(&mut self, path: &SctpPath);

    /// Sends a message, or octets of a stream, as a whole. The octets of a stream say nothing of themselves.
    ///
    /// # Errors
    ///
    /// `WouldBlock` without room, `InvalidInput` for what never has room or names a stream that there is not, else
    /// why the connection is lost.
    fn try_send(&mut self, octets: &[u8], options: &MessageOptions) -> io::Result<()>;

    /// Receives the next piece of a message, or octets of a stream; None at the end of the peer's direction.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is none, else why the connection is lost.
    fn try_receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Piece>>;

    /// What was sent leaves now, as far as the peer has room. Errors are those of the wire.
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
    /// What its sender said of the message.
    pub options: MessageOptions,
}

/// The driver of a stream that provides the connections of a carrier; its write queue has `marks`.
pub fn connections(carrier: Box<dyn Carrier>, marks: Marks) -> Box<dyn Module> {
    Box::new(ConnectionProvider::new(
        CarriedProtocol::new(carrier),
        marks,
    ))
}

/// The provider's side of a carrier.
pub(crate) struct CarriedProtocol {
    carrier: Box<dyn Carrier>,
    /// What the user has set, where the carrier has options.
    options: Option<SctpOptions>,
    /// What of it is said with each message, if that is more than nothing.
    of_messages: Option<Vec<u8>>,
    /// The user takes runs.
    takes_runs: bool,
}

impl CarriedProtocol {
    pub(crate) fn new(carrier: Box<dyn Carrier>) -> CarriedProtocol {
        CarriedProtocol {
            options: carrier.options(),
            of_messages: None,
            takes_runs: false,
            carrier,
        }
    }

    /// Several messages may come at once from here on, or no longer.
    pub(crate) fn take_runs(&mut self, takes: bool) {
        self.takes_runs = takes;
    }
}

impl Protocol for CarriedProtocol {
    type Link = CarriedLink;

    fn name(&self) -> &'static str {
        self.carrier.name()
    }

    fn information(&self) -> Information {
        let longest = |octets: usize| i32::try_from(octets).unwrap_or(i32::MAX);
        let tsdu = self.carrier.message_max().map_or(0, longest);
        let has_options = self.options.is_some();
        Information {
            tsdu,
            etsdu: if has_options && tsdu > 0 { tsdu } else { -2 },
            connect: -2,
            disconnect: -2,
            address: ADDRESS_LEN,
            options: if has_options { OPTIONS_MAX as i32 } else { -2 },
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
        self.carrier.bind(address, listens)
    }

    fn stop_listening(&mut self) {
        self.carrier.stop_listening();
    }

    fn accept(&mut self, _pool: &mut Pool) -> Option<CarriedLink> {
        let connection = self.carrier.try_accept().ok()?;
        Some(CarriedLink::new(connection, &*self.carrier, Stage::Open))
    }

    fn is_arriving(&self) -> bool {
        false
    }

    fn connect(&mut self, _own: &[u8], destination: &[u8], _: &[u8]) -> io::Result<CarriedLink> {
        if crate::inet::decode(destination).is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let connection = self.carrier.begin_connect(destination)?;
        Ok(CarriedLink::new(connection, &*self.carrier, Stage::Opening))
    }

    fn sleep(&mut self) -> Sleep {
        match self.carrier.waiter() {
            Some((waiter, seen)) => Sleep::By(waiter, seen),
            None => Sleep::OnDescriptor,
        }
    }

    fn waitable(&self) -> Option<Socket> {
        None
    }

    fn answer_options(
        &mut self,
        link: Option<&mut CarriedLink>,
        octets: &[u8],
        flags: u32,
    ) -> Primitive {
        let (Some(user), Some(default)) = (&mut self.options, self.carrier.options()) else {
            return answer_without_options(octets, flags);
        };
        let running = match &link {
            Some(link) => link.connection.options(),
            None => self.carrier.running_options(),
        };
        let status = link.as_ref().and_then(|link| link.connection.status());
        let situation = Situation {
            default: &default,
            engine: running.as_ref(),
            status: status.as_ref(),
            keeps_messages: self.carrier.message_max().is_some(),
        };
        let (answer, paths) = sctp::answer(octets, flags, user, situation);
        self.carrier.set_options(user);
        self.of_messages = sctp::said_with_messages(user.message);
        if let Some(link) = link {
            for path in &paths {
                link.connection.set_path(path);
            }
        }
        answer
    }

    fn takes_message_options(&self, link: Option<&CarriedLink>, octets: &[u8]) -> bool {
        let has_them = self.options.is_some() && self.carrier.message_max().is_some();
        if !has_them || octets.len() > OPTIONS_MAX {
            return false;
        }
        let running = link.and_then(|link| link.connection.options());
        sctp::message_options(octets).is_some_and(|message| {
            running.is_none_or(|running| message.stream < running.outbound_streams)
        })
    }

    fn options_of_messages(&self) -> Option<&[u8]> {
        self.of_messages.as_deref()
    }

    fn report_options(&mut self) {
        if let Some(options) = &mut self.options {
            options.reports_options = true;
        }
    }

    fn adopt(&self, link: &mut CarriedLink) {
        if let Some(options) = &self.options {
            link.reports_options = options.reports_options;
        }
        link.takes_runs = self.takes_runs && self.carrier.message_max().is_some();
    }
}
