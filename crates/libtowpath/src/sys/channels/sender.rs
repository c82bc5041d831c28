//! The end that writes.

use super::super::errno::return_to_c;
use super::{close, give, octets_of, own, take_socket};
use crate::channels::{refuse, signal, to_errno, wait};
use library::channel::{ChannelSender, Geometry, LentSlots};
use std::io;

/// struct towpath_sender of `towpath_channel.h`: a sender, and the slots it has lent to C.
pub struct CSender {
    lent: Option<LentSlots<'static>>,
    /// A box. It is borrowed by `lent`, and used by nothing else while that is there.
    sender: *mut ChannelSender,
}

impl CSender {
    /// The sender. Slots that were lent stay free.
    fn sender(&mut self) -> &'static mut ChannelSender {
        self.lent = None;
        // SAFETY: the box lives as long as this one, nothing borrows it now, and `lent` alone keeps the reference
        // beyond a call.
        unsafe { &mut *self.sender }
    }

    fn lend(&mut self, len: usize, timeout_ms: libc::c_int) -> io::Result<()> {
        let sender = self.sender();
        wait(timeout_ms, libc::ETIMEDOUT, |limit| {
            let has_room = sender.wait_for_room(len, limit)?;
            Ok(has_room.then_some(()))
        })?;
        self.lent = Some(self.sender().lend(len).map_err(to_errno)?);
        Ok(())
    }

    fn write(&mut self, offset: usize, octets: &[u8]) -> io::Result<()> {
        let lent = self.lent.as_mut().ok_or_else(nothing_lent)?;
        lent.write(offset, octets).map_err(to_errno)
    }

    fn commit(&mut self, len: usize) -> io::Result<()> {
        let lent = self.lent.take().ok_or_else(nothing_lent)?;
        lent.commit(len).map_err(to_errno)
    }
}

impl Drop for CSender {
    fn drop(&mut self) {
        self.lent = None;
        // SAFETY: `towpath_channel_open` made the box, and nothing borrows it any more.
        drop(unsafe { Box::from_raw(self.sender) });
    }
}

fn nothing_lent() -> io::Error {
    refuse(
        libc::EINVAL,
        "no slots are lent: call towpath_channel_lend before it is written or committed",
    )
}

/// Makes a channel.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_channel_open(
    socket: libc::c_int,
    slot_len: u32,
    slots: u32,
    how: libc::c_int,
) -> *mut CSender {
    give(|| {
        let socket = take_socket(socket)?;
        let geometry = Geometry::new(slot_len, slots).map_err(to_errno)?;
        let opened = ChannelSender::open(socket, geometry, signal(how)?).map_err(to_errno)?;
        Ok(CSender {
            lent: None,
            sender: Box::into_raw(Box::new(opened)),
        })
    })
}

/// Lends slots for a message.
///
/// # Safety
///
/// `sender` is one of [`towpath_channel_open`], not closed, and used by this call alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_channel_lend(
    sender: *mut CSender,
    len: usize,
    timeout_ms: libc::c_int,
) -> libc::c_int {
    // SAFETY: the caller's promise.
    return_to_c(|| unsafe { own(sender) }?.lend(len, timeout_ms).map(|()| 0))
}

/// Writes octets of the lent message.
///
/// # Safety
///
/// As of [`towpath_channel_lend`]; `octets` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_channel_write(
    sender: *mut CSender,
    offset: usize,
    octets: *const libc::c_void,
    len: usize,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let (sender, octets) = unsafe { (own(sender)?, octets_of(octets, len)?) };
        sender.write(offset, octets).map(|()| 0)
    })
}

/// Sends the lent message.
///
/// # Safety
///
/// As of [`towpath_channel_lend`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_channel_commit(sender: *mut CSender, len: usize) -> libc::c_int {
    // SAFETY: the caller's promise.
    return_to_c(|| unsafe { own(sender) }?.commit(len).map(|()| 0))
}

/// Sends a message.
///
/// # Safety
///
/// As of [`towpath_channel_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_channel_send(
    sender: *mut CSender,
    octets: *const libc::c_void,
    len: usize,
    timeout_ms: libc::c_int,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let (sender, octets) = unsafe { (own(sender)?, octets_of(octets, len)?) };
        sender.lend(len, timeout_ms)?;
        sender.write(0, octets)?;
        sender.commit(len).map(|()| 0)
    })
}

/// Closes the channel after what was committed.
///
/// # Safety
///
/// As of [`towpath_channel_lend`], and the sender is used no more; null does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_channel_close(sender: *mut CSender) {
    // SAFETY: the caller's promise.
    unsafe { close(sender) };
}
