//! Disturbances in synthetic differences and on this host.

use host::{CpuTicks, Expected, InterfaceCounters, Snapshot, SnapshotDifference, disturbances};
use std::time::Duration;

/// Two processors for a second, one of them busy with the measurement.
fn calm() -> SnapshotDifference {
    let busy = CpuTicks {
        user: 60,
        system: 40,
        ..CpuTicks::default()
    };
    let idle = CpuTicks {
        idle: 100,
        ..CpuTicks::default()
    };
    SnapshotDifference {
        span: Duration::from_secs(1),
        cpus: [(0, busy), (1, idle)].into(),
        softirq_thread_s: Some(0.0),
        ..SnapshotDifference::default()
    }
}

fn ours() -> Expected {
    Expected {
        own_cpu_s: 1.0,
        ..Expected::default()
    }
}

fn only(seen: &SnapshotDifference, word: &str) {
    let found = disturbances(seen, &ours());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(word), "{found:?}");
}

#[test]
fn own_cpu_time_is_not_disturbance() {
    assert_eq!(disturbances(&calm(), &ours()), Vec::<String>::new());
}

#[test]
fn background_cpu_time_is_disturbance() {
    let others = Expected {
        own_cpu_s: 0.2,
        ..Expected::default()
    };
    let found = disturbances(&calm(), &others);
    assert_eq!(found, ["other work kept 0.8 processors busy"]);
}

#[test]
fn ksoftirqd_time_is_not_background() {
    let mut seen = calm();
    seen.softirq_thread_s = Some(0.8);
    assert!(seen.background_s(0.2) < 1e-9);
}

#[test]
fn steal_is_disturbance() {
    let mut seen = calm();
    let idle = seen.cpus.get_mut(&1).expect("a processor");
    (idle.idle, idle.steal) = (90, 10);
    assert!((seen.steal_fraction() - 0.05).abs() < 1e-9);
    only(&seen, "5.0 %");
}

#[test]
fn softnet_and_interface_drops_are_disturbances() {
    let mut seen = calm();
    seen.counters.softnet_drops = 3;
    only(&seen, "input queue dropped 3");
    let mut seen = calm();
    let faulty = InterfaceCounters {
        drops: 7,
        ..InterfaceCounters::default()
    };
    seen.interfaces.insert("eth0".into(), faulty);
    assert!(disturbances(&seen, &ours()).is_empty());
    seen.interfaces.insert("lo".into(), faulty);
    only(&seen, "lo dropped 7 packets");
}

#[test]
fn expected_drops_are_not_disturbance() {
    let mut seen = calm();
    seen.counters.udp_receive_buffer_drops = 9;
    only(&seen, "dropped 9 datagrams");
    let expected = Expected {
        expects_drops: true,
        ..ours()
    };
    assert!(disturbances(&seen, &expected).is_empty());
}

#[test]
fn rare_retransmissions_are_normal() {
    let mut seen = calm();
    seen.counters.tcp_segments_sent = 1_000_000;
    seen.counters.tcp_retransmissions = 2;
    assert!(disturbances(&seen, &ours()).is_empty());
    seen.counters.tcp_retransmissions = 1_000;
    only(&seen, "retransmitted 1000 segments");
}

#[test]
fn packet_bytes_mean_counts_sent_packets() {
    let mut seen = calm();
    assert_eq!(seen.packet_bytes_mean(&["lo"]), None);
    let traffic = InterfaceCounters {
        send_bytes: 3_000,
        send_packets: 2,
        ..InterfaceCounters::default()
    };
    seen.interfaces.insert("lo".into(), traffic);
    assert_eq!(seen.packet_bytes_mean(&["lo"]), Some(1_500.0));
    assert_eq!(seen.evidence(&["lo"]).get("interface_packets"), Some(&2.0));
    assert_eq!(seen.evidence(&["eth0"]).get("interface_packets"), None);
    seen.interfaces.insert("eth0".into(), traffic);
    seen.interfaces.insert("eth1".into(), traffic);
    let both = seen.evidence(&["eth0", "eth1"]);
    assert_eq!(both.get("interface_packets"), Some(&4.0));
    assert_eq!(both.get("packet_bytes_mean"), Some(&1_500.0));
}

#[test]
fn empty_span_gives_finite_values() {
    let now = Snapshot::take();
    let seen = now.until(&now);
    assert_eq!(seen.steal_fraction(), 0.0);
    assert!(disturbances(&seen, &Expected::default()).is_empty());
    assert!(
        seen.evidence(&["lo"])
            .values()
            .all(|value| value.is_finite())
    );
}

#[test]
fn loopback_packet_is_counted() {
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
