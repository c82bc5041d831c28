//! Bytes a worker has moved, readable after its exit.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A byte count kept in an eventfd. A worker books bytes before it moves them; its parent reads the
/// sum after the worker's exit, even if the worker was killed.
#[derive(Debug)]
pub struct ByteAccount(OwnedFd);

impl ByteAccount {
    /// An account of 0 bytes.
    ///
    /// # Errors
    ///
    /// When no descriptor is available.
    pub fn new() -> io::Result<ByteAccount> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(ByteAccount(eventfd(0, flags)?))
    }

    /// Books `bytes` before they are moved.
    ///
    /// # Errors
    ///
    /// When the write fails; nothing was booked then.
    pub fn add(&self, bytes: u64) -> io::Result<()> {
        loop {
            match write(&self.0, &bytes.to_ne_bytes()) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The sum since it was last taken.
    pub fn take(&self) -> u64 {
        let mut sum = [0; 8];
        loop {
            match read(&self.0, &mut sum) {
                Ok(_) => return u64::from_ne_bytes(sum),
                Err(Errno::INTR) => {}
                // Nothing was added.
                Err(_) => return 0,
            }
        }
    }
}

/// An account received with a job.
impl From<OwnedFd> for ByteAccount {
    fn from(descriptor: OwnedFd) -> ByteAccount {
        ByteAccount(descriptor)
    }
}

impl AsFd for ByteAccount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_sum_is_taken_once() {
        let ours = ByteAccount::new().expect("an account");
        let copy = ours.as_fd().try_clone_to_owned().expect("a descriptor");
        let theirs = ByteAccount::from(copy);
        assert_eq!(ours.take(), 0);
        theirs.add(5).expect("it is added");
        theirs.add(1 << 50).expect("it is added");
        drop(theirs);
        assert_eq!((ours.take(), ours.take()), (5 + (1 << 50), 0));
    }
}
