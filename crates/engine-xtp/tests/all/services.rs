//! Transactions, datagrams, supervised opening, keepalive, reservation, rate.

use crate::drawn::seeds;
use crate::pair::{MS, Outcome, both, clean, joined, run};
use crate::user::Plan;
use core::time::Duration;
use engine::test_kit::{give_packet, written, zeros};
use engine::{
    Address, Associations, AssociationsExt, Batch, CloseReason, Event, Framing, Instant, Protocol,
};
use engine_xtp::config::RateLimit;
use engine_xtp::pdu::{DiagValue, Format, Header, Options, Service};
use engine_xtp::{Config, FlowControl, Holdings, Xtp};
use link::LinkConfig;

fn service(service: Service) -> Config {
    Config {
        service,
        framing: Framing::Messages,
        ..Config::default()
    }
}

fn once(bytes: &[u8], answers: bool) -> Plan {
    Plan {
        sends: vec![bytes.to_vec()],
        answers,
        ..Plan::default()
    }
}

fn kinds(outcome: &Outcome) -> Vec<(usize, Format, bool)> {
    let kind = |line: &crate::pair::TraceLine| {
        let header = Header::parse(&line.packet).expect("a good packet");
        (line.from, header.format, header.options.has(Options::END))
    };
    outcome.trace.iter().map(kind).collect()
}

#[test]
fn transaction_takes_three_packets_and_one_rtt() {
    let config = service(Service::Transaction);
    let plans = [
        once(b"what is the time?", false),
        once(b"half past nine", true),
    ];
    let outcome = run(both(&config, 1), plans, clean(), 1);
    assert_eq!(
        kinds(&outcome),
        [
            (0, Format::First, false),
            (1, Format::Data, false),
            (0, Format::Cntl, true)
        ]
    );
    assert_eq!(
        outcome.received,
        [
            vec![b"half past nine".to_vec()],
            vec![b"what is the time?".to_vec()]
        ]
    );
    outcome.assert_ended("");
}

#[test]
fn large_reply_waits_for_address_validation() {
    let config = service(Service::Transaction);
    let reply = vec![3; 20_000];
    let plans = [once(b"the file, please", false), once(&reply, true)];
    let outcome = run(both(&config, 1), plans, clean(), 1);
    assert_eq!(outcome.received[0], [reply]);
    let mut balance = 0;
    for line in &outcome.trace {
        let header = Header::parse(&line.packet).expect("a good packet");
        if line.from == 0 && header.key & engine_xtp::pdu::RTN != 0 {
            break;
        }
        balance += if line.from == 0 {
            line.packet.len() as i64
        } else {
            -(line.packet.len() as i64)
        };
        assert!(balance >= 0, "amplification limit exceeded");
    }
    assert_eq!(outcome.closed, [Some(CloseReason::Graceful); 2]);
}

#[test]
fn acknowledged_datagram_takes_two_packets() {
    let config = service(Service::AckedDatagram);
    let plans = [once(b"note this", false), Plan::default()];
    let outcome = run(both(&config, 1), plans, clean(), 1);
    assert_eq!(
        kinds(&outcome),
        [(0, Format::First, false), (1, Format::Cntl, true)]
    );
    assert_eq!(outcome.received[1], [b"note this".to_vec()]);
    outcome.assert_ended("");
}

#[test]
fn unacknowledged_datagram_takes_one_packet() {
    let config = service(Service::Datagram);
    let plans = [once(b"for what it is worth", false), Plan::default()];
    let outcome = run(both(&config, 1), plans, clean(), 1);
    assert_eq!(kinds(&outcome), [(0, Format::First, true)]);
    assert_eq!(outcome.received[1], [b"for what it is worth".to_vec()]);
    outcome.assert_ended("");
}

#[test]
fn services_survive_faults() {
    for seed in seeds(200) {
        let kind = [
            Service::Transaction,
            Service::AckedDatagram,
            Service::Datagram,
        ][seed as usize % 3];
        let link = LinkConfig {
            loss_ppm: 100_000,
            duplicate_ppm: 100_000,
            reorder_ppm: 100_000,
            reorder_ps: 3 * MS,
            ..clean()
        };
        let request = vec![seed as u8; 1 + 997 * (seed as usize % 7)];
        let reply = vec![seed as u8; 1 + 499 * (seed as usize % 11)];
        let plans = [once(&request, false), once(&reply, true)];
        let outcome = run(both(&service(kind), seed), plans, link, seed);
        assert_eq!(
            outcome.holdings,
            [Holdings::default(); 2],
            "seed {seed}, {kind:?}"
        );
        if kind == Service::Datagram {
            assert!(outcome.received[1].len() <= 1, "seed {seed}");
            continue;
        }
        assert_eq!(outcome.received[1], [request], "seed {seed}, {kind:?}");
        assert!(
            kind == Service::AckedDatagram || outcome.received[0] == [reply],
            "seed {seed}"
        );
        assert_eq!(
            outcome.closed[0],
            Some(CloseReason::Graceful),
            "seed {seed}, {kind:?}"
        );
    }
}

#[test]
fn rate_limit_of_either_side_kept_by_sender() {
    for limited_side in [0, 1] {
        let limit = RateLimit {
            rate_bytes_per_s: 100_000,
            burst_bytes: 5000,
        };
        let mut configs = both(&Config::default(), 1);
        configs[limited_side].rate = Some(limit);
        let plans = [once(&vec![1; 100_000], false), Plan::default()];
        let outcome = run(configs, plans, clean(), 1);
        assert_eq!(joined(&outcome.received[1]).len(), 100_000);
        let sent = outcome.trace.iter().filter(|line| line.from == 0);
        let last = sent.clone().rfind(|line| line.packet.len() > 500);
        let last_ms = last.expect("data were sent").at_ps / MS;
        assert!(
            (950..1400).contains(&last_ms),
            "side {limited_side} limits: {last_ms} ms"
        );
    }
}

#[test]
fn reservation_sends_only_posted_bytes() {
    let config = Config {
        flow: FlowControl::Reservation,
        initial_window: 0,
        ..Config::default()
    };
    let (mut sender, mut receiver) = connected(config);
    let now = Instant::from_nanos(5_000_000);
    sender.0.push(now, sender.1, 10_000);
    exchange(now, &mut sender.0, &mut receiver.0);
    assert_eq!(receiver.0.counters().bytes_delivered, 0);
    receiver.0.post(now, receiver.1, 3000);
    exchange(now, &mut sender.0, &mut receiver.0);
    assert_eq!(receiver.0.counters().bytes_delivered, 3000);
}

#[test]
fn supervised_open_answered_after_user_decision() {
    let [config, supervised] = both(&Config::default(), 1);
    let supervised = Config {
        supervised: true,
        ..supervised
    };
    for admit in [true, false] {
        let mut ends = [config.clone(), supervised.clone()].map(Xtp::new);
        let now = Instant::from_nanos(1);
        ends[1].listen(true);
        let id = ends[0]
            .connect(now, &[Address::Station(1)])
            .expect("room for one");
        let [first, second] = &mut ends;
        exchange(now, first, second);
        assert_eq!(first.poll_event(), None, "answered too early");
        let Some(Event::Accepted(peer, _)) = second.poll_event() else {
            panic!("no opening was reported");
        };
        if admit {
            second.admit(now, peer);
        } else {
            second.refuse(now, peer, DiagValue::NO_PROVIDER);
        }
        exchange(now, first, second);
        let expected = if admit {
            Event::Connected(id)
        } else {
            Event::Closed(id, CloseReason::Refused)
        };
        assert_eq!(first.poll_event(), Some(expected));
    }
}

#[test]
fn keepalive_answered_and_dead_peer_detected() {
    let config = Config {
        keepalive: Duration::from_secs(1),
        ..Config::default()
    };
    let (mut first, mut second) = connected(config);
    let mut now = Instant::from_nanos(2_000_000);
    let end = now + Duration::from_secs(10);
    while now < end {
        now = first
            .0
            .poll_timeout()
            .into_iter()
            .chain(second.0.poll_timeout())
            .min()
            .expect("a keep-alive");
        first.0.handle_timeout(now);
        second.0.handle_timeout(now);
        exchange(now, &mut first.0, &mut second.0);
    }
    assert_eq!((first.0.poll_event(), second.0.poll_event()), (None, None));
    assert!(
        first.0.counters().packets_built < 60,
        "{:?}",
        first.0.counters()
    );
    while let Some(at) = first.0.poll_timeout() {
        first.0.handle_timeout(at);
        let mut batch = Batch::new(1);
        first.0.poll_transmit(at, &mut batch);
        if first.0.holdings() == Holdings::default() {
            break;
        }
    }
    assert_eq!(
        first.0.poll_event(),
        Some(Event::Closed(first.1, CloseReason::TimedOut))
    );
}

#[test]
fn keepalive_of_a_live_endpoint_changes_for_all_its_associations() {
    let config = Config {
        keepalive: Duration::from_secs(60),
        ..Config::default()
    };
    let ((mut first, id), _second) = connected(config);
    let now = Instant::from_nanos(2_000_000);
    let left = |xtp: &Xtp| -> Option<Duration> {
        let view = xtp.association(now, id).expect("it is open");
        let mut timers = view.timers.into_iter();
        timers
            .find(|(name, _)| *name == "CTIMER")
            .map(|(_, left)| left)
    };
    assert!(left(&first) > Some(Duration::from_secs(50)));
    first.set_keepalive(now, Duration::from_secs(3));
    assert_eq!(left(&first), Some(Duration::from_secs(3)));
    first.set_keepalive(now, Duration::ZERO);
    assert_eq!(left(&first), None, "never");
}

/// Two engines with an open association, and its id at each.
fn connected(config: Config) -> ((Xtp, engine::AssociationId), (Xtp, engine::AssociationId)) {
    let [mut first, mut second] = both(&config, 9).map(Xtp::new);
    let now = Instant::from_nanos(1_000_000);
    second.listen(true);
    let id = first
        .connect(now, &[Address::Station(1)])
        .expect("room for one");
    exchange(now, &mut first, &mut second);
    assert_eq!(first.poll_event(), Some(Event::Connected(id)));
    let Some(Event::Accepted(peer, _)) = second.poll_event() else {
        panic!("the association did not open");
    };
    ((first, id), (second, peer))
}

/// Carries packets between two engines until neither sends any. User bytes are zeros.
fn exchange(now: Instant, first: &mut Xtp, second: &mut Xtp) {
    loop {
        let there = carry(now, first, second, 0);
        let back = carry(now, second, first, 1);
        if !there && !back {
            return;
        }
    }
}

fn carry(now: Instant, from: &mut Xtp, to: &mut Xtp, station: u32) -> bool {
    let mut batch = Batch::new(1);
    from.poll_transmit(now, &mut batch);
    for packet in written(&batch, zeros) {
        give_packet(to, now, Address::Station(station), &packet);
    }
    !batch.is_empty()
}
