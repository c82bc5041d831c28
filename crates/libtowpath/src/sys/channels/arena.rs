//! Arenas, the channels between their members, and slots.

use super::super::errno::return_to_c;
use super::{buffer_of, close, give, null_pointer, octets_of, own, take_socket};
use crate::channels::{ArenaHandle, signal, to_errno, wait};
use library::channel::{ArenaReceiver, ArenaSender, ArenaSlot, Arrival};

/// Makes an arena.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_arena_create(slot_len: u32, slots: u32) -> *mut ArenaHandle {
    give(|| ArenaHandle::create(slot_len, slots))
}

/// Lets a process in.
///
/// # Safety
///
/// `owner` is one of [`towpath_arena_create`], not closed, and used by this call alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_arena_admit(
    owner: *mut ArenaHandle,
    socket: libc::c_int,
) -> libc::c_int {
    return_to_c(|| {
        let socket = take_socket(socket)?;
        // SAFETY: the caller's promise.
        let owner = unsafe { own(owner) }?.owner()?;
        owner.admit(socket).map_err(to_errno).map(|()| 0)
    })
}

/// Joins an arena.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_arena_join(socket: libc::c_int) -> *mut ArenaHandle {
    give(|| ArenaHandle::join(take_socket(socket)?))
}

/// Takes back the slots of members that are gone.
///
/// # Safety
///
/// As of [`towpath_arena_admit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_arena_sweep(owner: *mut ArenaHandle) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let owner = unsafe { own(owner) }?.owner()?;
        Ok(owner.sweep().map_err(to_errno)? as libc::c_int)
    })
}

/// Ends a handle.
///
/// # Safety
///
/// `arena` is one of [`towpath_arena_create`] or [`towpath_arena_join`] and used no more; null does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_arena_close(arena: *mut ArenaHandle) {
    // SAFETY: the caller's promise.
    unsafe { close(arena) };
}

/// Opens a channel to another member.
///
/// # Safety
///
/// `arena` is one of [`towpath_arena_create`] or [`towpath_arena_join`], and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_arena_open(
    arena: *mut ArenaHandle,
    socket: libc::c_int,
    how: libc::c_int,
) -> *mut ArenaSender {
    give(|| {
        let socket = take_socket(socket)?;
        // SAFETY: the caller's promise.
        let arena = unsafe { own(arena) }?.arena();
        arena.open(socket, signal(how)?).map_err(to_errno)
    })
}

/// Accepts a channel of another member.
///
/// # Safety
///
/// As of [`towpath_arena_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_arena_accept(
    arena: *mut ArenaHandle,
    socket: libc::c_int,
    how: libc::c_int,
) -> *mut ArenaReceiver {
    give(|| {
        let socket = take_socket(socket)?;
        // SAFETY: the caller's promise.
        let arena = unsafe { own(arena) }?.arena();
        arena.accept(socket, signal(how)?).map_err(to_errno)
    })
}

/// Closes the end that forwards.
///
/// # Safety
///
/// `sender` is one of [`towpath_arena_open`] and used no more; null does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_arena_sender_close(sender: *mut ArenaSender) {
    // SAFETY: the caller's promise.
    unsafe { close(sender) };
}

/// Closes the end that receives.
///
/// # Safety
///
/// `receiver` is one of [`towpath_arena_accept`] and used no more; null does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_arena_receiver_close(receiver: *mut ArenaReceiver) {
    // SAFETY: the caller's promise.
    unsafe { close(receiver) };
}

/// A free slot.
///
/// # Safety
///
/// As of [`towpath_arena_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_arena_take(
    arena: *mut ArenaHandle,
    timeout_ms: libc::c_int,
) -> *mut ArenaSlot {
    give(|| {
        // SAFETY: the caller's promise.
        let arena = unsafe { own(arena) }?.arena();
        wait(timeout_ms, libc::ENOSPC, |limit| arena.take_within(limit))
    })
}

/// Writes octets into a slot.
///
/// # Safety
///
/// `slot` is one that this thread was given and did not free; `octets` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_slot_write(
    slot: *mut ArenaSlot,
    offset: usize,
    octets: *const libc::c_void,
    len: usize,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let (slot, octets) = unsafe { (own(slot)?, octets_of(octets, len)?) };
        slot.write(offset, octets).map_err(to_errno).map(|()| 0)
    })
}

/// Copies octets of a slot.
///
/// # Safety
///
/// As of [`towpath_slot_write`]; `octets` points to `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_slot_read(
    slot: *mut ArenaSlot,
    offset: usize,
    octets: *mut libc::c_void,
    size: usize,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let slot = unsafe { own(slot) }?;
        let count = size.min(slot.len().saturating_sub(offset));
        // SAFETY: the caller's promise.
        let target = unsafe { buffer_of(octets, count) }?;
        Ok(slot.read(offset, target) as isize)
    })
}

/// Octets of the message; 0 for null.
///
/// # Safety
///
/// As of [`towpath_slot_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_slot_len(slot: *mut ArenaSlot) -> usize {
    // SAFETY: the caller's promise.
    unsafe { own(slot) }.map_or(0, |slot| slot.len())
}

/// Forwards a message without a copy.
///
/// # Safety
///
/// As of [`towpath_slot_write`]; `to` is one of [`towpath_arena_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_slot_forward(
    slot: *mut ArenaSlot,
    to: *mut ArenaSender,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let (slot, to) = unsafe { (own(slot)?, own(to)?) };
        to.pass(slot).map_err(to_errno).map(|()| 0)
    })
}

/// Lets a message go.
///
/// # Safety
///
/// As of [`towpath_slot_write`], and the slot is used no more; null does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_slot_free(slot: *mut ArenaSlot) {
    // SAFETY: the caller's promise.
    unsafe { close(slot) };
}

/// Waits for the next message of another member.
///
/// # Safety
///
/// `receiver` is one of [`towpath_arena_accept`]; `slot` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_arena_receive(
    receiver: *mut ArenaReceiver,
    slot: *mut *mut ArenaSlot,
    timeout_ms: libc::c_int,
) -> libc::c_int {
    return_to_c(|| {
        if slot.is_null() {
            return Err(null_pointer());
        }
        // SAFETY: the caller's promise.
        let receiver = unsafe { own(receiver) }?;
        let found = wait(timeout_ms, libc::ETIMEDOUT, |limit| {
            let found = receiver.wait_for_message(limit)?;
            Ok(Some(found).filter(|found| *found != Arrival::Nothing))
        })?;
        let message = match found {
            Arrival::Message => receiver.receive().map_err(to_errno)?,
            _ => None,
        };
        let has_message = message.is_some();
        let given = message.map_or(std::ptr::null_mut(), |message| {
            Box::into_raw(Box::new(message))
        });
        // SAFETY: the caller's promise.
        unsafe { slot.write(given) };
        Ok(has_message.into())
    })
}
