//! The provider of connections: the driver of a stream, over a protocol that runs in the user's process.
//!
//! * `below` - what it asks of the protocol and of its connections.
//! * `requests`, `events`, `transfer` - the user's primitives, the peer's frames, data.
//! * `runs` - several messages at once.

mod below;
mod events;
mod requests;
mod runs;
mod transfer;

pub use below::Waiter;
pub(crate) use below::{
    Behind, Frame, FrameKind, Link, Next, Protocol, Sleep, Waits, introduction, split_introduction,
};

use crate::inet::{Shared, TIDU};
use crate::provider;
use crate::tpi::{Event, Information, ServiceType, State};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use streams::{Context, Marks, Message, MessageKind, Module, ModuleInfo, Side};

/// A connection that one stream accepted for another.
type Passed<L> = Arc<Mutex<Option<L>>>;

/// A stream that connections can be passed to: the name of its provider, and where to put one, which is a
/// [`Passed`] of the provider's.
type Acceptor = (&'static str, Arc<dyn Any + Send + Sync>);

/// Those streams by token.
static ACCEPTORS: LazyLock<Mutex<BTreeMap<u32, Acceptor>>> = LazyLock::new(Mutex::default);

fn acceptors() -> MutexGuard<'static, BTreeMap<u32, Acceptor>> {
    ACCEPTORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connection, or what comes before it.
enum Ends<L> {
    None,
    /// Accepts connections.
    Listening(Listening<L>),
    /// Waits for the peer.
    Connecting(Box<L>),
    /// Carries data.
    Connected(Box<L>),
}

/// What an end that listens has.
struct Listening<L> {
    limit: u32,
    waiting: VecDeque<Indication<L>>,
}

/// A connection that waits for the user's answer.
struct Indication<L> {
    sequence: u32,
    link: L,
}

/// The provider.
pub(crate) struct ConnectionProvider<P: Protocol> {
    protocol: P,
    marks: Marks,
    state: State,
    ends: Ends<P::Link>,
    /// The address that it is bound to; empty before that.
    address: Vec<u8>,
    token: u32,
    shared: Arc<Shared>,
    passed: Passed<P::Link>,
    next_sequence: u32,
    /// Octets of the message that waits for room below.
    blocked: Option<usize>,
}

impl<P: Protocol> ConnectionProvider<P> {
    /// A provider over a protocol, whose write queue has `marks`.
    pub(crate) fn new(protocol: P, marks: Marks) -> ConnectionProvider<P> {
        let (token, passed) = (provider::new_token(), Passed::default());
        let place: Arc<dyn Any + Send + Sync> = Arc::<Mutex<Option<P::Link>>>::clone(&passed);
        acceptors().insert(token, (protocol.name(), place));
        ConnectionProvider {
            protocol,
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
    pub(crate) fn token(&self) -> u32 {
        self.token
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Octets of a ring, where there is one.
    pub(crate) fn ring_octets(&self) -> Option<u64> {
        self.link()?.ring_octets()
    }

    /// The connection, where there is one or is to be one.
    pub(crate) fn link(&self) -> Option<&P::Link> {
        match &self.ends {
            Ends::Connected(link) | Ends::Connecting(link) => Some(link),
            Ends::None | Ends::Listening(_) => None,
        }
    }

    /// Whether a message may have these options (TBADOPT).
    pub(crate) fn takes_message_options(&self, octets: &[u8]) -> bool {
        self.protocol.takes_message_options(self.link(), octets)
    }

    /// Messages come with their options from here on.
    pub(crate) fn report_options(&mut self) {
        self.protocol.report_options();
        self.adopt();
    }

    /// Gives the connection what the user has set.
    fn adopt(&mut self) {
        if let Ends::Connected(link) | Ends::Connecting(link) = &mut self.ends {
            self.protocol.adopt(link);
        }
    }

    /// Octets wait for room below.
    fn block_for(&mut self, octets: usize) {
        self.blocked = Some(octets);
        self.shared.send_blocked.store(true, Ordering::Relaxed);
    }

    fn service_type(&self) -> ServiceType {
        self.protocol.information().service
    }

    fn set_ends(&mut self, mut ends: Ends<P::Link>) {
        Waits::count_calls(self);
        let listens = |ends: &Ends<P::Link>| matches!(ends, Ends::Listening(_));
        if listens(&self.ends) && !listens(&ends) {
            self.protocol.stop_listening();
        }
        // Without a descriptor a wait is short, and looks again.
        let waitable = match &ends {
            Ends::None => None,
            Ends::Listening(_) => self.protocol.waitable(),
            Ends::Connecting(link) | Ends::Connected(link) => link.waitable(),
        };
        if let Ends::Connecting(link) | Ends::Connected(link) = &mut ends {
            self.protocol.adopt(link);
        }
        self.shared.set_socket(waitable.map(Arc::new));
        self.shared.send_blocked.store(false, Ordering::Relaxed);
        self.shared.unflushed.store(false, Ordering::Relaxed);
        (self.ends, self.blocked) = (ends, None);
    }

    fn information(&self) -> Information {
        Information {
            state: self.state as u32,
            ..self.protocol.information()
        }
    }

    /// The stream fails: the user broke the protocol where there is no answer to say so.
    fn fail(&mut self, context: &mut Context<'_>) {
        self.set_ends(Ends::None);
        self.state = State::Unbound;
        provider::fail_stream(context);
    }

    /// A connection that another stream accepted for this one.
    fn take_passed(&mut self) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let link = passed.take();
        drop(passed);
        if let Some(link) = link
            && self.state.advance(Event::PassConnection)
        {
            self.set_ends(Ends::Connected(Box::new(link)));
        }
    }
}

impl<P: Protocol> Drop for ConnectionProvider<P> {
    fn drop(&mut self) {
        acceptors().remove(&self.token);
    }
}

impl<P: Protocol> Waits for ConnectionProvider<P> {
    fn prepare_wait(&mut self, write: bool) -> Sleep {
        match &mut self.ends {
            Ends::Connected(link) if write => match self.blocked {
                Some(octets) => link.sleep(Some(octets)),
                None => Sleep::Not,
            },
            Ends::Connected(link) | Ends::Connecting(link) => link.sleep(None),
            Ends::Listening(_) => self.protocol.sleep(),
            Ends::None => Sleep::OnDescriptor,
        }
    }

    fn take_wakes(&mut self) {
        if let Ends::Connected(link) | Ends::Connecting(link) = &mut self.ends {
            link.take_wakes();
        }
    }

    fn flush_below(&mut self) {
        if let Ends::Connected(link) = &mut self.ends {
            link.flush();
            if link.has_unsent() {
                self.block_for(0);
            }
        }
        self.shared.unflushed.store(false, Ordering::Relaxed);
    }

    fn count_calls(&mut self) {
        if let Some(link) = self.link() {
            let (sends, receives) = link.system_calls();
            self.shared.sends.store(sends, Ordering::Relaxed);
            self.shared.receives.store(receives, Ordering::Relaxed);
        }
    }
}

impl<P: Protocol> Module for ConnectionProvider<P> {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::with_services(self.protocol.name(), self.marks, TIDU)
    }

    /// What is queued leaves if there is room. With orderly release the peer gets one: what was sent
    /// arrives, whether or not the user said that it was all.
    fn close(&mut self, context: &mut Context<'_>) {
        self.take_passed();
        self.send_queued(context);
        let sends = matches!(self.state, State::DataTransfer | State::WaitReleaseRequest);
        let releases = self.service_type() == ServiceType::ConnectionsWithRelease;
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
            (Side::Write, MessageKind::Proto) if runs::is_run(&message) => {
                self.run_request(context, message);
            }
            (Side::Write, MessageKind::Proto | MessageKind::HighProto) => {
                self.primitive(context, message);
            }
            _ => provider::put_other(context, side, message),
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
        let is_unflushed = self.shared.unflushed.load(Ordering::Relaxed);
        if !context.is_empty(Side::Write) || self.blocked.is_some() || is_unflushed {
            context.enable(Side::Write);
        }
    }
}
