//! What a worker has moved, so that it can be known of one that is gone.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A sum that the kernel keeps. A worker adds the bytes it is going to move before it moves them; who
/// started it reads the sum once the worker is gone, however that came.
#[derive(Debug)]
pub struct ByteAccount(OwnedFd);

impl ByteAccount {
    /// An account of 0 bytes.
    ///
    /// # Errors
    ///
    /// The system's, when descriptors are short.
    pub fn new() -> io::Result<ByteAccount> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(ByteAccount(eventfd(0, flags)?))
    }

    /// Adds `bytes` that are going to be moved.
    ///
    /// # Errors
    ///
    /// The system's; nothing was added then.
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

/// The other end of an account that came with a job.
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
