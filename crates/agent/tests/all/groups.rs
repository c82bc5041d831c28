//! Receivers of a group on several hosts, each through its agent.

use crate::common::{
    RawClient, Scratch, await_idle, connect, job, local_host, open_agent, race_in, spec,
    trusting_keys_for,
};
use crate::hosts::{addresses, agent_on, all_ok, target};
use agent_client::{AgentEnvironment, PathEnd};
use control::session::{FromAgent, ToAgent};
use control::{Caps, Side, ToWorker};
use measure::RaceSpec;
use measure::spec::{FanOut, FanOutChoice};
use results::{Machine, RunData};
use std::sync::Arc;
use testbed::{HostPlan, LinkEnds, LinkPlan, Testbed, TestbedPlan};

/// A sender at one end of a link and two receivers at the other; None, with a SKIPPED line, without privileges.
fn star() -> Option<Testbed> {
    let link: LinkPlan = "delay=100us".parse().expect("a link");
    let plan = TestbedPlan {
        hosts: ["a", "b", "c"].map(HostPlan::new).to_vec(),
        ends: LinkEnds::Star,
        ..TestbedPlan::pair(link, 1)
    };
    Testbed::up_or_skip(&plan)
}

#[test]
fn group_has_a_receiver_on_each_of_several_agents() {
    let groups = ["", ",dialect=3.6", ",dialect=3.5"].map(|words| format!("xtp-multicast{words}"));
    let groups = groups.each_ref().map(String::as_str);
    let spec = spec(&[&["xtp"], &groups[..]].concat(), &["throughput"]);
    let Some((run, names)) = fanned_to_two_agents(spec) else {
        return;
    };
    for trial in run.trials.iter().filter(|trial| trial.block > 0) {
        for name in &names {
            let rate = trial.metrics[&format!("messages_per_s@{name}")];
            assert!(rate > 0.0, "{:?} {name}", trial.cell);
        }
    }
}

#[test]
fn delay_ends_when_both_agents_have_the_message() {
    let spec = spec(&["tcp", "xtp", "xtp-multicast"], &["delay"]);
    let Some((run, _)) = fanned_to_two_agents(spec) else {
        return;
    };
    for trial in run.trials.iter().filter(|trial| trial.block > 0) {
        assert!(trial.metrics["delay_p50_us"] > 0.0, "{:?}", trial.cell);
    }
}

/// A race with a receiver on each of two agents, whose trials are all fine, and the names of the agents; None without
/// privileges.
fn fanned_to_two_agents(mut spec: RaceSpec) -> Option<(RunData, [String; 2])> {
    let testbed = star()?;
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys_for(&scratch, &addresses(&testbed));
    let agents = [1, 2].map(|at| agent_on(&testbed.hosts()[at], ours.clone(), false));
    let targets = agents.each_ref().map(|(agent, _)| target(agent.address()));
    let names = targets.each_ref().map(ToString::to_string);
    spec.fan_out = vec![FanOut {
        receivers: 2,
        choice: FanOutChoice::All,
    }];
    let run = testbed.hosts()[0].run(move || {
        let pair = |target| {
            let session = connect(target, &theirs).unwrap_or_else(|error| panic!("{error}"));
            [PathEnd::Local, PathEnd::Agent(Arc::new(session))]
        };
        let pairs = targets.iter().map(pair).collect();
        let stage = AgentEnvironment::new(pairs, &local_host()).expect("a stage");
        let folder = scratch.path("run");
        let (machine, mut stage) = (Machine::default(), stage.concurrent());
        race_in(&folder, &mut stage, &spec, &machine)
    });
    let run = run.expect("the host lives");
    all_ok(&run);
    for (agent, place) in &agents {
        assert!(place.started() > 0);
        await_idle(agent, place);
    }
    Some((run, names))
}

/// An agent's worker is one receiver of a group of the organization's own, and sends to none.
#[test]
fn groups_of_others_and_senders_to_groups_are_refused() {
    let (agent, place) = open_agent(Caps::default());
    let mut client = RawClient::ready(agent.address());
    let one = "xtp-multicast,group=239.192.1.2:20000,receivers=1";
    for (number, (text, side, part)) in (1..).zip([
        ("xtp-multicast", Side::Listen, "--fan-out"),
        ("xtp-multicast,receivers=1", Side::Listen, "--fan-out"),
        (
            &one.replace("receivers=1", "receivers=2"),
            Side::Listen,
            "--fan-out",
        ),
        (&one.replace("192.1.2", "0.0.251"), Side::Listen, "239.192."),
        (one, Side::Connect, "sends to no group"),
    ]) {
        client.send(&ToAgent::Spawn(number));
        let job = job(text, side);
        let message = match side {
            Side::Listen => ToWorker::Listen(job),
            Side::Connect => ToWorker::Connect(job, Vec::new()),
        };
        client.send(&ToAgent::ToWorker(number, Box::new(message)));
        let is_refused = |answer: &FromAgent| matches!(answer, FromAgent::Refused(Some(_), _));
        let FromAgent::Refused(_, why) = client.await_answer(is_refused) else {
            panic!("it is refused");
        };
        assert!(why.contains(part), "{text}: {why}");
        client.send(&ToAgent::EndWorker(number));
    }
    drop(client);
    await_idle(&agent, &place);
}
