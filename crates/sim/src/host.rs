//! A station: an engine and the chips that work for it.
//!
//! The main processor serves one process at a time, in the order in which they were queued:
//! *writer* (the user's copy into the protocol), *reader* (the copy out of it), *sender* and
//! *receiver* (the protocol). The timer chip, the rate controller and the network controller work
//! beside it.

use crate::adapter::{Adapter, AdapterReport};
use crate::cost::HostCost;
use crate::flow::{MessageNotes, Target};
use crate::frames::{Contents, MessageTag};
use crate::node::Node;
use crate::run_queue::RunQueue;
use crate::station_layer::StationLayer;
use engine::{
    Address, AssociationId, Counters, IncomingMessage, Instant, OutgoingMessage, TransactionId,
};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The address of all other stations.
pub const GROUP: Address = Address::Station(u32::MAX);

/// Patterns of traffic whose groups have addresses of their own.
const GROUPS: u32 = 1 << 16;

/// The address of the group that a pattern of traffic calls. A medium takes it to all other stations, as
/// [`GROUP`].
pub(crate) fn group_address(source: usize) -> Address {
    match u32::try_from(source) {
        Ok(source) if source < GROUPS => Address::Station(u32::MAX - 1 - source),
        _ => GROUP,
    }
}

/// The pattern whose group has this address.
pub(crate) fn group_of(address: Address) -> Option<usize> {
    let Address::Station(number) = address else {
        return None;
    };
    let source = (u32::MAX - 1).checked_sub(number)?;
    (source < GROUPS).then_some(source as usize)
}

/// A process of the main processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The user's copy into the protocol.
    Writer,
    /// The copy out to the user.
    Reader,
    /// The protocol's transmit path.
    Sender,
    /// The protocol's receive path.
    Receiver,
}

/// All of them, in the order of [`StationReport::busy_ps`].
pub const PROCESSES: [Process; 4] = [
    Process::Writer,
    Process::Reader,
    Process::Sender,
    Process::Receiver,
];

/// Measurements of a station.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StationReport {
    /// Time the main processor spent on each of [`PROCESSES`], ps.
    pub busy_ps: [u64; 4],
    /// Most frames at the network controller at once.
    pub controller_max: u64,
    /// Frames at the network controller, integrated over time, frame ps: divided by the time it is
    /// the mean.
    pub controller_ps: u128,
    /// Time each frame spent at the network controller, summed over the frames that left it, ps. By
    /// Little's law the same as `controller_ps` when none is left.
    pub sojourn_ps: u128,
    /// Frames that the controller dropped: its queue was full, or they collided too often.
    pub frames_dropped: u64,
    /// Packets that it sent through rings of its host, instead of its network controller.
    pub ring_packets: u64,
    /// Most packets that waited for the receiver at once.
    pub arrivals_max: u64,
    /// Most parts of messages, each as long as a packet's payload, that waited for the writer at once.
    pub writer_max: u64,
    /// Most runs of arrived bytes that waited for the reader at once.
    pub reader_max: u64,
    /// Most bytes that the protocol had delivered and its users had not read.
    pub unread_max_bytes: u64,
    /// Packets that were dropped because as many as may waited for the receiver.
    pub arrivals_dropped: u64,
    /// What its adapter counted; zeros without one.
    pub adapter: AdapterReport,
    /// The counters of its engine, or the sum over all engines it had.
    pub counters: Counters,
}

/// Part of a message to be copied in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteJob {
    pub(crate) message: WrittenMessage,
    pub(crate) len: u64,
    pub(crate) first: bool,
    pub(crate) last: bool,
}

/// The message that a [`WriteJob`] belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WrittenMessage {
    /// A message of a flow, with its number there.
    OfFlow { flow: usize, index: u64 },
    /// The reply of a transaction.
    Reply(TransactionId),
    /// One that no association carries: only its copy counts.
    Unsent,
}

/// Bytes to be copied out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadJob {
    pub(crate) circuit: AssociationId,
    /// The flow and the index among its receivers.
    pub(crate) target: Option<(usize, usize)>,
    /// Bytes of the stream.
    pub(crate) stream: u64,
    /// User bytes among them.
    pub(crate) user: u64,
    /// Message ends among them.
    pub(crate) ends: u64,
    /// The number of the message that ends, where messages have one.
    pub(crate) number: Option<u64>,
    /// They are the request of this transaction, which is to be answered.
    pub(crate) request: Option<TransactionId>,
}

/// A packet at the receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedPacket {
    pub(crate) tag: u64,
    pub(crate) at_ps: u64,
    pub(crate) corrupt_bit: Option<u64>,
    /// It came through a ring of that life.
    pub(crate) ring_life: Option<u32>,
}

/// The role of a station's circuit in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Sends(usize),
    Receives { flow: usize, receiver: usize },
}

/// What the users of an engine of transactions keep.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// Messages that the engine has not released.
    pub(crate) outgoing: BTreeMap<OutgoingMessage, MessageTag>,
    /// Messages on their way in: which they are, and their octets.
    pub(crate) incoming: BTreeMap<IncomingMessage, (MessageTag, Vec<u8>)>,
    /// Requests of this station's calls.
    pub(crate) called: BTreeMap<TransactionId, MessageTag>,
    /// Requests to this station.
    pub(crate) served: BTreeMap<TransactionId, ServedRequest>,
    last: u64,
}

/// A request that the user of the called entity works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedRequest {
    pub(crate) tag: MessageTag,
    /// The user has read it.
    pub(crate) is_read: bool,
    /// Its transaction is over: nobody waits for the reply.
    pub(crate) is_over: bool,
    /// When its service ends, ps.
    pub(crate) done_ps: Option<u64>,
}

impl Messages {
    /// Keeps a message until the engine releases it.
    pub(crate) fn keep(&mut self, tag: MessageTag) -> (OutgoingMessage, u64) {
        self.last += 1;
        let id = OutgoingMessage(self.last);
        self.outgoing.insert(id, tag);
        (id, tag.len)
    }
}

pub(crate) struct Host {
    pub(crate) engine: Node,
    /// Between the engine's packets and the frames of the medium, if they differ.
    pub(crate) layer: Option<Box<StationLayer>>,
    /// Between the processor and a line of cells, if that is modelled.
    pub(crate) adapter: Option<Box<Adapter>>,
    /// Only for engines of transactions.
    pub(crate) messages: Option<Box<Messages>>,
    /// What travels with the messages of its circuits, if more than their bytes.
    pub(crate) notes: Option<MessageNotes>,
    /// Shared by stations with equal costs: a thousand idle ones take little memory.
    pub(crate) cost: Rc<HostCost>,
    charges_work: bool,
    pub(crate) circuits: BTreeMap<AssociationId, Role>,
    run_queue: RunQueue,
    /// The process in service, and when it is done, ps.
    pub(crate) in_service: Option<(Process, u64)>,
    pub(crate) writer: VecDeque<WriteJob>,
    pub(crate) reader: VecDeque<ReadJob>,
    /// Bytes of all of them.
    pub(crate) unread_bytes: u64,
    pub(crate) receiver: VecDeque<QueuedPacket>,
    /// Read jobs of the packet in service.
    pub(crate) read_jobs: Vec<ReadJob>,
    /// Arrivals that the engine may forward, oldest first, and what is in each.
    pub(crate) forwardable: VecDeque<(u64, Contents)>,
    /// The packet that the sender built.
    pub(crate) built: Option<u64>,
    pub(crate) timer_at_ps: Option<u64>,
    pub(crate) rate_free_ps: u64,
    controller_frames: u64,
    controller_since_ps: u64,
    /// Made with the first thing to report: most of a thousand stations may be idle.
    report: Option<Box<StationReport>>,
    /// Cleared by a crash, set by a restart.
    pub(crate) is_up: bool,
    /// Flows whose circuits a crash ended.
    pub(crate) interrupted: Vec<usize>,
}

impl Host {
    pub(crate) fn new(engine: Node, cost: Rc<HostCost>) -> Host {
        Host {
            messages: messages_of(&engine),
            notes: None,
            engine,
            layer: None,
            adapter: cost.adapter.map(|config| Box::new(Adapter::new(config))),
            charges_work: cost.charges_work(),
            cost,
            circuits: BTreeMap::new(),
            run_queue: RunQueue::default(),
            in_service: None,
            writer: VecDeque::new(),
            reader: VecDeque::new(),
            unread_bytes: 0,
            receiver: VecDeque::new(),
            read_jobs: Vec::new(),
            forwardable: VecDeque::new(),
            built: None,
            timer_at_ps: None,
            rate_free_ps: 0,
            controller_frames: 0,
            controller_since_ps: 0,
            report: None,
            is_up: true,
            interrupted: Vec::new(),
        }
    }

    /// The time of its own clock at `now_ps`.
    pub(crate) fn local_time(&self, now_ps: u64) -> Instant {
        let ppm = self.cost.clock_ppm;
        if ppm == 0 {
            return Instant::from_nanos(now_ps / 1000);
        }
        let rate = u128::from(1_000_000u32.saturating_add_signed(ppm));
        Instant::from_nanos((u128::from(now_ps) * rate / 1_000_000_000) as u64)
    }

    /// When its own clock shows `at`, ps.
    pub(crate) fn simulated_ps(&self, at: Instant) -> u64 {
        let ppm = self.cost.clock_ppm;
        if ppm == 0 {
            return at.as_nanos().saturating_mul(1000);
        }
        let rate = u128::from(1_000_000u32.saturating_add_signed(ppm).max(1));
        let ps = (u128::from(at.as_nanos()) * 1_000_000_000).div_ceil(rate);
        u64::try_from(ps).unwrap_or(u64::MAX)
    }

    /// The counters of engine and layer, if work has a cost.
    #[inline]
    pub(crate) fn charged_counters(&self) -> Option<Counters> {
        self.charges_work.then(|| self.work())
    }

    #[inline(never)]
    fn work(&self) -> Counters {
        let engine = self.engine.protocol().counters();
        match &self.layer {
            None => engine,
            Some(layer) => engine + layer.counters(),
        }
    }

    /// Cost of the work since `before`, ps.
    #[inline]
    pub(crate) fn work_since_ps(&self, before: Option<Counters>) -> u64 {
        before.map_or(0, |before| self.cost.work_ps(&before, &self.work()))
    }

    /// Its measurements, to be changed.
    #[inline]
    pub(crate) fn report_mut(&mut self) -> &mut StationReport {
        self.report.get_or_insert_default()
    }

    /// Its measurements so far. `counters` are those of the engines before this one.
    pub(crate) fn report(&self) -> StationReport {
        self.report.as_deref().cloned().unwrap_or_default()
    }

    /// Counters of all its engines; the report has those of the engines before this one.
    pub(crate) fn counters(&self) -> Counters {
        let before = self.report.as_ref();
        let before = before.map_or_else(Counters::default, |report| report.counters);
        before + self.engine.protocol().counters()
    }

    /// When its engine, or its layer, wants to act next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let engine = self.engine.protocol().poll_timeout();
        match &self.layer {
            None => engine,
            Some(layer) => engine::time::earlier(engine, layer.poll_timeout()),
        }
    }

    /// Runs the timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some(layer) = &mut self.layer {
            layer.handle_timeout(now);
        }
        let engine = self.engine.protocol_mut();
        if engine.poll_timeout().is_some_and(|at| at <= now) {
            engine.handle_timeout(now);
        }
    }

    /// Clears the service and the run queue.
    pub(crate) fn halt(&mut self) {
        self.in_service = None;
        self.run_queue = RunQueue::default();
    }

    /// Queues a process, unless it is queued already.
    pub(crate) fn signal(&mut self, process: Process) {
        if self.is_up {
            self.run_queue.push(process);
        }
    }

    /// The process to serve next.
    pub(crate) fn next_process(&mut self) -> Option<Process> {
        self.run_queue.pop()
    }

    /// Whether the receiver is in service or queued.
    pub(crate) fn is_receiving(&self) -> bool {
        let in_service = self.in_service.map(|(process, _)| process);
        self.run_queue.contains(Process::Receiver) || in_service == Some(Process::Receiver)
    }

    /// Whether no process is in service or queued.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_service.is_none() && self.run_queue.is_empty()
    }

    /// Notes what waits for the writer.
    pub(crate) fn note_writer_queue(&mut self) {
        let waiting = self.writer.len() as u64;
        let report = self.report_mut();
        report.writer_max = report.writer_max.max(waiting);
    }

    /// Queues bytes for the reader.
    pub(crate) fn queue_reading(&mut self, job: ReadJob) {
        self.unread_bytes += job.stream.max(job.user);
        self.reader.push_back(job);
        let (runs, bytes) = (self.reader.len() as u64, self.unread_bytes);
        let report = self.report_mut();
        report.reader_max = report.reader_max.max(runs);
        report.unread_max_bytes = report.unread_max_bytes.max(bytes);
    }

    /// Takes the bytes that the reader is done with.
    pub(crate) fn take_read(&mut self) -> Option<ReadJob> {
        let job = self.reader.pop_front()?;
        self.unread_bytes -= job.stream.max(job.user);
        Some(job)
    }

    /// Adds frames to the network controller's queue, or takes them off.
    pub(crate) fn change_controller_queue(&mut self, now_ps: u64, change: i64) {
        let span = now_ps.saturating_sub(self.controller_since_ps);
        let frames = self.controller_frames;
        self.controller_since_ps = now_ps;
        self.controller_frames = frames.saturating_add_signed(change);
        if frames == 0 && self.controller_frames == 0 {
            return;
        }
        let most = self.controller_frames;
        let report = self.report_mut();
        report.controller_ps += u128::from(frames) * u128::from(span);
        report.controller_max = report.controller_max.max(most);
    }
}

/// What the users of `engine` keep, if it is one of transactions.
pub(crate) fn messages_of(engine: &Node) -> Option<Box<Messages>> {
    matches!(engine, Node::Transactions(_)).then(Box::default)
}

/// The address of a target.
pub(crate) fn address(target: Target) -> Address {
    match target {
        Target::Station(station) => Address::Station(station as u32),
        Target::All => GROUP,
    }
}
