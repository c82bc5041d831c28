//! Endpoints of XTP directly on IP and on Ethernet, between hosts of a testbed and on one host.

use super::group::pattern;
use super::testbed_hosts::{hosts, start};
use engine::Address;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use testbed::{FrameMode, Host, LinkPlan, interface_name};
use towpath::xtp::{Circuit, Endpoint, EndpointAddress, EndpointConfig, Framing, Shortcut};

const LIMIT: Duration = Duration::from_secs(20);
const PORT: u16 = 7;
const OTHER_PORT: u16 = 8;

/// An endpoint of `host`; streams.
fn bound(host: &Host, at: &EndpointAddress) -> Endpoint {
    let at = at.clone();
    let bind = move || Endpoint::bind_at(&at, &at.default_config(), Framing::Stream);
    let bound = host.run(bind);
    bound.expect("the host is there").expect("it is root")
}

/// Sends back all that comes by one circuit, then answers one transaction.
fn echo(host: &Host, server: Endpoint) -> Receiver<io::Result<Address>> {
    server.listen(true);
    start(host, move || {
        let mut circuit = server.accept(LIMIT)?;
        let peer = circuit.peer_address();
        let mut buffer = vec![0; 65_536];
        while let Some(len) = circuit.recv(&mut buffer, LIMIT)? {
            circuit.send(&buffer[..len], LIMIT)?;
        }
        circuit.close(LIMIT)?;
        let mut asked = server.accept(LIMIT)?;
        let len = asked.recv_all(&mut buffer, LIMIT)?;
        asked.send_last(&buffer[..len], LIMIT)?;
        asked.close(LIMIT)?;
        Ok(peer)
    })
}

/// Sends `bytes`, receives what comes back meanwhile, and compares.
fn exchange(circuit: &mut Circuit, bytes: &[u8]) -> io::Result<bool> {
    let (mut back, mut buffer) = (Vec::new(), vec![0; 65_536]);
    for part in bytes.chunks(10_000) {
        circuit.send(part, LIMIT)?;
        let len = circuit.recv(&mut buffer, LIMIT)?.unwrap_or(0);
        back.extend_from_slice(&buffer[..len]);
    }
    circuit.finish()?;
    while let Some(len) = circuit.recv(&mut buffer, LIMIT)? {
        back.extend_from_slice(&buffer[..len]);
    }
    Ok(back == bytes)
}

/// A circuit and a transaction between endpoints of two hosts.
fn carries(near: (&Host, EndpointAddress), far: (&Host, EndpointAddress)) {
    let server = bound(far.0, &far.1);
    let to = server.address();
    let served = echo(far.0, server);
    let client = bound(near.0, &near.1);
    let own = client.address();
    let done = start(near.0, move || -> io::Result<bool> {
        let bytes = pattern(300_000);
        let mut circuit = client.connect(to, LIMIT)?;
        let mut is_same = circuit.peer_address() == to && exchange(&mut circuit, &bytes)?;
        circuit.close(LIMIT)?;
        let mut reply = [0; 64];
        let len = client.transact(to, b"a request", &mut reply, LIMIT)?;
        is_same &= reply[..len] == b"a request"[..];
        Ok(is_same)
    });
    let is_same = done.recv_timeout(LIMIT).expect("it ends");
    assert!(is_same.expect("all calls do"), "from {own:?} to {to:?}");
    let peer = served.recv_timeout(LIMIT).expect("it ends");
    assert_eq!(peer.expect("all calls do"), own);
}

#[test]
fn endpoints_on_ip_and_ethernet_carry_circuits_and_transactions() {
    let link = LinkPlan::Emulated(Default::default(), FrameMode::Auto);
    let Some(testbed) = hosts(&["near", "far"], link) else {
        return;
    };
    let [near, far] = ["near", "far"].map(|name| testbed.host(name).expect("it is up"));
    let ip = |host: &Host| EndpointAddress::Ip {
        address: host.address(),
        port: PORT,
    };
    carries((near, ip(near)), (far, ip(far)));
    let ether = || EndpointAddress::Ether {
        interface: interface_name(0),
        port: PORT,
    };
    carries((near, ether()), (far, ether()));
}

#[test]
fn endpoints_of_one_address_take_openings_for_their_port_alone() {
    let Some(testbed) = hosts(
        &["alone", "other"],
        LinkPlan::Emulated(Default::default(), FrameMode::Auto),
    ) else {
        return;
    };
    let host = testbed.host("alone").expect("it is up");
    let at = |address: &str, port| EndpointAddress::Ip {
        address: address.parse().expect("an address"),
        port,
    };
    let servers = [PORT, OTHER_PORT].map(|port| bound(host, &at("127.0.0.3", port)));
    for server in &servers {
        server.listen(true);
    }
    let client = bound(host, &at("127.0.0.2", OTHER_PORT));
    let to: IpAddr = "127.0.0.3".parse().expect("an address");
    client.connect(to, LIMIT).expect("the second one answers");
    assert_eq!(
        servers[1].accept(LIMIT).expect("it came").peer_address(),
        client.address()
    );
    let other = servers[0].try_accept().err().map(|error| error.kind());
    assert_eq!(other, Some(io::ErrorKind::WouldBlock));
}

#[test]
fn options_of_udp_are_refused_elsewhere() {
    let at = EndpointAddress::Ether {
        interface: "lo".into(),
        port: EndpointAddress::free_port(),
    };
    let refused = |change: fn(&mut EndpointConfig)| {
        let mut config = at.default_config();
        change(&mut config);
        let error = Endpoint::bind_at(&at, &config, Framing::Stream).err();
        let error = error.expect("it is refused");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        error.to_string()
    };
    assert!(refused(|config| config.shortcut = Shortcut::On).starts_with("shortcut is for"));
    assert!(refused(|config| config.spin = LIMIT).starts_with("spin is for"));
}

#[test]
fn peers_on_another_medium_are_refused() {
    let at: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let on_udp = Endpoint::bind(at, &EndpointConfig::default()).expect("a free port");
    let others = [Address::Ether([2; 6]), Address::from(at.ip())];
    for other in others {
        let error = on_udp.begin_connect(other).err().expect("it is refused");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("has no peer at"), "{error}");
    }
}

#[test]
fn interface_that_is_none_is_named() {
    let at = EndpointAddress::Ether {
        interface: "nosuch0".into(),
        port: PORT,
    };
    let error = Endpoint::bind_at(&at, &at.default_config(), Framing::Stream).err();
    let error = error.expect("there is none");
    assert!(error.to_string().contains("nosuch0"), "{error}");
}
