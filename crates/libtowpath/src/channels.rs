//! Channels for C programs: ends whose lent or received slots outlive a call, and errors as numbers.

use library::channel::{Arena, ArenaOwner, ChannelError, Geometry, Signal};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A handle of an arena: that of its owner, or of a member that joined.
pub(crate) enum ArenaHandle {
    Owner(ArenaOwner),
    Member(Arena),
}

impl ArenaHandle {
    /// Makes an arena.
    pub(crate) fn create(slot_len: u32, slots: u32) -> io::Result<ArenaHandle> {
        let geometry = Geometry::new(slot_len, slots).map_err(to_errno)?;
        let owner = ArenaOwner::create(geometry).map_err(to_errno)?;
        Ok(ArenaHandle::Owner(owner))
    }

    /// Joins the arena of the process at the other end.
    pub(crate) fn join(socket: UnixStream) -> io::Result<ArenaHandle> {
        Arena::join(socket)
            .map(ArenaHandle::Member)
            .map_err(to_errno)
    }

    pub(crate) fn arena(&self) -> &Arena {
        match self {
            ArenaHandle::Owner(owner) => owner.arena(),
            ArenaHandle::Member(arena) => arena,
        }
    }

    /// The owner, or EINVAL for a member that joined.
    pub(crate) fn owner(&mut self) -> io::Result<&mut ArenaOwner> {
        match self {
            ArenaHandle::Owner(owner) => Ok(owner),
            ArenaHandle::Member(_) => Err(refuse(
                libc::EINVAL,
                "this member joined the arena: call it with the handle of the arena's owner",
            )),
        }
    }
}

/// The signal of a number of `towpath_channel.h`.
pub(crate) fn signal(number: libc::c_int) -> io::Result<Signal> {
    match number {
        0 => Ok(Signal::Futex),
        1 => Ok(Signal::Spin),
        _ => Err(refuse(
            libc::EINVAL,
            "no signal has this number: take TOWPATH_CHANNEL_FUTEX or TOWPATH_CHANNEL_SPIN",
        )),
    }
}

/// How long one of many waits lasts that have no end together.
const ENDLESS: Duration = Duration::from_secs(3600);

/// Waits by `attempt` until it has something, or the time-out in milliseconds is over, which is `late`; a
/// negative one has no end.
pub(crate) fn wait<T>(
    timeout_ms: libc::c_int,
    late: libc::c_int,
    mut attempt: impl FnMut(Duration) -> Result<Option<T>, ChannelError>,
) -> io::Result<T> {
    loop {
        let limit = match u64::try_from(timeout_ms) {
            Ok(ms) => Duration::from_millis(ms),
            Err(_) => ENDLESS,
        };
        match attempt(limit).map_err(to_errno)? {
            Some(value) => return Ok(value),
            None if timeout_ms < 0 => {}
            None => {
                return Err(refuse(
                    late,
                    "nothing came within the time-out: wait for longer",
                ));
            }
        }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Why the last call of this thread failed; valid until the next one that fails.
pub(crate) fn last_error() -> *const libc::c_char {
    LAST_ERROR.with_borrow(|text| CStr::as_ptr(text))
}

/// The error of this number, whose sentence [`last_error`] gives.
pub(crate) fn refuse(number: libc::c_int, why: &str) -> io::Error {
    let text = CString::new(why).unwrap_or_default();
    LAST_ERROR.with_borrow_mut(|last| *last = text);
    io::Error::from_raw_os_error(number)
}

/// The number of an error, as `towpath_channel.h` lists them; its sentence is kept.
pub(crate) fn to_errno(error: ChannelError) -> io::Error {
    let number = match &error {
        ChannelError::SlotLen(_) | ChannelError::SlotCount { .. } | ChannelError::ModuleName(_) => {
            libc::EINVAL
        }
        ChannelError::TooLong { .. } => libc::EMSGSIZE,
        ChannelError::Opening
        | ChannelError::Descriptors { .. }
        | ChannelError::Unsealed
        | ChannelError::SegmentLen { .. }
        | ChannelError::OtherModules { .. }
        | ChannelError::Corrupt { .. } => libc::EPROTO,
        ChannelError::OtherUser { .. } => libc::EPERM,
        ChannelError::ArenaFull | ChannelError::SendersFull | ChannelError::ReceiversFull => {
            libc::ENOSPC
        }
        ChannelError::OtherArena => libc::EXDEV,
        ChannelError::Shared | ChannelError::AlreadyHeld => libc::EBUSY,
        ChannelError::PeerGone => libc::EPIPE,
        ChannelError::System { source, .. } => crate::sys::errno_of(source),
    };
    refuse(number, &error.to_string())
}
