//! A socket: what was set, what waits for the program, and the descriptor that says so.

use super::port::Port;
use super::settings::{EndpointSettings, FragmentInterleave, Medium, Settings};
use crate::socket_pair::{ConnState, SocketPairEnd};
use crate::stream_service;
use library::sctp::EndpointConfig;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketType};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How associations share a socket (RFC 6458 sections 3 and 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// SOCK_STREAM: one association.
    OneToOne,
    /// SOCK_SEQPACKET: any number of them.
    OneToMany,
}

/// A socket of IPPROTO_SCTP.
pub(crate) struct SctpSocket {
    pub(crate) style: Style,
    /// AF_INET or AF_INET6.
    pub(crate) family: i32,
    pub(crate) link: Arc<SocketPairEnd>,
    inner: Mutex<Inner>,
}

/// The mutable part of a socket. Its lock is taken after that of the [`Port`], where both are.
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) endpoint: EndpointSettings,
    /// The addresses to bind; none of them stands for all of the host.
    pub(crate) local: Vec<IpAddr>,
    /// SCTP's own port; 0 until it is bound.
    pub(crate) local_port: u16,
    /// From the first listen, connect or send on.
    pub(crate) port: Option<Arc<Port>>,
    /// The association of a one-to-one socket, also after it has ended.
    pub(crate) association: Option<i32>,
    /// The peer of a one-to-one socket.
    pub(crate) peer: Option<SocketAddr>,
    /// Associations that wait for accept(2), at most; 0 unless it listens.
    pub(crate) backlog: usize,
    pub(crate) accepted: VecDeque<Accepted>,
    /// Of a one-to-one socket: nothing follows what waits.
    pub(crate) has_ended: bool,
    pub(crate) reads_shut_down: bool,
    /// The association of which parts of a message were given, whose end has not come.
    pub(crate) partial: Option<i32>,
    queue: VecDeque<Item>,
    queued_octets: usize,
    /// An octet in the socket pair makes the program's descriptor readable.
    has_token: bool,
}

/// An association that waits for accept(2).
pub(crate) struct Accepted {
    pub(crate) program: OwnedFd,
    pub(crate) socket: Arc<SctpSocket>,
    pub(crate) peer: SocketAddr,
}

/// A message or a notification that waits for the program.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) octets: Vec<u8>,
    /// Octets of all of it, also when they were taken.
    len: usize,
    /// What was read of them already.
    pub(crate) read: usize,
    pub(crate) content: Content,
}

/// What an [`Item`] is.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Message {
        from: SocketAddr,
        stream: u16,
        is_unordered: bool,
        ppid: u32,
        assoc: i32,
        /// More of it follows.
        is_part: bool,
    },
    Notification {
        assoc: i32,
    },
}

impl Item {
    /// Whether a message or a notification ends with it.
    pub(crate) fn ends(&self) -> bool {
        !matches!(self.content, Content::Message { is_part: true, .. })
    }

    pub(crate) fn assoc(&self) -> i32 {
        match self.content {
            Content::Message { assoc, .. } | Content::Notification { assoc } => assoc,
        }
    }
}

/// Octets that an item takes besides its own.
const ITEM_OVERHEAD: usize = 128;

/// Octets that wait for the program before messages stay in the engine, whose window shuts then.
pub(super) const QUEUE_MAX: usize = 256 << 10;

impl SctpSocket {
    /// A new socket, and the program's end of its pair.
    pub(crate) fn pair(
        style: Style,
        family: i32,
        state: ConnState,
        inner: Inner,
    ) -> io::Result<(OwnedFd, Arc<SctpSocket>)> {
        let (program, link) = stream_service::socket_pair(SocketType::STREAM, state)?;
        // The least that the kernel allows: filler is written until the socket is full.
        rustix::net::sockopt::set_socket_send_buffer_size(&program, 0)?;
        let inner = Mutex::new(inner);
        let socket = SctpSocket {
            style,
            family,
            link,
            inner,
        };
        Ok((program, Arc::new(socket)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a notification, if the program asked for its type.
    pub(crate) fn notify(&self, kind: super::notifications::Kind, assoc: i32, octets: Vec<u8>) {
        let mut inner = self.lock();
        if inner.settings.events & 1 << kind as u16 != 0 {
            let content = Content::Notification { assoc };
            inner.push(&self.link, octets, content);
        }
    }

    /// Adds a message.
    pub(crate) fn deliver(&self, octets: Vec<u8>, content: Content) {
        let mut inner = self.lock();
        if !inner.reads_shut_down {
            inner.push(&self.link, octets, content);
        }
    }

    /// Whether no more messages of an association fit, or those of another one come first.
    pub(crate) fn is_full_for(&self, assoc: i32) -> bool {
        let inner = self.lock();
        let waits = inner.settings.interleave == FragmentInterleave::Nothing
            && inner.partial.is_some_and(|other| other != assoc);
        waits || inner.queued_octets >= QUEUE_MAX
    }

    /// Parts of a message of `assoc` are given.
    pub(crate) fn begin_partial(&self, assoc: i32) {
        self.lock().partial.get_or_insert(assoc);
    }

    /// No message of `assoc` is open any more: other associations may have waited.
    pub(crate) fn end_partial(&self, assoc: i32) {
        let mut inner = self.lock();
        if inner.partial.take_if(|other| *other == assoc).is_some()
            && let Some(port) = &inner.port
        {
            port.wake();
        }
    }

    /// Of a one-to-one socket: nothing follows. With an error the next call fails with it.
    pub(crate) fn end(&self, error: Option<i32>) {
        self.lock().has_ended = true;
        match error {
            Some(error) => self.link.abort(error),
            None => {
                // Fails only where the program has closed its end.
                let _ = rustix::net::shutdown(self.link.fd(), rustix::net::Shutdown::Write);
                self.link.drain_filler();
            }
        }
    }
}

impl Drop for SctpSocket {
    fn drop(&mut self) {
        // Its associations end.
        if let Some(port) = &self.lock().port {
            port.wake();
        }
    }
}

impl Inner {
    pub(crate) fn new(settings: Settings, endpoint: EndpointSettings) -> Inner {
        Inner {
            settings,
            endpoint,
            local: Vec::new(),
            local_port: 0,
            port: None,
            association: None,
            peer: None,
            backlog: 0,
            accepted: VecDeque::new(),
            has_ended: false,
            reads_shut_down: false,
            partial: None,
            queue: VecDeque::new(),
            queued_octets: 0,
            has_token: false,
        }
    }

    /// Of a new socket, as the environment says.
    pub(crate) fn of_environment() -> io::Result<Inner> {
        let word = std::env::var("TOWPATH_SCTP").unwrap_or_default();
        let word = if word.is_empty() { "udp" } else { &word };
        let medium = Medium::from_word(word).ok_or(Errno::PROTONOSUPPORT)?;
        let config = EndpointConfig::default();
        let endpoint = EndpointSettings { config, medium };
        Ok(Inner::new(Settings::default(), endpoint))
    }

    fn push(&mut self, link: &SocketPairEnd, octets: Vec<u8>, content: Content) {
        self.queued_octets += octets.len() + ITEM_OVERHEAD;
        self.queue.push_back(Item {
            len: octets.len(),
            octets,
            read: 0,
            content,
        });
        self.set_readable(link);
    }

    /// Makes the program's descriptor readable.
    pub(crate) fn set_readable(&mut self, link: &SocketPairEnd) {
        if !self.has_token {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // Fails only where the program has closed its end.
            self.has_token = rustix::net::send(link.fd(), &[0], flags).is_ok();
        }
    }

    /// Makes it unreadable if nothing waits.
    pub(crate) fn update_readable(&mut self, program: BorrowedFd<'_>) {
        let is_empty = self.queue.is_empty() && self.accepted.is_empty();
        if is_empty && self.has_token {
            let mut octet = [0];
            // It is there, or the socket pair has ended.
            let _ = rustix::net::recv(program, &mut octet[..], RecvFlags::DONTWAIT);
            self.has_token = false;
        }
    }

    /// What waits first.
    pub(crate) fn front(&mut self) -> Option<&mut Item> {
        self.queue.front_mut()
    }

    /// What waits second.
    pub(crate) fn second(&self) -> Option<&Item> {
        self.queue.get(1)
    }

    /// Drops what waits first, and says whether there is room again where there was none.
    pub(crate) fn pop(&mut self) -> bool {
        let was_full = self.queued_octets >= QUEUE_MAX;
        if let Some(item) = self.queue.pop_front() {
            self.queued_octets -= item.len + ITEM_OVERHEAD;
        }
        was_full && self.queued_octets < QUEUE_MAX
    }

    /// Takes what waits of an association, for another socket.
    pub(crate) fn take_of(&mut self, assoc: i32) -> Vec<Item> {
        let (taken, left): (Vec<Item>, Vec<Item>) =
            self.queue.drain(..).partition(|item| item.assoc() == assoc);
        self.queue = left.into();
        for item in &taken {
            self.queued_octets -= item.len + ITEM_OVERHEAD;
        }
        taken
    }

    /// Gives a socket what was taken from another one.
    pub(crate) fn give(&mut self, link: &SocketPairEnd, items: Vec<Item>) {
        for item in items {
            self.queued_octets += item.len + ITEM_OVERHEAD;
            self.queue.push_back(item);
            self.set_readable(link);
        }
    }

    /// Parts are given of messages of so many octets.
    pub(crate) fn partial_point(&self) -> usize {
        let all = self.endpoint.config.config.receive_buffer;
        let point = self.settings.partial_point.map_or(all, u64::from);
        usize::try_from(point).unwrap_or(usize::MAX)
    }

    /// The port of a socket that listens, has an association or had one.
    pub(crate) fn port(&self) -> io::Result<Arc<Port>> {
        self.port.clone().ok_or_else(|| Errno::NOTCONN.into())
    }
}
