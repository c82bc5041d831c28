//! What is below the provider: a protocol, and its connections as two sequences of frames.

use crate::sctp::MessageOptions;
use crate::tpi::{Information, Primitive};
use socket2::Socket;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use streams::{Block, Message, Pool};

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// The first one of who connects: octets of its address, the address, data of the user.
    Connect = 1,
    /// The first one of who accepts: the same.
    Confirm = 2,
    /// Data that end a message.
    Data = 3,
    /// Data of a message that goes on with the next frame of data.
    DataMore = 4,
    /// No more data come: data of the user with the release.
    Release = 5,
    /// The user ended the connection: the reason in four octets, data of the user.
    Disconnect = 6,
    /// Expedited data that end a message of such.
    Expedited = 7,
    /// Expedited data of a message that goes on.
    ExpeditedMore = 8,
}

/// A frame that came.
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) octets: Block,
    /// What the peer said of the message, where the user wants to know.
    pub(crate) options: Option<MessageOptions>,
}

/// What is next on a connection.
pub(crate) enum Next {
    Frame(Frame),
    /// Several messages of data (`tpi::run`), and whether nothing is known to be behind them.
    Run(Message, Behind),
    Nothing,
    /// The peer is gone, or broke the protocol; the system's number, where one is known.
    End(Option<u32>),
}

/// What is behind a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    Nothing,
    Perhaps,
}

/// A protocol that opens and accepts connections.
pub(crate) trait Protocol: Send + 'static {
    /// Its connections.
    type Link: Link;

    /// The name of the provider.
    fn name(&self) -> &'static str;

    /// What the provider can; its state is filled in by the provider.
    fn information(&self) -> Information;

    /// Binds to an address, empty for any, and listens if asked to; returns the address.
    /// Fails with `InvalidInput` for what is no address, else what the system says.
    fn bind(&mut self, address: &[u8], listens: bool) -> io::Result<Vec<u8>>;

    /// Takes no further connections; the address stays.
    fn stop_listening(&mut self);

    /// The next connection that is whole.
    fn accept(&mut self, pool: &mut Pool) -> Option<Self::Link>;

    /// Whether some connection has come in part, which makes no descriptor readable again.
    fn is_arriving(&self) -> bool;

    /// Begins a connection from `own`, without waiting for its answer.
    /// Fails with `InvalidInput` for what is no address, `PermissionDenied`, else why there will be no connection.
    fn connect(&mut self, own: &[u8], destination: &[u8], said: &[u8]) -> io::Result<Self::Link>;

    /// How to wait for connections that come.
    fn sleep(&mut self) -> Sleep;

    /// A descriptor that is readable when a connection comes, where there is one of its own.
    fn waitable(&self) -> Option<Socket>;

    /// The answer to T_OPTMGMT_REQ of an endpoint whose connection is `link`.
    fn answer_options(
        &mut self,
        link: Option<&mut Self::Link>,
        octets: &[u8],
        flags: u32,
    ) -> Primitive;

    /// Whether a message on `link` may have these options (TBADOPT).
    fn takes_message_options(&self, link: Option<&Self::Link>, octets: &[u8]) -> bool;

    /// Options that each message of the user gets in front of its own; None where it gets none.
    fn options_of_messages(&self) -> Option<&[u8]>;

    /// Messages come with their options from here on.
    fn report_options(&mut self);

    /// Gives a connection what the endpoint's user has set.
    fn adopt(&self, link: &mut Self::Link);
}

/// One end of a connection.
pub(crate) trait Link: Send + 'static {
    /// The peer's address.
    fn peer(&self) -> &[u8];

    /// What the peer's user said with the connect.
    fn said(&self) -> &[u8];

    /// Sends a message's data as a frame; false while there is no room for it. A peer that is gone
    /// takes everything: that it is told by [`next`](Link::next).
    fn send(&mut self, kind: FrameKind, message: &Message) -> bool;

    /// Sends messages whole, one behind the other in `octets`, with these lengths; how many had room.
    fn send_run(&mut self, octets: &[u8], lengths: impl Iterator<Item = usize>) -> usize;

    /// Sends a frame of the connection itself, if there is room.
    fn send_short(&mut self, kind: FrameKind, octets: &[u8]);

    /// What was sent leaves now.
    fn flush(&mut self);

    /// Whether part of what was sent waits for room below, for [`flush`](Link::flush) to go on with.
    fn has_unsent(&self) -> bool;

    /// The next frame.
    fn next(&mut self, pool: &mut Pool) -> Next;

    /// Whether it ended before it was answered.
    fn has_ended(&mut self, pool: &mut Pool) -> bool;

    /// Prepares a wait for the next frame, or until a frame with so many octets has room.
    fn sleep(&mut self, room_for: Option<usize>) -> Sleep;

    /// Takes the wakes that made the descriptor readable.
    fn take_wakes(&mut self);

    /// The descriptor of [`Sleep::OnDescriptor`], or the socket of the protocol.
    fn waitable(&self) -> Option<Socket>;

    /// System calls that sent and that received.
    fn system_calls(&self) -> (u64, u64);

    /// Octets of the ring to the peer, where there is one.
    fn ring_octets(&self) -> Option<u64>;
}

/// How to wait for what is below.
pub(crate) enum Sleep {
    /// There is something to do now.
    Not,
    /// Until the descriptor is readable; without one, for a moment.
    OnDescriptor,
    /// By the protocol, which counts what arrives, and had counted this much at the last look.
    By(Arc<dyn Waiter>, u64),
}

/// Waits for a protocol that runs in the user's process.
pub trait Waiter: Send + Sync {
    /// Returns when more has arrived than `seen`, when a timer is due, or after `limit`; perhaps earlier.
    ///
    /// # Errors
    ///
    /// Those of the descriptor that is waited on.
    fn wait(&self, seen: u64, limit: Duration) -> io::Result<()>;
}

/// What an endpoint does with the driver of a stream around a wait.
pub(crate) trait Waits {
    /// Prepares a wait: for room, or for what comes.
    fn prepare_wait(&mut self, write: bool) -> Sleep;

    /// Takes the wakes that ended a wait.
    fn take_wakes(&mut self);

    /// Notes the system calls of what is below where those of sockets are counted.
    fn count_calls(&mut self);

    /// What was given to the protocol while the user sent on leaves now.
    fn flush_below(&mut self);
}

/// An address with its length in front, then data of the user.
pub(crate) fn introduction(address: &[u8], said: &[u8]) -> Vec<u8> {
    [&[address.len() as u8], address, said].concat()
}

/// Address and data of an introduction; None when it is none.
pub(crate) fn split_introduction(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = octets.split_first()?;
    rest.split_at_checked(len.into())
}
