//! tcp-sendfile: the kernel's TCP, which sends shared messages from a file (sendfile).
//!
//! The file is in memory (memfd) and has the content of the message, so that the kernel passes pages of
//! its cache to the socket, as a server of files does. It never changes, because the kernel may send
//! its pages again.

use crate::contract::Unavailable;
use crate::shared_send::{SharedSendCircuit, SharedSender};
use crate::socket;
use crate::transport::tcp_wrapped::WrappedTcp;
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The transport.
pub static TCP_SENDFILE: WrappedTcp = WrappedTcp {
    name: "tcp-sendfile",
    summary: "kernel TCP, shared messages sent from a file in memory (sendfile)",
    offload: "sends from the page cache; segmentation and coalescing by the kernel",
    available: || {
        new_file().map(drop).map_err(|error| Unavailable {
            reason: format!("a file in memory: {error}"),
            remedy: "use Linux 3.17 or later, where memfd_create is permitted".into(),
        })
    },
    wrap: |end| Ok(Box::new(SharedSendCircuit::new(end, FileSender::default()))),
};

/// Messages that have a file at a time: a mix has two.
const FILES: usize = 4;

fn new_file() -> io::Result<File> {
    let file = memfd_create("towpath-message", MemfdFlags::CLOEXEC)?;
    Ok(File::from(file))
}

/// Sends messages from files.
#[derive(Debug, Default)]
struct FileSender {
    /// Messages, and files of their content. A message is held, so that its address is its own.
    files: Vec<(Arc<[u8]>, File)>,
    sends: u64,
}

impl FileSender {
    /// The file of a message, the newest one last.
    fn file(&mut self, message: &Arc<[u8]>) -> io::Result<&File> {
        let is_it = |(known, _): &(Arc<[u8]>, File)| Arc::ptr_eq(known, message);
        let at = match self.files.iter().position(is_it) {
            Some(at) => at,
            None => self.add(message)?,
        };
        Ok(&self.files[at].1)
    }

    #[cold]
    fn add(&mut self, message: &Arc<[u8]>) -> io::Result<usize> {
        let mut file = new_file()?;
        file.write_all(message)?;
        if self.files.len() == FILES {
            self.files.remove(0);
        }
        self.files.push((Arc::clone(message), file));
        Ok(self.files.len() - 1)
    }
}

impl SharedSender for FileSender {
    /// A peer that has closed would raise SIGPIPE, which programs in Rust ignore: sendfile has no flag
    /// against it.
    fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        message: &Arc<[u8]>,
        from: usize,
    ) -> io::Result<usize> {
        let file = self.file(message)?;
        let mut offset = from as u64;
        let sent = sendfile(socket, file, Some(&mut offset), message.len() - from);
        let sent = sent.map_err(socket::to_io_error)?;
        self.sends += 1;
        Ok(sent)
    }

    fn note_done(&mut self, _socket: BorrowedFd<'_>) {}

    fn settle(&mut self, _socket: BorrowedFd<'_>) {}

    fn effective(&self, into: &mut BTreeMap<String, String>) {
        into.insert("sendfile".into(), "on".into());
    }

    fn counts(&self, into: &mut BTreeMap<String, u64>) {
        into.insert("sendfile_sends".into(), self.sends);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_one_file_and_the_oldest_gives_way() {
        let mut sender = FileSender::default();
        let messages: Vec<Arc<[u8]>> = (0..=FILES).map(|n| Arc::from(vec![n as u8; 9])).collect();
        for message in messages.iter().chain(&messages[1..]) {
            let len = sender.file(message).expect("a file").metadata();
            assert_eq!(len.expect("metadata").len(), 9);
        }
        assert_eq!(sender.files.len(), FILES);
        assert!(Arc::ptr_eq(&sender.files[0].0, &messages[1]));
    }
}
