//! Channels whose other end is on another host: a proxy takes messages out of a channel and sends them over
//! a circuit, and one at the far end puts what arrives into a channel there. Neither program notices.
//!
//! A proxy carries one direction: [`carry_out`] from a channel to a circuit, [`carry_in`] from a circuit to a
//! channel. A channel that is closed closes the one at the far end after all messages. A channel whose
//! program was killed, and a circuit that breaks, break it, so that no message is missing in silence.
//!
//! [`ChannelProxy`] is one end as a server: it takes channels from programs of this host at a Unix socket, or circuits
//! from the other end, and carries each in a thread of its own.

mod server;

pub use server::{CHANNELS_MAX, ChannelProxy, ProxyCounts};

use crate::contract::Circuit;
use channel::{Arrival, ChannelError, ChannelReceiver, ChannelSender};
use std::io;
use std::time::Duration;

/// The octet behind each message on the way. Transports that mark the last octet of a message carry no
/// empty ones, so a message has always one.
const MESSAGE: u8 = 0;

/// The only octet of the last message of a channel that was closed.
const CLOSE: u8 = 1;

/// Time between looks whether the other side is still there, while nothing moves.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Sends the messages of `receiver` over `circuit` until the channel ends, and then ends the circuit; how
/// many there were. Messages that wait together leave together.
///
/// # Errors
/// [`io::ErrorKind::BrokenPipe`] when the channel's sender is gone without closing; the circuit's errors.
pub fn carry_out(receiver: &mut ChannelReceiver, circuit: &mut dyn Circuit) -> io::Result<u64> {
    let mut buffer = vec![0; receiver.geometry().capacity() as usize + 1];
    let mut carried = 0;
    loop {
        let mut found = receiver.look().map_err(to_io_error)?;
        if found == Arrival::Nothing {
            until_done(|| circuit.flush())?;
            found = receiver
                .wait_for_message(LOOK_INTERVAL)
                .map_err(to_io_error)?;
        }
        match found {
            Arrival::Nothing => {}
            Arrival::End => {
                until_done(|| circuit.send(&[CLOSE]))?;
                return until_done(|| circuit.finish()).map(|()| carried);
            }
            Arrival::Message => {
                let message = receiver.receive().map_err(to_io_error)?;
                let len = message.map_or(0, |message| message.read(0, &mut buffer));
                buffer[len] = MESSAGE;
                until_done(|| circuit.send(&buffer[..=len]))?;
                carried += 1;
            }
        }
    }
}

/// Puts the messages that arrive over `circuit` into the channel of `sender` until the circuit ends, and
/// closes the channel; how many there were. A circuit that fails breaks the channel, after `before_break`
/// was called with its error.
///
/// # Errors
/// [`io::ErrorKind::BrokenPipe`] when the channel's receiver is gone; a message that is longer than the
/// channel's ring; the circuit's errors.
pub fn carry_in(
    circuit: &mut dyn Circuit,
    sender: ChannelSender,
    before_break: impl FnOnce(&io::Error),
) -> io::Result<u64> {
    // An octet more than a ring and the mark need, so that a longer message is found out.
    let mut buffer = vec![0; sender.geometry().capacity() as usize + 2];
    let mut sender = Some(sender);
    let carried = move_in(circuit, &mut sender, &mut buffer);
    if let (Err(error), Some(sender)) = (&carried, sender) {
        before_break(error);
        sender.abort();
    }
    carried
}

/// Takes the sender, which closes the channel, when the circuit ends.
fn move_in(
    circuit: &mut dyn Circuit,
    place: &mut Option<ChannelSender>,
    buffer: &mut [u8],
) -> io::Result<u64> {
    let mut carried = 0;
    while let Some(sender) = place {
        match circuit.recv(buffer) {
            Ok(Some(len)) => match buffer[..len].split_last() {
                Some((&MESSAGE, message)) => {
                    sender.send(message).map_err(to_io_error)?;
                    carried += 1;
                }
                Some((&CLOSE, [])) => drop(place.take()),
                _ => return Err(no_proxy()),
            },
            Ok(None) => return Err(ended_early()),
            Err(error) if is_pause(&error) => {
                if sender.peer_gone().map_err(to_io_error)? {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(carried)
}

#[cold]
fn ended_early() -> io::Error {
    let text =
        "the other end's proxy ended before its channel was closed: its program or it was killed";
    io::Error::new(io::ErrorKind::BrokenPipe, text)
}

#[cold]
fn no_proxy() -> io::Error {
    let text = "a message came that no proxy of a channel sends; look at the other end";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Calls `action` again as long as it says that it was not done in time.
fn until_done(mut action: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match action() {
            Err(error) if is_pause(&error) => {}
            other => return other,
        }
    }
}

/// Whether a call was not done in time, and may be done again.
pub(crate) fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// A channel's error in the words of a circuit.
#[cold]
pub(crate) fn to_io_error(error: ChannelError) -> io::Error {
    let kind = match error {
        ChannelError::TooLong { .. } => io::ErrorKind::InvalidInput,
        ChannelError::PeerGone => io::ErrorKind::BrokenPipe,
        ChannelError::OtherUser { .. } => io::ErrorKind::PermissionDenied,
        ChannelError::System { ref source, .. } => source.kind(),
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}
