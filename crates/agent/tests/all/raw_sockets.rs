//! Raw IP and Ethernet through agents whose operator allows them.

use crate::common::{
    CountingHost, Scratch, await_idle, open_agent, session, spec, start_with, this_program,
    trusting_keys_for,
};
use crate::hosts::{address, addresses, all_ok, hosts, race, target};
use agent::Agent;
use agent::keys::KeyFolder;
use agent::server::crosses_network;
use agent::server::raw_sockets::{RawSocketSource, needs_raw_sockets};
use agent_client::AgentHost;
use control::session::{FromAgent, ToAgent};
use control::{Caps, FromWorker, Side, ToWorker};
use loadgen::WorkerHost;
use std::net::SocketAddr;
use std::sync::Arc;
use testbed::Host;

/// Transports that need raw sockets.
const RAW: [&str; 6] = [
    "xtp-rawip",
    "xtp-ether",
    "raw-ether",
    "vmtp-rawip",
    "vmtp-ether",
    "sctp-rawip",
];

#[test]
fn raw_transport_list_is_complete() {
    let names = towpath::all().iter().map(|one| one.name());
    let mut found: Vec<&str> = names.filter(|name| needs_raw_sockets(name)).collect();
    let mut listed = RAW;
    found.sort_unstable();
    listed.sort_unstable();
    assert_eq!(found, listed);
    assert!(RAW.iter().all(|name| !crosses_network(name)));
}

/// An agent on a host whose workers have no rights and get raw sockets on its interface.
fn raw_agent_on(host: &Host, keys: KeyFolder, ipv6: bool) -> (Agent, CountingHost) {
    let place = CountingHost::without_rights();
    let theirs = place.clone();
    let listen = SocketAddr::new(address(host, ipv6), 0).to_string();
    let caps = Caps {
        raw_interfaces: vec![testbed::INTERFACE.into()],
        ..Caps::default()
    };
    let agent = host.run(move || {
        let (program, arguments) = this_program("raw_sockets_of_these_tests");
        let source = RawSocketSource::start(&program, &arguments);
        let source = source.unwrap_or_else(|error| panic!("{error}"));
        start_with(&listen, Some(keys), caps, theirs, Some(source))
    });
    (agent.expect("the host lives"), place)
}

#[test]
fn workers_without_rights_use_raw_sockets_that_the_operator_allows() {
    for ipv6 in [false, true] {
        raw_sockets_are_used(ipv6);
    }
}

/// Raw IP by addresses of this family, and frames to neighbours that are known by them.
fn raw_sockets_are_used(ipv6: bool) {
    let Some(testbed) = hosts("delay=100us", 2) else {
        return;
    };
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys_for(&scratch, &addresses(&testbed));
    let (agent, place) = raw_agent_on(&testbed.hosts()[1], ours, ipv6);
    let to = target(agent.address());
    let mut spec = spec(&RAW, &["throughput", "delay"]);
    spec.circuit_options.ethertype = 0x88b5;
    let run = testbed.hosts()[0].run(move || race(None, to, &theirs, spec, &scratch));
    let run = run.expect("the host lives");
    all_ok(&run);
    for name in RAW {
        let own = |trial: &&results::Trial| trial.cell.transport() == name;
        let mut own = run.trials.iter().filter(own);
        let arrived = own.any(|trial| trial.metrics["messages_per_s"] > 0.0);
        assert!(arrived, "{name}");
    }
    await_idle(&agent, &place);
}

#[test]
fn raw_sockets_run_between_two_agents() {
    let Some(testbed) = hosts("delay=100us", 4) else {
        return;
    };
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys_for(&scratch, &addresses(&testbed));
    // Hosts at even positions reach those at odd ones; the client is beside one of the agents.
    let ends = [2, 1].map(|at| raw_agent_on(&testbed.hosts()[at], ours.clone(), false));
    let [from, to] = ends.each_ref().map(|(agent, _)| target(agent.address()));
    let mut spec = spec(&["xtp-rawip", "xtp-ether", "raw-ether"], &["throughput"]);
    spec.circuit_options.ethertype = 0x88b5;
    let client = &testbed.hosts()[2];
    let near = client.run(move || race(Some(from), to, &theirs, spec, &scratch));
    all_ok(&near.expect("the host lives"));
    for (agent, place) in &ends {
        assert!(place.started() > 0);
        await_idle(agent, place);
    }
}

#[test]
fn without_the_operators_leave_the_reason_is_said() {
    let (agent, place) = open_agent(Caps::default());
    let session = session(&agent);
    for name in RAW {
        let mut known = session.welcome().transports.iter();
        let (_, reason) = known.find(|(known, _)| known == name).expect("it is named");
        let reason = reason.as_deref().expect("it is not available");
        assert!(reason.contains("--raw INTERFACE"), "{reason}");
    }
    drop(session);
    let mut client = crate::common::RawClient::ready(agent.address());
    for (number, name) in (1..).zip(RAW) {
        client.send(&ToAgent::Spawn(number));
        let job = crate::common::job(name, Side::Listen);
        let message = Box::new(ToWorker::Listen(job));
        client.send(&ToAgent::ToWorker(number, message));
        let is_refused = |answer: &FromAgent| matches!(answer, FromAgent::Refused(Some(_), _));
        let refused = client.await_answer(is_refused);
        let FromAgent::Refused(_, why) = refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("--raw INTERFACE"), "{why}");
        client.send(&ToAgent::EndWorker(number));
    }
    drop(client);
    await_idle(&agent, &place);
}

/// A client cannot have a worker speak IP in Ethernet frames, nor to a host that is not on the link.
#[test]
fn ethertypes_and_peers_are_checked() {
    let Some(testbed) = hosts("delay=100us", 2) else {
        return;
    };
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys_for(&scratch, &addresses(&testbed));
    let (agent, place) = raw_agent_on(&testbed.hosts()[1], ours, false);
    let at = target(agent.address());
    let refused = testbed.hosts()[0].run(move || {
        let session = crate::common::connect(&at, &theirs).unwrap_or_else(|e| panic!("{e}"));
        let mut job = crate::common::job("raw-ether", Side::Listen);
        job.circuit_options.ethertype = 0x0800;
        let host = AgentHost::new(Arc::new(session));
        let mut worker = host.spawn().expect("a worker");
        let channel = &mut worker.channel;
        channel
            .send(&ToWorker::Listen(job), &[])
            .expect("it is sent");
        let answer = channel.receive::<FromWorker>(crate::common::TEST_TIMEOUT);
        let answer = answer.expect("an answer").0;
        worker.end();
        answer
    });
    let refused = refused.expect("the host lives");
    let FromWorker::Failed(why) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("EtherType 0x0800"), "{why}");
    await_idle(&agent, &place);
}
