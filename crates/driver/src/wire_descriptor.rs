//! The descriptor of a wire, to be polled without the lock of its pump.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use wire::Wire;

/// A wire's descriptor; with its first group it changes, once (see [`Wire::descriptor`]).
pub(crate) struct WireDescriptor {
    first: OwnedFd,
    /// The number it has in the wire.
    number: RawFd,
    with_groups: OnceLock<OwnedFd>,
}

impl WireDescriptor {
    /// The descriptor of `wire`; None in virtual time.
    pub(crate) fn new(wire: &impl Wire) -> io::Result<Option<WireDescriptor>> {
        let Some(descriptor) = wire.descriptor() else {
            return Ok(None);
        };
        Ok(Some(WireDescriptor {
            first: descriptor.try_clone_to_owned()?,
            number: descriptor.as_raw_fd(),
            with_groups: OnceLock::new(),
        }))
    }

    /// What to poll.
    pub(crate) fn get(&self) -> &OwnedFd {
        self.with_groups.get().unwrap_or(&self.first)
    }

    /// What to poll beside the descriptor that was there before the first group.
    pub(crate) fn with_groups(&self) -> Option<&OwnedFd> {
        self.with_groups.get()
    }

    /// Looks at `wire` again after it joined a group; true when those who poll must poll anew.
    pub(crate) fn refresh(&self, wire: &impl Wire) -> io::Result<bool> {
        let Some(descriptor) = wire.descriptor() else {
            return Ok(false);
        };
        if descriptor.as_raw_fd() == self.number || self.with_groups.get().is_some() {
            return Ok(false);
        }
        Ok(self
            .with_groups
            .set(descriptor.try_clone_to_owned()?)
            .is_ok())
    }
}
