//! The end that reads.

use super::super::errno::return_to_c;
use super::{buffer_of, close, give, null_pointer, own, take_socket};
use crate::channels::{refuse, signal, to_errno, wait};
use library::channel::{Arrival, ChannelReceiver, ReceivedSlots};
use std::io;

/// struct towpath_receiver of `towpath_channel.h`: a receiver, and the message that C reads.
pub struct CReceiver {
    received: Option<ReceivedSlots<'static>>,
    /// A box. It is borrowed by `received`, and used by nothing else while that is there.
    receiver: *mut ChannelReceiver,
}

impl CReceiver {
    /// The receiver. A message that was received is released.
    fn receiver(&mut self) -> &'static mut ChannelReceiver {
        self.received = None;
        // SAFETY: the box lives as long as this one, nothing borrows it now, and `received` alone keeps the
        // reference beyond a call.
        unsafe { &mut *self.receiver }
    }

    /// The length of the next message; None at the end.
    fn receive(&mut self, timeout_ms: libc::c_int) -> io::Result<Option<usize>> {
        let receiver = self.receiver();
        let found = wait(timeout_ms, libc::ETIMEDOUT, |limit| {
            let found = receiver.wait_for_message(limit)?;
            Ok(Some(found).filter(|found| *found != Arrival::Nothing))
        })?;
        if found == Arrival::Message {
            self.received = self.receiver().receive().map_err(to_errno)?;
        }
        Ok(self.received.as_ref().map(ReceivedSlots::len))
    }

    fn received(&self) -> io::Result<&ReceivedSlots<'static>> {
        self.received.as_ref().ok_or_else(|| {
            refuse(
                libc::EINVAL,
                "no message was received: call towpath_channel_receive before it is read or released",
            )
        })
    }
}

impl Drop for CReceiver {
    fn drop(&mut self) {
        self.received = None;
        // SAFETY: `towpath_channel_accept` made the box, and nothing borrows it any more.
        drop(unsafe { Box::from_raw(self.receiver) });
    }
}

/// Takes the channel of the process at the other end.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_channel_accept(socket: libc::c_int, how: libc::c_int) -> *mut CReceiver {
    give(|| {
        let socket = take_socket(socket)?;
        let accepted = ChannelReceiver::accept(socket, signal(how)?).map_err(to_errno)?;
        Ok(CReceiver {
            received: None,
            receiver: Box::into_raw(Box::new(accepted)),
        })
    })
}

/// Waits for the next message.
///
/// # Safety
///
/// `receiver` is one of [`towpath_channel_accept`], not ended, and used by this call alone; `len` points to a
/// length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_channel_receive(
    receiver: *mut CReceiver,
    len: *mut usize,
    timeout_ms: libc::c_int,
) -> libc::c_int {
    return_to_c(|| {
        if len.is_null() {
            return Err(null_pointer());
        }
        // SAFETY: the caller's promise.
        let found = unsafe { own(receiver) }?.receive(timeout_ms)?;
        // SAFETY: the caller's promise.
        unsafe { len.write(found.unwrap_or(0)) };
        Ok(found.is_some().into())
    })
}

/// Copies octets of the received message.
///
/// # Safety
///
/// As of [`towpath_channel_receive`]; `octets` points to `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_channel_read(
    receiver: *mut CReceiver,
    offset: usize,
    octets: *mut libc::c_void,
    size: usize,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let receiver = unsafe { own(receiver) }?;
        let received = receiver.received()?;
        let count = size.min(received.len().saturating_sub(offset));
        // SAFETY: the caller's promise.
        let target = unsafe { buffer_of(octets, count) }?;
        Ok(received.read(offset, target) as isize)
    })
}

/// Releases the received message.
///
/// # Safety
///
/// As of [`towpath_channel_receive`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_channel_release(receiver: *mut CReceiver) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let receiver = unsafe { own(receiver) }?;
        receiver.received()?;
        receiver.received = None;
        Ok(0)
    })
}

/// Ends the receiver.
///
/// # Safety
///
/// As of [`towpath_channel_receive`], and the receiver is used no more; null does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_channel_end(receiver: *mut CReceiver) {
    // SAFETY: the caller's promise.
    unsafe { close(receiver) };
}
