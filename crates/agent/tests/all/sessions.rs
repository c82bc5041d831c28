//! Sessions: who is let in, who waits, who is gone.

use crate::common::{
    Counted, Raw, Scratch, Silent, await_idle, await_that, connect, friends, here, job, open_agent,
    session, spec, start, target,
};
use agent::client::{End, Session};
use agent::keys::KeyFolder;
use agent::server::AgentError;
use agent::{Agent, AgentStage, Settings};
use control::frame::{REQUEST_MAX, encode};
use control::session::{FromAgent, Intent, ToAgent};
use control::{Caps, FromWorker, Side, ToWorker};
use results::{Machine, RunData, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Runs a race from here to the agent of `session`.
fn race(session: Session, spec: &measure::RaceSpec, scratch: &Scratch) -> RunData {
    let pairs = vec![[End::Here, End::There(Arc::new(session))]];
    let mut stage = AgentStage::new(pairs, &here()).expect("a stage");
    let folder = scratch.path("run");
    let mut machine = Machine::default();
    stage
        .describe(&Default::default(), &mut machine)
        .expect("a description");
    assert!(!machine.facts.is_empty());
    let stop = AtomicBool::new(false);
    measure::run(spec, &machine, &folder, &mut stage, &stop, &mut Silent).expect("a race");
    RunData::read(&folder).expect("a result")
}

#[test]
fn friends_race_behind_tls() {
    let scratch = Scratch::new();
    let (ours, theirs) = friends(&scratch);
    let place = Counted::new();
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
        // On one host neither end takes the other's worker for other work.
        let told = |what: &String| what.starts_with("127.0.0.1");
        assert!(!trial.disturbed.iter().any(told), "{:?}", trial.disturbed);
    }
    assert_eq!(place.started(), run.trials.len());
    await_idle(&agent, &place);
}

#[test]
fn strangers_are_turned_away_on_either_side() {
    let scratch = Scratch::new();
    let (ours, theirs) = friends(&scratch);
    let stranger = scratch.keys("stranger");
    stranger.create().expect("a key");
    let agent_key = ours.identity().expect("a key").public();
    stranger
        .trust(agent_key, "127.0.0.1")
        .expect("it is trusted");
    let place = Counted::new();
    let agent = start("127.0.0.1:0", Some(ours), Caps::default(), place.clone());
    let fails = |keys: &KeyFolder, words: &str| {
        let why = connect(&target(&agent), keys)
            .err()
            .expect("it is refused")
            .to_string();
        assert!(why.contains(words), "{why}");
    };
    fails(&stranger, "does not trust this one's key");
    fails(&scratch.keys("nobody"), "towpath key new");
    // This one trusts another key by that host's name, and the agent's by another name.
    let wary = scratch.keys("wary");
    wary.trust(agent_key, "client2").expect("it is trusted");
    let copied = std::fs::copy(theirs.path().join("key"), wary.path().join("key"));
    copied.expect("the client's key");
    fails(&wary, "no key is trusted here by the name 127.0.0.1 (");
    let other = scratch.keys("other").create().expect("a key").public();
    wary.trust(other, "127.0.0.1").expect("it is trusted");
    fails(&wary, "its key is another than what is trusted here");
    await_that("strangers are counted", || {
        agent.metrics().contains("strangers_total 2")
    });
    assert_eq!((place.started(), agent.clients()), (0, 0));
}

#[test]
fn without_keys_there_is_only_the_loopback() {
    let settings = |listen: &str| Settings {
        listen: listen.parse().expect("an address"),
        keys: None,
        caps: Caps::default(),
        place: Box::new(Counted::new()),
        log: Box::new(|_| {}),
    };
    for listen in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        assert!(
            matches!(Agent::start(settings(listen)), Err(AgentError::Open(_))),
            "{listen}"
        );
    }
    // A client that knows a key for the host is not talked out of it.
    let scratch = Scratch::new();
    let agent = Agent::start(settings("127.0.0.1:0")).expect("the loopback");
    let keys = scratch.keys("client");
    let key = scratch.keys("agent").create().expect("a key").public();
    keys.trust(key, "127.0.0.1").expect("it is trusted");
    let why = connect(&target(&agent), &keys)
        .err()
        .expect("it is refused")
        .to_string();
    assert!(
        why.contains("asks for no key, although one is trusted"),
        "{why}"
    );
}

#[test]
fn clients_wait_in_line_and_may_leave_it() {
    let (agent, place) = open_agent(Caps::default());
    let first = session(&agent);
    let mut second = Raw::connect(agent.address());
    second.say_client();
    second.send(&ToAgent::Hello(control::PROTOCOL_VERSION));
    second.await_that(|answer| *answer == FromAgent::Queued(1));
    // A third sees two ahead, changes its mind, and is told nothing more.
    let stop = Arc::new(AtomicBool::new(false));
    let ahead = Arc::new(AtomicU32::new(0));
    let (target, theirs, seen) = (target(&agent), Arc::clone(&stop), Arc::clone(&ahead));
    let third = std::thread::spawn(move || {
        let mut waiting = |ahead: u32| seen.store(ahead, Ordering::Relaxed);
        let keys = Scratch::new().keys("none");
        Session::connect(&target, &keys, false, &theirs, &mut waiting).map(drop)
    });
    await_that("it sees its place", || ahead.load(Ordering::Relaxed) == 2);
    stop.store(true, Ordering::Relaxed);
    let why = third
        .join()
        .expect("no panic")
        .expect_err("it left")
        .to_string();
    assert!(why.contains("stopped by the user"), "{why}");
    await_that("its place is free", || agent.clients() == 2);
    drop(first);
    second.await_that(|answer| *answer == FromAgent::Ready);
    drop(second);
    await_idle(&agent, &place);
}

#[test]
fn a_client_that_vanishes_at_any_step_leaves_nothing() {
    let (agent, place) = open_agent(Caps::default());
    for step in 0..8 {
        vanish_at(&agent, step);
        await_idle(&agent, &place);
    }
    assert_eq!(place.started(), 5);
    // And the agent serves the next.
    drop(session(&agent));
}

/// A client that goes without a word at this step.
fn vanish_at(agent: &Agent, step: u32) {
    if step == 0 {
        drop(Raw::connect(agent.address()));
        return;
    }
    if step == 1 {
        let mut raw = Raw::connect(agent.address());
        raw.say_client();
        raw.octets(&[200, 0]);
        return;
    }
    let mut raw = Raw::ready(agent.address());
    if step == 2 {
        return;
    }
    raw.send(&ToAgent::Spawn(1));
    if step == 3 {
        // Its worker is there when the agent answers what was asked after it.
        raw.send(&ToAgent::Clock(1));
        raw.await_that(|answer| matches!(answer, FromAgent::Clock(..)));
        return;
    }
    let mut listen = job("tcp", Side::Listen);
    listen.limits.time_ns = 30_000_000_000;
    raw.send(&ToAgent::Tell(1, Box::new(ToWorker::Listen(listen))));
    let listening = raw.await_that(|answer| matches!(answer, FromAgent::Said(1, _)));
    if step == 4 {
        return;
    }
    let FromAgent::Said(1, FromWorker::Listening(frames)) = listening else {
        panic!("not listening: {listening:?}");
    };
    let address = std::str::from_utf8(&frames[0].bytes).expect("an address");
    let data = std::net::TcpStream::connect(address).expect("the worker listens");
    raw.await_that(|answer| *answer == FromAgent::Said(1, FromWorker::Accepted));
    if step == 5 {
        return;
    }
    raw.send(&ToAgent::Tell(1, Box::new(ToWorker::Go(0))));
    raw.await_that(|answer| *answer == FromAgent::Said(1, FromWorker::Running));
    if step == 6 {
        return;
    }
    raw.send(&ToAgent::Tell(1, Box::new(ToWorker::PeerDone(5))));
    drop(data);
}

#[test]
fn a_client_that_falls_silent_loses_its_turn() {
    let (agent, place) = open_agent(Caps::default());
    let mut silent = Raw::ready(agent.address());
    silent.send(&ToAgent::Spawn(1));
    silent.send(&ToAgent::Clock(1));
    silent.await_that(|answer| matches!(answer, FromAgent::Clock(..)));
    // It stays connected and says nothing; the next one gets its turn all the same.
    let next = session(&agent);
    assert!(place.left().is_empty());
    assert_eq!(silent.hung_up(), None);
    drop(next);
    await_idle(&agent, &place);
}

#[test]
fn requests_that_come_at_once_keep_no_session_alive() {
    let (agent, place) = open_agent(Caps::default());
    // One that takes connections and says nothing: each greeting there takes its whole limit.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = mute.local_addr().expect("bound");
    let mut raw = Raw::ready(agent.address());
    (0..64).for_each(|_| raw.send(&ToAgent::Greet(to, [1; 16])));
    drop(raw);
    await_idle(&agent, &place);
    // Each of these is costly for the agent, and more came at once than it may spend its time with on
    // one that says nothing else.
    let asked = 20_000;
    let machine = encode(&ToAgent::Machine(Intent::default()), REQUEST_MAX).expect("it fits");
    let mut raw = Raw::ready(agent.address());
    raw.octets(&machine.repeat(asked));
    let answered = std::iter::from_fn(|| raw.receive()).count();
    assert!(answered < asked, "{answered}");
    await_idle(&agent, &place);
}

#[test]
fn a_worker_that_does_not_listen_is_told_no_more() {
    let (agent, place) = open_agent(Caps::default());
    let mut raw = Raw::ready(agent.address());
    let tell = |message| ToAgent::Tell(1, Box::new(message));
    raw.send(&ToAgent::Spawn(1));
    raw.send(&tell(ToWorker::Listen(job("tcp", Side::Listen))));
    raw.await_that(|answer| matches!(answer, FromAgent::Said(1, FromWorker::Listening(_))));
    // It waits for a circuit that nobody opens.
    let stop = encode(&tell(ToWorker::Stop), REQUEST_MAX).expect("it fits");
    raw.octets(&stop.repeat(20_000));
    raw.await_that(|answer| *answer == FromAgent::Ended(1));
    drop(raw);
    await_idle(&agent, &place);
}

#[test]
fn caps_are_told_and_kept() {
    let caps = Caps {
        trial_ns: 100_000_000,
        rate_bps: Some(8_000_000),
        bytes: 200_000,
        ..Caps::default().with_circuits(2)
    };
    let (agent, _place) = open_agent(caps.clone());
    assert_eq!(session(&agent).welcome().caps, caps);
    let mut raw = Raw::ready(agent.address());
    let mut refused = |change: fn(&mut control::Job), words: &str| {
        let mut job = job("tcp", Side::Listen);
        change(&mut job);
        raw.send(&ToAgent::Spawn(1));
        raw.send(&ToAgent::Tell(1, Box::new(ToWorker::Listen(job))));
        let answer = raw.await_that(|answer| matches!(answer, FromAgent::Refused(Some(1), _)));
        assert!(format!("{answer:?}").contains(words), "{answer:?}");
        raw.send(&ToAgent::End(1));
        raw.await_that(|answer| *answer == FromAgent::Ended(1));
    };
    refused(|job| job.legs[0].circuits = 3, "number of circuits of 3");
    refused(|job| job.limits.time_ns = 100_000_001, "measured time");
    refused(
        |job| job.legs[0].transport = "unix-stream".into(),
        "within one host",
    );
    refused(
        |job| job.legs[0].transport = "null".into(),
        "within one host",
    );
    refused(
        |job| job.legs[0].transport = "tcp,buffers=1000M".into(),
        "buffers",
    );
    refused(
        |job| job.legs[0].transport = "carrier-pigeon".into(),
        "unknown transport",
    );
    refused(
        |job| job.peer = Some([192, 0, 2, 1].into()),
        "has not shown that it is there",
    );
    refused(|job| job.side = Side::Connect, "other side");
}

#[test]
fn a_worker_sends_no_faster_and_no_more_than_it_may() {
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
        // 1 MB a second, and what a run of messages may be ahead.
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
fn an_agent_that_goes_away_fails_the_race_cleanly() {
    let (agent, place) = open_agent(Caps::default());
    let scratch = Scratch::new();
    let session = session(&agent);
    let mut asked = spec(&["tcp"], &["throughput"]);
    asked.trial_s = Some(1.0);
    (asked.blocks.max, asked.blocks.looks) = (50, vec![50]);
    let stopping = std::thread::spawn({
        let place = place.clone();
        move || {
            await_that("a worker runs", || place.started() > 1);
            drop(agent);
        }
    });
    let run = race(session, &asked, &scratch);
    stopping.join().expect("no panic");
    assert!(place.left().is_empty());
    let last = run.trials.last().expect("trials");
    assert_eq!(last.status, Status::Failed);
    assert!(
        last.reason.contains("the agent was stopped"),
        "{}",
        last.reason
    );
}
