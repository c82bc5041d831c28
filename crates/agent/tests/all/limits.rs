//! Limits of workers, threads and buffers.

use crate::caps::{end, tell};
use crate::common::{
    RawClient, Scratch, SetOnDrop, await_idle, job, local_host, open_agent, race_in, session, spec,
};
use agent_client::AgentEnvironment;
use agent_client::{PathEnd, Session};
use control::session::{FromAgent, ToAgent};
use control::{Caps, FromWorker, Side, ToWorker};
use results::{Machine, RunData, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn lowered_caps_enforced() {
    let caps = Caps {
        workers: 1,
        buffers: 1 << 20,
        ..Caps::default()
    };
    let (agent, place) = open_agent(caps);
    let mut raw = RawClient::ready(agent.address());
    for (component, fine) in [
        ("tcp,buffers=64M", false),
        ("tcp,buffers=1M", true),
        ("udp,buffers=2M", false),
        ("xtp,queue=2m", false),
        ("xtp,queue=1m", true),
        ("xtp,dialect=3.6,gateway=192.0.2.1:9", false),
    ] {
        raw.send(&ToAgent::Spawn(1));
        tell(&mut raw, 1, ToWorker::Listen(job(component, Side::Listen)));
        let of_it = |answer: &FromAgent| {
            matches!(
                answer,
                FromAgent::FromWorker(1, _) | FromAgent::Refused(Some(1), _)
            )
        };
        let answer = raw.await_answer(of_it);
        let listens = matches!(answer, FromAgent::FromWorker(1, FromWorker::Listening(_)));
        assert_eq!(listens, fine, "{component}: {answer:?}");
        raw.send(&ToAgent::Spawn(2));
        let second = raw.await_answer(|answer| matches!(answer, FromAgent::Refused(Some(2), _)));
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
fn worker_exceeding_thread_cap_killed() {
    let caps = Caps {
        threads: 0,
        ..Caps::default()
    };
    let (agent, place) = open_agent(caps);
    let mut raw = RawClient::ready(agent.address());
    raw.send(&ToAgent::Spawn(1));
    let answer = raw.await_answer(|answer| matches!(answer, FromAgent::FromWorker(1, _)));
    assert!(
        format!("{answer:?}").contains("and this agent allows 0"),
        "{answer:?}"
    );
    raw.await_answer(|answer| *answer == FromAgent::WorkerEnded(1));
    drop(raw);
    await_idle(&agent, &place);
}

/// All transports, whose helper threads are many when circuits are many or short.
#[test]
fn worker_threads_within_announced_count() {
    let caps = Caps::default().with_circuits(4);
    let (agent, place) = open_agent(caps.clone());
    let session = Arc::new(session(&agent));
    let (over, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    let look = || {
        while !over.load(Ordering::Relaxed) {
            for worker in place.live_workers() {
                let folder = format!("/proc/{worker}/task");
                let threads = std::fs::read_dir(folder).map_or(0, Iterator::count);
                most.fetch_max(threads, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(look);
        let _over = SetOnDrop(&over);
        for name in ["tcp", "udp-segmented", "quic", "xtp", "bare"] {
            let mut asked = spec(&[name], &["throughput", "connect"]);
            asked.circuits = vec![4];
            let run = race_with(&session, &asked);
            for trial in &run.trials {
                assert_ne!(trial.status, Status::Failed, "{name}: {}", trial.reason);
            }
            // One more is the test program's own.
            let most = most.load(Ordering::Relaxed);
            assert!(
                most > 4 && most <= caps.threads as usize + 1,
                "{name}: {most}"
            );
        }
    });
}

fn race_with(session: &Arc<Session>, spec: &measure::RaceSpec) -> RunData {
    let pairs = vec![[PathEnd::Local, PathEnd::Agent(Arc::clone(session))]];
    let mut stage = AgentEnvironment::new(pairs, &local_host()).expect("a stage");
    let scratch = Scratch::new();
    let folder = scratch.path("run");
    let machine = Machine::default();
    race_in(&folder, &mut stage, spec, &machine)
}
