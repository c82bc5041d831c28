//! How the two ends of a channel, or of a channel each way, are set up.

use crate::wait::Signal;
use crate::{ChannelError, ChannelReceiver, ChannelSender, Geometry, opening};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

impl ChannelSender {
    /// Makes the memory of a channel and passes it to the process at the other end of `socket`, which
    /// becomes the channel's lifeline. `signal` is how this end waits for room.
    ///
    /// # Errors
    /// A peer of another user; memory or a send that the system refuses.
    pub fn open(
        socket: UnixStream,
        geometry: Geometry,
        signal: Signal,
    ) -> Result<Self, ChannelError> {
        let [segment] = opening::offer(&socket, geometry)?;
        Ok(Self::new(segment, geometry, Arc::new(socket), signal))
    }
}

impl ChannelReceiver {
    /// Takes the memory of a channel from the process at the other end of `socket`, which becomes the
    /// channel's lifeline. It waits for the opening as long as the socket's read timeout lets it.
    /// `signal` is how this end waits for messages.
    ///
    /// # Errors
    /// A peer of another user, an opening that is none, and a segment that is not sealed or of
    /// another length than announced.
    pub fn accept(socket: UnixStream, signal: Signal) -> Result<Self, ChannelError> {
        let ([segment], geometry) = opening::accept(&socket)?;
        Ok(Self::new(segment, geometry, Arc::new(socket), signal))
    }
}

/// Makes the memory of a channel each way, both of `geometry`, and passes it to the process at the other
/// end of `socket`, which becomes the lifeline of both; the peer calls [`accept_pair`].
///
/// # Errors
/// Those of [`ChannelSender::open`].
pub fn open_pair(
    socket: UnixStream,
    geometry: Geometry,
    signal: Signal,
) -> Result<(ChannelSender, ChannelReceiver), ChannelError> {
    let [there, back] = opening::offer(&socket, geometry)?;
    let socket = Arc::new(socket);
    let sender = ChannelSender::new(there, geometry, Arc::clone(&socket), signal);
    let receiver = ChannelReceiver::new(back, geometry, socket, signal);
    Ok((sender, receiver))
}

/// Takes the memory of a channel each way from the process that called [`open_pair`].
///
/// # Errors
/// Those of [`ChannelReceiver::accept`].
pub fn accept_pair(
    socket: UnixStream,
    signal: Signal,
) -> Result<(ChannelSender, ChannelReceiver), ChannelError> {
    let ([there, back], geometry) = opening::accept(&socket)?;
    let socket = Arc::new(socket);
    let sender = ChannelSender::new(back, geometry, Arc::clone(&socket), signal);
    let receiver = ChannelReceiver::new(there, geometry, socket, signal);
    Ok((sender, receiver))
}
