//! Engines that wrap another one forward every call of the contract.

use engine::{
    Address, AssociationId, Batch, CommandError, Counters, Delivery, Engine, Event, Framing,
    Instant, PacketLen, SegmentLayout,
};
use scenario::engines::BoxedEngine;
use scenario::swarm::canary::{PlantedFault, plant};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const ID: AssociationId = AssociationId(7);
const PEER: Address = Address::Station(3);

/// Records its calls, and returns values that no engine returns by default.
#[derive(Clone, Default)]
struct Probe {
    calls: Rc<RefCell<Vec<&'static str>>>,
}

impl Probe {
    fn record(&self, call: &'static str) {
        self.calls.borrow_mut().push(call);
    }
}

impl Engine for Probe {
    fn layout(&self) -> SegmentLayout {
        self.record("layout");
        SegmentLayout {
            header: 11,
            payload: 13,
        }
    }

    fn packet_len(&self) -> Option<PacketLen> {
        self.record("packet_len");
        Some(|octets| Some(octets.len() + 17))
    }

    fn connect(&mut self, _now: Instant, _to: Address) -> Result<AssociationId, CommandError> {
        self.record("connect");
        Ok(ID)
    }

    fn listen(&mut self, _accept: bool) {
        self.record("listen");
    }

    fn submit(&mut self, _now: Instant, _association: AssociationId, _end: u64, _push: bool) {
        self.record("submit");
    }

    fn framing(&self) -> Framing {
        self.record("framing");
        Framing::Stream
    }

    fn end_message(&mut self, _association: AssociationId, _end: u64) {
        self.record("end_message");
    }

    fn consume(&mut self, _now: Instant, _association: AssociationId, _bytes: u64) {
        self.record("consume");
    }

    fn finish(&mut self, _now: Instant, _association: AssociationId) {
        self.record("finish");
    }

    fn request_ack(&mut self, _now: Instant, _association: AssociationId) {
        self.record("request_ack");
    }

    fn abort(&mut self, _now: Instant, _association: AssociationId) {
        self.record("abort");
    }

    fn handle_packet(
        &mut self,
        _now: Instant,
        _from: Address,
        _packet: &[u8],
        _deliveries: &mut Vec<Delivery>,
    ) {
        self.record("handle_packet");
    }

    fn handle_timeout(&mut self, _now: Instant) {
        self.record("handle_timeout");
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

    fn bytes_in_flight(&self, _association: AssociationId) -> u64 {
        self.record("bytes_in_flight");
        23
    }

    fn counters(&self) -> Counters {
        self.record("counters");
        Counters {
            packets_built: 29,
            ..Counters::default()
        }
    }

    fn sort_by_priority(&self, associations: &mut [AssociationId]) {
        self.record("sort_by_priority");
        associations.reverse();
    }

    fn forwarded_from(&self) -> Option<u64> {
        self.record("forwarded_from");
        Some(31)
    }

    fn supports_cut_through(&self, _from: Address, _head: &[u8]) -> bool {
        self.record("supports_cut_through");
        true
    }

    fn coalesce_delay(&self) -> Duration {
        self.record("coalesce_delay");
        Duration::from_millis(37)
    }
}

const METHODS: [&str; 22] = [
    "layout",
    "packet_len",
    "connect",
    "listen",
    "submit",
    "framing",
    "end_message",
    "consume",
    "finish",
    "request_ack",
    "abort",
    "handle_packet",
    "handle_timeout",
    "poll_transmit",
    "poll_event",
    "poll_timeout",
    "bytes_in_flight",
    "counters",
    "sort_by_priority",
    "forwarded_from",
    "supports_cut_through",
    "coalesce_delay",
];

/// Calls every method once; the calls must arrive in this order, and the results must be `Probe`'s.
fn assert_forwards(wrap: impl Fn(Probe) -> BoxedEngine) {
    let probe = Probe::default();
    let calls = Rc::clone(&probe.calls);
    let mut engine = wrap(probe);
    calls.borrow_mut().clear();
    let now = Instant::from_nanos(1);
    assert_eq!(engine.layout().packet(), 24);
    let packet_len = engine.packet_len().expect("packet_len is forwarded");
    assert_eq!(packet_len(&[0; 4]), Some(21));
    assert_eq!(engine.connect(now, PEER), Ok(ID));
    engine.listen(true);
    engine.submit(now, ID, 100, true);
    assert_eq!(engine.framing(), Framing::Stream);
    engine.end_message(ID, 100);
    engine.consume(now, ID, 10);
    engine.finish(now, ID);
    engine.request_ack(now, ID);
    engine.abort(now, ID);
    engine.handle_packet(now, PEER, &[0; 4], &mut Vec::new());
    engine.handle_timeout(now);
    engine.poll_transmit(now, &mut Batch::new(1));
    assert_eq!(engine.poll_event(), Some(Event::Finished(ID)));
    assert_eq!(engine.poll_timeout(), Some(Instant::from_nanos(19)));
    assert_eq!(engine.bytes_in_flight(ID), 23);
    assert_eq!(engine.counters().packets_built, 29);
    let mut order = [AssociationId(1), AssociationId(2)];
    engine.sort_by_priority(&mut order);
    assert_eq!(order, [AssociationId(2), AssociationId(1)]);
    assert_eq!(engine.forwarded_from(), Some(31));
    assert!(engine.supports_cut_through(PEER, &[0; 4]));
    assert_eq!(engine.coalesce_delay(), Duration::from_millis(37));
    assert_eq!(*calls.borrow(), METHODS);
}

#[test]
fn boxed_engine_forwards_every_method() {
    assert_forwards(|probe| Box::new(probe));
}

#[test]
fn faulty_engine_forwards_every_method() {
    // The fault shows at the third packet.
    assert_forwards(|probe| plant(Box::new(probe), PlantedFault::Damage));
}
