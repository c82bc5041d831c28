//! Helpers: agents, well-behaved clients and others.

use agent::AgentAddress;
use agent::keys::{Identity, KeyFolder};
use agent::server::raw_sockets::RawSocketSource;
use agent::{Agent, AgentConfig};
use agent_client::Session;
use control::frame::{FrameDecoder, REQUEST_MAX, RESPONSE_MAX, encode};
use control::session::{FromAgent, ToAgent};
use control::{Caps, Job, Role, Side};
use loadgen::{LocalHost, WorkerHandle, WorkerHost};
use measure::RaceSpec;
use measure::spec::Loads;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Timeout of all waits; reached only if something hangs.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A folder of a test, removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("towpath-agent-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Left over from an earlier process with this PID.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn keys(&self, name: &str) -> KeyFolder {
        KeyFolder::at(self.path(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It is in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Key folders of an agent on the loopback and of a client, which trust each other.
pub fn trusting_keys(scratch: &Scratch) -> (KeyFolder, KeyFolder) {
    trusting_keys_for(scratch, &["127.0.0.1".to_owned()])
}

/// The same, for agents at these addresses.
pub fn trusting_keys_for(scratch: &Scratch, hosts: &[String]) -> (KeyFolder, KeyFolder) {
    let (ours, theirs) = (scratch.keys("agent"), scratch.keys("client"));
    let one: Identity = ours.create().expect("a key");
    let other: Identity = theirs.create().expect("a key");
    ours.trust(other.public_key(), "client")
        .expect("it is trusted");
    for host in hosts {
        theirs.trust(one.public_key(), host).expect("it is trusted");
    }
    (ours, theirs)
}

/// A worker host whose workers are this program.
pub fn local_host() -> LocalHost {
    let (program, arguments) = this_program("worker_of_these_tests");
    LocalHost::new(program, arguments)
}

/// This program, and its arguments as a process that runs a test of this name as its entry point.
pub fn this_program(entry: &str) -> (PathBuf, Vec<String>) {
    let program = std::env::current_exe().expect("this program");
    let arguments = [entry, "--exact", "--nocapture", "--test-threads=1"];
    (program, arguments.map(str::to_owned).to_vec())
}

/// A worker host that records its workers.
#[derive(Clone)]
pub struct CountingHost {
    place: LocalHost,
    started: Arc<Mutex<Vec<u32>>>,
    panics_after: Option<usize>,
}

impl CountingHost {
    pub fn new() -> CountingHost {
        CountingHost {
            place: local_host(),
            started: Arc::default(),
            panics_after: None,
        }
    }

    /// Its workers have no rights, as those of an agent that dropped its own.
    pub fn without_rights() -> CountingHost {
        let (program, arguments) = this_program("worker_without_rights_of_these_tests");
        CountingHost {
            place: LocalHost::new(program, arguments),
            ..CountingHost::new()
        }
    }

    /// It panics when it is to start more than `workers`.
    pub fn panicking_after(workers: usize) -> CountingHost {
        CountingHost {
            panics_after: Some(workers),
            ..CountingHost::new()
        }
    }

    /// Number of workers ever started.
    pub fn started(&self) -> usize {
        self.started.lock().expect("no panic").len()
    }

    /// Those that still exist, zombies included.
    pub fn live_workers(&self) -> Vec<u32> {
        let all = self.started.lock().expect("no panic").clone();
        let own = std::process::id().to_string();
        let is_ours = |process: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit_once(')')
                .and_then(|(_, rest)| rest.split_whitespace().nth(1));
            parent == Some(own.as_str())
        };
        all.into_iter().filter(is_ours).collect()
    }
}

impl WorkerHost for CountingHost {
    fn name(&self) -> &str {
        "a host that counts"
    }

    fn spawn(&self) -> io::Result<WorkerHandle> {
        let is_last = self.panics_after.is_some_and(|most| self.started() >= most);
        assert!(!is_last, "a fault of the agent, planted");
        let worker = self.place.spawn()?;
        self.started.lock().expect("no panic").push(worker.pid());
        Ok(worker)
    }

    fn spawn_program(&self, _program: &Path) -> std::io::Result<WorkerHandle> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// An agent without keys on the loopback, with these caps.
pub fn open_agent(caps: Caps) -> (Agent, CountingHost) {
    let place = CountingHost::new();
    let agent = start("127.0.0.1:0", None, caps, place.clone());
    (agent, place)
}

pub fn start(listen: &str, keys: Option<KeyFolder>, caps: Caps, place: CountingHost) -> Agent {
    start_with(listen, keys, caps, place, None)
}

/// The same with raw sockets for its workers.
pub fn start_with(
    listen: &str,
    keys: Option<KeyFolder>,
    caps: Caps,
    place: CountingHost,
    raw_sockets: Option<RawSocketSource>,
) -> Agent {
    let settings = AgentConfig {
        listen: listen.parse().expect("an address"),
        keys,
        caps,
        worker_host: Box::new(place),
        raw_sockets,
        log: Box::new(|_| {}),
    };
    Agent::start(settings).unwrap_or_else(|error| panic!("{error}"))
}

pub fn target(agent: &Agent) -> AgentAddress {
    agent.address().to_string().parse().expect("an address")
}

/// A session without keys.
pub fn session(agent: &Agent) -> Session {
    let scratch = Scratch::new();
    connect(&target(agent), &scratch.keys("none")).unwrap_or_else(|error| panic!("{error}"))
}

pub fn connect(
    target: &AgentAddress,
    keys: &KeyFolder,
) -> Result<Session, agent_client::SessionError> {
    Session::connect(
        &[],
        target,
        keys,
        false,
        &AtomicBool::new(false),
        &mut |_| {},
    )
}

/// A client that can send anything.
pub struct RawClient {
    pub socket: TcpStream,
    frames: FrameDecoder,
}

impl RawClient {
    /// Connects and reads the agent's version message.
    pub fn connect(agent: SocketAddr) -> RawClient {
        let mut socket = TcpStream::connect(agent).expect("the agent listens");
        socket
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a limit");
        socket
            .set_write_timeout(Some(TEST_TIMEOUT))
            .expect("a limit");
        socket.set_nodelay(true).expect("an option");
        let mut version = [0; 16];
        socket
            .read_exact(&mut version)
            .expect("the agent speaks first");
        assert_eq!(&version[..14], b"towpath agent\0");
        RawClient {
            socket,
            frames: FrameDecoder::new(RESPONSE_MAX),
        }
    }

    /// Connects as a correct client, up to the start of its session.
    pub fn ready(agent: SocketAddr) -> RawClient {
        let mut raw = RawClient::connect(agent);
        raw.send_client_version();
        raw.send(&ToAgent::Hello(control::PROTOCOL_VERSION));
        loop {
            match raw.receive() {
                Some(FromAgent::Ready) => return raw,
                Some(FromAgent::Hello(_) | FromAgent::Queued(_)) => {}
                other => panic!("no turn: {other:?}"),
            }
        }
    }

    pub fn send_client_version(&mut self) {
        self.send_octets(b"towpath client\0\0");
    }

    /// Sends raw octets; ignores a closed connection.
    pub fn send_octets(&mut self, octets: &[u8]) {
        let _ = self.socket.write_all(octets);
    }

    pub fn send(&mut self, request: &ToAgent) {
        let frame = encode(request, REQUEST_MAX).expect("a small request");
        self.send_octets(&frame);
    }

    /// The next answer; None at end of file.
    pub fn receive(&mut self) -> Option<FromAgent> {
        loop {
            if let Some(answer) = self
                .frames
                .next_message::<FromAgent>()
                .expect("agents send good frames")
            {
                return Some(answer);
            }
            let mut piece = [0; 4096];
            match self.socket.read(&mut piece) {
                Ok(0) => return None,
                Ok(len) => self.frames.push(&piece[..len]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the agent is silent: {error}"),
            }
        }
    }

    /// Reads answers up to a wanted one.
    pub fn await_answer(&mut self, wanted: impl Fn(&FromAgent) -> bool) -> FromAgent {
        loop {
            let answer = self.receive().expect("the agent hung up");
            if wanted(&answer) {
                return answer;
            }
        }
    }

    /// Reads to end of file; gives the last answer.
    pub fn read_until_closed(&mut self) -> Option<FromAgent> {
        let mut last = None;
        while let Some(answer) = self.receive() {
            last = Some(answer);
        }
        last
    }
}

/// A job for one circuit of `transport`.
pub fn job(transport: &str, side: Side) -> Job {
    let role = match side {
        Side::Listen => Role::Sink,
        Side::Connect => Role::Source,
    };
    let mut job = Job::one_circuit(transport, side, role);
    job.circuit_options.congestion = congestion();
    job.limits.messages = u64::MAX;
    job.limits.time_ns = 50_000_000;
    job
}

/// The default congestion control, which needs no privilege.
pub fn congestion() -> String {
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// A race of one block of short trials.
pub fn spec(contestants: &[&str], workloads: &[&str]) -> RaceSpec {
    RaceSpec {
        command: vec!["test".into()],
        loads: Loads::PerSecond(vec![500.0]),
        circuit_options: job("tcp", Side::Listen).circuit_options,
        trial_s: Some(0.03),
        ..RaceSpec::one_block(contestants, workloads)
    }
}

/// Sets a flag on drop, also on a panic.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A race that must run; its result, which is written to `folder`.
#[track_caller]
pub fn race_in(
    folder: &Path,
    stage: &mut agent_client::AgentEnvironment,
    spec: &RaceSpec,
    machine: &results::Machine,
) -> results::RunData {
    let stop = AtomicBool::new(false);
    let run = measure::run(spec, machine, folder, stage, &stop, &mut NullObserver);
    run.expect("a race");
    results::RunData::read(folder).expect("a result")
}

/// An observer that does nothing.
pub struct NullObserver;

impl measure::Observer for NullObserver {
    fn progress(&mut self, _progress: &measure::Progress<'_>) {}
}

/// Waits until `done`, or fails the test with `what`.
#[track_caller]
pub fn await_condition(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + TEST_TIMEOUT;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the agent has no client and no worker.
#[track_caller]
pub fn await_idle(agent: &Agent, place: &CountingHost) {
    await_condition("a client is still there", || agent.clients() == 0);
    await_condition("a worker was left behind", || {
        place.live_workers().is_empty()
    });
}
