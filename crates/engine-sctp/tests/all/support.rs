//! Two endpoints in virtual time, with users that send and receive messages.

use driver::receive_queue::MessageReader;
use driver::sys::{Producer, ring};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Framing, Note, Protocol, SendFlags,
};
use engine_sctp::{Sctp, SctpConfig};
use link::LinkConfig;
use sim::World;

/// Picoseconds in a millisecond.
pub const MS: u64 = 1_000_000_000;

/// A message and what travels with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub bytes: Vec<u8>,
    pub note: Note,
}

/// A link that loses, doubles and reorders.
pub fn faulty_link() -> LinkConfig {
    LinkConfig {
        rate_bps: Some(50_000_000),
        delay_ps: 2 * MS,
        reorder_ps: 3 * MS,
        loss_ppm: 30_000,
        duplicate_ppm: 30_000,
        reorder_ppm: 30_000,
        ..LinkConfig::default()
    }
}

/// Results of a run.
pub struct RunOutcome {
    pub received: Vec<Message>,
    pub trace: Vec<sim::TraceLine>,
    pub retransmissions: u64,
    pub elapsed_ms: u64,
    pub closed: [bool; 2],
    pub messages_damaged: u64,
    /// Octets of the longest packet that each end found its path to carry, when all was sent.
    pub path_mtus: [usize; 2],
}

/// How the receiver's user behaves.
#[derive(Clone, Copy)]
pub struct Reader {
    /// It reads nothing before this time.
    pub from_ms: u64,
}

/// Sends `messages` from station 0 to station 1 and closes.
pub fn run(
    configs: [SctpConfig; 2],
    messages: &[Message],
    link: LinkConfig,
    seed: u64,
    reads: Reader,
) -> RunOutcome {
    run_with(configs, messages, (link, seed), reads, |_, _| {})
}

/// The same; `happens` is called after each event with the time, ms, to change the world.
pub fn run_with(
    configs: [SctpConfig; 2],
    messages: &[Message],
    (link, seed): (LinkConfig, u64),
    reads: Reader,
    mut happens: impl FnMut(&mut World<Sctp>, u64),
) -> RunOutcome {
    let framing = configs[0].framing;
    let mut world = World::new(configs.map(Sctp::new), link, seed);
    world.pump(1).engine().listen(true);
    let now = world.now();
    let opened = world.pump(0).engine().connect(now, &[Address::Station(1)]);
    let id = opened.expect("room for one");
    let layout = world.pump(0).engine().layout(None);
    let (mut producer, consumer) = ring(layout, 64 << 10);
    world.pump(0).attach(id, consumer);
    let mut user = User {
        id: None,
        reader: MessageReader::new(framing),
        received: Vec::new(),
    };
    let (mut next, mut finished) = (0, false);
    let mut path_mtus = [0; 2];
    happens(&mut world, 0);
    while world
        .step(1_000_000 * MS)
        .expect("a simulated wire does not fail")
    {
        let at_ms = world.now().as_nanos() / 1_000_000;
        happens(&mut world, at_ms);
        for (station, mtu) in path_mtus.iter_mut().enumerate() {
            let views = world.pump(station).engine().association_views(1);
            let path = views.first().and_then(|view| view.paths.first());
            *mtu = path.map_or(*mtu, |path| path.path_mtu);
        }
        next = append(&mut producer, messages, next, framing);
        if next == messages.len() && !finished && world.pump(0).status(id).connected {
            let now = world.now();
            world.pump(0).submit_pending(now, id, true);
            world.pump(0).engine().finish(now, id);
            finished = true;
        }
        if at_ms >= reads.from_ms {
            user.take(&mut world, framing);
        }
    }
    user.take(&mut world, framing);
    let peer = user.id.unwrap_or(AssociationId(0));
    let retransmissions = |station: usize, world: &mut World<Sctp>| {
        world.pump(station).engine().counters().retransmissions
    };
    RunOutcome {
        retransmissions: retransmissions(0, &mut world) + retransmissions(1, &mut world),
        elapsed_ms: world.now().as_nanos() / 1_000_000,
        closed: [
            world.pump(0).status(id).closed.is_some(),
            world.pump(1).status(peer).closed.is_some(),
        ],
        path_mtus,
        messages_damaged: user.reader.messages_damaged(),
        trace: world.trace().to_vec(),
        received: user.received,
    }
}

fn append(
    producer: &mut Producer,
    messages: &[Message],
    mut next: usize,
    framing: Framing,
) -> usize {
    while let Some(message) = messages.get(next) {
        let done = match framing {
            Framing::Stream => producer.append_bytes(&message.bytes),
            _ if message.note.is_plain() => producer.append_message(&message.bytes),
            _ => producer.append_noted([&[], &message.bytes, &[]], message.note),
        };
        if !done {
            break;
        }
        next += 1;
    }
    next
}

struct User {
    id: Option<AssociationId>,
    reader: MessageReader,
    received: Vec<Message>,
}

impl User {
    fn take(&mut self, world: &mut World<Sctp>, framing: Framing) {
        if let Some((id, _)) = world.pump(1).accept() {
            self.id = Some(id);
        }
        let Some(id) = self.id else {
            return;
        };
        let mut buffer = vec![0; 256 << 10];
        while let Some(chunk) = world.pump(1).pop_chunk(id) {
            self.reader.put(chunk);
            while let Some(part) = self.reader.next_part(&mut buffer) {
                assert!(
                    part.end || framing == Framing::Stream,
                    "the buffer holds all"
                );
                self.received.push(Message {
                    bytes: buffer[..part.len].to_vec(),
                    note: part.note,
                });
            }
            let spent = self.reader.take_consumed().expect("the chunk just put");
            let now = world.now();
            world.pump(1).consume(now, id, spent);
        }
    }
}

/// The flags of a message that is not coalesced.
pub const PUSHED: SendFlags = SendFlags {
    push: true,
    ..SendFlags::END_OF_MESSAGE
};

/// Submits one message of `len` bytes directly.
pub fn submit_message(engine: &mut Sctp, id: AssociationId, end: u64, note: &Note) {
    engine.submit(engine::Instant::from_nanos(1), id, end, PUSHED, note);
}
