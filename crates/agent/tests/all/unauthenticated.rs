//! Packets from an unvalidated address: no replies may be sent to it.

use crate::common::{Scratch, connect, job, trusting_keys_for};
use crate::hosts::{TRANSPORTS, address, addresses, agent_on, hosts};
use agent_client::{AgentHost, Session};
use control::{FromWorker, Side, ToWorker};
use loadgen::WorkerHost;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use testbed::{Host, Testbed};
use towpath::{Family, Options, Reach, Rendezvous};

/// Octets of IP that a host has sent and received; frames for others do not count.
fn traffic(host: &Host, ipv6: bool) -> (u64, u64) {
    let read = move || {
        let name = if ipv6 { "snmp6" } else { "netstat" };
        std::fs::read_to_string(format!("/proc/thread-self/net/{name}"))
    };
    let text = host.run(read).expect("the host lives").expect("/proc");
    let number = |word: &str| word.parse::<u64>().expect("a number");
    if ipv6 {
        let value = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .expect(name);
            number(line.trim())
        };
        return (value("Ip6OutOctets"), value("Ip6InOctets"));
    }
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let value = |wanted: &str| {
        let pair = names
            .split(' ')
            .zip(values.split(' '))
            .find(|(name, _)| *name == wanted);
        number(pair.expect(wanted).1)
    };
    (value("OutOctets"), value("InOctets"))
}

/// Starts a listening worker on host `b` for the client on host `a`; its rendezvous.
fn start_listener(
    session: &Arc<Session>,
    transport: &str,
    ipv6: bool,
) -> (loadgen::WorkerHandle, Vec<u8>) {
    let mut worker = AgentHost::new(Arc::clone(session))
        .spawn()
        .expect("a worker");
    let mut job = job(transport, Side::Listen);
    job.circuit_options.ipv6 = ipv6;
    worker
        .channel
        .send(&ToWorker::Listen(job), &[])
        .expect("it is sent");
    match worker
        .channel
        .receive::<FromWorker>(Duration::from_secs(30))
        .expect("an answer")
        .0
    {
        FromWorker::Listening(frames) => (worker, frames[0].bytes.clone()),
        other => panic!("{transport}: {other:?}"),
    }
}

/// Sends from host `outsider` what a client of that transport would send first; host `spare`
/// generates packets that need an engine.
fn send_unsolicited(
    [outsider, spare]: [&Host; 2],
    transport: &'static str,
    bytes: Vec<u8>,
    ipv6: bool,
) -> (u64, u64) {
    let options = Options {
        family: if ipv6 { Family::V6 } else { Family::V4 },
        congestion: crate::common::congestion(),
        ..Options::default()
    };
    let last = bytes
        .split(|&octet| octet == b'\n')
        .next_back()
        .unwrap_or_default();
    let to: SocketAddr = std::str::from_utf8(last)
        .expect("text")
        .parse()
        .expect("an address");
    let rendezvous = Rendezvous {
        reach: Reach::Network,
        bytes,
        descriptors: Vec::new(),
    };
    let tcp = transport.contains("tcp") || transport == "tls";
    let udp = transport.starts_with("udp");
    let packet = match tcp || udp {
        true => vec![1; 100],
        false => spare
            .run(move || first_packet(transport, rendezvous, options))
            .expect("the host lives"),
    };
    let before = traffic(outsider, ipv6);
    let knocking = move || {
        if tcp {
            if let Ok(mut socket) = TcpStream::connect_timeout(&to, Duration::from_millis(300)) {
                let _ = socket.write_all(&[1; 500]);
                std::thread::sleep(Duration::from_millis(50));
            }
            return;
        }
        let kind = match transport {
            "udp-lite" => Protocol::UDPLITE,
            _ => Protocol::UDP,
        };
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(kind));
        let socket = UdpSocket::from(socket.expect("a socket"));
        (0..3).for_each(|_| drop(socket.send_to(&packet, to)));
        std::thread::sleep(Duration::from_millis(100));
    };
    outsider.run(knocking).expect("the host lives");
    let after = traffic(outsider, ipv6);
    (after.0 - before.0, after.1 - before.1)
}

/// The first packet of a client of that transport, captured on this host.
fn first_packet(transport: &'static str, mut rendezvous: Rendezvous, options: Options) -> Vec<u8> {
    let here = if options.family == Family::V6 {
        "[::1]:0"
    } else {
        "127.0.0.1:0"
    };
    let socket = UdpSocket::bind(here).expect("a socket");
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a limit");
    let address = socket.local_addr().expect("bound").to_string().into_bytes();
    let mut lines: Vec<Vec<u8>> = rendezvous
        .bytes
        .split(|&octet| octet == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    // Beside keys, one address or several.
    let is_address = |line: &[u8]| {
        let text = std::str::from_utf8(line).ok();
        text.is_some_and(|text| text.parse::<SocketAddr>().is_ok())
    };
    for line in lines.iter_mut().filter(|line| is_address(line)) {
        line.clone_from(&address);
    }
    rendezvous.bytes = lines.join(&b'\n');
    std::thread::spawn(move || {
        let found = towpath::find(transport).expect("a known transport");
        if let Ok(mut circuit) = found.connect(&rendezvous, 0, &options) {
            // A transport without a handshake sends nothing before the first message.
            let _ = circuit.send(&[1; 20]).and_then(|()| circuit.flush());
        }
    });
    let mut packet = vec![0; 65_536];
    let len = socket.recv(&mut packet).expect("its first packet");
    packet.truncate(len);
    packet
}

fn check_all_transports(testbed: &Testbed, ipv6: bool) {
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys_for(&scratch, &addresses(testbed));
    let [client, agent_host, outsider, spare] = testbed.hosts() else {
        panic!("four hosts");
    };
    let _ = address(agent_host, ipv6);
    let (agent, _place) = agent_on(agent_host, ours, ipv6);
    let target = agent.address().to_string().parse().expect("an address");
    let session = client
        .run(move || connect(&target, &theirs))
        .expect("the host lives");
    let session = Arc::new(session.unwrap_or_else(|error| panic!("{error}")));
    for transport in TRANSPORTS {
        let missing = session
            .welcome()
            .transports
            .iter()
            .find(|(name, _)| name == transport);
        if missing.is_none_or(|(_, why)| why.is_some()) {
            eprintln!("SKIPPED: {transport} is not on this host");
            continue;
        }
        let (worker, bytes) = start_listener(&session, transport, ipv6);
        let (sent, received) = send_unsolicited([outsider, spare], transport, bytes, ipv6);
        worker.end();
        assert!(sent > 0, "{transport} sent nothing: the test tests nothing");
        assert!(
            received <= sent,
            "{transport}: {received} octets for {sent}"
        );
        if !transport.contains("tcp") {
            assert_eq!(received, 0, "{transport} answered an unvalidated address");
        }
    }
}

#[test]
fn unvalidated_address_gets_no_reply() {
    let Some(testbed) = hosts("delay=100us", 4) else {
        return;
    };
    for ipv6 in [false, true] {
        check_all_transports(&testbed, ipv6);
    }
}
