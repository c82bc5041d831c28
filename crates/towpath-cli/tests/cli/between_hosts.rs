//! What works on one host and between hosts alike: turns, short messages beside bulk, races taken on.

use crate::agents::{Agent, with_keys};
use crate::responsive::has_both_phases;
use crate::support::{Scratch, trials_of};
use crate::testbeds::{can_create_hosts, linked};
use results::{RunData, Status, Trial};

/// Races until one is in turns, at most: on a busy machine the clocks of the ends are known too badly, or a pilot is held
/// up and its contestant seems too slow for turns.
const ATTEMPTS: usize = 10;

/// A race to an agent on the loopback; its result is checked against the schemas.
#[track_caller]
fn race_to(scratch: &Scratch, name: &str, agent: &Agent, arguments: &[&str]) -> RunData {
    race_to_addresses(scratch, name, agent.address(), arguments)
}

#[track_caller]
fn race_to_addresses(scratch: &Scratch, name: &str, to: &str, arguments: &[&str]) -> RunData {
    let (none, out) = (scratch.text("none"), scratch.text(name));
    let start = ["race", "--to", to, "--sizes", "64"];
    let rest = ["--out", &out, "--no-report"];
    with_keys(&none, &[&start[..], arguments, &rest].concat()).exited(0);
    crate::schema::accepts_folder(&scratch.path(name));
    RunData::read(&scratch.path(name)).expect("a result")
}

/// Whether all trials of blocks were in turns.
fn was_in_turns(run: &RunData) -> bool {
    let mut trials = run.trials.iter().filter(|trial| trial.block > 0);
    trials.all(|trial| trial.evidence.contains_key("turns"))
}

#[test]
fn contestants_take_turns_through_an_agent_with_workers_for_all() {
    let scratch = Scratch::new();
    let words = ["tcp", "udp", "-w", "throughput,delay", "--trial", "60ms"];
    let words = [&words[..], &["--blocks", "2", "--turns", "auto"]].concat();
    let enough = Agent::start(&scratch.text("none"), &["--max-workers", "3"], 1);
    let mut races = (0..ATTEMPTS).map(|number| {
        let run = race_to(&scratch, &format!("run{number}"), &enough, &words);
        for trial in run.trials.iter().filter(|trial| trial.block > 0) {
            assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        }
        was_in_turns(&run)
    });
    assert!(races.any(|in_turns| in_turns));

    let few = Agent::start(&scratch.text("none"), &["--max-workers", "2"], 1);
    let out = scratch.text("refused");
    let race = ["race", "tcp", "udp", "--turns", "on", "--out", &out];
    let race = [&race[..], &["-w", "delay", "--to", few.address()]].concat();
    with_keys(&scratch.text("none"), &race).failed(2, "--max-workers 3");
}

#[test]
fn contestants_take_turns_over_a_plain_kernel_link() {
    if !can_create_hosts() {
        return;
    }
    let words = ["tcp", "udp", "xtp", "-w", "throughput,delay"];
    let words = [&words[..], &["--turns", "on"]].concat();
    let mut races = (0..ATTEMPTS).map(|_| {
        let run = linked(&Scratch::new(), "kernel", &words);
        assert!(run.trials.iter().any(|trial| trial.block > 0));
        was_in_turns(&run)
    });
    assert!(races.any(|in_turns| in_turns));
}

#[test]
fn short_messages_have_round_trips_beside_bulk_through_an_agent_and_over_a_link() {
    let scratch = Scratch::new();
    let words = ["tcp", "xtp", "-w", "responsive"];
    let agent = Agent::start(&scratch.text("none"), &[], 1);
    let more = ["--trial", "400ms", "--blocks", "1", "--no-control"];
    let run = race_to(&scratch, "agent", &agent, &[&words[..], &more].concat());
    for transport in ["tcp", "xtp"] {
        has_both_phases(&run, transport);
    }
    if !can_create_hosts() {
        return;
    }
    let words = [&words[..], &["--trial", "1s", "--no-calibration"]].concat();
    let run = linked(&scratch, "rate=50mbit,delay=2ms", &words);
    for transport in ["tcp", "xtp"] {
        has_both_phases(&run, transport);
    }
}

#[test]
fn short_messages_have_round_trips_beside_bulk_between_several_pairs_of_hosts() {
    let scratch = Scratch::new();
    let agents = [0; 3].map(|_| Agent::start(&scratch.text("none"), &[], 1));
    let [sender, first, second] = agents.each_ref().map(Agent::address);
    let words = ["tcp", "xtp", "-w", "responsive", "--trial", "400ms"];
    let words = [&words[..], &["--blocks", "1", "--no-control"]].concat();
    let both = format!("{first},{second}");
    let from_sender = ["--from", sender, "--together"];
    let ways = [
        ("apart", &[][..]),
        ("together", &["--together"]),
        ("between", &from_sender),
    ];
    for (name, way) in ways {
        let run = race_to_addresses(&scratch, name, &both, &[&words[..], way].concat());
        for transport in ["tcp", "xtp"] {
            has_both_phases(&run, transport);
            let of_block = |trial: &&&Trial| trial.block > 0;
            let cells = trials_of(&run, transport).iter().filter(of_block).count();
            assert_eq!(cells, if way.is_empty() { 2 } else { 1 }, "{name}");
        }
    }
}

#[test]
fn race_to_an_agent_is_taken_on_there() {
    let scratch = Scratch::new();
    let agent = Agent::start(&scratch.text("none"), &[], 1);
    let words = ["tcp", "udp", "-w", "throughput", "--no-control"];
    let more = ["--trial", "20ms", "--blocks", "2"];
    let older = race_to(&scratch, "older", &agent, &[&words[..], &more].concat());
    let (none, path, out) = (
        scratch.text("none"),
        scratch.text("older"),
        scratch.text("newer"),
    );
    let resume = ["race", "--resume", &path, "--blocks", "3", "--out", &out];
    with_keys(&none, &[&resume[..], &["--no-report"]].concat()).exited(0);
    let newer = RunData::read(&scratch.path("newer")).expect("a result");
    assert_eq!(newer.plan.transports, older.plan.transports);
    let agents = |run: &RunData| {
        let facts = run.machine.facts.iter();
        let of_agent = facts.filter(|fact| fact.group.starts_with(agent.address()));
        of_agent.count()
    };
    assert!(agents(&older) > 0);
    assert_eq!(agents(&newer), agents(&older));
    for trial in &newer.trials {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
    }
}
