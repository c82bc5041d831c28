//! What counts as a disturbance, on differences made up and on this host.

use host::{Difference, Expected, Interface, Snapshot, Ticks, disturbances};
use std::time::Duration;

/// Two processors for a second, one of them busy with our own work.
fn calm() -> Difference {
    let busy = Ticks {
        user: 60,
        system: 40,
        ..Ticks::default()
    };
    let idle = Ticks {
        idle: 100,
        ..Ticks::default()
    };
    Difference {
        span: Duration::from_secs(1),
        cpus: [(0, busy), (1, idle)].into(),
        softirq_thread_s: Some(0.0),
        ..Difference::default()
    }
}

fn ours() -> Expected {
    Expected {
        own_s: 1.0,
        ..Expected::default()
    }
}

fn only(seen: &Difference, word: &str) {
    let found = disturbances(seen, &ours());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(word), "{found:?}");
}

#[test]
fn our_own_work_disturbs_nothing() {
    assert_eq!(disturbances(&calm(), &ours()), Vec::<String>::new());
}

#[test]
fn the_same_work_of_others_does() {
    let others = Expected {
        own_s: 0.2,
        ..Expected::default()
    };
    let found = disturbances(&calm(), &others);
    assert_eq!(found, ["other work kept 0.8 processors busy"]);
}

#[test]
fn the_kernels_softirq_threads_work_for_us() {
    let mut seen = calm();
    seen.softirq_thread_s = Some(0.8);
    assert!(seen.foreign_s(0.2) < 1e-9);
}

#[test]
fn steal_disturbs() {
    let mut seen = calm();
    let idle = seen.cpus.get_mut(&1).expect("a processor");
    (idle.idle, idle.steal) = (90, 10);
    assert!((seen.steal_fraction() - 0.05).abs() < 1e-9);
    only(&seen, "5.0 %");
}

#[test]
fn a_full_input_queue_and_a_faulty_interface_disturb() {
    let mut seen = calm();
    seen.counters.softnet_drops = 3;
    only(&seen, "input queue dropped 3");
    let mut seen = calm();
    let faulty = Interface {
        drops: 7,
        ..Interface::default()
    };
    seen.interfaces.insert("eth0".into(), faulty);
    assert!(disturbances(&seen, &ours()).is_empty());
    seen.interfaces.insert("lo".into(), faulty);
    only(&seen, "lo dropped 7 packets");
}

#[test]
fn drops_of_a_transport_without_flow_control_are_expected() {
    let mut seen = calm();
    seen.counters.udp_receive_buffer_drops = 9;
    only(&seen, "dropped 9 datagrams");
    let expected = Expected {
        drops: true,
        ..ours()
    };
    assert!(disturbances(&seen, &expected).is_empty());
}

#[test]
fn one_probe_among_many_segments_is_normal() {
    let mut seen = calm();
    seen.counters.tcp_segments_sent = 1_000_000;
    seen.counters.tcp_retransmissions = 2;
    assert!(disturbances(&seen, &ours()).is_empty());
    seen.counters.tcp_retransmissions = 1_000;
    only(&seen, "1000 segments again");
}

#[test]
fn the_mean_packet_counts_what_was_sent() {
    let mut seen = calm();
    assert_eq!(seen.packet_bytes_mean("lo"), None);
    let traffic = Interface {
        send_bytes: 3_000,
        send_packets: 2,
        ..Interface::default()
    };
    seen.interfaces.insert("lo".into(), traffic);
    assert_eq!(seen.packet_bytes_mean("lo"), Some(1_500.0));
    assert_eq!(seen.evidence("lo").get("interface_packets"), Some(&2.0));
}

#[test]
fn a_span_of_nothing_divides_by_nothing() {
    let now = Snapshot::take();
    let seen = now.until(&now);
    assert_eq!(seen.steal_fraction(), 0.0);
    assert!(disturbances(&seen, &Expected::default()).is_empty());
    assert!(seen.evidence("lo").values().all(|value| value.is_finite()));
}

#[test]
fn a_packet_over_the_loopback_is_counted() {
    let before = Snapshot::take();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = socket.local_addr().expect("an address");
    socket.send_to(&[7; 1000], to).expect("it is sent");
    let seen = before.until(&Snapshot::take());
    let Some(lo) = seen.interfaces.get("lo") else {
        eprintln!("SKIPPED: /proc/net/dev does not show the loopback here");
        return;
    };
    assert!(lo.send_packets >= 1 && lo.send_bytes >= 1_000, "{lo:?}");
}
