//! tcp-zerocopy: the kernel's TCP, which sends shared messages from the user's pages (MSG_ZEROCOPY).
//!
//! The kernel says by a notice when it is done with a message, and whether it has copied it after all:
//! over the loopback it always has. Until then the message is held.

use crate::contract::{BLOCKING_TIMEOUT, Unavailable};
use crate::shared_send::{SharedSendCircuit, SharedSender};
use crate::socket;
use crate::sys;
use crate::sys::Completion;
use crate::transport::tcp_wrapped::WrappedTcp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// The transport.
pub static TCP_ZEROCOPY: WrappedTcp = WrappedTcp {
    name: "tcp-zerocopy",
    summary: "kernel TCP, shared messages sent from the user's pages (MSG_ZEROCOPY)",
    offload: "sends from the user's pages; segmentation and coalescing by the kernel",
    available: || {
        let probe = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
        let set = probe.and_then(|socket| sys::set_zerocopy(socket.as_fd()));
        set.map_err(|error| Unavailable {
            reason: format!("SO_ZEROCOPY of a TCP socket: {error}"),
            remedy: "use Linux 4.14 or later".into(),
        })
    },
    wrap: |end| {
        sys::set_zerocopy(end.socket.as_fd())?;
        Ok(Box::new(SharedSendCircuit::new(end, PageSender::default())))
    },
};

/// Sends between two looks for notices: a look is a call, and a notice may be of many sends.
const LOOK_EVERY: u32 = 64;

/// Sends from the user's pages, and holds them until the kernel is done.
#[derive(Debug, Default)]
struct PageSender {
    /// The messages of the sends from number `first_held` on; None where the kernel is done.
    held: VecDeque<Option<Arc<[u8]>>>,
    first_held: u32,
    /// Sends since notices were looked for.
    since_look: u32,
    /// Sends that the kernel is done with, and those of them that it has copied.
    done: u64,
    copied: u64,
    /// Sends that the kernel refused for want of room for a notice (net.core.optmem_max), and that were
    /// made as by `tcp`.
    refused: u64,
}

impl PageSender {
    fn complete(&mut self, notice: Completion) {
        let first = notice.first.wrapping_sub(self.first_held) as usize;
        let count = notice.last.wrapping_sub(notice.first) as usize + 1;
        for message in self.held.iter_mut().skip(first).take(count) {
            if message.take().is_some() {
                self.done += 1;
                self.copied += u64::from(notice.copied);
            }
        }
        while let Some(None) = self.held.front() {
            self.held.pop_front();
            self.first_held = self.first_held.wrapping_add(1);
        }
    }

    #[cold]
    fn send_copied(&mut self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        self.refused += 1;
        socket::send(socket, bytes, true)
    }
}

impl SharedSender for PageSender {
    fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        message: &Arc<[u8]>,
        from: usize,
    ) -> io::Result<usize> {
        if self.since_look >= LOOK_EVERY {
            self.note_done(socket);
        }
        self.since_look += 1;
        let mut sent = sys::send_zerocopy(socket, &message[from..]);
        if sent == Err(Errno::NOBUFS) {
            self.note_done(socket);
            sent = sys::send_zerocopy(socket, &message[from..]);
        }
        match sent {
            Ok(len) => {
                self.held.push_back(Some(Arc::clone(message)));
                Ok(len)
            }
            Err(Errno::NOBUFS) => self.send_copied(socket, &message[from..]),
            Err(errno) => Err(socket::to_io_error(errno)),
        }
    }

    fn note_done(&mut self, socket: BorrowedFd<'_>) {
        self.since_look = 0;
        while !self.held.is_empty() {
            match sys::next_completion(socket) {
                Ok(Some(notice)) => self.complete(notice),
                // An error of the connection is that of the next send.
                Ok(None) | Err(_) => break,
            }
        }
    }

    fn settle(&mut self, socket: BorrowedFd<'_>) {
        let end = Instant::now() + BLOCKING_TIMEOUT;
        self.note_done(socket);
        while !self.held.is_empty() && Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            let limit = Timespec::try_from(left).ok();
            // POLLERR, which a notice sets, is always waited for. Nothing is done about a failure: what
            // is not done yet stays held.
            let _ = poll(
                &mut [PollFd::new(&socket, PollFlags::empty())],
                limit.as_ref(),
            );
            let before = self.held.len();
            self.note_done(socket);
            if self.held.len() == before {
                break;
            }
        }
    }

    fn effective(&self, into: &mut BTreeMap<String, String>) {
        into.insert("zerocopy".into(), "on".into());
    }

    fn counts(&self, into: &mut BTreeMap<String, u64>) {
        into.insert("zerocopy_sends".into(), self.done);
        into.insert("zerocopy_copied".into(), self.copied);
        into.insert("zerocopy_refused".into(), self.refused);
    }
}

impl Drop for PageSender {
    /// What the kernel may still send must not become other data: its memory is never used again.
    fn drop(&mut self) {
        self.held.drain(..).flatten().for_each(std::mem::forget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Transport;
    use crate::options::Options;

    fn holding(count: usize) -> PageSender {
        let message: Arc<[u8]> = Arc::from(&b"message"[..]);
        PageSender {
            held: (0..count).map(|_| Some(Arc::clone(&message))).collect(),
            first_held: u32::MAX - 1,
            ..PageSender::default()
        }
    }

    fn notice(first: u32, last: u32, copied: bool) -> Completion {
        Completion {
            first,
            last,
            copied,
        }
    }

    #[test]
    fn notices_in_any_order_release_messages_and_count_copies() {
        let mut sender = holding(5);
        sender.complete(notice(0, 1, true));
        assert_eq!((sender.held.len(), sender.done, sender.copied), (5, 2, 2));
        sender.complete(notice(u32::MAX - 1, u32::MAX, false));
        assert_eq!((sender.held.len(), sender.first_held), (1, 2));
        sender.complete(notice(2, 2, false));
        assert_eq!((sender.held.len(), sender.done, sender.copied), (0, 5, 2));
    }

    /// What a protocol loops back is copied (msg_zerocopy.rst, Loopback).
    #[test]
    fn kernel_says_that_it_copied_what_was_looped_back() {
        if let Err(missing) = TCP_ZEROCOPY.available(&Options::default()) {
            eprintln!("SKIPPED: {}", missing.reason);
            return;
        }
        let options = Options::default();
        let mut listener = TCP_ZEROCOPY.listen(&options).expect("a listener");
        let to = listener.rendezvous().expect("an address");
        let mut client = TCP_ZEROCOPY.connect(&to, 0, &options).expect("a circuit");
        let mut server = listener
            .accept(Instant::now() + std::time::Duration::from_secs(5))
            .expect("it connected");
        let message: Arc<[u8]> = (0..16_384_u32).map(|at| (at * 7 % 251) as u8).collect();
        let mut buffer = vec![0; message.len()];
        for _ in 0..200 {
            assert_eq!(client.send_shared_run(&message, 1).expect("it is sent"), 1);
            let mut filled = 0;
            while filled < buffer.len() {
                match server.recv(&mut buffer[filled..]) {
                    Ok(got) => filled += got.expect("no end yet"),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            assert!(buffer[..] == message[..], "it came changed");
        }
        client.finish().expect("an end");
        let counts = client.counts();
        let done = counts["zerocopy_sends"];
        assert!(
            done > 0 && done + counts["zerocopy_refused"] >= 200,
            "{counts:?}"
        );
        assert_eq!(counts["zerocopy_copied"], done, "{counts:?}");
        assert_eq!(client.effective()["zerocopy"], "on");
    }

    #[test]
    fn notice_of_sends_that_were_not_made_changes_nothing() {
        let mut sender = holding(2);
        sender.complete(notice(7, u32::MAX - 2, true));
        assert_eq!((sender.held.len(), sender.done), (2, 0));
    }
}
