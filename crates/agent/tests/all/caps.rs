//! Byte and rate caps: enforced by running workers, and charged however they end.

use crate::common::{CountingHost, RawClient, await_idle, job, open_agent};
use agent::Agent;
use agent::server::session_state::{Action, SessionState, VerifiedPeer};
use control::session::{FromAgent, ToAgent};
use control::{
    Arrivals, Caps, FromWorker, Job, Mix, Rate, RendezvousFrame, Role, Side, ToWorker,
    WorkerReport, Workload,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// More rounds of workers than any test needs.
const ROUNDS_MAX: usize = 400;

/// Timeout for data that may never come: a worker without allowance sends nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Message size of the rate tests.
const LEN: usize = 10_000;

pub fn tell(raw: &mut RawClient, worker: u32, message: ToWorker) {
    raw.send(&ToAgent::ToWorker(worker, Box::new(message)));
}

/// Gives a listening job to a new worker; its address, or why it refuses.
fn listen(raw: &mut RawClient, worker: u32, job: &Job) -> Result<SocketAddr, String> {
    raw.send(&ToAgent::Spawn(worker));
    assign_job(raw, worker, job)
}

fn assign_job(raw: &mut RawClient, worker: u32, job: &Job) -> Result<SocketAddr, String> {
    tell(raw, worker, ToWorker::Listen(job.clone()));
    let of_it = move |answer: &FromAgent| matches!(answer, FromAgent::FromWorker(n, _) | FromAgent::Refused(Some(n), _) if *n == worker);
    match raw.await_answer(of_it) {
        FromAgent::FromWorker(_, FromWorker::Listening(frames)) => {
            let text = std::str::from_utf8(&frames[0].bytes).expect("an address");
            Ok(text.parse().expect("an address"))
        }
        FromAgent::Refused(_, why) => Err(why),
        other => panic!("not listening: {other:?}"),
    }
}

fn go(raw: &mut RawClient, worker: u32) {
    tell(raw, worker, ToWorker::Go(0));
    raw.await_answer(|answer| *answer == FromAgent::FromWorker(worker, FromWorker::Running));
}

pub fn end(raw: &mut RawClient, worker: u32) {
    raw.send(&ToAgent::EndWorker(worker));
    raw.await_answer(|answer| *answer == FromAgent::WorkerEnded(worker));
}

fn finished(raw: &mut RawClient, worker: u32) -> WorkerReport {
    let is_report = |answer: &FromAgent| matches!(answer, FromAgent::FromWorker(n, FromWorker::Finished(_)) if *n == worker);
    match raw.await_answer(is_report) {
        FromAgent::FromWorker(_, FromWorker::Finished(report)) => *report,
        _ => unreachable!("it was asked for"),
    }
}

/// A connection that the worker has accepted.
fn accepted(raw: &mut RawClient, worker: u32, to: SocketAddr) -> TcpStream {
    let data = TcpStream::connect(to).expect("the worker listens");
    let limit = Some(crate::common::TEST_TIMEOUT);
    data.set_read_timeout(limit).expect("a limit");
    data.set_write_timeout(limit).expect("a limit");
    raw.await_answer(|answer| *answer == FromAgent::FromWorker(worker, FromWorker::Accepted));
    data
}

/// Reads to end of file; the number of bytes.
fn read_to_end_len(data: &mut TcpStream) -> u64 {
    let mut buffer = vec![0; 1 << 16];
    let mut all = 0;
    while let Ok(len) = data.read(&mut buffer) {
        if len == 0 {
            break;
        }
        all += len as u64;
    }
    all
}

/// A job that sends for longer than any test lasts.
fn source() -> Job {
    let mut job = job("tcp", Side::Listen);
    job.role = Role::Source;
    job.limits.time_ns = 30_000_000_000;
    job.message_len = LEN as u64;
    job
}

fn offered(per_s: f64) -> Job {
    Job {
        workload: Workload::Offered,
        rate: Some(Rate {
            per_s,
            arrivals: Arrivals::Fixed,
        }),
        ..source()
    }
}

/// Mixed messages, most of them one byte long.
fn mixed(full: u64) -> Job {
    Job {
        message_len: 1,
        mix: Some(Mix {
            small: 1,
            full,
            small_percent: 10,
        }),
        ..source()
    }
}

fn serving(workload: Workload) -> Job {
    Job {
        workload,
        role: Role::Server,
        ..source()
    }
}

/// Starts workers of `job` until the agent refuses, and ends each before it reports: by request, or
/// by a crash. The bytes moved in total must be within the cap.
fn exhaust_byte_cap(
    job: &Job,
    bytes: u64,
    mut once: impl FnMut(&mut RawClient, SocketAddr) -> u64,
) {
    let caps = Caps {
        bytes,
        ..Caps::default()
    };
    let (agent, place) = open_agent(caps);
    let mut raw = RawClient::ready(agent.address());
    let mut moved = 0;
    for round in 0..ROUNDS_MAX {
        let to = match listen(&mut raw, 1, job) {
            Ok(to) => to,
            Err(why) => {
                assert!(why.contains("has moved all of its"), "{why}");
                assert!(round > 1 && moved > 0, "{moved} in {round} rounds");
                return;
            }
        };
        moved += once(&mut raw, to);
        if round % 2 == 0 {
            end(&mut raw, 1);
        } else {
            crash(&mut raw, &place);
        }
        assert!(moved <= bytes, "{moved} of {bytes} after {round} rounds");
    }
    panic!("{ROUNDS_MAX} workers have moved {moved} of {bytes}");
}

/// Kills the only worker.
fn crash(raw: &mut RawClient, place: &CountingHost) {
    for worker in place.live_workers() {
        let process = rustix::process::Pid::from_raw(worker as i32).expect("a process");
        // It may have ended by itself.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
    raw.await_answer(|answer| *answer == FromAgent::WorkerEnded(1));
}

/// Waits until a worker sends, or the timeout; the number of bytes read.
fn begin_to_read(raw: &mut RawClient, to: SocketAddr) -> (TcpStream, u64) {
    let mut data = accepted(raw, 1, to);
    go(raw, 1);
    // The caller reads the rest.
    data.set_read_timeout(Some(READ_TIMEOUT)).expect("a limit");
    let read = data.read(&mut [0; 1]).unwrap_or(0) as u64;
    (data, read)
}

#[test]
fn bytes_of_crashed_workers_charged() {
    for job in [source(), mixed(100_000), offered(100_000.0)] {
        let mut earlier: Option<(TcpStream, u64)> = None;
        exhaust_byte_cap(&job, 48 << 20, |raw, to| {
            // Skip messages of the previous worker.
            let moved = earlier.take();
            let moved = moved.map_or(0, |(mut data, read)| read + read_to_end_len(&mut data));
            earlier = Some(begin_to_read(raw, to));
            moved
        });
    }
}

#[test]
fn reply_bytes_of_crashed_workers_charged() {
    let message = vec![7; LEN];
    let ask = |data: &mut TcpStream| {
        data.set_read_timeout(Some(READ_TIMEOUT)).expect("a limit");
        let mut answer = vec![0; LEN];
        let asked = data.write_all(&message);
        asked.and_then(|()| data.read_exact(&mut answer)).is_ok()
    };
    exhaust_byte_cap(&serving(Workload::Delay), 500_000, |raw, to| {
        let mut data = accepted(raw, 1, to);
        go(raw, 1);
        let answers = (0..5).take_while(|_| ask(&mut data)).count();
        (answers * 2 * LEN) as u64
    });
    exhaust_byte_cap(&serving(Workload::Connect), 500_000, |raw, to| {
        raw.await_answer(|answer| *answer == FromAgent::FromWorker(1, FromWorker::Accepted));
        go(raw, 1);
        let once = |_: &i32| TcpStream::connect(to).is_ok_and(|mut data| ask(&mut data));
        let answers = (0..5).take_while(once).count();
        (answers * 2 * LEN) as u64
    });
}

#[test]
fn receiver_byte_allowance_enforced() {
    let caps = Caps {
        bytes: 1 << 20,
        ..Caps::default()
    };
    let (agent, place) = open_agent(caps);
    let mut raw = RawClient::ready(agent.address());
    let mut sink = job("tcp", Side::Listen);
    sink.limits.time_ns = 30_000_000_000;
    let to = listen(&mut raw, 1, &sink).expect("it listens");
    let mut data = accepted(&mut raw, 1, to);
    go(&mut raw, 1);
    // The peer closes in the middle, whatever the kernel has buffered.
    let flood = vec![7; 1 << 16];
    let written = (0..4096).take_while(|_| data.write_all(&flood).is_ok());
    assert!(written.count() < 4096, "it takes all of 256 MiB");
    let report = finished(&mut raw, 1);
    let circuit = &report.circuits[0];
    assert_eq!(
        circuit.error.as_deref(),
        Some(control::caps::QUOTA_EXCEEDED)
    );
    assert_eq!(circuit.received_bytes, report.moved_bytes);
    // The last read may exceed the allowance.
    let most = (1 << 20) + sink.circuit_options.read_len;
    assert!(report.moved_bytes >= 1 << 20 && report.moved_bytes <= most);
    let why = listen(&mut raw, 2, &sink).expect_err("nothing is left");
    assert!(why.contains("has moved all of its 1048576 bytes"), "{why}");
    drop(raw);
    await_idle(&agent, &place);
}

/// Rate cap of the agents of the rate tests, bytes/s.
const PACE: u64 = 1_000_000;

fn slow_agent() -> (Agent, CountingHost) {
    let caps = Caps {
        rate_bps: Some(PACE * 8),
        ..Caps::default()
    };
    open_agent(caps)
}

/// Runs a ready worker to the end of its job; its report, and the bytes received.
fn run_source(raw: &mut RawClient, worker: u32, mut data: TcpStream) -> (WorkerReport, u64) {
    let reading = std::thread::spawn(move || read_to_end_len(&mut data));
    go(raw, worker);
    let report = finished(raw, worker);
    end(raw, worker);
    (report, reading.join().expect("no panic"))
}

/// Bytes allowed in the time of `reports`: the rate, and one catch-up after a stall.
fn max_rate(reports: &[&WorkerReport]) -> u64 {
    let circuits = || reports.iter().flat_map(|report| &report.circuits);
    let first = circuits().map(|one| one.first_ns).min().expect("a circuit");
    let last = circuits().map(|one| one.last_ns).max().expect("a circuit");
    PACE * (last - first) / 1_000_000_000 + PACE / 10
}

#[test]
fn rate_cap_enforced_for_every_workload() {
    let (agent, place) = slow_agent();
    let mut raw = RawClient::ready(agent.address());
    let short = |job: Job| {
        let mut job = job;
        job.limits.time_ns = 400_000_000;
        job
    };
    let both = Job {
        role: Role::Both,
        ..source()
    };
    for job in [source(), mixed(50_000), offered(99.0), both].map(short) {
        let to = listen(&mut raw, 1, &job).expect("it listens");
        let data = accepted(&mut raw, 1, to);
        let (report, came) = run_source(&mut raw, 1, data);
        assert_eq!(report.circuits[0].error, None);
        assert_eq!(report.moved_bytes, came);
        let most = max_rate(&[&report]) + job.message_len_max();
        assert!(came <= most, "{came} above {most}: {job:?}");
    }
    // A higher load cannot be offered.
    let why = listen(&mut raw, 1, &offered(101.0)).expect_err("too much");
    assert!(why.contains("8080000 bit/s are offered"), "{why}");
    raw.send(&ToAgent::EndWorker(1));
    drop(raw);
    await_idle(&agent, &place);
}

/// Echoes on every connection until one sends nothing.
fn echo(listener: &TcpListener) {
    let mut message = vec![0; LEN];
    loop {
        let (mut one, _) = listener.accept().expect("a connection");
        if one.read_exact(&mut message).is_err() {
            return;
        }
        // The next connection is tried after an error.
        let _ = one.write_all(&message);
    }
}

#[test]
fn rate_cap_covers_handshakes_and_requests() {
    let (agent, place) = slow_agent();
    let mut raw = RawClient::ready(agent.address());
    for workload in [Workload::Connect, Workload::Delay] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("bound");
        let echoing = std::thread::spawn(move || match workload {
            Workload::Connect => echo(&listener),
            _ => answer(&listener),
        });
        let mut asking = job("tcp", Side::Connect);
        (asking.role, asking.workload) = (Role::Client, workload);
        asking.message_len = LEN as u64;
        asking.limits.time_ns = 400_000_000;
        let frame = RendezvousFrame {
            reach: 2,
            bytes: address.to_string().into_bytes(),
            descriptors: 0,
        };
        raw.send(&ToAgent::Spawn(1));
        tell(&mut raw, 1, ToWorker::Connect(asking, vec![frame]));
        raw.await_answer(|answer| *answer == FromAgent::FromWorker(1, FromWorker::Connected));
        go(&mut raw, 1);
        let report = finished(&mut raw, 1);
        end(&mut raw, 1);
        let circuit = &report.circuits[0];
        assert_eq!(circuit.error, None, "{workload:?}");
        assert_eq!(circuit.received_bytes, circuit.sent * LEN as u64);
        assert_eq!(report.moved_bytes, 2 * circuit.received_bytes);
        let most = max_rate(&[&report]) + LEN as u64;
        assert!(circuit.received_bytes <= most, "{workload:?}: {circuit:?}");
        // An empty connection ends the thread.
        drop(TcpStream::connect(address));
        echoing.join().expect("no panic");
    }
    drop(raw);
    await_idle(&agent, &place);
}

/// Echoes on one connection to its end, then waits for one more.
fn answer(listener: &TcpListener) {
    let (mut one, _) = listener.accept().expect("a connection");
    let mut message = vec![0; LEN];
    while one.read_exact(&mut message).is_ok() && one.write_all(&message).is_ok() {}
    drop(listener.accept());
}

#[test]
fn rate_cap_shared_among_workers() {
    let (agent, place) = slow_agent();
    let mut raw = RawClient::ready(agent.address());
    let workers = [1, 2, 3];
    let mut job = source();
    job.limits.time_ns = 400_000_000;
    workers
        .iter()
        .for_each(|&worker| raw.send(&ToAgent::Spawn(worker)));
    let threads = workers.map(|worker| {
        let to = assign_job(&mut raw, worker, &job).expect("it listens");
        let mut data = accepted(&mut raw, worker, to);
        std::thread::spawn(move || read_to_end_len(&mut data))
    });
    // A fourth finds no share left.
    let why = listen(&mut raw, 4, &job).expect_err("all is given away");
    assert!(why.contains("or its other workers may"), "{why}");
    workers
        .iter()
        .for_each(|&worker| tell(&mut raw, worker, ToWorker::Go(0)));
    let mut reports: Vec<WorkerReport> = Vec::new();
    while reports.len() < workers.len() {
        if let Some(FromAgent::FromWorker(_, FromWorker::Finished(report))) = raw.receive() {
            reports.push(*report);
        }
    }
    workers.iter().for_each(|&worker| end(&mut raw, worker));
    let came: u64 = threads
        .map(|one| one.join().expect("no panic"))
        .iter()
        .sum();
    let all: Vec<&WorkerReport> = reports.iter().collect();
    let most = max_rate(&all) + 3 * LEN as u64;
    assert!(came > 0 && came <= most, "{came} above {most}");
    drop(raw);
    await_idle(&agent, &place);
}

/// However a worker ends, what it has booked or reported is charged.
#[test]
fn bytes_charged_however_worker_ends() {
    let here = std::net::IpAddr::from([127, 0, 0, 1]);
    let client = VerifiedPeer {
        peer: here,
        local: here,
    };
    let caps = Caps {
        bytes: 10_000_000,
        ..Caps::default()
    };
    let mut state = SessionState::new(caps, client, |_, _| Ok(()));
    let mut left = 10_000_000;
    let report = |moved_bytes| {
        let report = WorkerReport {
            moved_bytes,
            ..WorkerReport::default()
        };
        FromWorker::Finished(Box::new(report))
    };
    for (message, booked, charged) in [
        (None, 5000, 5000),
        (Some(FromWorker::Failed("late".into())), 700, 700),
        (Some(FromWorker::SourceDone(5)), 60, 60),
        (Some(report(900)), 5000, 900),
        (None, 0, 0),
    ] {
        let whole = Some(left);
        state.handle_request(ToAgent::Spawn(1)).expect("a worker");
        let job = ToWorker::Listen(source());
        let act = state.handle_request(ToAgent::ToWorker(1, Box::new(job)));
        assert!(matches!(act, Ok(Action::Forward(1, _))), "{act:?}");
        assert_eq!(state.job(1).and_then(|job| job.allowance_bytes), whole);
        message.map(|message| state.handle_worker_message(1, message));
        state.worker_ended(1, booked);
        left -= charged;
        assert_eq!(state.bytes_left(), left);
    }
}
