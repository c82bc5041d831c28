//! Datagrams between ends of one host: a provider whose datagrams go through a ring to each receiver.

use super::link::to_io_error;
use super::names::{self, ARRIVING_MAX};
use super::sources::{Ended, Source};
use super::{TIDU, geometry};
use crate::connections::{Sleep, Waits};
use crate::datagrams::NOT_SUPPORTED;
use crate::datagrams::requests::{self, DatagramService};
use crate::inet::Shared;
use crate::provider::{answer_without_options, indicate};
use crate::tpi::{Primitive, State, datagram_destination, datagram_options};
use channel::{ChannelReceiver, ChannelSender, Geometry, Signal};
use socket2::Socket;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use streams::{Block, Context, Marks, Message, Module, ModuleInfo, Pool, Side};

/// Name of the provider, which is also that of its addresses.
const NAME: &str = "ticlts";

/// Ends that send here, and ends that this one sends to, at most. Beyond it the one that came first
/// has to connect again.
const PEERS_MAX: usize = 256;

/// ECONNREFUSED: nobody receives at the address.
const REFUSED: i32 = 111;

/// The provider of `ticlts`: the driver of a stream.
pub(crate) struct LoopDatagrams {
    geometry: Geometry,
    marks: Marks,
    state: State,
    address: Vec<u8>,
    listener: Option<Socket>,
    arriving: Vec<Socket>,
    sources: Vec<Source>,
    /// The source whose turn is next.
    turn: usize,
    destinations: BTreeMap<Vec<u8>, ChannelSender>,
    shared: Arc<Shared>,
    /// Where the datagram goes that waits for room, and its octets.
    blocked: Option<(Vec<u8>, usize)>,
}

impl LoopDatagrams {
    /// A provider whose write queue has `marks`, and whose rings have at least `ring_octets`.
    pub(crate) fn new(ring_octets: usize, marks: Marks) -> LoopDatagrams {
        LoopDatagrams {
            geometry: geometry(ring_octets),
            marks,
            state: State::Unbound,
            address: Vec::new(),
            listener: None,
            arriving: Vec::new(),
            sources: Vec::new(),
            turn: 0,
            destinations: BTreeMap::new(),
            shared: Arc::default(),
            blocked: None,
        }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Octets of a ring.
    pub(crate) fn ring_octets(&self) -> u64 {
        u64::from(self.geometry.capacity())
    }

    /// Lets who waits hear a peer.
    fn watch(&self, peer: std::os::fd::BorrowedFd<'_>) {
        use rustix::event::epoll;
        if let Some(set) = self.shared.socket() {
            let data = epoll::EventData::new_u64(1);
            // One that cannot be watched is found by the next look.
            let _ = epoll::add(&*set, peer, data, epoll::EventFlags::IN);
        }
    }

    /// Sends a datagram; false while the ring to its receiver has no room for it.
    fn send(&mut self, message: &Message) -> io::Result<bool> {
        let control = message.control.as_ref().map_or(&[][..], Block::octets);
        let to = datagram_destination(control).ok_or(io::ErrorKind::InvalidInput)?;
        if !datagram_options(control).is_empty() {
            return Err(io::Error::from_raw_os_error(NOT_SUPPORTED));
        }
        let octets = message.data_octets();
        let sender = self.destination(to)?;
        if !sender.has_room(octets).map_err(to_io_error)? {
            self.blocked = Some((to.to_vec(), octets));
            return Ok(false);
        }
        let mut lent = sender.lend(octets).map_err(to_io_error)?;
        let mut at = 0;
        for block in &message.data {
            lent.write(at, block.octets()).map_err(to_io_error)?;
            at += block.len();
        }
        lent.commit(at).map_err(to_io_error)?;
        Ok(true)
    }

    /// The ring to a receiver, which is made if there is none.
    fn destination(&mut self, to: &[u8]) -> io::Result<&mut ChannelSender> {
        let has_gone = |sender: &ChannelSender| sender.peer_has_closed();
        if self.destinations.get(to).is_none_or(has_gone) {
            self.destinations.remove(to);
            let sender = self.connect(to)?;
            if self.destinations.len() >= PEERS_MAX {
                self.destinations.pop_first();
            }
            self.watch(sender.descriptor());
            self.destinations.insert(to.to_vec(), sender);
        }
        let found = self.destinations.get_mut(to);
        found.ok_or_else(|| io::Error::from_raw_os_error(REFUSED))
    }

    fn connect(&self, to: &[u8]) -> io::Result<ChannelSender> {
        let socket = names::connect(NAME, to)?;
        let socket = UnixStream::from(OwnedFd::from(socket));
        let opened = ChannelSender::open(socket, self.geometry, Signal::Poll);
        let mut sender = opened.map_err(to_io_error)?;
        sender.send(&self.address).map_err(to_io_error)?;
        Ok(sender)
    }

    /// Takes the rings of ends that begin to send here.
    fn accept_sources(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        while self.arriving.len() < ARRIVING_MAX {
            let Some(socket) = names::accept(listener) else {
                break;
            };
            self.arriving.push(socket);
        }
        if self.arriving.is_empty() {
            return;
        }
        for socket in std::mem::take(&mut self.arriving) {
            match names::has_opening(&socket) {
                Ok(true) => self.add_source(socket),
                Ok(false) => self.arriving.push(socket),
                Err(_) => {}
            }
        }
        let look_soon = &self.shared.look_soon;
        look_soon.store(!self.arriving.is_empty(), Ordering::Relaxed);
    }

    fn add_source(&mut self, socket: Socket) {
        let socket = UnixStream::from(OwnedFd::from(socket));
        // Who sends what is no opening is nobody.
        let Ok(receiver) = ChannelReceiver::accept(socket, Signal::Poll) else {
            return;
        };
        if self.sources.len() >= PEERS_MAX {
            self.sources.remove(0);
        }
        self.watch(receiver.descriptor());
        self.sources.push(Source::new(receiver));
    }

    /// The next datagram; sources take turns, and those that have ended go.
    fn next_datagram(&mut self, pool: &mut Pool) -> Option<Message> {
        let mut nothing = 0;
        while nothing < self.sources.len() {
            let at = self.turn % self.sources.len();
            match self.sources[at].next(pool) {
                Ok(Some(message)) => {
                    self.turn = at + 1;
                    return Some(message);
                }
                Ok(None) => {
                    self.turn = at + 1;
                    nothing += 1;
                }
                Err(Ended) => drop(self.sources.remove(at)),
            }
        }
        None
    }
}

/// A datagram did not leave (T_UDERROR_IND).
fn tell_error(context: &mut Context<'_>, message: &Message, error: &io::Error) {
    let control = message.control.as_ref().map_or(&[][..], Block::octets);
    if context.can_put_next(Side::Read, 0) {
        let indication = Primitive::DatagramError {
            options: datagram_options(control).to_vec(),
            destination: datagram_destination(control).unwrap_or_default().to_vec(),
            errno: error.raw_os_error().unwrap_or(REFUSED) as u32,
        };
        indicate(context, &indication);
    }
}

impl Waits for LoopDatagrams {
    fn prepare_wait(&mut self, write: bool) -> Sleep {
        let may_sleep = match (write, &self.blocked) {
            (true, None) => false,
            (true, Some((to, octets))) => {
                let sender = self.destinations.get_mut(to);
                sender.is_some_and(|sender| sender.prepare_poll(*octets).unwrap_or(false))
            }
            (false, _) => {
                let mut sources = self.sources.iter_mut();
                sources.all(|source| source.receiver.prepare_poll().unwrap_or(false))
            }
        };
        match may_sleep {
            true => Sleep::OnDescriptor,
            false => Sleep::Not,
        }
    }

    fn take_wakes(&mut self) {
        for source in &mut self.sources {
            // That a peer is gone is told by the next look.
            let _ = source.receiver.take_wakes();
        }
        self.destinations.retain(|_, sender| {
            let taken = sender.take_wakes();
            taken.is_ok() && !sender.peer_gone().unwrap_or(true)
        });
    }

    /// What is in a ring has left.
    fn flush_below(&mut self) {}

    fn count_calls(&mut self) {
        // Opening a ring is a call of each end.
        let sends = self
            .destinations
            .values()
            .map(|sender| 1 + sender.system_calls());
        self.shared.sends.store(sends.sum(), Ordering::Relaxed);
        let receives = self
            .sources
            .iter()
            .map(|source| 1 + source.receiver.system_calls());
        self.shared
            .receives
            .store(receives.sum(), Ordering::Relaxed);
    }
}

impl DatagramService for LoopDatagrams {
    fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    fn address(&self) -> &[u8] {
        &self.address
    }

    fn limits(&self) -> (i32, i32, i32, u32) {
        let flags = crate::tpi::SEND_ZERO;
        (TIDU as i32, names::NAME_MAX as i32, -2, flags)
    }

    fn bind(&mut self, address: &[u8]) -> io::Result<()> {
        use rustix::event::epoll;
        let (listener, address) = names::listen(NAME, address)?;
        // One descriptor to wait on for all peers.
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&set, &listener, data, epoll::EventFlags::IN)?;
        self.shared.set_socket(Some(Arc::new(Socket::from(set))));
        (self.listener, self.address) = (Some(listener), address);
        Ok(())
    }

    /// Drops all sockets and rings.
    fn unbind(&mut self) {
        self.shared.set_socket(None);
        self.shared.send_blocked.store(false, Ordering::Relaxed);
        self.address.clear();
        self.arriving.clear();
        self.sources.clear();
        self.destinations.clear();
        (self.listener, self.blocked) = (None, None);
    }

    fn answer_options(&mut self, octets: &[u8], flags: u32) -> Primitive {
        answer_without_options(octets, flags)
    }

    /// Service procedure of the read queue: up with what is there while the head has room.
    fn receive_queued(&mut self, context: &mut Context<'_>) {
        self.accept_sources();
        while context.can_put_next(Side::Read, 0) {
            let Some(message) = self.next_datagram(context.pool()) else {
                return;
            };
            context.put_next(Side::Read, message);
        }
    }

    /// Service procedure of the write queue.
    fn send_queued(&mut self, context: &mut Context<'_>) {
        while let Some(message) = context.get(Side::Write) {
            match self.send(&message) {
                Ok(true) => {}
                Ok(false) => {
                    self.shared.send_blocked.store(true, Ordering::Relaxed);
                    return context.put_back(Side::Write, message);
                }
                Err(error) => tell_error(context, &message, &error),
            }
            message.release(context.pool());
        }
        self.blocked = None;
        self.shared.send_blocked.store(false, Ordering::Relaxed);
    }
}

impl Module for LoopDatagrams {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::with_services(NAME, self.marks, TIDU)
    }

    fn close(&mut self, context: &mut Context<'_>) {
        requests::close(self, context);
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        requests::put(self, context, side, message);
    }

    fn service(&mut self, context: &mut Context<'_>, side: Side) {
        requests::service(self, context, side);
    }

    fn ready(&mut self, context: &mut Context<'_>) {
        requests::ready(self, context);
    }
}
