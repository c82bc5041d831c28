//! The thread of a socket of datagrams.
//!
//! Datagrams lie in the socket pair as letters, each behind an address. What the program writes
//! leaves in an association of its own; of each association that a peer opens, the first message is
//! a datagram. Unacknowledged ones (SOCK_DGRAM) that the program does not take are dropped, as UDP's
//! are; acknowledged ones (SOCK_RDM) wait, and their senders with them.

use crate::letter::{HEADER_LEN, Letter};
use crate::link::Link;
use crate::service::Running;
use crate::sys::number_of;
use library::xtp::{Circuit, AssociationId, Endpoint, Settings, Watch};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest datagram, as UDP's.
pub(crate) const DATAGRAM_MAX: usize = 65_507;

/// How often the thread looks around although nothing happened.
const LOOK: Duration = Duration::from_millis(100);

/// How long the message of an association may take to come, and one that was sent to be taken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Associations whose message has not come yet, or is not confirmed yet, at most of each; as many
/// unproven ones as an endpoint has.
const PENDING_MAX: usize = 1024;

/// Datagrams that wait for the program in this thread at most: 16 MiB of the longest.
const PARKED_MAX: usize = 256;

/// Datagrams taken from the program before peers have their turn.
const TURN: usize = 64;

/// A port of datagrams.
pub(crate) struct Port {
    address: SocketAddr,
    only: Arc<Mutex<Option<SocketAddr>>>,
    pub(crate) running: Arc<Running>,
    /// Octets of the longest datagram it can send.
    pub(crate) len_max: usize,
}

impl Port {
    /// Binds `local` and starts the thread, which ends when the program closed the socket.
    pub(crate) fn start(
        local: SocketAddr,
        settings: &Settings,
        link: &Arc<Link>,
        confirms: bool,
    ) -> io::Result<Port> {
        let endpoint = Endpoint::bind_messages(local, settings)?;
        endpoint.listen(true);
        let watch = endpoint.watch()?;
        let only = Arc::new(Mutex::new(None));
        let running = Running::new(endpoint.clone(), Some(Arc::clone(link)));
        let mut carrier = Carrier::new(endpoint, watch, Arc::clone(link), confirms, &only)?;
        let kept = Arc::clone(&running);
        let thread = std::thread::Builder::new().name("towpath-port".into());
        thread.spawn(move || {
            if let Err(error) = carrier.run(&kept) {
                carrier.link.break_off(number_of(&error));
            }
            drop(carrier);
            kept.set_empty();
            kept.close();
        })?;
        Ok(Port {
            address: running.endpoint.local_addr(),
            only,
            running,
            len_max: DATAGRAM_MAX.min(settings.send_queue_len / 2),
        })
    }

    /// Where it is.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// From now on it hears `peer` only; None for everybody.
    pub(crate) fn hear_only(&self, peer: Option<SocketAddr>) {
        *self.only.lock().unwrap_or_else(PoisonError::into_inner) = peer;
    }
}

/// An association that something is expected of.
struct Pending {
    circuit: Circuit,
    until: Instant,
}

/// What the thread knows.
struct Carrier {
    endpoint: Endpoint,
    watch: Watch,
    link: Arc<Link>,
    confirms: bool,
    only: Arc<Mutex<Option<SocketAddr>>>,
    epoll: OwnedFd,
    arriving: BTreeMap<AssociationId, Pending>,
    sent: BTreeMap<AssociationId, Pending>,
    /// Letters the socket had no room for.
    parked: VecDeque<Vec<u8>>,
    /// The program writes no more.
    is_mute: bool,
    buffer: Vec<u8>,
}

const PROGRAM: u64 = 0;
const WATCH: u64 = 1;

impl Carrier {
    fn new(
        endpoint: Endpoint,
        watch: Watch,
        link: Arc<Link>,
        confirms: bool,
        only: &Arc<Mutex<Option<SocketAddr>>>,
    ) -> io::Result<Carrier> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        let name = epoll::EventData::new_u64;
        epoll::add(&epoll, link.end(), name(PROGRAM), readable)?;
        epoll::add(&epoll, watch.descriptor(), name(WATCH), readable)?;
        Ok(Carrier {
            endpoint,
            watch,
            link,
            confirms,
            only: Arc::clone(only),
            epoll,
            arriving: BTreeMap::new(),
            sent: BTreeMap::new(),
            parked: VecDeque::new(),
            is_mute: false,
            buffer: vec![0; HEADER_LEN + DATAGRAM_MAX],
        })
    }

    /// Carries until the program has closed the socket and peers have what it sent.
    fn run(&mut self, running: &Running) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut looked = Instant::now();
        while !self.is_mute || !self.sent.is_empty() || !self.link.is_abandoned() {
            self.wait()?;
            self.deliver_parked()?;
            if !self.is_mute {
                self.take_letters()?;
            } else if self.sent.is_empty() {
                running.set_empty();
            }
            let accepts = self.watch.ready(&mut ready)?;
            for id in ready.drain(..) {
                self.look_at(id)?;
            }
            if accepts {
                self.accept()?;
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look_around()?;
            }
        }
        Ok(())
    }

    /// Sleeps until something happens.
    fn wait(&mut self) -> io::Result<()> {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, !self.is_mute);
        flags.set(epoll::EventFlags::OUT, !self.parked.is_empty());
        let name = epoll::EventData::new_u64(PROGRAM);
        epoll::modify(&self.epoll, self.link.end(), name, flags)?;
        let patience = self.watch.patience()?;
        let limit = patience.map_or(LOOK, |patience| patience.min(LOOK));
        if self.is_mute && self.link.is_abandoned() {
            // The end of a socket that is closed would be told again and again.
            std::thread::sleep(limit.min(Duration::from_millis(2)));
            return Ok(());
        }
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 2];
        match epoll::wait(&self.epoll, &mut events, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends what the program wrote.
    fn take_letters(&mut self) -> io::Result<()> {
        for _ in 0..TURN {
            if self.sent.len() >= PENDING_MAX {
                return Ok(());
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            let got = rustix::net::recv(self.link.end(), &mut buffer[..], RecvFlags::DONTWAIT);
            self.buffer = buffer;
            match got {
                Ok((_, 0)) => {
                    self.is_mute = true;
                    return Ok(());
                }
                Ok((_, len)) => self.send(len),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                // The program closed it with datagrams in it that it did not take.
                Err(Errno::CONNRESET) => self.is_mute = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn send(&mut self, len: usize) {
        let len = len.min(self.buffer.len());
        let Some(Letter::Mail(to)) = Letter::parse(&self.buffer[..len]) else {
            return;
        };
        let message = &self.buffer[HEADER_LEN..len];
        let sent = match self.confirms {
            false => self.endpoint.send_datagram(to, message),
            true => match self.endpoint.begin_acknowledged(to, message) {
                Ok(circuit) => {
                    let until = Instant::now() + PATIENCE;
                    self.sent.insert(circuit.id(), Pending { circuit, until });
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = sent {
            self.tell(&error);
        }
    }

    /// Has the program's next call give an error, and wakes it.
    fn tell(&mut self, error: &io::Error) {
        self.link.set_error(number_of(error));
        let letter = Letter::Error.emit();
        // A socket that is full has woken it.
        let _ = rustix::net::send(self.link.end(), &letter, quietly());
    }

    fn accept(&mut self) -> io::Result<()> {
        while self.arriving.len() < PENDING_MAX && self.parked.len() < PARKED_MAX {
            let Ok(circuit) = self.endpoint.try_accept() else {
                return Ok(());
            };
            let id = circuit.id();
            let until = Instant::now() + PATIENCE;
            self.arriving.insert(id, Pending { circuit, until });
            self.look_at(id)?;
        }
        Ok(())
    }

    /// Something happened to an association.
    fn look_at(&mut self, id: AssociationId) -> io::Result<()> {
        if let Some(pending) = self.sent.get_mut(&id) {
            match pending.circuit.drain(Duration::ZERO) {
                Err(error) if is_early(&error, pending.until) => {}
                Ok(()) => drop(self.sent.remove(&id)),
                Err(error) => {
                    self.sent.remove(&id);
                    self.tell(&error);
                }
            }
            return Ok(());
        }
        let Some(pending) = self.arriving.get_mut(&id) else {
            return Ok(());
        };
        if self.parked.len() >= PARKED_MAX {
            return Ok(());
        }
        let peer = pending.circuit.peer();
        let until = pending.until;
        let got = pending.circuit.try_recv(&mut self.buffer[HEADER_LEN..]);
        if matches!(&got, Err(error) if is_early(error, until)) {
            return Ok(());
        }
        self.arriving.remove(&id);
        match got {
            // An end without a message is one without bytes.
            Ok(len) => self.deliver(peer, len.unwrap_or(0).min(DATAGRAM_MAX)),
            Err(_) => Ok(()),
        }
    }

    /// Gives the program the datagram that lies in the buffer.
    fn deliver(&mut self, from: SocketAddr, len: usize) -> io::Result<()> {
        let only = *self.only.lock().unwrap_or_else(PoisonError::into_inner);
        if only.is_some_and(|only| only != from) {
            return Ok(());
        }
        self.buffer[..HEADER_LEN].copy_from_slice(&Letter::Mail(from).emit());
        let letter = &self.buffer[..HEADER_LEN + len];
        let is_full = !self.parked.is_empty() || !write(&self.link, letter)?;
        if is_full && self.confirms {
            self.parked.push_back(letter.to_vec());
        }
        Ok(())
    }

    fn deliver_parked(&mut self) -> io::Result<()> {
        while let Some(letter) = self.parked.front() {
            if !write(&self.link, letter)? {
                return Ok(());
            }
            self.parked.pop_front();
        }
        Ok(())
    }

    /// Looks at everything that something is expected of.
    fn look_around(&mut self) -> io::Result<()> {
        let pending = self.arriving.keys().chain(self.sent.keys());
        let ids: Vec<_> = pending.copied().collect();
        for id in ids {
            self.look_at(id)?;
        }
        self.accept()
    }
}

/// Whether what is waited for may still come.
fn is_early(error: &io::Error, until: Instant) -> bool {
    let waits = matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    );
    waits && Instant::now() < until
}

fn quietly() -> SendFlags {
    SendFlags::DONTWAIT | SendFlags::NOSIGNAL
}

/// Writes a letter to the program; false when the socket is full. One that is closed takes all.
fn write(link: &Link, letter: &[u8]) -> io::Result<bool> {
    match rustix::net::send(link.end(), letter, quietly()) {
        Ok(_) | Err(Errno::PIPE) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
