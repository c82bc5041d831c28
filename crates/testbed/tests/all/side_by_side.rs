//! Links side by side, and hosts at their ends.

use crate::common::{TEST_TIMEOUT, parse, socket, up};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use testbed::{HostPlan, LinkEnds, Links, Testbed, TestbedPlan, calibrate};

fn side_by_side(links: &str, ipv6: bool) -> Option<Testbed> {
    let links: Links = links.parse().expect("links");
    Testbed::up_or_skip(&TestbedPlan {
        ipv6,
        ..TestbedPlan::pair_over(links, 1)
    })
}

/// Sends `count` datagrams from the first host's address to the second's, and receives them.
fn exchange(testbed: &Testbed, addresses: [IpAddr; 2], count: usize) {
    let [left, right] = [0, 1].map(|at| {
        let address = addresses[at];
        let bound = testbed.hosts()[at].run(move || UdpSocket::bind((address, 0)));
        bound.expect("the host lives").expect("a socket")
    });
    right.set_read_timeout(Some(TEST_TIMEOUT)).expect("a limit");
    let there = right.local_addr().expect("an address");
    for _ in 0..count {
        left.send_to(&[0; 100], there).expect("it is sent");
        let (_, from) = right.recv_from(&mut [0; 200]).expect("it arrives");
        assert_eq!(from.ip(), addresses[0]);
    }
}

#[test]
fn each_link_carries_packets_of_its_own_addresses_only() {
    for links in ["rate=100mbit+delay=1ms", "sockets+ether10", "true+kernel"] {
        let Some(testbed) = side_by_side(links, true) else {
            return;
        };
        assert_eq!(testbed.interfaces(), ["eth0", "eth1"]);
        for link in 0..2 {
            let [a, b] = [0, 1].map(|at| &testbed.hosts()[at]);
            testbed.begin(1);
            exchange(&testbed, [a.address_on(link), b.address_on(link)], 5);
            exchange(&testbed, [a.address6_on(link), b.address6_on(link)], 3);
            let reports = testbed.end();
            assert_eq!(reports.len(), 2);
            for (number, report) in reports.iter().enumerate() {
                let offered: u64 = report.iter().map(|way| way.link.offered).sum();
                // A kernel link has no counters.
                let counted = if report.is_empty() { 0 } else { 8 };
                let wanted = if number == link { counted } else { 0 };
                assert_eq!(offered, wanted, "{links}: link {number} of {link}");
            }
        }
    }
}

#[test]
fn faults_rates_and_calibration_are_each_links_own() {
    let Some(testbed) = side_by_side("rate=20mbit,delay=1ms+rate=5mbit/10mbit,loss=3%/0%", false)
    else {
        return;
    };
    let [first, second] = [0, 1].map(|link| calibrate(&testbed, link, 5).expect("it is measured"));
    assert!((first.round_trip.configured_us - 2040.0).abs() < 0.1);
    assert!((second.round_trip.configured_us - 120.0).abs() < 0.1);
    let configured = |found: &testbed::Calibration| found.rates.map(|rate| rate.configured_bps);
    assert_eq!(configured(&first), [Some(2e7), Some(2e7)]);
    assert_eq!(configured(&second), [Some(5e6), Some(1e7)]);
    // The second link is never as fast as the first, however busy the machine is.
    assert!(second.rates[0].measured_bps < 6e6, "{second:?}");
    assert_eq!(first.losses, [None, None]);
    let lost = second.losses[0].expect("this direction loses");
    assert!(lost.counted > 0 && lost.counted == lost.missing, "{lost:?}");
}

#[test]
fn groups_are_reached_from_the_first_link_without_an_interface_named() {
    let Some(testbed) = side_by_side("delay=0+delay=0", false) else {
        return;
    };
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let receiver = testbed.hosts()[1].run(move || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)?;
        socket.set_read_timeout(Some(TEST_TIMEOUT))?;
        Ok::<_, std::io::Error>(socket)
    });
    let receiver = receiver.expect("the host lives").expect("it joins");
    let port = receiver.local_addr().expect("an address").port();
    let sender = socket(&testbed.hosts()[0]);
    sender.send_to(b"all", (group, port)).expect("a route");
    let (len, from) = receiver.recv_from(&mut [0; 8]).expect("it arrives");
    assert_eq!((len, from.ip()), (3, testbed.hosts()[0].address()));
}

#[test]
fn star_joins_the_first_host_to_all_others() {
    let hosts = ["a", "b", "c", "d"].map(HostPlan::new).to_vec();
    let plan = TestbedPlan {
        hosts,
        ends: LinkEnds::Star,
        ..TestbedPlan::pair(parse("rate=100mbit"), 1)
    };
    let Some(testbed) = Testbed::up_or_skip(&plan) else {
        return;
    };
    testbed.begin(1);
    let left = socket(&testbed.hosts()[0]);
    for host in &testbed.hosts()[1..] {
        let right = socket(host);
        let there: SocketAddr = right.local_addr().expect("an address");
        left.send_to(b"hello", there).expect("it is sent");
        let (_, from) = right.recv_from(&mut [0; 16]).expect("it arrives");
        right.send_to(b"hello", from).expect("it is sent");
        left.recv(&mut [0; 16]).expect("it comes back");
    }
    let offered: Vec<u64> = testbed.end()[0]
        .iter()
        .map(|way| way.link.offered)
        .collect();
    assert_eq!(offered, [3, 3]);
}

#[test]
fn one_link_has_one_interface() {
    let Some(testbed) = up("") else {
        return;
    };
    assert_eq!(testbed.interfaces(), [testbed::INTERFACE]);
}
