//! The provider of connections between ends of one host: the driver of a stream.

mod events;
mod requests;
mod transfer;

use crate::inet::Shared;
use crate::loopback::link::{Arriving, FrameKind, LoopLink};
use crate::loopback::{TIDU, TSDU, WITH_DATA, Waits, geometry};
use crate::provider;
use crate::tpi::{ADDRESS_MAX, Event, Information, RELEASE_DATA, SEND_ZERO, ServiceType, State};
use channel::Geometry;
use socket2::Socket;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use streams::{
    Context, Error, Extra, Marks, Message, MessageKind, Module, ModuleInfo, QueueInfo, Side,
};

/// A connection that one stream accepted for another.
type Passed = Arc<Mutex<Option<LoopLink>>>;

/// Streams that connections can be passed to, by token, with their service.
static ACCEPTORS: LazyLock<Mutex<BTreeMap<u32, (ServiceType, Passed)>>> =
    LazyLock::new(Mutex::default);

pub(super) fn acceptors() -> MutexGuard<'static, BTreeMap<u32, (ServiceType, Passed)>> {
    ACCEPTORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connection, or what comes before it.
#[derive(Default)]
pub(super) enum Ends {
    #[default]
    None,
    /// Accepts connections.
    Listening(Box<Listening>),
    /// Waits for the peer.
    Connecting(Box<LoopLink>),
    /// Carries data.
    Connected(Box<LoopLink>),
}

/// What an end that listens has.
pub(super) struct Listening {
    pub(super) socket: Socket,
    pub(super) limit: u32,
    pub(super) arriving: Vec<Arriving>,
    pub(super) waiting: VecDeque<Indication>,
}

/// A connection that waits for the user's answer.
pub(super) struct Indication {
    pub(super) sequence: u32,
    pub(super) link: LoopLink,
}

/// The provider of `ticots` or `ticotsord`.
pub struct LoopProvider {
    pub(super) service: ServiceType,
    pub(super) geometry: Geometry,
    marks: Marks,
    pub(super) state: State,
    pub(super) ends: Ends,
    /// The address that it is bound to; empty before that.
    pub(super) address: Vec<u8>,
    pub(super) token: u32,
    pub(super) shared: Arc<Shared>,
    passed: Passed,
    pub(super) next_sequence: u32,
    /// Octets of the message that waits for room in the ring.
    pub(super) blocked: Option<usize>,
}

impl LoopProvider {
    /// A provider with or without orderly release, whose write queue has `marks`, and whose rings have at
    /// least `ring_octets`.
    pub fn new(service: ServiceType, ring_octets: usize, marks: Marks) -> LoopProvider {
        let (token, passed) = (provider::new_token(), Passed::default());
        acceptors().insert(token, (service, Arc::clone(&passed)));
        LoopProvider {
            service,
            geometry: geometry(ring_octets),
            marks,
            state: State::Unbound,
            ends: Ends::None,
            address: Vec::new(),
            token,
            shared: Arc::default(),
            passed,
            next_sequence: 1,
            blocked: None,
        }
    }

    /// The token by which connections are passed to this stream (ACCEPTOR_id).
    pub fn token(&self) -> u32 {
        self.token
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Its name, which is also that of its addresses.
    pub(super) fn name(&self) -> &'static str {
        match self.service {
            ServiceType::Connections => "ticots",
            _ => "ticotsord",
        }
    }

    /// Octets of a ring, where there is one.
    pub(crate) fn ring_octets(&self) -> Option<u64> {
        match &self.ends {
            Ends::Connected(link) | Ends::Connecting(link) => Some(link.ring_octets()),
            _ => None,
        }
    }

    pub(super) fn set_ends(&mut self, ends: Ends) {
        Waits::count_calls(self);
        // Without a descriptor a wait is short, and looks again.
        let socket = match &ends {
            Ends::None => None,
            Ends::Listening(listening) => listening.socket.try_clone().ok(),
            Ends::Connecting(link) | Ends::Connected(link) => link.waitable().ok(),
        };
        self.shared.set_socket(socket.map(Arc::new));
        self.shared.send_blocked.store(false, Ordering::Relaxed);
        (self.ends, self.blocked) = (ends, None);
    }

    /// Changes the state; false, and nothing changes, when the event is not allowed.
    pub(super) fn on(&mut self, event: Event) -> bool {
        let next = self.state.after(event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    pub(super) fn information(&self) -> Information {
        Information {
            tsdu: TSDU as i32,
            etsdu: TSDU as i32,
            connect: WITH_DATA as i32,
            disconnect: WITH_DATA as i32,
            address: ADDRESS_MAX as i32,
            options: -2,
            tidu: TIDU as i32,
            service: self.service,
            state: self.state as u32,
            flags: match self.service {
                ServiceType::ConnectionsWithRelease => SEND_ZERO | RELEASE_DATA,
                _ => SEND_ZERO,
            },
        }
    }

    /// The stream fails: the user broke the protocol where there is no answer to say so.
    pub(super) fn fail(&mut self, context: &mut Context<'_>) {
        self.set_ends(Ends::None);
        self.state = State::Unbound;
        provider::fail_stream(context);
    }

    /// A connection that another stream accepted for this one.
    pub(super) fn take_passed(&mut self) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let link = passed.take();
        drop(passed);
        if let Some(link) = link
            && self.on(Event::PassConnection)
        {
            self.set_ends(Ends::Connected(Box::new(link)));
        }
    }
}

impl Drop for LoopProvider {
    fn drop(&mut self) {
        acceptors().remove(&self.token);
    }
}

impl Waits for LoopProvider {
    fn prepare_wait(&mut self, write: bool) -> bool {
        let blocked = self.blocked;
        match &mut self.ends {
            Ends::Connected(link) if write => match blocked {
                Some(octets) => link.prepare_wait(Some(octets)),
                None => false,
            },
            Ends::Connected(link) | Ends::Connecting(link) => link.prepare_wait(None),
            Ends::None | Ends::Listening(_) => true,
        }
    }

    fn take_wakes(&mut self) {
        if let Ends::Connected(link) | Ends::Connecting(link) = &mut self.ends {
            link.take_wakes();
        }
    }

    fn count_calls(&mut self) {
        if let Ends::Connected(link) | Ends::Connecting(link) = &self.ends {
            // Opening rings is a call of each end.
            let (sends, receives) = link.system_calls();
            self.shared.sends.store(1 + sends, Ordering::Relaxed);
            self.shared.receives.store(1 + receives, Ordering::Relaxed);
        }
    }
}

impl Module for LoopProvider {
    fn info(&self) -> ModuleInfo {
        let queue = QueueInfo {
            marks: self.marks,
            packet: (0, TIDU),
            service: true,
        };
        ModuleInfo {
            name: self.name(),
            read: queue,
            write: queue,
        }
    }

    fn open(&mut self, _: &mut Context<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// What is queued leaves if the ring takes it. With orderly release the peer gets one: what was sent
    /// arrives, whether or not the user said that it was all.
    fn close(&mut self, context: &mut Context<'_>) {
        self.take_passed();
        self.send_queued(context);
        let sends = matches!(self.state, State::DataTransfer | State::WaitReleaseRequest);
        let releases = self.service == ServiceType::ConnectionsWithRelease;
        if let Ends::Connected(link) = &mut self.ends
            && sends
            && releases
        {
            link.send_short(FrameKind::Release, &[]);
        }
        self.set_ends(Ends::None);
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (side, message.kind()) {
            (Side::Write, MessageKind::Data) => self.data_request(context, message),
            (Side::Write, MessageKind::Proto | MessageKind::HighProto) => {
                self.primitive(context, message);
            }
            (Side::Write, MessageKind::Flush) => {
                if let Some(&Extra::Flush(request)) = message.extra.as_deref() {
                    context.flush_and_turn(request);
                }
            }
            (Side::Write, MessageKind::Ioctl) => {
                context.reply(side, message.into_kind(MessageKind::IoctlNak));
            }
            _ => message.release(context.pool()),
        }
    }

    fn service(&mut self, context: &mut Context<'_>, side: Side) {
        match side {
            Side::Write => self.send_queued(context),
            Side::Read => self.receive_queued(context),
        }
    }

    fn ready(&mut self, context: &mut Context<'_>) {
        self.look_at_ends(context);
        if !context.is_empty(Side::Write) {
            context.enable(Side::Write);
        }
    }
}
