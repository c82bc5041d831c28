//! Sets up the circuits of a job.

use super::granted::GrantedToJob;
use super::threads::{CircuitSlot, CircuitSlots, CircuitTask};
use crate::contestant::Component;
use control::{CircuitOptions, DESCRIPTORS_MAX, Job, RendezvousFrame, Role, Side, Workload};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use towpath::contract::BLOCKING_TIMEOUT;
use towpath::raw_sockets::GrantedSockets;
use towpath::{
    Circuit, DiscardMeter, Family, Listener, Options, Reach, Rendezvous, Sharing, Transport,
};

/// How long a circuit may take to be set up, besides each of those that are set up with it: less than the
/// whole trial waits for.
const SETUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages that open a circuit of a connectionless transport: the listener learns its peer from
/// the first; the second shows that it is connected.
const OPENING_MESSAGES: usize = 2;

/// How long the connecting side waits for the start before it opens its circuits again: more than the
/// way to the other side and the start's way back take.
pub(super) const OPENING_INTERVAL: Duration = Duration::from_secs(1);

/// Content of an opening message.
const OPENING_MESSAGE: [u8; 1] = [0x5a];

/// The listener of a component.
pub(super) struct ComponentListener {
    transport: &'static dyn Transport,
    component: String,
    options: Options,
    listener: Box<dyn Listener>,
}

/// Circuits for which the usual limit of 1024 descriptors suffices: an endpoint has up to eight.
const DESCRIPTORS_SUFFICE: u64 = 64;

/// Lets a worker of many circuits have as many descriptors as the system allows it. Whether that is
/// enough shows when they are opened.
pub(super) fn allow_descriptors(job: &Job) {
    if job.circuits() > DESCRIPTORS_SUFFICE {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        // Fails only where it would change nothing.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// The error of a circuit, with the remedy where it is known.
fn with_remedy(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => format!("{error}; raise the limit with ulimit -n, or use fewer"),
        _ => error.to_string(),
    }
}

/// The listeners of a job, one per component.
pub(super) fn listen(job: &Job, granted: &GrantedToJob) -> Result<Vec<ComponentListener>, String> {
    let listen_one = |(index, component): (usize, &control::ComponentSpec)| {
        let (transport, options) = prepare(job, component, granted.of(index))?;
        let listener = transport.listen(&options).map_err(|error| {
            format!(
                "{} cannot listen: {}",
                component.transport,
                with_remedy(&error)
            )
        })?;
        Ok(ComponentListener {
            transport,
            component: component.transport.clone(),
            options,
            listener,
        })
    };
    job.components.iter().enumerate().map(listen_one).collect()
}

/// The rendezvous of the listeners, and their descriptors in order.
pub(super) fn frames(
    listeners: &[ComponentListener],
) -> Result<(Vec<RendezvousFrame>, Vec<OwnedFd>), String> {
    let mut frames = Vec::new();
    let mut descriptors = Vec::new();
    for listening in listeners {
        let rendezvous = listening
            .listener
            .rendezvous()
            .map_err(|error| error.to_string())?;
        frames.push(RendezvousFrame {
            reach: rendezvous.reach as u8,
            bytes: rendezvous.bytes,
            descriptors: rendezvous.descriptors.len() as u32,
        });
        descriptors.extend(rendezvous.descriptors);
        if descriptors.len() > DESCRIPTORS_MAX {
            let (name, count) = (listening.transport.name(), descriptors.len());
            return Err(format!(
                "{name} hands over {count} descriptors for so many circuits, and at most \
                 {DESCRIPTORS_MAX} can be; use fewer"
            ));
        }
    }
    Ok((frames, descriptors))
}

/// Accepts the peer's circuits.
pub(super) fn accept(job: &Job, listeners: Vec<ComponentListener>) -> Result<CircuitSlots, String> {
    let mut circuits = Vec::new();
    for mut listening in listeners {
        let transport = listening.transport;
        if job.workload == Workload::Connect {
            let listener = listening.listener;
            circuits.push(CircuitSlot {
                transport,
                component: listening.component.clone(),
                task: CircuitTask::Serve(listener),
            });
            continue;
        }
        let count = listening.options.circuits;
        let limit =
            SETUP_TIMEOUT + super::SETUP_OF_CIRCUIT * u32::try_from(count).unwrap_or(u32::MAX);
        for _ in 0..count {
            let accepted = listening.listener.accept(Instant::now() + limit);
            let mut circuit = accepted.map_err(|error| {
                format!(
                    "{}: no peer connected: {}",
                    transport.name(),
                    with_remedy(&error)
                )
            })?;
            if transport.class().connectionless && job.workload != Workload::Send {
                receive_opening(circuit.as_mut(), transport.name(), limit)?;
            }
            circuits.push(CircuitSlot {
                transport,
                component: listening.component.clone(),
                task: CircuitTask::Move(circuit),
            });
        }
    }
    let mut accepted = CircuitSlots::of(circuits);
    discard_openings(&mut accepted);
    Ok(accepted)
}

/// Connects circuits to the peer's listeners.
pub(super) fn connect(
    job: &Job,
    (frames, descriptors): (Vec<RendezvousFrame>, Vec<OwnedFd>),
    granted: &GrantedToJob,
) -> Result<CircuitSlots, String> {
    debug_assert_eq!(job.side, Side::Connect);
    if frames.len() != job.components.len() {
        return Err("the listener reports another number of components".into());
    }
    let rendezvous = rendezvous_of(frames, descriptors);
    if let Some(slot) = connect_to_many(job, &rendezvous)? {
        return Ok(CircuitSlots::of(vec![slot]));
    }
    let mut slots = Vec::new();
    for (number, (component, rendezvous)) in job.components.iter().zip(rendezvous).enumerate() {
        let (transport, options) = prepare(job, component, granted.of(number))?;
        if job.workload == Workload::Connect {
            slots.push(CircuitSlot {
                transport,
                component: component.transport.clone(),
                task: CircuitTask::Connect(rendezvous, Box::new(options)),
            });
            continue;
        }
        let refused = |error: io::Error| cannot_connect(component, &error);
        let all = match job.workload {
            Workload::Transactions => transport.connect_all(&rendezvous, &options),
            _ => Ok(Vec::new()),
        };
        let mut all = all.map_err(refused)?.into_iter();
        for index in 0..component.circuits as usize {
            let task = match (job.workload, all.next()) {
                (Workload::Send, _) => discarding_task(transport, (&rendezvous, index), &options),
                (_, Some(circuit)) => Ok(CircuitTask::Move(circuit)),
                (_, None) => {
                    let connected = transport.connect(&rendezvous, index, &options);
                    connected.map(CircuitTask::Move)
                }
            };
            let mut task = task.map_err(refused)?;
            if let (CircuitTask::Move(circuit), true) =
                (&mut task, transport.class().connectionless)
            {
                send_opening(circuit.as_mut(), transport.name())?;
            }
            slots.push(CircuitSlot {
                transport,
                component: component.transport.clone(),
                task,
            });
        }
    }
    Ok(CircuitSlots::of(slots))
}

/// A circuit whose packets are discarded: no opening is sent, and its listener does not learn of it.
fn discarding_task(
    transport: &dyn Transport,
    (rendezvous, index): (&Rendezvous, usize),
    options: &Options,
) -> io::Result<CircuitTask> {
    let meter = DiscardMeter::new();
    let options = Options {
        discard: Some(meter.clone()),
        ..options.clone()
    };
    let circuit = transport.connect(rendezvous, index, &options)?;
    Ok(CircuitTask::Discard(circuit, meter))
}

fn cannot_connect(component: &control::ComponentSpec, error: &io::Error) -> String {
    let why = with_remedy(error);
    format!("{} cannot connect: {why}", component.transport)
}

/// Where the listeners are, each with its descriptors.
fn rendezvous_of(frames: Vec<RendezvousFrame>, descriptors: Vec<OwnedFd>) -> Vec<Rendezvous> {
    let mut descriptors = descriptors.into_iter();
    let own = |frame: RendezvousFrame| Rendezvous {
        reach: reach(frame.reach),
        bytes: frame.bytes,
        descriptors: descriptors
            .by_ref()
            .take(frame.descriptors as usize)
            .collect(),
    };
    frames.into_iter().map(own).collect()
}

/// The circuit of a sender that reaches all listeners by one; None where each has a circuit of its own.
fn connect_to_many(job: &Job, rendezvous: &[Rendezvous]) -> Result<Option<CircuitSlot>, String> {
    let sharing = match job.role {
        Role::SourceToAll => Sharing::All,
        Role::SourceToOne => Sharing::One,
        _ => return Ok(None),
    };
    let Some(first) = job.components.first() else {
        return Ok(None);
    };
    if !Component::parse(&first.transport)?.is_to_many(sharing) {
        return Ok(None);
    }
    let (transport, options) = prepare(job, first, None)?;
    let connected = transport.connect_to_many(rendezvous, &options);
    let circuit = connected.map_err(|error| cannot_connect(first, &error))?;
    Ok(Some(CircuitSlot {
        transport,
        component: first.transport.clone(),
        task: CircuitTask::Move(circuit),
    }))
}

/// A connectionless circuit is opened by its first messages, which are not measured.
fn send_opening(circuit: &mut dyn Circuit, name: &str) -> Result<(), String> {
    let send = |_| {
        circuit
            .send(&OPENING_MESSAGE)
            .and_then(|()| circuit.flush())
    };
    (0..OPENING_MESSAGES)
        .try_for_each(send)
        .map_err(|error| format!("{name}: the opening message was not sent: {error}"))
}

/// Sends an opening message once more on each circuit whose first ones may have been lost.
pub(super) fn repeat_openings(circuits: &mut CircuitSlots) {
    for circuit in lossy_circuits(circuits) {
        // What cannot be sent now is sent after the next interval, or the other side reports that
        // nothing came.
        let _ = circuit
            .send(&OPENING_MESSAGE)
            .and_then(|()| circuit.flush());
    }
}

/// Takes out the opening messages that were sent once more while other circuits were accepted.
fn discard_openings(circuits: &mut CircuitSlots) {
    let mut buffer = vec![0; 65_536];
    for circuit in lossy_circuits(circuits) {
        while matches!(circuit.try_recv(&mut buffer), Ok(Some(_))) {}
    }
}

/// The open circuits of connectionless transports that lose messages.
fn lossy_circuits(circuits: &mut CircuitSlots) -> impl Iterator<Item = &mut dyn Circuit> {
    circuits.slots.iter_mut().filter_map(|slot| {
        let class = slot.transport.class();
        match &mut slot.task {
            CircuitTask::Move(circuit) if class.connectionless && !class.reliable => {
                Some(circuit.as_mut() as &mut dyn Circuit)
            }
            _ => None,
        }
    })
}

fn receive_opening(circuit: &mut dyn Circuit, name: &str, limit: Duration) -> Result<(), String> {
    let end = Instant::now() + limit;
    let mut buffer = vec![0; 65_536];
    let mut received = 0;
    while received < OPENING_MESSAGES {
        match circuit.recv(&mut buffer) {
            Ok(_) => received += 1,
            Err(error) if crate::workload::is_retryable(&error) && Instant::now() < end => {}
            Err(error) => {
                return Err(format!(
                    "{name}: the opening message did not arrive: {error}"
                ));
            }
        }
    }
    Ok(())
}

/// The transport of a component, and its options.
fn prepare(
    job: &Job,
    component: &control::ComponentSpec,
    granted: Option<GrantedSockets>,
) -> Result<(&'static dyn Transport, Options), String> {
    // Sequential connections all use the first listener.
    let circuits = match job.workload {
        Workload::Connect => 1,
        _ => component.circuits as usize,
    };
    let component = Component::parse(&component.transport)?;
    let mut options = options(job, circuits);
    options.raw_sockets = granted;
    component.apply(&mut options);
    Ok((component.transport(), options))
}

fn reach(code: u8) -> Reach {
    match code {
        0 => Reach::Process,
        1 => Reach::Host,
        _ => Reach::Network,
    }
}

/// The library options of a job.
pub(crate) fn options(job: &Job, circuits: usize) -> Options {
    Options {
        bind: job.bind,
        local_addresses: job.local_addresses.clone(),
        peer_addresses: job.peer_addresses.clone(),
        only_from: job.peer,
        message_len: job.message_len_max() as usize,
        circuits,
        one_peer: job.workload != Workload::Connect,
        share_endpoint: job.workload == Workload::Transactions,
        blocking_timeout: blocking_timeout(job),
        ..library_options(&job.circuit_options)
    }
}

/// The library options of a race's circuits, as far as they do not depend on the job.
pub fn library_options(circuit: &CircuitOptions) -> Options {
    Options {
        family: if circuit.ipv6 { Family::V6 } else { Family::V4 },
        read_len: circuit.read_len as usize,
        buffers: circuit.buffers.map(|len| len as usize),
        nodelay: circuit.nodelay,
        congestion: circuit.congestion.clone(),
        batch: circuit.batch.map(|count| count as usize),
        interface: circuit.interface.clone(),
        ethertype: circuit.ethertype,
        ..Options::default()
    }
}

/// Round trips block without a timeout: arming a timer at every sleep costs a microsecond or more
/// on a virtual machine. The worker ends the wait itself, see `BlockedReceivers`.
///
/// On a lossy link a reply may never arrive: there the timeout is needed, and its cost is small
/// beside the link's delay.
///
/// Thousands of threads that all wake every 20 ms would leave the processor no time for anything else,
/// so they wait for longer.
fn blocking_timeout(job: &Job) -> Option<Duration> {
    let circuits = job.circuits().div_ceil(BLOCKED_MAX) as u32;
    let timeout = (BLOCKING_TIMEOUT * circuits).min(BLOCKING_TIMEOUT_MAX);
    (!is_woken_at_end(job) || !job.is_within_host()).then_some(timeout)
}

/// Circuits that block without a timeout, at most: the worker has another descriptor for each.
const BLOCKED_MAX: u64 = 64;

/// Longest timeout of a blocking call, and of the end of a trial: ten thousand threads that wake every 200 ms take
/// half of a processor.
const BLOCKING_TIMEOUT_MAX: Duration = Duration::from_secs(2);

/// Whether the worker ends the waits of a job's circuits when its peer has finished.
pub(super) fn is_woken_at_end(job: &Job) -> bool {
    match job.workload {
        Workload::Delay => true,
        Workload::Transactions => job.circuits() <= BLOCKED_MAX,
        _ => false,
    }
}
