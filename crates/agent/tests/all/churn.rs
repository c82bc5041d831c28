//! Clients come and go while another races: the agent's memory must not grow.

use crate::common::{
    RawClient, Scratch, SetOnDrop, await_idle, job, local_host, open_agent, race_in, session, spec,
};
use agent_client::AgentEnvironment;
use agent_client::PathEnd;
use control::session::{FromAgent, ToAgent};
use control::{Caps, Side, ToWorker};
use results::{Machine, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Allowed growth after warm-up, MiB: the allocator's arenas of threads that come and go.
const GROWTH_MAX_MIB: f64 = 24.0;

/// Rounds in a short run.
const ROUNDS: usize = 8;

/// Raced transports, in turn.
const TRANSPORTS: [&str; 3] = ["tcp", "udp", "xtp"];

/// Races required during the rounds, as load.
const RACES: usize = 2;

/// Tells this program that it is the measured process.
const ALONE: &str = "TOWPATH_CHURN_ALONE";

/// `TOWPATH_CHURN_S` sets the duration in seconds. Runs in a process of its own, so that other
/// tests' memory does not count.
#[test]
fn client_churn_leaks_nothing() {
    if std::env::var_os(ALONE).is_some() {
        return churn_clients();
    }
    let name = "churn::client_churn_leaks_nothing";
    let alone = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args([name, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("it starts");
    let received = String::from_utf8_lossy(&alone.stderr);
    eprint!("{received}");
    assert!(
        alone.status.success() && received.contains("MiB more"),
        "{received}"
    );
}

fn churn_clients() {
    let (agent, place) = open_agent(Caps::default());
    let span = std::env::var("TOWPATH_CHURN_S")
        .ok()
        .and_then(|text| text.parse().ok());
    let end = span.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (raced, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (grown, rounds) = std::thread::scope(|scope| {
        let racing = scope.spawn(|| races(&agent, &raced, &over));
        // A failing round ends the races too.
        let _over = SetOnDrop(&over);
        churn(
            &agent,
            &|| (raced.load(Ordering::Relaxed), racing.is_finished()),
            end,
        )
    });
    await_idle(&agent, &place);
    let raced = raced.load(Ordering::Relaxed);
    assert!(
        grown < GROWTH_MAX_MIB,
        "{grown:.1} MiB more after {rounds} rounds and {raced} races"
    );
    eprintln!("{grown:.1} MiB more after {rounds} rounds and {raced} races");
    assert!(agent.metrics().contains("faults_total 0"));
}

/// Rounds until `end`, or a few; the memory growth and the number of rounds. `races` counts races
/// and ends them.
fn churn(
    agent: &agent::Agent,
    races: &dyn Fn() -> (usize, bool),
    end: Option<Instant>,
) -> (f64, usize) {
    let mut rounds = 0;
    let mut go_on = |least: usize, end: Option<Instant>| {
        let first = rounds;
        let wanted = races().0 + RACES;
        let enough = || matches!(races(), (raced, over) if raced >= wanted || over);
        while rounds < first + least || !enough() || end.is_some_and(|end| Instant::now() < end) {
            round(agent, rounds % 8 == 0);
            rounds += 1;
        }
    };
    go_on(ROUNDS, None);
    let before = resident_mib();
    go_on(ROUNDS, end);
    (resident_mib() - before, rounds)
}

/// A client that races, queues again, and races again.
fn races(agent: &agent::Agent, raced: &AtomicUsize, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let scratch = Scratch::new();
        let pairs = vec![[PathEnd::Local, PathEnd::Agent(Arc::new(session(agent)))]];
        let mut stage = AgentEnvironment::new(pairs, &local_host()).expect("a stage");
        let spec = spec(
            &[TRANSPORTS[raced.load(Ordering::Relaxed) % 3]],
            &["throughput"],
        );
        let (folder, machine) = (scratch.path("run"), Machine::default());
        let run = race_in(&folder, &mut stage, &spec, &machine);
        let failed = run
            .trials
            .iter()
            .find(|trial| trial.status == Status::Failed);
        assert!(failed.is_none(), "{}", failed.expect("one").reason);
        raced.fetch_add(1, Ordering::Relaxed);
    }
}

/// A client that measures (and leaves its worker waiting for its peer if `waiting`), one that
/// queues and leaves, one that is unauthenticated.
fn round(agent: &agent::Agent, waiting: bool) {
    let mut measures = RawClient::ready(agent.address());
    let mut waits = RawClient::connect(agent.address());
    waits.send_client_version();
    waits.send(&ToAgent::Hello(control::PROTOCOL_VERSION));
    measures.send(&ToAgent::Spawn(1));
    if waiting {
        let listen = ToWorker::Listen(job("udp", Side::Listen));
        measures.send(&ToAgent::ToWorker(1, Box::new(listen)));
    } else {
        measures.send(&ToAgent::Clock(1));
    }
    RawClient::connect(agent.address()).send_octets(b"who is there?...");
    measures.await_answer(|answer| {
        matches!(answer, FromAgent::FromWorker(1, _) | FromAgent::Clock(..))
    });
    drop(waits);
    drop(measures);
    // And a well-behaved one.
    drop(session(agent));
    drop(Scratch::new());
}

fn resident_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    let pages: f64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("pages");
    pages * rustix::param::page_size() as f64 / (1 << 20) as f64
}
