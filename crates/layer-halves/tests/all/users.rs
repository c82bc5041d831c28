//! Users of engines over a layer: circuits that echo, calls that are answered, a transfer in virtual time.

use driver::receive_queue::{MessageReader, ReadOutcome};
use driver::{Endpoint, Pump, TransactionEndpoint};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, EntityId, Framing, Instant, Layer,
};
use engine_call::{Call, CallConfig};
use engine_xtp::Xtp;
use sim::World;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use wire::Wire;
use wire_udp::UdpWire;

/// How long a test waits for what must come: only a failure waits that long.
const LIMIT: Duration = Duration::from_secs(30);

/// A millisecond, ps.
pub const MS: u64 = 1_000_000_000;

pub fn wire() -> (UdpWire, SocketAddr) {
    let wire = UdpWire::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = wire.local_addr().expect("an address");
    (wire, address)
}

/// A client and a server of circuits over UDP; the server echoes `sent`.
pub fn echo(
    engines: [Xtp; 2],
    layer: impl Fn() -> Box<dyn Layer + Send>,
    sent: &[Vec<u8>],
) -> [Endpoint<Xtp, UdpWire>; 2] {
    let wires = [wire(), wire()];
    let at = wires[1].1;
    let mut paired = engines.into_iter().zip(wires);
    let [client, server] = std::array::from_fn(|_| {
        let (engine, (wire, _)) = paired.next().expect("two of each");
        Endpoint::with_layer(engine, wire, layer(), 1 << 20).expect("an endpoint")
    });
    server.listen(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut circuit = server.accept(LIMIT).expect("a circuit");
            let mut buffer = vec![0; 64 << 10];
            while let Some(len) = circuit.recv(&mut buffer, LIMIT).expect("a message") {
                circuit.send(&buffer[..len], LIMIT).expect("room");
                circuit.flush().expect("a wire");
            }
            circuit.finish().expect("a wire");
            circuit.drain(LIMIT).expect("all is acknowledged");
        });
        let mut circuit = client.connect(Address::Socket(at), LIMIT).expect("a peer");
        let mut buffer = vec![0; 64 << 10];
        for (number, message) in sent.iter().enumerate() {
            circuit.send(message, LIMIT).expect("room");
            circuit.flush().expect("a wire");
            let len = circuit.recv(&mut buffer, LIMIT).expect("an echo");
            let echo = &buffer[..len.expect("not the end")];
            assert!(echo == message.as_slice(), "message {number} differs");
        }
        circuit.finish().expect("a wire");
        assert_eq!(circuit.recv(&mut buffer, LIMIT).expect("the end"), None);
    });
    [client, server]
}

/// A client calls a server over UDP with each of `sent`, and gets it reversed.
pub fn call(
    config: &CallConfig,
    layer: impl Fn() -> Box<dyn Layer + Send>,
    sent: &[Vec<u8>],
) -> TransactionEndpoint<Call, UdpWire> {
    const SERVER: EntityId = EntityId(1);
    let endpoint = |seed| {
        let (wire, address) = wire();
        let engine = Call::new(CallConfig {
            seed,
            ..config.clone()
        });
        let endpoint = TransactionEndpoint::with_layer(engine, wire, layer());
        (endpoint.expect("an endpoint"), address)
    };
    let ((client, _), (server, at)) = (endpoint(1), endpoint(2));
    server.create_entity(SERVER).expect("room");
    client.locate(SERVER, Address::Socket(at));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..sent.len() {
                let mut request = server.receive(LIMIT).expect("a request");
                let mut reply = std::mem::take(&mut request.octets);
                reply.reverse();
                server.reply(request, reply);
            }
        });
        client.create_entity(EntityId(100)).expect("room");
        for (number, message) in sent.iter().enumerate() {
            let reply = client.call(EntityId(100), SERVER, message.clone(), LIMIT);
            let mut reply = reply.expect("a reply");
            reply.reverse();
            assert!(reply == *message, "reply {number} differs");
        }
    });
    client
}

/// The receiving user of the first circuit that a peer opens.
pub struct Reader {
    id: Option<AssociationId>,
    reader: MessageReader,
    /// Whole messages, oldest first.
    pub received: Vec<Vec<u8>>,
}

impl Reader {
    pub fn new() -> Reader {
        Reader {
            id: None,
            reader: MessageReader::new(Framing::Messages),
            received: Vec::new(),
        }
    }

    /// Takes what `pump` received.
    pub fn take<W: Wire>(&mut self, pump: &mut Pump<Xtp, W>, now: Instant) {
        if let Some((id, _)) = pump.accept() {
            self.id = Some(id);
            pump.engine().finish(now, id);
        }
        let Some(id) = self.id else { return };
        let mut buffer = vec![0; 64 << 10];
        while let Some(chunk) = pump.pop_chunk(id) {
            self.reader.put(chunk);
            while let ReadOutcome::Message(len) = self.reader.next(&mut buffer) {
                self.received.push(buffer[..len].to_vec());
            }
            let consumed = self.reader.take_consumed().expect("the chunk just put");
            pump.consume(now, id, consumed);
        }
    }
}

/// Opens a circuit to station 1 and gives it a store of 256 KiB.
pub fn open<W: Wire>(
    pump: &mut Pump<Xtp, W>,
    now: Instant,
) -> (AssociationId, driver::sys::Producer) {
    let opened = pump.engine().connect(now, &[Address::Station(1)]);
    let id = opened.expect("room");
    let layout = pump.engine().layout(None);
    let (producer, consumer) = driver::sys::ring(layout, 256 << 10);
    pump.attach(id, consumer);
    (id, producer)
}

/// Sends messages from station 0 to station 1, which has them in their order; the frames of the run, and how many were
/// lost.
pub fn transfer(mut world: World<Xtp>, sent: &[Vec<u8>]) -> (Vec<sim::TraceLine>, u64) {
    world.pump(1).engine().listen(true);
    let now = world.now();
    let (id, mut producer) = open(world.pump(0), now);
    let mut reader = Reader::new();
    let (mut next, mut is_finished) = (0, false);
    while world.step(1_000_000 * MS).expect("no wire fails") {
        while next < sent.len() && producer.append_message(&sent[next]) {
            next += 1;
        }
        let now = world.now();
        if next == sent.len() && !is_finished {
            let end = producer.position();
            world.pump(0).submit_pending(now, id, true);
            world.pump(0).engine().push(now, id, end);
            world.pump(0).engine().finish(now, id);
            is_finished = true;
        }
        reader.take(world.pump(1), now);
    }
    let count = reader.received.len();
    assert!(reader.received == sent, "{count} messages came");
    assert!(world.pump(0).status(id).closed.is_some());
    let lost = world.link_counters(0).lost + world.link_counters(1).lost;
    (world.trace().to_vec(), lost)
}
