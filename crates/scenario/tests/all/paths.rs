//! Several paths: a protocol that uses two by turns and notices which one failed.

use engine::{
    Address, AssociationId, Associations, Batch, Bytes, Close, CommandError, Counters, Deliveries,
    Delivery, Event, Framing, Instant, Integrity, Layout, LocalAddress, Note, NoteFields, Path,
    PathError, PathFault, Properties, Protocol, Received, SendFlags, Status, Store,
};
use sim::{Node, Observation, PacketEvent, StopReason};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A packet's kind, and a position.
const HEADER: usize = 9;
const PAYLOAD: u64 = 1000;
const DATA: u8 = 0;
const ACK: u8 = 1;

/// When a packet without an acknowledgement is taken for lost.
const TIMEOUT: Duration = Duration::from_millis(50);

const ID: AssociationId = AssociationId(0);

/// What a station saw of its paths: (path, nanoseconds).
type Failures = Arc<Mutex<Vec<(u16, u64)>>>;

/// Stop and wait, by another path each time.
struct Alternator {
    paths: u16,
    peer: Option<Address>,
    known_end: u64,
    pending: VecDeque<Range<u64>>,
    waiting: Option<(Range<u64>, u16, Instant)>,
    next_path: u16,
    expected: u64,
    acks: VecDeque<(Path, u64)>,
    events: VecDeque<Event>,
    failures: Failures,
}

impl Alternator {
    fn new(paths: u16, failures: Failures) -> Alternator {
        Alternator {
            paths,
            peer: None,
            known_end: 0,
            pending: VecDeque::new(),
            waiting: None,
            next_path: 0,
            expected: 0,
            acks: VecDeque::new(),
            events: VecDeque::new(),
            failures,
        }
    }

    /// The path failed; what it carried goes by the next one.
    fn give_up_waiting(&mut self, now: Instant) {
        if let Some((range, path, _)) = self.waiting.take() {
            let mut failures = self.failures.lock().expect("no panic");
            failures.push((path, now.as_nanos()));
            self.pending.push_front(range);
        }
    }
}

fn packet(kind: u8, position: u64) -> [u8; HEADER] {
    let mut header = [kind; HEADER];
    header[1..].copy_from_slice(&position.to_be_bytes());
    header
}

impl Protocol for Alternator {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: HEADER + PAYLOAD as usize,
            packet_len: None,
            framing: Framing::Stream,
            notes: NoteFields::NONE,
            coalesce_delay: Duration::ZERO,
        }
    }

    fn handle_packet(&mut self, _: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        let Some((header, bytes)) = packet.octets.split_first_chunk::<HEADER>() else {
            return;
        };
        let mut position = [0; 8];
        position.copy_from_slice(&header[1..]);
        let position = u64::from_be_bytes(position);
        if header[0] == ACK {
            if let Some((range, ..)) = self.waiting.take_if(|(range, ..)| range.end == position) {
                self.events.push_back(Event::Released(ID, range));
            }
            return;
        }
        if self.peer.is_none() {
            self.peer = Some(packet.path.remote);
            self.events
                .push_back(Event::Accepted(ID, packet.path.remote));
        }
        let end = position + bytes.len() as u64;
        self.acks.push_back((packet.path, end));
        if position == self.expected {
            self.expected = end;
            deliveries.bytes.push(Delivery {
                association: ID,
                bytes: Bytes::Packet(HEADER..packet.octets.len()),
                gap: false,
                end_of_message: false,
                note: Note::default(),
                begin_tag: false,
                end_tag: false,
            });
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.waiting.as_ref().is_some_and(|(.., at)| *at <= now) {
            self.give_up_waiting(now);
        }
    }

    fn handle_path_error(&mut self, now: Instant, fault: PathFault<'_>) {
        assert_eq!(fault.error, PathError::Local(99), "no such address");
        assert_eq!(
            self.waiting.as_ref().map(|(_, path, _)| *path),
            Some(fault.path.local.0)
        );
        self.give_up_waiting(now);
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        if let Some((path, end)) = self.acks.pop_front() {
            batch.set_path(path, None);
            batch.push_own(&packet(ACK, end));
            return;
        }
        let (None, Some(remote)) = (&self.waiting, self.peer) else {
            return;
        };
        let Some(range) = self.pending.pop_front() else {
            return;
        };
        let local = LocalAddress(self.next_path);
        self.next_path = (self.next_path + 1) % self.paths;
        batch.set_path(Path { local, remote }, Some(ID));
        let header = packet(DATA, range.start);
        batch.push(
            &header,
            Store::Association(ID),
            range.clone(),
            Integrity::None,
        );
        self.waiting = Some((range, local.0, now + TIMEOUT));
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.as_ref().map(|(.., at)| *at)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

impl Associations for Alternator {
    fn layout(&self, _: Option<AssociationId>) -> Layout {
        Layout {
            header: HEADER,
            payload: PAYLOAD as usize,
            trailer: 0,
        }
    }

    fn connect(&mut self, _: Instant, to: &[Address]) -> Result<AssociationId, CommandError> {
        self.peer = to.first().copied();
        self.events.push_back(Event::Connected(ID));
        Ok(ID)
    }

    fn listen(&mut self, _: bool) {}

    fn submit(&mut self, _: Instant, _: AssociationId, end: u64, _: SendFlags, _: &Note) {
        while self.known_end < end {
            let next = end.min(self.known_end + PAYLOAD);
            self.pending.push_back(self.known_end..next);
            self.known_end = next;
        }
    }

    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]) {
        engine::submit_each(self, now, id, ends);
    }

    fn consume(&mut self, _: Instant, _: AssociationId, _: u64) {}

    fn close(&mut self, _: Instant, _: AssociationId, _: Close) {}

    fn status(&self, _: AssociationId) -> Status {
        Status::default()
    }

    fn receive_window(&self) -> u64 {
        u64::MAX
    }

    fn set_receive_full(&mut self, _: AssociationId, _: bool) {}

    fn set_path_mtu(&mut self, _: Instant, _: AssociationId, _: usize) {}

    fn sort_by_priority(&self, _: &mut [AssociationId]) {}
}

/// A run of two such stations: how the sender's paths failed, and a trace line each packet event.
fn run(medium: &str, disturbances: &str, uses: u16) -> (Vec<(u16, u64)>, Vec<String>) {
    let text = format!(
        r#"
        time_limit = "20 s"
        [medium]
        kind = "direct"
        rate = "10 Mbit/s"
        delay = "1 ms"
        {medium}
        {disturbances}
        [[station]]
        count = 2
        engine = {{ protocol = "bare" }}
        [[traffic]]
        from = [0]
        to = [1]
        length = {{ fixed = 500 }}
        interarrival = {{ fixed = "10 ms" }}
        messages = 200
        "#
    );
    let scenario = scenario::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let failures = Failures::default();
    let noted = Arc::clone(&failures);
    let wrap = move |_: Node| Node::associations(Alternator::new(uses, Arc::clone(&noted)));
    let mut network = scenario::build::build_with(&scenario, 5, &wrap).expect("it builds");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&lines);
    network.observe(move |observation: &Observation<'_>| {
        let line = scenario::trace::line(observation);
        if observation.event == PacketEvent::Lost {
            assert_eq!(line.contains("path=1"), observation.path == 1);
        }
        writer.lock().expect("no panic").push(line);
    });
    assert_eq!(network.run(20_000_000_000_000), StopReason::Complete);
    let report = network.report(StopReason::Complete);
    assert_eq!(report.flows[0].settled, 200);
    let failures = failures.lock().expect("no panic").clone();
    let lines = lines.lock().expect("no panic").clone();
    (failures, lines)
}

#[test]
fn partition_of_one_path_is_noticed_on_that_path_alone() {
    let partition = r#"
        [[disturbance]]
        kind = "partition"
        path = 1
        stations = [1]
        at = "500 ms"
        lasts = "500 ms"
        "#;
    let (failures, lines) = run("paths = 2", partition, 2);
    assert!(failures.len() > 3, "{failures:?}");
    for (path, ns) in failures {
        assert_eq!(path, 1);
        assert!((500_000_000..1_060_000_000).contains(&ns), "{ns}");
    }
    let count = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
    assert!(count(" path=1 ") * 3 > lines.len(), "both carry packets");
    assert!(
        lines
            .iter()
            .all(|line| !line.contains(" lost ") || line.contains(" path=1 "))
    );
}

#[test]
fn loss_of_one_path_spares_the_other() {
    let loss = r#"
        [[disturbance]]
        kind = "loss"
        path = 0
        loss = "100%"
        at = "500 ms"
        lasts = "300 ms"
        "#;
    let (failures, _) = run("paths = 2", loss, 2);
    assert!(!failures.is_empty());
    assert!(failures.iter().all(|(path, _)| *path == 0), "{failures:?}");
    let faults = "[faults]\nloss = \"20%\"\npath = 1";
    let (failures, _) = run("paths = 2", faults, 2);
    assert!(failures.len() > 5, "{failures:?}");
    assert!(failures.iter().all(|(path, _)| *path == 1), "{failures:?}");
}

#[test]
fn address_that_a_station_does_not_have_is_reported_and_costs_no_data() {
    let (failures, _) = run("paths = 2", "", 3);
    assert!(failures.len() > 50, "{}", failures.len());
    assert!(failures.iter().all(|(path, _)| *path == 2));
}

/// What happens on the first path does not depend on how many others there are.
#[test]
fn idle_second_path_changes_nothing() {
    let faults = "[faults]\nloss = \"5%\"\nduplicate = \"3%\"";
    let one = run("", faults, 1);
    let two = run("paths = 3", faults, 1);
    assert!(!one.0.is_empty(), "losses matter");
    assert_eq!(one, two);
}

#[test]
fn paths_that_do_not_exist_are_refused_with_those_that_do() {
    let refusal = |medium: &str, more: &str| {
        let text = format!(
            "time_limit = \"1 s\"\n[medium]\nkind = \"direct\"\n{medium}\n{more}\n\
             [[station]]\ncount = 2\nengine = {{ protocol = \"bare\" }}\n\
             [[traffic]]\nfrom = [0]\nto = [1]\nlength = {{ fixed = 9 }}\n\
             interarrival = {{ fixed = \"1 ms\" }}\n"
        );
        let parsed = scenario::parse(&text).map(|_| ());
        parsed.expect_err("it is refused")
    };
    for paths in ["paths = 0", "paths = 17"] {
        assert!(refusal(paths, "").contains("1 to 16"));
    }
    assert!(refusal("", "[faults]\npath = 1").contains("0 to 0"));
    let disturbance = |kind: &str, more: &str| {
        format!("[[disturbance]]\nkind = \"{kind}\"\nat = \"1 ms\"\nlasts = \"1 ms\"\n{more}")
    };
    let flap = disturbance("partition", "stations = [1]\npath = 2");
    assert!(refusal("paths = 2", &flap).contains("0 to 1"));
    let crash = disturbance("crash", "stations = [1]\npath = 0");
    assert!(refusal("paths = 2", &crash).contains("takes no path"));
}
