//! Engines that wrap another one forward every call of the contract to the call of the same name.

use engine::{
    Address, AssociationId, Associations, Batch, Close, CommandError, Counters, Deliveries, Event,
    Framing, Instant, Layout, Note, NoteFields, Path, PathError, PathFault, Properties, Protocol,
    Received, Router, SendFlags, Status,
};
use scenario::swarm::canary::{PlantedFault, plant};
use sim::Node;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const ID: AssociationId = AssociationId(7);
const PEER: Address = Address::Station(3);

/// Records its calls, and returns values that no engine returns.
#[derive(Clone, Default)]
struct Probe {
    calls: Rc<RefCell<Vec<&'static str>>>,
}

impl Probe {
    fn record(&self, call: &'static str) {
        self.calls.borrow_mut().push(call);
    }
}

impl Protocol for Probe {
    fn properties(&self) -> Properties {
        self.record("properties");
        Properties {
            packet_max: 17,
            packet_len: Some(|octets| Some(octets.len() + 17)),
            framing: Framing::Stream,
            notes: NoteFields::NONE,
            coalesce_delay: Duration::from_millis(37),
        }
    }

    fn handle_packet(&mut self, _now: Instant, _packet: Received<'_>, _out: &mut Deliveries) {
        self.record("handle_packet");
    }

    fn handle_timeout(&mut self, _now: Instant) {
        self.record("handle_timeout");
    }

    fn handle_path_error(&mut self, _now: Instant, _fault: PathFault<'_>) {
        self.record("handle_path_error");
    }

    fn poll_transmit(&mut self, _now: Instant, _batch: &mut Batch) {
        self.record("poll_transmit");
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.record("poll_event");
        Some(Event::Finished(ID))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.record("poll_timeout");
        Some(Instant::from_nanos(19))
    }

    fn counters(&self) -> Counters {
        self.record("counters");
        Counters {
            packets_built: 29,
            ..Counters::default()
        }
    }
}

impl Associations for Probe {
    fn layout(&self, _id: Option<AssociationId>) -> Layout {
        self.record("layout");
        Layout {
            header: 11,
            payload: 13,
            trailer: 2,
        }
    }

    fn connect(&mut self, _now: Instant, _to: &[Address]) -> Result<AssociationId, CommandError> {
        self.record("connect");
        Ok(ID)
    }

    fn listen(&mut self, _accept: bool) {
        self.record("listen");
    }

    fn submit(&mut self, _: Instant, _: AssociationId, _: u64, _: SendFlags, _: &Note) {
        self.record("submit");
    }

    fn submit_all(&mut self, _: Instant, _: AssociationId, _: &[u64]) {
        self.record("submit_all");
    }

    fn consume(&mut self, _now: Instant, _id: AssociationId, _bytes: u64) {
        self.record("consume");
    }

    fn close(&mut self, _now: Instant, _id: AssociationId, _how: Close) {
        self.record("close");
    }

    fn status(&self, _id: AssociationId) -> Status {
        self.record("status");
        Status {
            bytes_in_flight: 23,
        }
    }

    fn receive_window(&self) -> u64 {
        self.record("receive_window");
        37
    }

    fn set_receive_full(&mut self, id: AssociationId, is_full: bool) {
        assert_eq!((id, is_full), (ID, true));
        self.record("set_receive_full");
    }

    fn set_path_mtu(&mut self, _: Instant, id: AssociationId, octets: usize) {
        assert_eq!((id, octets), (ID, 1232));
        self.record("set_path_mtu");
    }

    fn sort_by_priority(&self, ids: &mut [AssociationId]) {
        self.record("sort_by_priority");
        ids.reverse();
    }
}

impl Router for Probe {
    fn forwarded_from(&self) -> u64 {
        self.record("forwarded_from");
        31
    }

    fn supports_cut_through(&self, _path: Path, _head: &[u8]) -> bool {
        self.record("supports_cut_through");
        true
    }
}

const METHODS: [&str; 20] = [
    "properties",
    "layout",
    "connect",
    "listen",
    "submit",
    "submit_all",
    "consume",
    "close",
    "handle_packet",
    "handle_timeout",
    "handle_path_error",
    "poll_transmit",
    "poll_event",
    "poll_timeout",
    "status",
    "counters",
    "receive_window",
    "set_receive_full",
    "set_path_mtu",
    "sort_by_priority",
];

/// Calls every method once; the calls must arrive in this order, and the results must be `Probe`'s.
fn assert_forwards(wrap: impl Fn(Probe) -> Box<dyn Associations>) {
    let probe = Probe::default();
    let calls = Rc::clone(&probe.calls);
    let mut engine = wrap(probe);
    calls.borrow_mut().clear();
    let now = Instant::from_nanos(1);
    let properties = engine.properties();
    assert_eq!(properties.packet_max, 17);
    let packet_len = properties.packet_len.expect("packet_len is forwarded");
    assert_eq!(packet_len(&[0; 4]), Some(21));
    assert_eq!(properties.framing, Framing::Stream);
    assert_eq!(properties.coalesce_delay, Duration::from_millis(37));
    assert_eq!(engine.layout(None).packet(), 26);
    assert_eq!(engine.connect(now, &[PEER]), Ok(ID));
    engine.listen(true);
    engine.submit(now, ID, 100, SendFlags::PUSH, &Note::default());
    engine.submit_all(now, ID, &[100]);
    engine.consume(now, ID, 10);
    engine.close(now, ID, Close::Abort);
    let packet = Received::new(PEER, &[0; 4]);
    engine.handle_packet(now, packet, &mut Deliveries::default());
    engine.handle_timeout(now);
    let fault = PathFault {
        path: PEER.into(),
        error: PathError::Unreachable,
        quoted: &[],
    };
    engine.handle_path_error(now, fault);
    engine.poll_transmit(now, &mut Batch::new(1));
    assert_eq!(engine.poll_event(), Some(Event::Finished(ID)));
    assert_eq!(engine.poll_timeout(), Some(Instant::from_nanos(19)));
    assert_eq!(engine.status(ID).bytes_in_flight, 23);
    assert_eq!(engine.counters().packets_built, 29);
    assert_eq!(engine.receive_window(), 37);
    engine.set_receive_full(ID, true);
    engine.set_path_mtu(now, ID, 1232);
    let mut order = [AssociationId(1), AssociationId(2)];
    engine.sort_by_priority(&mut order);
    assert_eq!(order, [AssociationId(2), AssociationId(1)]);
    assert_eq!(*calls.borrow(), METHODS);
}

#[test]
fn boxed_engine_forwards_every_method() {
    // Twice: the outer box's methods are those of the inner one's type.
    assert_forwards(|probe| Box::new(Box::new(probe) as Box<dyn Associations>));
}

#[test]
fn boxed_router_forwards_every_method() {
    let probe = Probe::default();
    let calls = Rc::clone(&probe.calls);
    let router = Box::new(Box::new(probe) as Box<dyn Router>);
    assert_eq!(Router::forwarded_from(&router), 31);
    assert!(Router::supports_cut_through(&router, PEER.into(), &[0; 4]));
    assert_eq!(*calls.borrow(), ["forwarded_from", "supports_cut_through"]);
}

#[test]
fn faulty_engine_forwards_every_method() {
    // The fault shows at the third packet.
    let plant = |probe| plant(Node::associations(probe), PlantedFault::Damage);
    assert_forwards(|probe| match plant(probe) {
        Node::Associations(engine) => engine,
        Node::Transactions(_) | Node::Router(_) => panic!("it has users"),
    });
}
