//! Races between hosts of a testbed: every transport, both families, loss, an outage.

use crate::common::{
    CountingHost, Scratch, await_idle, connect, local_host, race_in, spec, start, trusting_keys_for,
};
use agent::Agent;
use agent::AgentAddress;
use agent::keys::KeyFolder;
use agent_client::AgentEnvironment;
use agent_client::PathEnd;
use control::Caps;
use control::session::{FromAgent, ToAgent};
use measure::RaceSpec;
use results::{Machine, RunData, Status};
use std::net::IpAddr;
use std::sync::Arc;
use testbed::{Host, HostPlan, LinkPlan, Testbed, TestbedPlan};

/// Transports that cross a network.
pub const TRANSPORTS: [&str; 28] = [
    "tcp",
    "tcp-batched",
    "tcp-zerocopy",
    "mptcp",
    "xti-tcp",
    "xti-udp",
    "xti-xtp",
    "xti-sctp",
    "tls",
    "udp",
    "udp-connected",
    "udp-nochecksum",
    "udp-batched",
    "udp-segmented",
    "udp-lite",
    "quic",
    "xtp",
    "xtp-message",
    "xtp-lent",
    "xtp-driver",
    "xtp-transaction",
    "xtp-datagram",
    "sctp",
    "vmtp",
    "vmtp-aal34",
    "aal34",
    "aal5",
    "bare",
];

/// New transports must be added to the list.
#[test]
fn network_transport_list_is_complete() {
    let all = towpath::all().iter();
    let far = all.filter(|one| one.class().reach == towpath::Reach::Network);
    let names: Vec<&str> = far.map(|one| one.name()).collect();
    let mut crossing: Vec<&str> = names
        .into_iter()
        .filter(|name| agent::server::crosses_network(name))
        .collect();
    let mut tested = TRANSPORTS;
    crossing.sort_unstable();
    tested.sort_unstable();
    assert_eq!(crossing, tested);
}

/// A testbed of hosts `a`, `b`, ...; None, with a SKIPPED line, without privileges.
pub fn hosts(link: &str, count: usize) -> Option<Testbed> {
    let link: LinkPlan = link
        .parse()
        .unwrap_or_else(|error| panic!("{link}: {error}"));
    let names = ["a", "b", "c", "d"].into_iter().take(count);
    let plan = TestbedPlan {
        hosts: names.map(HostPlan::new).collect(),
        ipv6: true,
        ..TestbedPlan::pair(link, 1)
    };
    Testbed::up_or_skip(&plan)
}

/// An agent on a host, and its workers.
pub fn agent_on(host: &Host, keys: KeyFolder, ipv6: bool) -> (Agent, CountingHost) {
    let place = CountingHost::new();
    let theirs = place.clone();
    let address = if ipv6 {
        host.address6()
    } else {
        host.address()
    };
    let listen = std::net::SocketAddr::new(address, 0).to_string();
    let agent = host.run(move || start(&listen, Some(keys), Caps::default(), theirs));
    (agent.expect("the host lives"), place)
}

pub fn target(address: std::net::SocketAddr) -> AgentAddress {
    address.to_string().parse().expect("an address")
}

/// Races between the agents at these addresses (None for this host); called on the client's host.
pub fn race(
    from: Option<AgentAddress>,
    to: AgentAddress,
    keys: &KeyFolder,
    mut spec: RaceSpec,
    scratch: &Scratch,
) -> RunData {
    let session = |target: &AgentAddress| {
        Arc::new(connect(target, keys).unwrap_or_else(|error| panic!("{error}")))
    };
    let to = session(&to);
    spec.circuit_options.ipv6 = to.peer().is_ipv6();
    let from = from.map_or(PathEnd::Local, |from| PathEnd::Agent(session(&from)));
    let mut stage =
        AgentEnvironment::new(vec![[from, PathEnd::Agent(to)]], &local_host()).expect("a stage");
    let folder = scratch.path("run");
    let machine = Machine::default();
    race_in(&folder, &mut stage, &spec, &machine)
}

/// A race from host `a` to an agent on host `b`.
fn across(testbed: &Testbed, ipv6: bool, spec: RaceSpec) -> RunData {
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys_for(&scratch, &addresses(testbed));
    let (agent, place) = agent_on(&testbed.hosts()[1], ours, ipv6);
    let to = target(agent.address());
    let run = testbed.hosts()[0].run(move || race(None, to, &theirs, spec, &scratch));
    let run = run.expect("the host lives");
    await_idle(&agent, &place);
    run
}

#[track_caller]
pub fn all_ok(run: &RunData) {
    assert!(!run.trials.is_empty());
    for trial in &run.trials {
        let excused = trial.reason.starts_with("the generator");
        assert!(
            trial.status == Status::Ok || excused,
            "{:?}: {}",
            trial.cell,
            trial.reason
        );
    }
}

#[test]
fn every_transport_crosses_network() {
    let Some(testbed) = hosts("delay=100us", 2) else {
        return;
    };
    for ipv6 in [false, true] {
        let mut spec = spec(&TRANSPORTS, &["throughput", "delay"]);
        // Missing kernel features are not this test's subject.
        spec.contestants.retain(|name| {
            let options = towpath::Options {
                congestion: crate::common::congestion(),
                ..Default::default()
            };
            let found = towpath::find(name).expect("a known transport");
            found
                .available(&options)
                .inspect_err(|why| eprintln!("SKIPPED: {name}: {}", why.reason))
                .is_ok()
        });
        let raced = spec.contestants.clone();
        let run = across(&testbed, ipv6, spec);
        all_ok(&run);
        assert_eq!(run.trials.len(), raced.len() * 4);
        for name in raced {
            // If the link's process is not scheduled, all datagrams of so short a trial are lost.
            let own = |trial: &&results::Trial| trial.cell.transport() == name;
            let mut own = run.trials.iter().filter(own);
            let arrived = own.any(|trial| trial.metrics["messages_per_s"] > 0.0);
            assert!(arrived, "{name}, IPv6 {ipv6}");
        }
    }
}

#[test]
fn one_way_delays_carry_clock_bound() {
    let Some(testbed) = hosts("delay=20ms", 2) else {
        return;
    };
    let mut asked = spec(&["udp", "tcp"], &["offered", "connect"]);
    asked.trial_s = Some(0.3);
    let run = across(&testbed, false, asked);
    all_ok(&run);
    let offered = |trial: &&results::Trial| trial.cell.workload() == "offered" && trial.block > 0;
    for trial in run.trials.iter().filter(offered) {
        let bound_us = trial.evidence["clock_bound_us"];
        // Both hosts share this machine's clock, so the true delay is the link's.
        match trial.metrics.get("delay_p50_us") {
            Some(&delay_us) => {
                assert!(delay_us + bound_us > 20_000.0, "{delay_us} +- {bound_us}");
                assert!(delay_us > 2.0 * bound_us);
            }
            None => assert!(bound_us * 2.0 > 10_000.0, "{bound_us}"),
        }
    }
    // RTTs need one clock only.
    assert!(
        run.trials
            .iter()
            .any(|trial| trial.metrics.contains_key("connection_p50_us"))
    );
}

#[test]
fn race_survives_control_connection_loss() {
    let Some(testbed) = hosts("delay=1ms,loss=5%", 2) else {
        return;
    };
    let mut asked = spec(&["tcp", "xtp"], &["throughput"]);
    (asked.blocks.max, asked.blocks.looks) = (2, vec![2]);
    let run = across(&testbed, false, asked);
    all_ok(&run);
}

#[test]
fn race_resumes_after_five_second_outage() {
    let Some(testbed) = hosts("delay=1ms;1s:cut;6s:up", 2) else {
        return;
    };
    let workloads = ["throughput", "delay", "offered"];
    let mut asked = spec(&["tcp", "quic", "xtp"], &workloads);
    (asked.trial_s, asked.blocks.max, asked.blocks.looks) = (Some(0.3), 2, vec![2]);
    testbed.begin(1);
    let run = across(&testbed, false, asked);
    let good = run
        .trials
        .iter()
        .filter(|trial| trial.status == Status::Ok)
        .count();
    let bad: Vec<&str> = run
        .trials
        .iter()
        .filter(|trial| trial.status != Status::Ok)
        .map(|trial| trial.reason.as_str())
        .collect();
    // Trials during the outage may fail, with a reason; later ones succeed.
    assert!(good >= 9, "{bad:?}");
    assert!(bad.iter().all(|reason| !reason.is_empty()));
    assert_eq!(
        run.trials.last().expect("trials").status,
        Status::Ok,
        "{bad:?}"
    );
}

#[test]
fn circuits_run_between_two_checked_agents() {
    let Some(testbed) = hosts("delay=100us", 4) else {
        return;
    };
    // Hosts at even positions reach those at odd ones: the client on a reaches b and d, c reaches
    // both.
    let (near, far) = (&testbed.hosts()[0], &testbed.hosts()[1]);
    // Two listen on one IPv4 address, two on the unspecified addresses, reached over IPv4.
    for any in [false, true] {
        let scratch = Scratch::new();
        let (ours, theirs) = trusting_keys_for(&scratch, &addresses(&testbed));
        let (one, first) = agent_of(far, ours.clone(), any);
        let (other, second) = agent_of(far, ours, any);
        let at = |agent: &Agent| {
            let port = agent.address().port();
            target(std::net::SocketAddr::new(far.address(), port))
        };
        let (from, to) = (at(&one), at(&other));
        let spec = spec(&["tcp", "udp", "xtp"], &["throughput", "delay"]);
        let run = near.run(move || race(Some(from), to, &theirs, spec, &scratch));
        all_ok(&run.expect("the host lives"));
        assert!(first.started() > 0 && second.started() > 0);
        await_idle(&one, &first);
        await_idle(&other, &second);
    }
}

/// An agent on an IPv4 address, or on the unspecified address.
fn agent_of(host: &Host, keys: KeyFolder, any: bool) -> (Agent, CountingHost) {
    if !any {
        return agent_on(host, keys, false);
    }
    let place = CountingHost::new();
    let theirs = place.clone();
    let agent = host.run(move || start("[::]:0", Some(keys), Caps::default(), theirs));
    (agent.expect("the host lives"), place)
}

#[test]
fn remote_client_cannot_reach_agent_loopback() {
    let Some(testbed) = hosts("delay=100us", 2) else {
        return;
    };
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys_for(&scratch, &addresses(&testbed));
    let (agent, place) = agent_on(&testbed.hosts()[1], ours, false);
    let at = agent.address();
    let asked = testbed.hosts()[0].run(move || {
        let session = connect(&target(at), &theirs).unwrap_or_else(|error| panic!("{error}"));
        let FromAgent::ExpectingPeer(token) =
            session.request(ToAgent::ExpectPeer).expect("a token")
        else {
            panic!("no token");
        };
        let loopback = std::net::SocketAddr::new([127, 0, 0, 1].into(), at.port());
        let unused = std::net::SocketAddr::new(at.ip(), 1);
        [(loopback, [1; 16]), (at, token), (unused, [1; 16])].map(|(to, token)| {
            let refused = session.request(ToAgent::CheckPeer(to, token));
            refused.expect_err("it is refused").to_string()
        })
    });
    let [loopback, own, unused] = asked.expect("the host lives");
    assert!(loopback.contains("this agent's own host"), "{loopback}");
    assert!(own.contains("does not check itself"), "{own}");
    assert!(
        unused.contains("no towpath agent of this version"),
        "{unused}"
    );
    await_idle(&agent, &place);
}

#[test]
fn concurrent_pairs_run_in_one_trial() {
    let Some(testbed) = hosts("delay=100us", 4) else {
        return;
    };
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys_for(&scratch, &addresses(&testbed));
    let agents = [1, 3, 1].map(|at| agent_on(&testbed.hosts()[at], ours.clone(), false));
    let targets = agents.each_ref().map(|(agent, _)| target(agent.address()));
    let [one, two, three] = targets.each_ref().map(AgentAddress::to_string);
    let names = [one.clone(), two, format!("{one}>{three}")];
    let workloads = ["throughput", "delay", "offered", "connect"];
    let mut spec = spec(&["tcp", "udp", "xtp"], &workloads);
    // Each pair makes progress, even if links wait for a CPU.
    spec.trial_s = Some(0.2);
    let run = testbed.hosts()[0].run(move || race_concurrently(targets, &theirs, spec, &scratch));
    let run = run.expect("the host lives");
    for trial in &run.trials {
        let excused = trial.reason.starts_with("the generator")
            || trial.reason.contains("makes no connections");
        let good = trial.status == Status::Ok || excused;
        assert!(good, "{:?}: {}", trial.cell, trial.reason);
    }
    let measured = |trial: &&results::Trial| trial.status == Status::Ok;
    for workload in workloads {
        let found: Vec<_> = run
            .trials
            .iter()
            .filter(|trial| trial.block > 0 && trial.cell.workload() == workload)
            .collect();
        assert_eq!(found.len(), 3, "{workload}");
        for trial in found.into_iter().filter(measured) {
            by_pair(trial, &names);
        }
    }
    for (agent, place) in &agents {
        assert!(place.started() > 0);
        await_idle(agent, place);
    }
}

/// From this host to the first two agents, and from the first to the third.
fn race_concurrently(
    targets: [AgentAddress; 3],
    keys: &KeyFolder,
    spec: RaceSpec,
    scratch: &Scratch,
) -> RunData {
    let [one, two, three] = targets.map(|target| {
        let session = connect(&target, keys).unwrap_or_else(|error| panic!("{error}"));
        PathEnd::Agent(Arc::new(session))
    });
    let pairs = vec![
        [PathEnd::Local, one.clone()],
        [PathEnd::Local, two],
        [one, three],
    ];
    let stage = AgentEnvironment::new(pairs, &local_host()).expect("a stage");
    let (folder, machine) = (scratch.path("run"), Machine::default());
    let mut stage = stage.concurrent();
    race_in(&folder, &mut stage, &spec, &machine)
}

/// Each pair has its own measures, which add up to the total.
#[track_caller]
fn by_pair(trial: &results::Trial, names: &[String]) {
    let name = match trial.cell.workload().as_str() {
        "offered" => "delivered_per_s",
        "connect" => "connections_per_s",
        _ => "messages_per_s",
    };
    let of = |pair: &String| trial.metrics[&format!("{name}@{pair}")];
    let parts: Vec<f64> = names.iter().map(of).collect();
    assert!(parts.iter().all(|&part| part > 0.0), "{parts:?}");
    if trial.cell.workload() == "throughput" {
        let (sum, all) = (parts.iter().sum::<f64>(), trial.metrics[name]);
        assert!((sum / all - 1.0).abs() < 1e-6, "{parts:?} of {all}");
        assert!(trial.metrics["fairness"] <= 1.0);
    }
    let ledger = trial.ledger.expect("a ledger");
    assert!(ledger.sent > 0 && ledger.unaccounted == 0, "{ledger:?}");
}

/// Addresses of all hosts of a testbed.
pub fn addresses(testbed: &Testbed) -> Vec<String> {
    let both = |host: &Host| [false, true].map(|ipv6| address(host, ipv6).to_string());
    testbed.hosts().iter().flat_map(both).collect()
}

/// The address of a host in one family.
pub fn address(host: &Host, ipv6: bool) -> IpAddr {
    if ipv6 {
        host.address6()
    } else {
        host.address()
    }
}
