//! XTP between hosts of a testbed: through a router, and to groups.

use super::group::pattern;
use link::{LinkConfig, Path};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver as Answer, channel};
use std::thread;
use std::time::Duration;
use testbed::{
    EtherKind, FrameMode, Host, HostPlan, LinkEnds, LinkPlan, Links, Testbed, TestbedError,
    TestbedPlan,
};
use towpath::xtp::group::{GroupEndpointConfig as GroupSettings, MemberState, Receiver, Sender};
use towpath::xtp::router::{self, Router};
use towpath::xtp::{Endpoint, EndpointConfig, RateLimit};

const LIMIT: Duration = Duration::from_secs(60);
const PORT: u16 = 9000;

/// Hosts on a link, or None, with SKIPPED printed, where no testbed is possible.
pub(super) fn hosts(names: &[&str], link: LinkPlan) -> Option<Testbed> {
    hosts_on(names, link.into())
}

/// The same over several links, in words.
pub(super) fn hosts_over(names: &[&str], links: &str) -> Option<Testbed> {
    hosts_on(names, links.parse().expect("links"))
}

fn hosts_on(names: &[&str], links: Links) -> Option<Testbed> {
    let plan = TestbedPlan {
        hosts: names.iter().map(|name| HostPlan::new(*name)).collect(),
        ends: LinkEnds::default(),
        links,
        mtu: 1500,
        ipv6: false,
        seed: 5,
    };
    match Testbed::up(&plan) {
        Ok(testbed) => Some(testbed),
        Err(error @ (TestbedError::Privilege(_) | TestbedError::Kernel { .. })) => {
            eprintln!("SKIPPED: hosts of a testbed: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn at(host: &Host) -> SocketAddr {
    SocketAddr::new(host.address(), PORT)
}

/// Configuration of an endpoint behind the router at `gateway`.
fn behind(gateway: SocketAddr) -> EndpointConfig {
    let words = [
        ("dialect", "3.6".to_owned()),
        ("gateway", gateway.to_string()),
    ];
    let words = words.map(|(name, value)| (name.to_owned(), value));
    EndpointConfig::parse(&words.into_iter().collect()).expect("all of them are known")
}

/// An endpoint of `host` that accepts circuits through the router at `gateway`.
fn listening(host: &Host, local: SocketAddr, gateway: SocketAddr) -> Endpoint {
    let bound = host.run(move || Endpoint::bind(local, &behind(gateway)));
    let server = bound.expect("the host is there").expect("a port");
    server.listen(true);
    server
}

/// Runs `work` in a new thread of `host`.
pub(super) fn start<R: Send + 'static>(
    host: &Host,
    work: impl FnOnce() -> R + Send + 'static,
) -> Answer<R> {
    let (done, result) = channel();
    let begun = host.run(move || {
        // A thread belongs to the host on which it is started.
        thread::spawn(move || done.send(work()));
    });
    begun.expect("the host is there");
    result
}

#[test]
fn separated_hosts_connect_through_router() {
    let link = LinkPlan::Emulated(Default::default(), FrameMode::Auto);
    // Hosts at even positions are on one side of the link, and cannot reach each other.
    let Some(testbed) = hosts(&["a", "middle", "b"], link) else {
        return;
    };
    let [a, middle, b] = ["a", "middle", "b"].map(|name| testbed.host(name).expect("it is up"));
    let [from, between, to] = [at(a), at(middle), at(b)];
    let settings = router::UdpRouterConfig {
        next_hops: [(from.ip(), from), (to.ip(), to)].into(),
        rate: None,
        managers: Vec::new(),
    };
    let made = middle.run(move || Router::bind(between, &settings));
    let router = made.expect("the host is there").expect("a port");
    let server = listening(b, to, between);
    let serving = start(b, move || -> io::Result<u64> {
        let mut total = 0;
        for _ in 0..2 {
            let mut circuit = server.accept(LIMIT)?;
            let mut buffer = vec![0; 65_536];
            while let Some(len) = circuit.recv(&mut buffer, LIMIT)? {
                total += len as u64;
                circuit.send(&buffer[..len], LIMIT)?;
            }
            circuit.close(LIMIT)?;
        }
        Ok(total)
    });
    let client_result = start(a, move || -> io::Result<bool> {
        let client = Endpoint::bind(from, &behind(between))?;
        let mut same = true;
        for salt in 0..2 {
            let bytes = pattern(300_000 + salt);
            let mut circuit = client.connect(to, LIMIT)?;
            let mut back = Vec::new();
            let mut buffer = vec![0; 65_536];
            for part in bytes.chunks(10_000) {
                circuit.send(part, LIMIT)?;
            }
            circuit.finish()?;
            while let Some(len) = circuit.recv(&mut buffer, LIMIT)? {
                back.extend_from_slice(&buffer[..len]);
            }
            same &= back == bytes;
        }
        Ok(same)
    });
    assert!(
        client_result
            .recv_timeout(LIMIT)
            .expect("it ends")
            .expect("all calls do")
    );
    let total = serving.recv_timeout(LIMIT).expect("it ends");
    assert_eq!(total.expect("all calls do"), 600_001);
    assert!(router.path_count() >= 1);
    // 600 KB each way in packets of at most 1456 bytes.
    let counters = router.counters();
    assert!(counters.packets_built > 800, "{counters:?}");
}

#[test]
fn router_refuses_unknown_hosts_and_limits_rate() {
    let link = LinkPlan::Emulated(Default::default(), FrameMode::Auto);
    let Some(testbed) = hosts(&["a", "middle", "b"], link) else {
        return;
    };
    let [a, middle, b] = ["a", "middle", "b"].map(|name| testbed.host(name).expect("it is up"));
    let [from, between, to] = [at(a), at(middle), at(b)];
    let limit = RateLimit {
        rate_bytes_per_s: 100_000,
        burst_bytes: 3000,
    };
    let settings = router::UdpRouterConfig {
        next_hops: [(to.ip(), to)].into(),
        rate: Some(limit),
        managers: Vec::new(),
    };
    let made = middle.run(move || Router::bind(between, &settings));
    let router = made.expect("the host is there").expect("a port");
    let server = listening(b, to, between);
    let serving = start(b, move || -> io::Result<usize> {
        let mut circuit = server.accept(LIMIT)?;
        circuit.recv_all(&mut [0; 1], LIMIT)
    });
    let client_result = start(a, move || -> io::Result<(io::ErrorKind, Duration)> {
        let client = Endpoint::bind(from, &behind(between))?;
        let nobody = SocketAddr::new(IpAddr::from([10, 99, 99, 99]), PORT);
        let refused = client.connect(nobody, LIMIT).map(drop);
        let kind = refused.expect_err("no listener").kind();
        let begun = std::time::Instant::now();
        let mut circuit = client.connect(to, LIMIT)?;
        circuit.send(&pattern(150_000), LIMIT)?;
        circuit.close(LIMIT)?;
        Ok((kind, begun.elapsed()))
    });
    let (kind, took) = client_result
        .recv_timeout(LIMIT)
        .expect("it ends")
        .expect("all calls do");
    assert_eq!(kind, io::ErrorKind::ConnectionRefused);
    let total = serving.recv_timeout(LIMIT).expect("it ends");
    assert_eq!(total.expect("all calls do"), 150_000);
    // The rate limit sets a lower bound, on any machine.
    assert!(took > Duration::from_millis(1000), "{took:?}");
    drop(router);
}

#[test]
fn group_on_one_segment_receives_all_data() {
    let names = ["sender", "one", "two", "three"];
    receive_all(&names, &names[1..], LinkPlan::Ether(EtherKind::TenMegabit));
}

#[test]
fn group_behind_lossy_link_receives_all_data() {
    let lossy = LinkConfig {
        loss_ppm: 20_000,
        ..LinkConfig::default()
    };
    let path = Path {
        directions: [lossy; 2],
        ..Path::default()
    };
    // Hosts at odd positions are on the other side of the link.
    let names = ["sender", "one", "beside", "two"];
    let link = LinkPlan::Emulated(path, FrameMode::Single);
    receive_all(&names, &["one", "two"], link);
}

/// The first of `names` sends to `receiving`.
fn receive_all(names: &[&str], receiving: &[&str], link: LinkPlan) {
    let Some(testbed) = hosts(names, link) else {
        return;
    };
    let group = SocketAddr::from(([239, 192, 7, 7], 5000));
    let (bytes, count) = (pattern(400_000), receiving.len());
    let receivers = receiving.iter().map(|name| {
        let host = testbed.host(name).expect("it is up");
        let local = host.address();
        start(host, move || -> io::Result<Vec<u8>> {
            let receiver = Receiver::join(group, local, &GroupSettings::default())?;
            let mut stream = receiver.accept(LIMIT)?;
            let (mut all, mut buffer) = (Vec::new(), [0; 65_536]);
            while let Some(len) = stream.recv(&mut buffer, LIMIT)? {
                all.extend_from_slice(&buffer[..len]);
            }
            // The sender may be gone once it has all acknowledgements.
            let _ = stream.close(Duration::from_secs(5));
            Ok(all)
        })
    });
    let receivers: Vec<_> = receivers.collect();
    let host = testbed.host("sender").expect("it is up");
    let (local, sent) = (host.address(), bytes.clone());
    let sending = start(host, move || -> io::Result<Vec<(IpAddr, MemberState)>> {
        let mut sender = Sender::open(group, local, &GroupSettings::for_members(count))?;
        sender.wait_ready(LIMIT)?;
        for part in sent.chunks(20_000) {
            sender.send(part, LIMIT)?;
        }
        let report = sender.close(LIMIT)?;
        let of = |member: &towpath::xtp::group::Member| match member.address {
            engine::Address::Socket(at) => (at.ip(), member.state),
            other => panic!("a member at {other:?}"),
        };
        Ok(report.iter().map(of).collect())
    });
    let report = sending
        .recv_timeout(LIMIT)
        .expect("it ends")
        .expect("all calls do");
    let mut expected: Vec<_> = receiving
        .iter()
        .map(|name| {
            (
                testbed.host(name).expect("it is up").address(),
                MemberState::Done,
            )
        })
        .collect();
    expected.sort_by_key(|(at, _)| *at);
    let mut report = report;
    report.sort_by_key(|(at, _)| *at);
    assert_eq!(report, expected);
    for receiver in receivers {
        let got = receiver.recv_timeout(LIMIT).expect("it ends");
        assert!(got.expect("all calls do") == bytes);
    }
}
