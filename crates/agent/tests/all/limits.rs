//! How many of everything there may be: workers, threads, bytes of buffers.

use crate::caps::{end, tell};
use crate::common::{Raw, Scratch, Silent, await_idle, here, job, open_agent, session, spec};
use agent::AgentStage;
use agent::client::{End, Session};
use control::session::{FromAgent, ToAgent};
use control::{Caps, FromWorker, Side, ToWorker};
use results::{Machine, RunData, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn lowered_caps_are_those_that_hold() {
    let caps = Caps {
        workers: 1,
        buffers: 1 << 20,
        ..Caps::default()
    };
    let (agent, place) = open_agent(caps);
    let mut raw = Raw::ready(agent.address());
    for (leg, fine) in [
        ("tcp,buffers=64M", false),
        ("tcp,buffers=1M", true),
        ("udp,buffers=2M", false),
        ("xtp,queue=2m", false),
        ("xtp,queue=1m", true),
        ("xtp,dialect=3.6,gateway=192.0.2.1:9", false),
    ] {
        raw.send(&ToAgent::Spawn(1));
        tell(&mut raw, 1, ToWorker::Listen(job(leg, Side::Listen)));
        let of_it = |answer: &FromAgent| {
            matches!(
                answer,
                FromAgent::Said(1, _) | FromAgent::Refused(Some(1), _)
            )
        };
        let told = raw.await_that(of_it);
        let listens = matches!(told, FromAgent::Said(1, FromWorker::Listening(_)));
        assert_eq!(listens, fine, "{leg}: {told:?}");
        raw.send(&ToAgent::Spawn(2));
        let second = raw.await_that(|answer| matches!(answer, FromAgent::Refused(Some(2), _)));
        assert!(
            format!("{second:?}").contains("1 workers at most"),
            "{second:?}"
        );
        end(&mut raw, 1);
    }
    drop(raw);
    await_idle(&agent, &place);
}

#[test]
fn a_worker_with_too_many_threads_is_ended() {
    let caps = Caps {
        threads: 0,
        ..Caps::default()
    };
    let (agent, place) = open_agent(caps);
    let mut raw = Raw::ready(agent.address());
    raw.send(&ToAgent::Spawn(1));
    let told = raw.await_that(|answer| matches!(answer, FromAgent::Said(1, _)));
    assert!(
        format!("{told:?}").contains("and this agent allows 0"),
        "{told:?}"
    );
    raw.await_that(|answer| *answer == FromAgent::Ended(1));
    drop(raw);
    await_idle(&agent, &place);
}

/// Of all transports, whose helpers are many where circuits are many or come and go.
#[test]
fn workers_have_no_more_threads_than_is_announced() {
    let caps = Caps::default().with_circuits(4);
    let (agent, place) = open_agent(caps.clone());
    let session = Arc::new(session(&agent));
    let (over, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    let look = || {
        while !over.load(Ordering::Relaxed) {
            for worker in place.left() {
                let folder = format!("/proc/{worker}/task");
                let threads = std::fs::read_dir(folder).map_or(0, Iterator::count);
                most.fetch_max(threads, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(look);
        let _over = Over(&over);
        for name in ["tcp", "udp-segmented", "quic", "xtp", "bare"] {
            let mut asked = spec(&[name], &["throughput", "connect"]);
            asked.circuits = 4;
            let run = race_with(&session, &asked);
            for trial in &run.trials {
                assert_ne!(trial.status, Status::Failed, "{name}: {}", trial.reason);
            }
            // One more is that of the program of these tests.
            let most = most.load(Ordering::Relaxed);
            assert!(
                most > 4 && most <= caps.threads as usize + 1,
                "{name}: {most}"
            );
        }
    });
}

/// Says so when it is dropped, however that comes.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn race_with(session: &Arc<Session>, spec: &measure::RaceSpec) -> RunData {
    let pairs = vec![[End::Here, End::There(Arc::clone(session))]];
    let mut stage = AgentStage::new(pairs, &here()).expect("a stage");
    let scratch = Scratch::new();
    let (folder, stop) = (scratch.path("run"), AtomicBool::new(false));
    let machine = Machine::default();
    measure::run(spec, &machine, &folder, &mut stage, &stop, &mut Silent).expect("a race");
    RunData::read(&folder).expect("a result")
}
