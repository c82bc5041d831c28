//! Hosts, their links and their end.

use crate::common::{parse, socket, up};
use std::process::{Command, Stdio};
use testbed::{HostPlan, Testbed, TestbedPlan};

fn echo(testbed: &Testbed) {
    let [a, b, ..] = testbed.hosts() else {
        panic!("two hosts");
    };
    let (left, right) = (socket(a), socket(b));
    let there = right.local_addr().expect("an address");
    let mut buffer = [0; 2048];
    for round in 0..20u8 {
        let message = [round; 1000];
        left.send_to(&message, there).expect("it is sent");
        let (len, from) = right.recv_from(&mut buffer).expect("it arrives");
        assert_eq!(&buffer[..len], &message);
        assert_eq!(from.ip(), a.address());
        right.send_to(&buffer[..len], from).expect("it is sent");
        let (len, _) = left.recv_from(&mut buffer).expect("it comes back");
        assert_eq!(&buffer[..len], &message);
    }
}

#[test]
fn every_link_kind_carries_packets() {
    for link in [
        "",
        "true",
        "super",
        "sockets",
        "sockets,delay=1ms,rate=100mbit",
        "delay=1ms,rate=100mbit",
        "kernel",
        "kernel,rate=100mbit",
    ] {
        let Some(testbed) = up(link) else {
            return;
        };
        echo(&testbed);
    }
}

#[test]
fn testbeds_are_isolated() {
    let (Some(first), Some(second)) = (up(""), up("")) else {
        return;
    };
    // Both have the same addresses; packets are counted in one only.
    first.begin(1);
    second.begin(1);
    echo(&first);
    assert_eq!(first.end()[0][0].link.offered, 20);
    assert_eq!(second.end()[0][0].link.offered, 0);
    echo(&second);
}

#[test]
fn link_shared_by_more_than_two_hosts() {
    let mut plan = TestbedPlan::pair(parse("rate=100mbit"), 1);
    for name in ["c", "d"] {
        plan.hosts.push(HostPlan::new(name));
    }
    let Some(testbed) = Testbed::up_or_skip(&plan) else {
        return;
    };
    testbed.begin(1);
    for pair in testbed.hosts().chunks(2) {
        let (left, right) = (socket(&pair[0]), socket(&pair[1]));
        let there = right.local_addr().expect("an address");
        left.send_to(b"hello", there).expect("it is sent");
        let mut buffer = [0; 16];
        let (_, from) = right.recv_from(&mut buffer).expect("it arrives");
        assert_eq!(from.ip(), pair[0].address());
    }
    let reports = testbed.end().remove(0);
    assert_eq!(reports[0].link.offered, 2);
    assert_eq!(reports[1].link.offered, 0);
}

#[test]
fn spawned_process_runs_in_host() {
    let Some(testbed) = up("") else {
        return;
    };
    let mut command = Command::new("cat");
    command.arg("/proc/net/dev").stdout(Stdio::piped());
    let host = testbed.host("b").expect("a host");
    let child = host.spawn(command).expect("it starts");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("eth0:"), "{text}");
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn invalid_plan_error_names_fault() {
    let fault = |plan: &TestbedPlan| Testbed::up(plan).expect_err("a fault").to_string();
    let mut plan = TestbedPlan::pair(parse("kernel,delay=5ms"), 1);
    assert!(fault(&plan).contains("leave out 'kernel'"));
    plan.links = parse("super,loss=1%").into();
    assert!(fault(&plan).contains("leave out 'super'"));
    plan.links = parse("").into();
    plan.mtu = 100;
    assert!(fault(&plan).contains("MTU"));
    plan.mtu = 1500;
    plan.hosts[1].name = "a".into();
    assert!(fault(&plan).contains("'a'"));
    plan.hosts.truncate(1);
    assert!(fault(&plan).contains("2 to 64 hosts"));
}
