//! A dishonest agent: whatever it reports, its client neither crashes nor writes nonsense into a
//! result.

use crate::common::{Scratch, TEST_TIMEOUT, connect, local_host, race_in, spec};
use agent::AgentAddress;
use agent::KeyFolder;
use agent_client::AgentEnvironment;
use agent_client::{PathEnd, Session};
use control::frame::{FrameDecoder, RESPONSE_MAX, encode};
use control::session::{
    AgentHello, FromAgent, HostCounters, MachineDescription, PathFacts, ToAgent,
};
use control::{Caps, CircuitReport, FromWorker, RendezvousFrame, Slice, ToWorker, WorkerReport};
use results::{Fact, Finding, Machine, RunData, Severity, Status};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Text that no report may contain: it clears the screen, reverses writing, begins a script.
const HOSTILE_TEXT: &str = "\u{1b}[2J\u{202e}\r\n\0<script>";

/// How it falsifies an honest report.
type Lie = fn(&mut WorkerReport);

/// A dishonest agent for one client on the loopback.
struct DishonestAgent {
    target: AgentAddress,
    thread: JoinHandle<()>,
}

impl DishonestAgent {
    fn start(lie: Lie) -> DishonestAgent {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("bound").to_string();
        let thread = std::thread::spawn(move || {
            let (client, _) = listener.accept().expect("a client");
            client
                .set_read_timeout(Some(TEST_TIMEOUT))
                .expect("a limit");
            serve(client, lie);
        });
        DishonestAgent {
            target: address.parse().expect("an address"),
            thread,
        }
    }

    fn session(&self, keys: &KeyFolder) -> Session {
        connect(&self.target, keys).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Serves until the client leaves.
fn serve(mut client: TcpStream, lie: Lie) {
    let mut version = *b"towpath agent\0\0\0";
    version[14] = control::PROTOCOL_VERSION as u8;
    client.write_all(&version).expect("it is sent");
    let mut theirs = [0; 16];
    client.read_exact(&mut theirs).expect("a client's version");
    let mut frames = FrameDecoder::new(RESPONSE_MAX);
    // Receives the messages for the pretended worker.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut piece = [0; 4096];
    while let Ok(len @ 1..) = client.read(&mut piece) {
        frames.push(&piece[..len]);
        while let Some(request) = frames
            .next_message::<ToAgent>()
            .expect("clients send good frames")
        {
            for answer in answers(request, &socket, lie) {
                let frame = encode(&answer, RESPONSE_MAX).expect("it fits");
                // The client may have left.
                let _ = client.write_all(&frame);
            }
        }
    }
}

fn answers(request: ToAgent, socket: &UdpSocket, lie: Lie) -> Vec<FromAgent> {
    let from_worker = |number, message| vec![FromAgent::FromWorker(number, message)];
    match request {
        ToAgent::Hello(version) => vec![FromAgent::Hello(welcome(version)), FromAgent::Ready],
        ToAgent::Clock(number) => vec![FromAgent::Clock(number, loadgen::clock::now_ns())],
        ToAgent::Machine(_) => vec![FromAgent::Machine(description())],
        ToAgent::Path => vec![FromAgent::Path(PathFacts {
            mtu: u32::MAX,
            interface: HOSTILE_TEXT.repeat(30),
            interface_mtu: 0,
            offloads: vec![(HOSTILE_TEXT.repeat(30), true); 999],
        })],
        ToAgent::EndTrial => vec![FromAgent::TrialCounters(counters())],
        ToAgent::EndWorker(number) => vec![FromAgent::WorkerEnded(number)],
        ToAgent::ToWorker(number, message) => match *message {
            ToWorker::Listen(_) => {
                let port = socket.local_addr().expect("bound").port();
                // The client must not use the reported host.
                let frame = RendezvousFrame {
                    reach: 2,
                    bytes: format!("192.0.2.99:{port}").into_bytes(),
                    descriptors: 0,
                };
                let listening = FromWorker::Listening(vec![frame]);
                let from_worker = |message| FromAgent::FromWorker(number, message);
                vec![from_worker(listening), from_worker(FromWorker::Accepted)]
            }
            ToWorker::Go(_) => from_worker(number, FromWorker::Running),
            ToWorker::PeerDone(sent) => {
                let mut report = honest_report(sent);
                lie(&mut report);
                let done = FromWorker::Finished(Box::new(report));
                let first = FromAgent::FromWorker(number, FromWorker::SourceDone(0));
                vec![first, FromAgent::FromWorker(number, done)]
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn welcome(version: u32) -> AgentHello {
    AgentHello {
        version,
        program: HOSTILE_TEXT.repeat(30),
        caps: Caps::default(),
        transports: vec![(HOSTILE_TEXT.repeat(30), Some(HOSTILE_TEXT.repeat(30))); 999],
        congestion: vec![HOSTILE_TEXT.repeat(30); 999],
        processors: vec![u32::MAX; 999],
    }
}

fn description() -> MachineDescription {
    let fact = Fact {
        group: HOSTILE_TEXT.repeat(30),
        name: HOSTILE_TEXT.repeat(30),
        value: HOSTILE_TEXT.repeat(30),
    };
    let found = Finding {
        severity: Severity::Bad,
        what: HOSTILE_TEXT.repeat(30),
        effect: HOSTILE_TEXT.repeat(30),
        remedy: HOSTILE_TEXT.repeat(30),
    };
    MachineDescription {
        facts: vec![fact; 999],
        findings: vec![found; 999],
    }
}

fn counters() -> HostCounters {
    let evidence = [
        ("host_busy_s", f64::NAN),
        (HOSTILE_TEXT, 1.0),
        ("host_wakeups", 5.0),
    ];
    HostCounters {
        evidence: evidence
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        disturbed: vec![HOSTILE_TEXT.repeat(30); 999],
        datagrams_dropped: u64::MAX,
    }
}

/// The report of a worker that received everything.
fn honest_report(sent: u64) -> WorkerReport {
    let now_ns = loadgen::clock::now_ns();
    let slice = |ago_ns, messages| Slice {
        at_ns: now_ns - ago_ns,
        messages,
        bytes: messages * 1000,
    };
    let circuit = CircuitReport {
        transport: "udp".into(),
        received: sent,
        received_bytes: sent * 1000,
        first_ns: now_ns - 30_000_000,
        last_ns: now_ns,
        slices: vec![slice(30_000_000, 0), slice(0, sent)],
        ..CircuitReport::default()
    };
    WorkerReport {
        circuits: vec![circuit],
        ..WorkerReport::default()
    }
}

/// A race with that agent; the result must be readable and printable.
fn race(lie: Lie) -> RunData {
    let scratch = Scratch::new();
    let agent = DishonestAgent::start(lie);
    let session = Arc::new(agent.session(&scratch.keys("none")));
    assert!(!session.welcome().program.contains('\u{1b}'));
    let pairs = vec![[PathEnd::Local, PathEnd::Agent(Arc::clone(&session))]];
    let mut stage = AgentEnvironment::new(pairs, &local_host()).expect("a stage");
    let mut machine = Machine::default();
    let described = stage.describe(&Default::default(), &mut machine);
    described.expect("a description");
    let folder = scratch.path("run");
    let spec = spec(&["udp"], &["throughput"]);
    let run = race_in(&folder, &mut stage, &spec, &machine);
    let path = session.remote_path().expect("an answer");
    assert!(path.offloads.len() < 100 && !path.interface.contains('\r'));
    drop((stage, session));
    agent.thread.join().expect("no panic");
    let all = serde_text(&run);
    let is_odd = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!all.contains(is_odd), "{all:?}");
    assert!(run.machine.facts.len() < 999 && all.len() < 1 << 20);
    run
}

/// All texts of the result.
fn serde_text(run: &RunData) -> String {
    let mut all = String::new();
    for fact in &run.machine.facts {
        all += &format!("{} {} {}\n", fact.group, fact.name, fact.value);
    }
    for found in &run.machine.findings {
        all += &format!("{} {} {}\n", found.what, found.effect, found.remedy);
    }
    for trial in &run.trials {
        all += &format!("{} {}\n", trial.reason, trial.disturbed.join(" "));
        for (name, value) in trial.evidence.iter().chain(&trial.metrics) {
            assert!(value.is_finite(), "{name}");
            all += &format!("{name}\n");
        }
        for (name, value) in &trial.effective {
            all += &format!("{name} {value}\n");
        }
    }
    all
}

#[test]
fn inconsistent_report_fails_trial() {
    let lies: [Lie; 8] = [
        |report| report.circuits[0].received = u64::MAX,
        |report| report.circuits[0].last_ns = u64::MAX,
        |report| report.circuits[0].slices.reverse(),
        |report| report.circuits[0].transport = "tcp".into(),
        |report| report.circuits = vec![report.circuits[0].clone(); 65],
        |report| report.cpu.task_ns = u64::MAX,
        |report| {
            report.circuits[0]
                .measures
                .extend([("lost".to_owned(), f64::NAN)])
        },
        |report| {
            report.circuits[0]
                .counts
                .extend([(HOSTILE_TEXT.to_owned(), 1)])
        },
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let run = race(lie);
        let trial = run.trials.last().expect("a pilot");
        assert_eq!(trial.status, Status::Failed, "lie {number}");
        let words = "the agent's answer makes no sense";
        assert!(
            trial.reason.contains(words),
            "lie {number}: {}",
            trial.reason
        );
    }
}

#[test]
fn plausible_false_report_only_affects_result() {
    let lies: [Lie; 4] = [
        |_| {},
        |report| report.circuits[0].error = Some(HOSTILE_TEXT.repeat(30)),
        |report| report.circuits[0].invalid = Some(HOSTILE_TEXT.repeat(30)),
        |report| {
            let junk = ("delay".to_owned(), "A".repeat(70_000));
            report.circuits[0].histograms.extend([junk]);
            report
                .effective
                .insert("congestion".into(), HOSTILE_TEXT.repeat(30));
        },
    ];
    for lie in lies {
        assert!(!race(lie).trials.is_empty());
    }
}

#[test]
fn non_agent_peer_detected() {
    let scratch = Scratch::new();
    let keys = scratch.keys("none");
    let assert_refused = |octets: Vec<u8>, words: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("bound");
        let thread = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            let _ = client.write_all(&octets);
            let _ = client.shutdown(std::net::Shutdown::Write);
            // Closing with unread data would reset the connection.
            let _ = client.set_read_timeout(Some(TEST_TIMEOUT));
            let _ = client.read_to_end(&mut Vec::new());
        });
        let target: AgentAddress = address.to_string().parse().expect("an address");
        let why = connect(&target, &keys)
            .err()
            .expect("no session")
            .to_string();
        assert!(why.contains(words), "{why}");
        thread.join().expect("no panic");
    };
    let own = u8::try_from(control::PROTOCOL_VERSION).expect("a small number");
    let version_exchange = |version: u8, end: u8, rest: &[u8]| {
        [b"towpath agent\0", &[version, end][..], rest].concat()
    };
    assert_refused(Vec::new(), "closed the connection at once");
    let other = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    assert_refused(other, "is no towpath agent");
    assert_refused(version_exchange(own, 9, b""), "is no towpath agent");
    let later = format!("version {}", own + 1);
    assert_refused(version_exchange(own + 1, 0, b""), &later);
    assert_refused(version_exchange(own, 0, b""), "closed the connection");
    let len_max = version_exchange(own, 0, b"\xff\xff\xff\xff");
    assert_refused(len_max, "exceeds the limit");
    let unknown = version_exchange(own, 0, b"\x02\0\0\0\x63\x63");
    assert_refused(unknown, "no message");
    let first = version_exchange(own, 0, b"\x01\0\0\0\x02");
    assert_refused(first, "its limits");
}
