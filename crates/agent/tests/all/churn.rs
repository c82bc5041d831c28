//! Clients that come and go while another measures: the agent's memory stays where it was.

use crate::common::{Raw, Scratch, await_idle, job, open_agent, session};
use control::session::{FromAgent, ToAgent};
use control::{Caps, Side, ToWorker};
use std::time::{Duration, Instant};

/// What memory may grow by once everything has been used, MiB: the allocator's arenas of threads that
/// come and go, those of other tests in this process included.
const GROWTH_MAX_MIB: f64 = 24.0;

/// Rounds in a short run.
const ROUNDS: usize = 12;

/// `TOWPATH_CHURN_S` makes it last that many seconds.
#[test]
fn clients_come_and_go_and_leave_nothing() {
    let (agent, place) = open_agent(Caps::default());
    let span = std::env::var("TOWPATH_CHURN_S")
        .ok()
        .and_then(|text| text.parse().ok());
    let end = span.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    for _ in 0..ROUNDS {
        round(&agent, false);
    }
    round(&agent, true);
    let before = resident_mib();
    let mut rounds = 0;
    while rounds < ROUNDS || end.is_some_and(|end| Instant::now() < end) {
        round(&agent, rounds % 8 == 0);
        rounds += 1;
    }
    await_idle(&agent, &place);
    let grown = resident_mib() - before;
    assert!(
        grown < GROWTH_MAX_MIB,
        "{grown:.1} MiB more after {rounds} rounds"
    );
    assert!(agent.metrics().contains("faults_total 0"));
}

/// One that measures, and leaves its worker waiting for its peer if told so, one that waits and goes, one that is nobody.
fn round(agent: &agent::Agent, waiting: bool) {
    let mut measures = Raw::ready(agent.address());
    let mut waits = Raw::connect(agent.address());
    waits.say_client();
    waits.send(&ToAgent::Hello(control::PROTOCOL_VERSION));
    measures.send(&ToAgent::Spawn(1));
    if waiting {
        let listen = ToWorker::Listen(job("udp", Side::Listen));
        measures.send(&ToAgent::Tell(1, Box::new(listen)));
    } else {
        measures.send(&ToAgent::Clock(1));
    }
    Raw::connect(agent.address()).octets(b"who is there?...");
    measures.await_that(|answer| matches!(answer, FromAgent::Said(1, _) | FromAgent::Clock(..)));
    drop(waits);
    drop(measures);
    // And one that does all as it should.
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
    pages * rustix::param::page_size() as f64 / 1e6
}
