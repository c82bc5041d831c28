//! Contestants that take turns through agents.

use crate::common::{
    NullObserver, Scratch, local_host, open_agent, session, spec, trusting_keys_for,
};
use crate::hosts::{addresses, agent_on, all_ok, hosts, race, target};
use agent_client::AgentEnvironment;
use agent_client::PathEnd;
use control::Caps;
use measure::RaceSpec;
use measure::turn_plan::{self, TurnChoice};
use results::{Machine, RunData, Trial};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Races in which the clocks of the ends are found to be known too badly, at most: on a busy machine it
/// happens.
const ATTEMPTS: usize = 10;

fn in_turns(transports: &[&str]) -> RaceSpec {
    RaceSpec {
        turns: TurnChoice::Auto,
        trial_s: Some(0.1),
        ..spec(transports, &["throughput", "delay"])
    }
}

fn had_turns(trial: &Trial) -> bool {
    trial
        .evidence
        .get("turns")
        .is_some_and(|count| *count >= 3.0)
}

/// Runs a race until its contestants took turns in all trials but the pilots.
#[track_caller]
fn until_in_turns(mut run: impl FnMut() -> RunData) -> RunData {
    for _ in 0..ATTEMPTS {
        let made = run();
        all_ok(&made);
        let mut counted = made.trials.iter().filter(|trial| trial.block > 0);
        if counted.clone().count() > 0 && counted.all(had_turns) {
            return made;
        }
    }
    panic!("no turns in {ATTEMPTS} races");
}

fn check_turns(run: &RunData) {
    for trial in run.trials.iter().filter(|trial| trial.block > 0) {
        let rate = trial.metrics["messages_per_s"];
        assert!(rate > 0.0, "{:?}", trial.cell);
        // Those of the agent's host are of all contestants together.
        let of_agent = |name: &&String| name.starts_with("agent_");
        assert_eq!(trial.evidence.keys().find(of_agent), None);
    }
}

#[test]
fn contestants_take_turns_between_hosts() {
    let Some(testbed) = hosts("kernel", 2) else {
        return;
    };
    let run = until_in_turns(|| {
        let scratch = Scratch::new();
        let (ours, theirs) = trusting_keys_for(&scratch, &addresses(&testbed));
        let (agent, _) = agent_on(&testbed.hosts()[1], ours, false);
        let to = target(agent.address());
        let spec = in_turns(&["tcp", "udp", "xtp"]);
        let run = testbed.hosts()[0].run(move || race(None, to, &theirs, spec, &scratch));
        run.expect("the host lives")
    });
    check_turns(&run);
}

/// A race whose two ends are workers of one agent with these caps, which asks for turns.
fn within_agent(caps: Caps) -> RunData {
    let scratch = Scratch::new();
    let (agent, _) = open_agent(caps);
    let session = Arc::new(session(&agent));
    let end = || PathEnd::Agent(Arc::clone(&session));
    let pairs = vec![[end(), end()]];
    let mut stage = AgentEnvironment::new(pairs, &local_host()).expect("a stage");
    let folder = scratch.path("run");
    let (stop, machine) = (AtomicBool::new(false), Machine::default());
    let spec = in_turns(&["tcp", "udp"]);
    let observer = &mut NullObserver;
    measure::run(&spec, &machine, &folder, &mut stage, &stop, observer).expect("a race");
    RunData::read(&folder).expect("a result")
}

#[test]
fn both_ends_on_one_agent_take_turns() {
    check_turns(&until_in_turns(|| within_agent(Caps::default())));
}

#[test]
fn agents_without_workers_or_with_a_rate_have_no_turns() {
    let few = Caps {
        workers: 3,
        ..Caps::default()
    };
    let slow = Caps {
        rate_bps: Some(1_000_000_000),
        ..Caps::default()
    };
    for (caps, part) in [(few, "--max-workers 4"), (slow, "--max-rate")] {
        let (agent, _) = open_agent(caps);
        let session = Arc::new(session(&agent));
        let end = || PathEnd::Agent(Arc::clone(&session));
        let pairs = vec![[end(), end()]];
        let stage = AgentEnvironment::new(pairs, &local_host()).expect("a stage");
        let spec = RaceSpec {
            turns: TurnChoice::On,
            ..in_turns(&["tcp", "udp"])
        };
        let why = turn_plan::notes(&spec, &stage).expect_err("no turns");
        assert!(why.contains(part), "{why}");
    }
}
