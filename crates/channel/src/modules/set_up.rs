//! How the ends of a channel with modules are set up: the opening names them.

use super::{ModularReceiver, ModularSender, Modules};
use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::opening;
use crate::ring::{ChannelReceiver, ChannelSender};
use crate::sys::Segment;
use crate::wait::Signal;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The modules of a process that has both ends of a channel each way.
#[derive(Debug, Default)]
pub struct PairModules {
    /// Those of its sender.
    pub sending: Modules,
    /// Those of its receiver.
    pub receiving: Modules,
}

impl ModularSender {
    /// Makes the memory of a channel with `modules` and passes it to the process at the other end of `socket`, which
    /// calls [`ModularReceiver::accept`] with modules of the same names.
    ///
    /// # Errors
    /// Those of [`ChannelSender::open`], [`ChannelError::ModuleName`], and [`ChannelError::TooLong`] for a ring without
    /// room for the modules' headers.
    pub fn open(
        socket: UnixStream,
        geometry: Geometry,
        signal: Signal,
        modules: Modules,
    ) -> Result<Self, ChannelError> {
        let words = modules.checked_words()?;
        let [segment] = opening::offer_with(&socket, geometry, &words)?;
        let channel = ChannelSender::new(segment, geometry, Arc::new(socket), signal);
        Self::new(channel, modules)
    }
}

impl ModularReceiver {
    /// Takes the memory of a channel from the process at the other end of `socket`, if its modules are called as
    /// `modules`.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::accept`], and [`ChannelError::OtherModules`].
    pub fn accept(
        socket: UnixStream,
        signal: Signal,
        modules: Modules,
    ) -> Result<Self, ChannelError> {
        let words = modules.checked_words()?;
        let ([segment], geometry) = opening::accept_with(&socket, &words)?;
        let channel = ChannelReceiver::new(segment, geometry, Arc::new(socket), signal);
        Ok(Self::new(channel, modules))
    }
}

/// Makes the memory of a channel each way, as [`open_pair`](crate::open_pair), both with modules; the peer calls
/// [`accept_modular_pair`] with the same the other way round.
///
/// # Errors
/// Those of [`ModularSender::open`].
pub fn open_modular_pair(
    socket: UnixStream,
    geometry: Geometry,
    signal: Signal,
    modules: PairModules,
) -> Result<(ModularSender, ModularReceiver), ChannelError> {
    let words = [&modules.sending, &modules.receiving].map(Modules::checked_words);
    let [there, back] = words;
    let segments = opening::offer_with(&socket, geometry, &format!("{}/{}", there?, back?))?;
    pair((segments, geometry), socket, signal, modules)
}

/// Takes the memory of a channel each way from the process that called [`open_modular_pair`].
///
/// # Errors
/// Those of [`ModularReceiver::accept`].
pub fn accept_modular_pair(
    socket: UnixStream,
    signal: Signal,
    modules: PairModules,
) -> Result<(ModularSender, ModularReceiver), ChannelError> {
    let words = [&modules.receiving, &modules.sending].map(Modules::checked_words);
    let [there, back] = words;
    let ([there, back], geometry) =
        opening::accept_with(&socket, &format!("{}/{}", there?, back?))?;
    pair(([back, there], geometry), socket, signal, modules)
}

/// The ends over the segments to the peer and from it.
fn pair(
    ([to, from], geometry): ([Segment; 2], Geometry),
    socket: UnixStream,
    signal: Signal,
    modules: PairModules,
) -> Result<(ModularSender, ModularReceiver), ChannelError> {
    let socket = Arc::new(socket);
    let sender = ChannelSender::new(to, geometry, Arc::clone(&socket), signal);
    let receiver = ChannelReceiver::new(from, geometry, socket, signal);
    Ok((
        ModularSender::new(sender, modules.sending)?,
        ModularReceiver::new(receiver, modules.receiving),
    ))
}
