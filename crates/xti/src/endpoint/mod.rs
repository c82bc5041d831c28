//! The functions of XTI on one transport endpoint. Their names are those of C without `t_`.
//!
//! * `open` - opens an endpoint of each provider.
//! * `connections` - bind, connect, listen, accept.
//! * `transfer` - snd and rcv, and the waiting of both.
//! * `messages` - snd and rcv where messages keep their boundaries.
//! * `datagrams` - sndudata, rcvudata, rcvuderr.
//! * `options` - optmgmt and sync; options of messages.
//! * `release` - orderly release and disconnection.
//! * `gathered` - short messages that leave together.
//! * `runs`, `received_run` - snd of many messages alike, rcv of many messages.
//! * `state` - the states of the library.
//! * `waiting` - waits for what is below the stream.
//! * `byte_stream` - read and write.
//! * `socket_calls` - requests of a socket library.
//! * `vectors` - sndv, rcvv, sndvudata, rcvvudata.

mod byte_stream;
mod connections;
mod datagrams;
mod gathered;
mod messages;
mod open;
mod options;
mod received_run;
mod release;
mod runs;
mod socket_calls;
mod state;
mod transfer;
mod vectors;
mod waiting;

pub use byte_stream::XtiByteStream;
pub use connections::{Bound, With, XtiCall};
pub use datagrams::DatagramFailure;
pub use release::Disconnection;
pub use socket_calls::Shutdown;
pub use state::{Look, XtiState};
pub use transfer::{Flags, XtiReceived};
pub use vectors::BUFFERS_MAX;
pub use waiting::XtiReadiness;

use crate::affinity::{Affinity, Place};
use crate::error::{Error, TliError};
use crate::helper;
use crate::inet::Shared as SocketShared;
use crate::tpi::{self, Information, Primitive, ServiceType, TransportOption};
use gathered::{GatherLimit, Gathered};
use received_run::ReceivedRun;
use rustix::thread::sched_getcpu;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use streams::{Block, Hysteresis, Marks, Message, MessageKind, Priority, Runtime, StreamId, Want};

/// ServiceType procedures that one call runs at most.
const BUDGET: usize = 1024;

/// How a stream is made: the factors of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// When a full queue takes messages again.
    pub hysteresis: Hysteresis,
    /// Water marks of the provider's write queue.
    pub marks: Marks,
    /// ServiceType procedures run when the caller waits, receives or finds the queue full, and within a
    /// millisecond; else at the end of each call.
    pub deferred: bool,
    /// On which processor service procedures run that were put off, when the helper runs them.
    pub affinity: Affinity,
    /// Datagrams are copied behind room for the header of a driver, which writes it there (SO_WROFF).
    pub headroom: bool,
    /// Short sends are collected at the head, up to 8 KiB in one message (SO_STRHOLD); those over a protocol of the
    /// process that keeps boundaries too, which it gets back there. Else each is a message of its own.
    pub hold: bool,
    /// Long messages of a run of sends are lent to the stream; else all are copied into blocks of its own.
    pub lent: bool,
    /// Each call of the head makes one system call that does nothing, as a runtime in the kernel
    /// would.
    pub crossing: bool,
    /// TCP's provider has expedited data. Without, what a peer sends as urgent is part of the stream (SO_OOBINLINE), and
    /// a receive waits in the receive itself, without a poll.
    pub expedited: bool,
}

impl Default for StreamOptions {
    /// As the study's driver: full hysteresis, 32 KiB, deferred; and short sends are collected.
    fn default() -> StreamOptions {
        const MARKS: Marks = match Marks::constant(32_768, 0) {
            Some(marks) => marks,
            None => panic!("32,768 is above 0"),
        };
        StreamOptions {
            hysteresis: Hysteresis::Full,
            marks: MARKS,
            deferred: true,
            affinity: Affinity::Any,
            headroom: false,
            hold: true,
            lent: true,
            crossing: false,
            expedited: true,
        }
    }
}

/// A transport endpoint.
pub struct XtiEndpoint {
    pub(crate) shared: Arc<Shared>,
}

/// What threads that use an endpoint share.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    socket: Arc<SocketShared>,
    /// One thread receives from the socket at a time.
    receiving: Mutex<()>,
    /// The helper knows that something is queued.
    pub(crate) listed: AtomicBool,
    /// The processor on which something was queued last, where [`Affinity`] asks for it.
    pub(crate) queued_on: AtomicUsize,
    /// How often the helper ran what was scheduled on that one, and on another.
    pub(crate) helped_on_same: AtomicU64,
    pub(crate) helped_on_other: AtomicU64,
    /// Calls that waited for the kernel.
    waits: AtomicU64,
    options: StreamOptions,
    token: u32,
    provider: Provider,
}

/// What is at the end of an endpoint's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    Tcp,
    Datagrams,
    /// Connections within the host, with or without orderly release.
    Loop(ServiceType),
    LoopDatagrams,
    /// Connections of a [`Carrier`](crate::carrier::Carrier), by name.
    Carried(&'static str),
}

/// The stream of an endpoint and the library's state.
struct Inner {
    runtime: Runtime,
    stream: StreamId,
    state: XtiState,
    /// Connections that were listened to and not answered.
    outstanding: u32,
    /// Connections that may wait: the queue length of the bind.
    queue_len: u32,
    information: Information,
    /// A message that was taken to look at it.
    ahead: Option<Message>,
    /// What is left of a datagram, or of a piece of a message, that did not fit into the user's buffer.
    rest: Option<Message>,
    /// A block to receive into.
    spare: Option<Block>,
    /// What short messages are collected up to, where they are, and what was collected.
    gather_limit: Option<GatherLimit>,
    gathered: Option<Gathered>,
    /// Messages that came at once and of which the user has some.
    received: Option<ReceivedRun>,
    /// The provider knows that it may hand up several at once.
    takes_runs: bool,
    /// Options of the message that was received last.
    came_with: Vec<TransportOption>,
}

impl XtiEndpoint {
    /// What the provider can (t_getinfo).
    pub fn information(&self) -> Information {
        self.lock().information
    }

    /// The state of the endpoint (t_getstate).
    pub fn state(&self) -> XtiState {
        self.lock().state
    }

    /// Local and remote address (t_getprotaddr); empty where there is none.
    ///
    /// # Errors
    ///
    /// [`TliError::Protocol`] when the provider answers something else.
    pub fn addresses(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        match self.lock().ask(&Primitive::AddressRequest)? {
            Primitive::AddressAck { local, remote } => Ok((local, remote)),
            _ => Err(TliError::Protocol.into()),
        }
    }

    /// The socket behind the endpoint, where it has one: to wait on, and to read options back.
    pub fn socket(&self) -> Option<Arc<socket2::Socket>> {
        self.shared.socket.socket()
    }

    /// How its stream was made.
    pub fn options(&self) -> StreamOptions {
        self.shared.options
    }

    /// System calls that sent, failed ones included; with rings those of the rings that are there now.
    pub fn kernel_sends(&self) -> u64 {
        self.count_calls_below();
        self.shared.socket.sends.load(Ordering::Relaxed)
    }

    /// System calls that received, failed ones included; with rings those of the rings that are there now.
    pub fn kernel_receives(&self) -> u64 {
        self.count_calls_below();
        self.shared.socket.receives.load(Ordering::Relaxed)
    }

    /// How often a call waited for the kernel.
    pub fn waits(&self) -> u64 {
        self.shared.waits.load(Ordering::Relaxed)
    }

    /// How often the helper ran what was scheduled on the processor on which it was queued, and on another: counted
    /// unless the affinity is [`Affinity::Any`].
    pub fn helped(&self) -> (u64, u64) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            of(&self.shared.helped_on_same),
            of(&self.shared.helped_on_other),
        )
    }

    /// Runs what is scheduled: queued data leave now.
    pub fn run(&self) {
        let mut inner = self.lock();
        inner.run_for_room(&self.shared.socket);
        self.shared.flush_below(&mut inner);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        if self.shared.options.crossing {
            let _ = rustix::process::getppid();
        }
        self.shared.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the helper, which is about to run what is scheduled: moves it where that is to run.
    pub(crate) fn help_at(&self, place: &mut Place) {
        let affinity = self.options.affinity;
        let is_same = place.go(affinity, self.queued_on.load(Ordering::Relaxed));
        if affinity != Affinity::Any {
            let counter = match is_same {
                true => &self.helped_on_same,
                false => &self.helped_on_other,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// For the helper: runs what is scheduled, unless a user is at it, and tries again what the
    /// socket refused. Whether all has left.
    pub(crate) fn run_if_free(&self) -> bool {
        let Ok(mut inner) = self.inner.try_lock() else {
            return false;
        };
        if self.socket.send_blocked.load(Ordering::Relaxed) {
            inner.look_for_room(&self.socket);
        } else {
            inner.run_for_room(&self.socket);
        }
        self.flush_below(&mut inner);
        !self.socket.send_blocked.load(Ordering::Relaxed)
    }

    /// What a protocol in the process got while the user sent on leaves now.
    fn flush_below(&self, inner: &mut Inner) {
        if self.socket.unflushed.load(Ordering::Relaxed) {
            // A stream that has failed sends no more.
            let _ = inner.with_waits(self.provider, |driver| driver.flush_below());
        }
    }

    /// Has the helper look after what was queued and will not leave by itself.
    #[inline]
    fn note_if_deferred(self: &Arc<Self>, inner: &Inner) {
        let waits = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let has_work = inner.gathered.is_some() || inner.runtime.has_work();
        if has_work || waits(&self.socket.send_blocked) || waits(&self.socket.unflushed) {
            self.note_deferred();
        }
    }

    fn note_deferred(self: &Arc<Self>) {
        if self.options.affinity != Affinity::Any {
            self.queued_on.store(sched_getcpu(), Ordering::Relaxed);
        }
        if !self.listed.swap(true, Ordering::Relaxed) {
            helper::watch(self);
        }
    }
}

impl Drop for XtiEndpoint {
    /// t_close: what is queued leaves if the socket takes it; a connection that is open ends.
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.run();
        let stream = inner.stream;
        let _ = inner.runtime.close(stream);
    }
}

impl Inner {
    fn run(&mut self) {
        self.send_gathered();
        while self.runtime.run(BUDGET) == BUDGET {}
    }

    /// Tells the provider to look at its socket, and runs what that schedules.
    fn look_below(&mut self) {
        self.send_gathered();
        let _ = self.runtime.ready(self.stream);
        self.run();
    }

    /// The same for who sends: what has come to the kernel's socket stays there, so that a poll goes on to tell it.
    fn look_for_room(&mut self, socket: &SocketShared) {
        let outside = socket.received_outside.swap(true, Ordering::Relaxed);
        self.look_below();
        socket.received_outside.store(outside, Ordering::Relaxed);
    }

    /// As [`Inner::run`], for who sends.
    fn run_for_room(&mut self, socket: &SocketShared) {
        let outside = socket.received_outside.swap(true, Ordering::Relaxed);
        self.run();
        socket.received_outside.store(outside, Ordering::Relaxed);
    }

    /// The same for who goes on sending: a protocol in the process may wait for more.
    fn run_and_send_on(&mut self, socket: &SocketShared) {
        socket.sends_on.store(true, Ordering::Relaxed);
        self.run_for_room(socket);
        socket.sends_on.store(false, Ordering::Relaxed);
    }

    /// Sends a primitive that is answered, and returns the answer.
    fn ask(&mut self, primitive: &Primitive) -> Result<Primitive, Error> {
        self.ask_with(primitive, &[])
    }

    /// The same with data of the user behind it.
    fn ask_with(&mut self, primitive: &Primitive, said: &[u8]) -> Result<Primitive, Error> {
        self.put(primitive, said)?;
        self.run();
        let message = match self.runtime.take_blocks(self.stream, Want::High) {
            Ok(message) => message,
            Err(streams::Error::WouldBlock) => return Err(TliError::Protocol.into()),
            Err(error) => return Err(error.into()),
        };
        let answer = parse(&message);
        message.release(self.runtime.pool_mut());
        match answer? {
            Primitive::ErrorAck { tli, errno, .. } => Err(Error {
                tli: TliError::from_number(tli),
                errno: errno as i32,
            }),
            answer => Ok(answer),
        }
    }

    /// Sends a primitive with T_OK_ACK for an answer.
    fn ask_for_ok(&mut self, primitive: &Primitive, said: &[u8]) -> Result<(), Error> {
        match self.ask_with(primitive, said)? {
            Primitive::OkAck { of } if of == primitive.number() => Ok(()),
            _ => Err(TliError::Protocol.into()),
        }
    }

    /// Whether data of a user may go with a connect or a disconnect (TBADDATA).
    fn check_said(longest: i32, said: &[u8]) -> Result<(), Error> {
        match said.len() <= longest.max(0) as usize {
            true => Ok(()),
            false => Err(TliError::BadData.into()),
        }
    }

    /// Data of the primitive in front.
    fn said_in_front(&self) -> Vec<u8> {
        let Some(message) = &self.ahead else {
            return Vec::new();
        };
        let mut said = vec![0; message.data_octets()];
        message.copy_data(0, &mut said);
        said
    }

    fn put(&mut self, primitive: &Primitive, said: &[u8]) -> Result<(), Error> {
        let priority = match primitive.is_high_priority() {
            true => Priority::High,
            false => Priority::Band(0),
        };
        self.send_gathered();
        let octets = primitive.octets();
        let said = (!said.is_empty()).then_some(said);
        self.runtime
            .put_message(self.stream, Some(&octets), said, priority)?;
        Ok(())
    }

    /// The primitive in front of the stream, if its first message is one; it stays there.
    fn primitive_in_front(&mut self) -> Option<Primitive> {
        if self.ahead.is_none() {
            if self.runtime.first_kind(self.stream) != Ok(Some(MessageKind::Proto)) {
                return None;
            }
            self.ahead = self.runtime.take_blocks(self.stream, Want::Any).ok();
        }
        self.ahead.as_ref().and_then(|message| parse(message).ok())
    }

    /// Takes the primitive in front away.
    fn take_primitive(&mut self) {
        if let Some(message) = self.ahead.take() {
            message.release(self.runtime.pool_mut());
        }
    }

    /// The event that waits (t_look).
    fn look(&mut self) -> Option<Look> {
        if self.rest.is_some() || self.received.is_some() {
            let is_expedited = self.rest.as_ref().is_some_and(|rest| rest.band() > 0)
                || self
                    .primitive_in_front()
                    .and_then(|primitive| Look::of(&primitive))
                    == Some(Look::Expedited);
            return Some(match is_expedited {
                false => Look::Data,
                true => Look::Expedited,
            });
        }
        if self.ahead.is_none()
            && self.runtime.first_kind(self.stream) == Ok(Some(MessageKind::Data))
        {
            return Some(Look::Data);
        }
        match self.primitive_in_front() {
            Some(primitive) => Look::of(&primitive),
            None => self
                .ahead
                .as_ref()
                .is_some_and(is_run)
                .then_some(Look::Data),
        }
    }

    fn require(&self, allowed: &[XtiState]) -> Result<(), Error> {
        match allowed.contains(&self.state) {
            true => Ok(()),
            false => Err(TliError::OutOfState.into()),
        }
    }
}

/// Whether a message is a run of messages (`tpi::run`).
#[inline]
fn is_run(message: &Message) -> bool {
    let control = message.control.as_ref();
    control.is_some_and(|control| tpi::is_run(control.octets()))
}

fn parse(message: &Message) -> Result<Primitive, Error> {
    let control = message.control.as_ref().ok_or(TliError::Protocol)?;
    Ok(tpi::parse(control.octets()).map_err(|_| TliError::Protocol)?)
}

impl XtiEndpoint {
    /// The event that waits to be handled (t_look).
    pub fn look(&self) -> Option<Look> {
        let mut inner = self.lock();
        // Behind the rest of a message may come what passes it.
        if inner.rest.is_some() || inner.received.is_some() || inner.look().is_none() {
            inner.look_below();
        }
        inner.look()
    }
}
