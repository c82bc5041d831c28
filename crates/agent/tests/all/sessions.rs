//! Sessions: authentication, queueing, disconnects.

use crate::common::{
    CountingHost, RawClient, Scratch, await_condition, await_idle, connect, job, local_host,
    open_agent, race_in, session, spec, start, target, trusting_keys,
};
use agent::keys::KeyFolder;
use agent::server::AgentError;
use agent::{Agent, AgentConfig};
use agent_client::AgentEnvironment;
use agent_client::{PathEnd, Session};
use control::frame::{REQUEST_MAX, encode};
use control::session::{FromAgent, ToAgent};
use control::{Caps, FromWorker, Side, ToWorker};
use results::{Machine, RunData, Status, TestSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Runs a race from this host to the agent of `session`.
fn race(session: Session, spec: &measure::RaceSpec, scratch: &Scratch) -> RunData {
    let pairs = vec![[PathEnd::Local, PathEnd::Agent(Arc::new(session))]];
    let mut stage = AgentEnvironment::new(pairs, &local_host()).expect("a stage");
    let folder = scratch.path("run");
    let mut machine = Machine::default();
    stage
        .describe(&Default::default(), &mut machine)
        .expect("a description");
    assert!(!machine.facts.is_empty());
    race_in(&folder, &mut stage, spec, &machine)
}

#[test]
fn race_runs_over_tls_with_trusted_keys() {
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys(&scratch);
    let place = CountingHost::new();
    let agent = start("127.0.0.1:0", Some(ours), Caps::default(), place.clone());
    let session = connect(&target(&agent), &theirs).expect("a friend");
    let run = race(
        session,
        &spec(&["tcp", "udp"], &["throughput", "delay"]),
        &scratch,
    );
    assert!(run.trials.len() >= 8);
    for trial in &run.trials {
        assert_eq!(
            trial.status,
            Status::Ok,
            "{}: {}",
            trial.cell.transport(),
            trial.reason
        );
        assert!(
            trial.evidence.contains_key("agent_busy_s"),
            "{:?}",
            trial.evidence.keys()
        );
        // On one host neither end counts the other's worker as a disturbance.
        let names_peer = |flag: &String| flag.starts_with("127.0.0.1");
        assert!(
            !trial.disturbed.iter().any(names_peer),
            "{:?}",
            trial.disturbed
        );
    }
    assert_eq!(place.started(), run.trials.len());
    await_idle(&agent, &place);
}

#[test]
fn untrusted_key_rejected_by_both_ends() {
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys(&scratch);
    let untrusted = scratch.keys("untrusted");
    untrusted.create().expect("a key");
    let agent_key = ours.identity().expect("a key").public_key();
    untrusted
        .trust(agent_key, "127.0.0.1")
        .expect("it is trusted");
    let place = CountingHost::new();
    let agent = start("127.0.0.1:0", Some(ours), Caps::default(), place.clone());
    let fails = |keys: &KeyFolder, words: &str| {
        let why = connect(&target(&agent), keys)
            .err()
            .expect("it is refused")
            .to_string();
        assert!(why.contains(words), "{why}");
    };
    fails(&untrusted, "does not trust this host's key");
    fails(&scratch.keys("missing"), "towpath key new");
    // This client trusts another key for that host, and the agent's key for another host.
    let misplaced = scratch.keys("misplaced");
    misplaced
        .trust(agent_key, "client2")
        .expect("it is trusted");
    let copied = std::fs::copy(theirs.path().join("key"), misplaced.path().join("key"));
    copied.expect("the client's key");
    fails(&misplaced, "no key is trusted here by the name 127.0.0.1 (");
    let other = scratch.keys("other").create().expect("a key").public_key();
    misplaced.trust(other, "127.0.0.1").expect("it is trusted");
    fails(&misplaced, "its key is not the one trusted here");
    await_condition("unauthenticated connections are counted", || {
        agent.metrics().contains("strangers_total 2")
    });
    assert_eq!((place.started(), agent.clients()), (0, 0));
}

#[test]
fn keyless_agent_restricted_to_loopback() {
    let settings = |listen: &str| AgentConfig {
        listen: listen.parse().expect("an address"),
        keys: None,
        caps: Caps::default(),
        worker_host: Box::new(CountingHost::new()),
        raw_sockets: None,
        log: Box::new(|_| {}),
    };
    for listen in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        assert!(
            matches!(Agent::start(settings(listen)), Err(AgentError::NoKeys(_))),
            "{listen}"
        );
    }
    // A client with a key for the host must not accept an agent without keys.
    let scratch = Scratch::new();
    let agent = Agent::start(settings("127.0.0.1:0")).expect("the loopback");
    let keys = scratch.keys("client");
    let key = scratch.keys("agent").create().expect("a key").public_key();
    keys.trust(key, "127.0.0.1").expect("it is trusted");
    let why = connect(&target(&agent), &keys)
        .err()
        .expect("it is refused")
        .to_string();
    assert!(
        why.contains("requires no key, although one is trusted"),
        "{why}"
    );
}

#[test]
fn queued_client_can_leave() {
    let (agent, place) = open_agent(Caps::default());
    let first = session(&agent);
    let mut second = RawClient::connect(agent.address());
    second.send_client_version();
    second.send(&ToAgent::Hello(control::PROTOCOL_VERSION));
    second.await_answer(|answer| *answer == FromAgent::Queued(1));
    // A third sees two ahead, leaves, and gets no further message.
    let stop = Arc::new(AtomicBool::new(false));
    let ahead = Arc::new(AtomicU32::new(0));
    let (target, theirs, seen) = (target(&agent), Arc::clone(&stop), Arc::clone(&ahead));
    let third = std::thread::spawn(move || {
        let mut waiting = |ahead: u32| seen.store(ahead, Ordering::Relaxed);
        let keys = Scratch::new().keys("none");
        Session::connect(&[], &target, &keys, false, &theirs, &mut waiting).map(drop)
    });
    await_condition("it sees its place", || ahead.load(Ordering::Relaxed) == 2);
    stop.store(true, Ordering::Relaxed);
    let why = third
        .join()
        .expect("no panic")
        .expect_err("it left")
        .to_string();
    assert!(why.contains("stopped by the user"), "{why}");
    await_condition("its place is free", || agent.clients() == 2);
    drop(first);
    second.await_answer(|answer| *answer == FromAgent::Ready);
    drop(second);
    await_idle(&agent, &place);
}

#[test]
fn client_disconnect_at_any_step_leaks_nothing() {
    let (agent, place) = open_agent(Caps::default());
    for step in 0..8 {
        vanish_at(&agent, step);
        await_idle(&agent, &place);
    }
    assert_eq!(place.started(), 5);
    // The agent serves the next client.
    drop(session(&agent));
}

/// A client that disconnects at this step.
fn vanish_at(agent: &Agent, step: u32) {
    if step == 0 {
        drop(RawClient::connect(agent.address()));
        return;
    }
    if step == 1 {
        let mut raw = RawClient::connect(agent.address());
        raw.send_client_version();
        raw.send_octets(&[200, 0]);
        return;
    }
    let mut raw = RawClient::ready(agent.address());
    if step == 2 {
        return;
    }
    raw.send(&ToAgent::Spawn(1));
    if step == 3 {
        // Its worker exists once the agent answers a later request.
        raw.send(&ToAgent::Clock(1));
        raw.await_answer(|answer| matches!(answer, FromAgent::Clock(..)));
        return;
    }
    let mut listen = job("tcp", Side::Listen);
    listen.limits.time_ns = 30_000_000_000;
    raw.send(&ToAgent::ToWorker(1, Box::new(ToWorker::Listen(listen))));
    let listening = raw.await_answer(|answer| matches!(answer, FromAgent::FromWorker(1, _)));
    if step == 4 {
        return;
    }
    let FromAgent::FromWorker(1, FromWorker::Listening(frames)) = listening else {
        panic!("not listening: {listening:?}");
    };
    let address = std::str::from_utf8(&frames[0].bytes).expect("an address");
    let data = std::net::TcpStream::connect(address).expect("the worker listens");
    raw.await_answer(|answer| *answer == FromAgent::FromWorker(1, FromWorker::Accepted));
    if step == 5 {
        return;
    }
    raw.send(&ToAgent::ToWorker(1, Box::new(ToWorker::Go(0))));
    raw.await_answer(|answer| *answer == FromAgent::FromWorker(1, FromWorker::Running));
    if step == 6 {
        return;
    }
    raw.send(&ToAgent::ToWorker(1, Box::new(ToWorker::PeerDone(5))));
    drop(data);
}

#[test]
fn silent_client_times_out() {
    let (agent, place) = open_agent(Caps::default());
    let mut silent = RawClient::ready(agent.address());
    silent.send(&ToAgent::Spawn(1));
    silent.send(&ToAgent::Clock(1));
    silent.await_answer(|answer| matches!(answer, FromAgent::Clock(..)));
    // It stays connected and silent; the next client is still served.
    let next = session(&agent);
    assert!(place.live_workers().is_empty());
    assert_eq!(silent.read_until_closed(), None);
    drop(next);
    await_idle(&agent, &place);
}

#[test]
fn pipelined_requests_do_not_extend_session() {
    let (agent, place) = open_agent(Caps::default());
    // A peer that accepts connections and sends nothing: each peer check takes its whole timeout.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = silent.local_addr().expect("bound");
    let mut raw = RawClient::ready(agent.address());
    (0..64).for_each(|_| raw.send(&ToAgent::CheckPeer(to, [1; 16])));
    drop(raw);
    await_idle(&agent, &place);
    // Each request is costly, and more arrive at once than the agent may process for a client that
    // sends no keepalive.
    let asked = 20_000;
    let machine = encode(&ToAgent::Machine(TestSpec::default()), REQUEST_MAX).expect("it fits");
    let mut raw = RawClient::ready(agent.address());
    raw.send_octets(&machine.repeat(asked));
    let answered = std::iter::from_fn(|| raw.receive()).count();
    assert!(answered < asked, "{answered}");
    await_idle(&agent, &place);
}

/// A fault of the agent ends one session: its workers are waited for, and the next client is served.
#[test]
fn session_that_panics_leaves_no_worker_and_no_queue() {
    let place = CountingHost::panicking_after(2);
    let agent = start("127.0.0.1:0", None, Caps::default(), place.clone());
    let mut raw = RawClient::ready(agent.address());
    for number in 1..=3 {
        raw.send(&ToAgent::Spawn(number));
    }
    raw.read_until_closed();
    await_idle(&agent, &place);
    assert_eq!(place.started(), 2);
    drop(RawClient::ready(agent.address()));
    await_idle(&agent, &place);
}

#[test]
fn unresponsive_worker_killed() {
    let (agent, place) = open_agent(Caps::default());
    let mut raw = RawClient::ready(agent.address());
    let tell = |message| ToAgent::ToWorker(1, Box::new(message));
    raw.send(&ToAgent::Spawn(1));
    raw.send(&tell(ToWorker::Listen(job("tcp", Side::Listen))));
    raw.await_answer(|answer| matches!(answer, FromAgent::FromWorker(1, FromWorker::Listening(_))));
    // It waits for a circuit that is never opened.
    let stop = encode(&tell(ToWorker::Stop), REQUEST_MAX).expect("it fits");
    raw.send_octets(&stop.repeat(20_000));
    raw.await_answer(|answer| *answer == FromAgent::WorkerEnded(1));
    drop(raw);
    await_idle(&agent, &place);
}

#[test]
fn caps_announced_and_enforced() {
    let caps = Caps {
        trial_ns: 100_000_000,
        rate_bps: Some(8_000_000),
        bytes: 200_000,
        ..Caps::default().with_circuits(2)
    };
    let (agent, _place) = open_agent(caps.clone());
    assert_eq!(session(&agent).welcome().caps, caps);
    let mut raw = RawClient::ready(agent.address());
    let mut refused = |change: fn(&mut control::Job), words: &str| {
        let mut job = job("tcp", Side::Listen);
        change(&mut job);
        raw.send(&ToAgent::Spawn(1));
        raw.send(&ToAgent::ToWorker(1, Box::new(ToWorker::Listen(job))));
        let answer = raw.await_answer(|answer| matches!(answer, FromAgent::Refused(Some(1), _)));
        assert!(format!("{answer:?}").contains(words), "{answer:?}");
        raw.send(&ToAgent::EndWorker(1));
        raw.await_answer(|answer| *answer == FromAgent::WorkerEnded(1));
    };
    refused(
        |job| job.components[0].circuits = 3,
        "number of circuits of 3",
    );
    refused(|job| job.limits.time_ns = 100_000_001, "measured time");
    refused(
        |job| job.components[0].transport = "unix-stream".into(),
        "within one host",
    );
    refused(
        |job| job.components[0].transport = "null".into(),
        "within one host",
    );
    refused(
        |job| job.components[0].transport = "tcp,buffers=1000M".into(),
        "buffers",
    );
    refused(
        |job| job.components[0].transport = "carrier-pigeon".into(),
        "unknown transport",
    );
    refused(
        |job| job.peer = Some([192, 0, 2, 1].into()),
        "is not validated",
    );
    refused(|job| job.side = Side::Connect, "other side");
}

#[test]
fn worker_rate_and_byte_caps_enforced() {
    let caps = Caps {
        rate_bps: Some(8_000_000),
        bytes: 150_000,
        ..Caps::default()
    };
    let (agent, _place) = open_agent(caps);
    let scratch = Scratch::new();
    let mut asked = spec(&["tcp"], &["throughput"]);
    asked.direction = measure::spec::Direction::Reverse;
    asked.trial_s = Some(0.1);
    (asked.blocks.max, asked.blocks.looks) = (20, vec![20]);
    let run = race(session(&agent), &asked, &scratch);
    let good = || run.trials.iter().filter(|trial| trial.status == Status::Ok);
    assert!(good().count() > 0);
    for trial in good() {
        // 1 MB/s, and the allowed burst.
        let sent = trial.ledger.expect("a ledger").sent as f64 * 1000.0;
        assert!(
            sent <= 1e6 * trial.span_s + 600_000.0,
            "{sent} in {}",
            trial.span_s
        );
    }
    let moved: u64 = good()
        .map(|trial| trial.ledger.expect("a ledger").sent * 1000)
        .sum();
    assert!(moved <= 151_000, "{moved}");
    let last = run.trials.last().expect("trials");
    assert_eq!(last.status, Status::Failed);
    assert!(
        last.reason.contains("has moved all of its 150000 bytes"),
        "{}",
        last.reason
    );
}

#[test]
fn agent_shutdown_fails_race_cleanly() {
    let (agent, place) = open_agent(Caps::default());
    let scratch = Scratch::new();
    let session = session(&agent);
    let mut asked = spec(&["tcp"], &["throughput"]);
    asked.trial_s = Some(1.0);
    (asked.blocks.max, asked.blocks.looks) = (50, vec![50]);
    let stopping = std::thread::spawn({
        let place = place.clone();
        move || {
            await_condition("a worker runs", || place.started() > 1);
            drop(agent);
        }
    });
    let run = race(session, &asked, &scratch);
    stopping.join().expect("no panic");
    assert!(place.live_workers().is_empty());
    let last = run.trials.last().expect("trials");
    assert_eq!(last.status, Status::Failed);
    assert!(
        last.reason.contains("the agent was stopped"),
        "{}",
        last.reason
    );
}
