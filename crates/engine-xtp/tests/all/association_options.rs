//! Options of an association: rates, priorities, tags, queue limits, services.

use crate::drawn::seeds;
use crate::engine_pair::EnginePair;
use crate::pair::{MS, Outcome, both, clean, joined, messages, packet_log, run};
use crate::user::Plan;
use core::time::Duration;
use engine::SplitMix64;
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Batch, CloseReason, Framing, Instant,
    Protocol,
};
use engine_xtp::config::STUDY_QUEUE_LEN;
use engine_xtp::pdu::{Format, Header, Options, Service};
use engine_xtp::{Config, RateLimit, Xtp};
use link::LinkConfig;

fn plan(sends: Vec<Vec<u8>>) -> Plan {
    Plan {
        sends,
        answers: false,
        ..Plan::default()
    }
}

fn limit(rate_bytes_per_s: u32) -> RateLimit {
    RateLimit {
        rate_bytes_per_s,
        burst_bytes: 3000,
    }
}

#[test]
fn own_rate_and_imposed_rate_differ() {
    let mut configs = both(&Config::default(), 9);
    configs[0].rate = Some(limit(400_000));
    configs[0].output_rate = Some(limit(100_000));
    configs[1].input_rate = Some(limit(250_000));
    let (mut ends, ids) = EnginePair::of_unlike(configs, 1);
    ends.settle();
    let pair = [ids[0], ends.pairs[&ids[0]]];
    assert_eq!(
        ends.engines[0].rate(pair[0]),
        Some(limit(100_000)),
        "its own"
    );
    assert_eq!(
        ends.engines[1].rate(pair[1]),
        Some(limit(400_000)),
        "imposed by the other end"
    );
    ends.engines[0].set_rate(ends.now, pair[0], None);
    assert_eq!(
        ends.engines[0].rate(pair[0]),
        Some(limit(250_000)),
        "imposed by the other end"
    );
}

#[test]
fn rate_imposed_changed_and_lifted_by_either_end() {
    for imposer in [0, 1] {
        let config = Config {
            window: 64 << 20,
            ..Config::default()
        };
        let (mut ends, ids) = EnginePair::new(&config, 1);
        let pair = [ids[0], ends.pairs[&ids[0]]];
        let (sender, from) = (1 - imposer, pair[1 - imposer]);
        let second = Duration::from_secs(1);
        let mut written = 0;
        for rate in [100_000, 400_000, 50_000] {
            let now = ends.now;
            ends.engines[imposer].impose_rate(now, pair[imposer], Some(limit(rate)));
            ends.settle();
            assert_eq!(ends.engines[sender].rate(from), Some(limit(rate)));
            let before = ends.engines[sender].counters().bytes_sent;
            written += 1_000_000;
            ends.engines[sender].push(ends.now, from, written);
            ends.pass(second);
            let sent = ends.engines[sender].counters().bytes_sent - before;
            let most = u64::from(rate) + 4500;
            assert!(
                (u64::from(rate) * 8 / 10..=most).contains(&sent),
                "{sent} at {rate}"
            );
        }
        let now = ends.now;
        ends.engines[sender].set_rate(now, from, Some(limit(20_000)));
        assert_eq!(ends.engines[sender].rate(from), Some(limit(20_000)));
        ends.engines[sender].set_rate(now, from, None);
        ends.engines[imposer].impose_rate(now, pair[imposer], None);
        ends.settle();
        assert_eq!(ends.engines[sender].rate(from), None);
        let sent = ends.engines[sender].counters().bytes_sent;
        assert_eq!(sent, written, "no limit is left");
    }
}

#[test]
fn lost_rate_resent() {
    for imposer in [0, 1] {
        let (mut ends, ids) = EnginePair::new(&Config::default(), 1);
        let pair = [ids[0], ends.pairs[&ids[0]]];
        ends.pass(Duration::from_millis(100));
        let now = ends.now;
        ends.engines[imposer].impose_rate(now, pair[imposer], Some(limit(9000)));
        assert_eq!(ends.take(imposer, 10).len(), 1, "a TCNTL, which is lost");
        ends.pass(Duration::from_secs(2));
        assert_eq!(
            ends.engines[1 - imposer].rate(pair[1 - imposer]),
            Some(limit(9000))
        );
        let built = ends.engines[imposer].counters().packets_built;
        ends.pass(Duration::from_secs(2));
        assert_eq!(
            ends.engines[imposer].counters().packets_built,
            built,
            "no further control packets"
        );
    }
}

#[test]
fn lowest_sort_sent_first_unsorted_last() {
    let config = Config {
        window: 1 << 30,
        initial_window: 1 << 30,
        ..Config::default()
    };
    let (mut ends, ids) = EnginePair::new(&config, 4);
    for (id, sort) in ids.iter().zip([None, Some(9), Some(2), None]) {
        ends.engines[0].set_sort(*id, sort);
        ends.engines[0].push(ends.now, *id, 30_000);
    }
    let mut order: Vec<u16> = Vec::new();
    for packet in ends.take(0, 40) {
        let header = Header::parse(&packet).expect("a good packet");
        assert_eq!(header.options.has(Options::SORT), header.sort != 0);
        order.push(if header.sort == 0 {
            u16::MAX
        } else {
            header.sort
        });
    }
    assert!(order.is_sorted(), "{order:?}");
    // A more urgent association becomes active and is served next.
    ends.engines[0].set_sort(ids[3], Some(1));
    ends.engines[0].push(ends.now, ids[3], 60_000);
    ends.engines[0].push(ends.now, ids[2], 60_000);
    let next = ends.take(0, 1).remove(0);
    let sort = Header::parse(&next).expect("a good packet").sort;
    assert!(sort == 1 || sort == 2, "{sort}");
}

#[test]
fn users_and_control_served_by_priority() {
    let (mut ends, ids) = EnginePair::new(&Config::default(), 3);
    for (id, sort) in ids.iter().zip([None, Some(9), Some(2)]) {
        ends.engines[1].set_sort(ends.pairs[id], sort);
    }
    let mut associations: Vec<AssociationId> = ids.iter().map(|id| ends.pairs[id]).collect();
    ends.engines[1].sort_by_priority(&mut associations);
    let peer = |at: usize| ends.pairs[&ids[at]];
    assert_eq!(associations, [peer(2), peer(1), peer(0)]);
    for id in &ids {
        ends.engines[0].push(ends.now, *id, 200_000);
    }
    for packet in ends.take(0, 1000) {
        ends.arrive(1, &packet);
    }
    let answers = ends.take(1, 1000);
    let sorts = answers
        .iter()
        .map(|packet| Header::parse(packet).expect("good").sort);
    let sorts: Vec<u16> = sorts
        .map(|sort| if sort == 0 { u16::MAX } else { sort })
        .collect();
    assert!(sorts.is_sorted() && sorts.len() >= 3, "{sorts:?}");
}

#[test]
fn control_packets_carry_peer_priority() {
    let configs = [Some(5), None].map(|sort| Config {
        sort,
        ..Config::default()
    });
    let sent = messages(&mut SplitMix64::new(1), 100);
    let outcome = run(configs, [plan(sent.clone()), plan(sent)], clean(), 1);
    for line in &outcome.trace {
        let header = Header::parse(&line.packet).expect("a good packet");
        assert!(header.options.has(Options::SORT) && header.sort == 5);
    }
}

/// Messages with and without tags arrive as they were sent, over faulty links.
#[test]
fn begin_tags_delivered_with_messages() {
    for seed in seeds(100) {
        let mut random = SplitMix64::new(seed);
        let sends: Vec<Vec<u8>> = messages(&mut random, 60);
        let tags: Vec<bool> = sends
            .iter()
            .map(|bytes| bytes.len() > 8 && random.below(2) == 0)
            .collect();
        let link = LinkConfig {
            loss_ppm: random.below(80_000) as u32,
            reorder_ppm: 50_000,
            reorder_ps: 3 * MS,
            duplicate_ppm: 20_000,
            ..clean()
        };
        let config = Config {
            framing: Framing::Messages,
            window: 4096 << random.below(6),
            explicit: random.below(2) == 0,
            ..Config::default()
        };
        let tagged = Plan {
            tags: tags.clone(),
            ..plan(sends.clone())
        };
        let outcome = run(both(&config, seed), [tagged, plan(Vec::new())], link, seed);
        assert_eq!(outcome.received[1], sends, "seed {seed}");
        assert_eq!(
            outcome.tagged[1],
            tags,
            "seed {seed}: {}",
            packet_log(&outcome.trace)
        );
        assert_eq!(
            outcome.closed,
            [Some(CloseReason::Graceful); 2],
            "seed {seed}"
        );
        for line in &outcome.trace {
            let header = Header::parse(&line.packet).expect("a good packet");
            let tag = header.options.has(Options::BTAG);
            assert!(!tag || header.dlen >= 8, "seed {seed}: half a tag");
        }
    }
}

#[test]
fn oqmax_and_iqmax_bound_buffered_bytes() {
    let config = Config {
        window: STUDY_QUEUE_LEN,
        initial_window: STUDY_QUEUE_LEN,
        oqmax: Some(STUDY_QUEUE_LEN / 2),
        ..Config::default()
    };
    let (mut ends, ids) = EnginePair::new(&config, 1);
    ends.engines[0].push(ends.now, ids[0], 100_000);
    ends.take(0, 1000);
    let kept = ends.engines[0].bytes_in_flight(ids[0]);
    assert!((4000..=STUDY_QUEUE_LEN / 2).contains(&kept), "{kept}");
    let config = Config {
        iqmax: Some(STUDY_QUEUE_LEN),
        ..Config::default()
    };
    let (mut ends, ids) = EnginePair::new(&config, 1);
    ends.engines[0].push(ends.now, ids[0], 1_000_000);
    ends.settle();
    assert_eq!(ends.engines[1].counters().bytes_delivered, STUDY_QUEUE_LEN);
}

#[test]
fn configured_rtt_sets_first_wtimer() {
    let config = Config {
        initial_rtt: Some(Duration::from_millis(40)),
        ..Config::default()
    };
    let mut engine = Xtp::new(config);
    let start = Instant::from_nanos(5);
    engine.connect(start, &[Address::Station(1)]).expect("room");
    engine.poll_transmit(start, &mut Batch::new(1));
    assert_eq!(
        engine.poll_timeout(),
        Some(start + Duration::from_millis(120))
    );
}

fn isochronous() -> Config {
    Config {
        service: Service::Isochronous,
        framing: Framing::Messages,
        rate: Some(limit(1_000_000)),
        ..Config::default()
    }
}

#[test]
fn isochronous_stream_not_delayed_by_loss() {
    for seed in seeds(40) {
        let sent: Vec<Vec<u8>> = (0..300).map(|at| vec![at as u8; 1000]).collect();
        let link = LinkConfig {
            loss_ppm: 30_000,
            ..clean()
        };
        let plans = [
            plan(sent.clone()),
            Plan {
                pause: Duration::from_millis(50),
                ..plan(Vec::new())
            },
        ];
        let outcome = run(both(&isochronous(), seed), plans, link, seed);
        assert_eq!(outcome.counters[0].retransmissions, 0, "seed {seed}");
        let mut rest = sent.iter();
        let known = outcome.received[1]
            .iter()
            .all(|got| rest.any(|sent| sent == got));
        assert!(known && outcome.received[1].len() > 200, "seed {seed}");
        let data = outcome.trace.iter().filter(|line| line.packet.len() > 500);
        let times: Vec<u64> = data.map(|line| line.at_ps / MS).collect();
        let span_ms = times[times.len() - 1] - times[0];
        // 300 packets of 1032 octets at 1 MB/s take 310 ms, less a burst of 3000 octets.
        assert!(
            (290..=360).contains(&span_ms),
            "seed {seed}: {span_ms} ms at 1 MB/s"
        );
        outcome.assert_ended(&format!("seed {seed}"));
    }
}

#[test]
fn bulk_data_fills_posted_buffers() {
    let config = Config {
        service: Service::Bulk,
        initial_window: 0,
        ..Config::default()
    };
    let (mut ends, ids) = EnginePair::new(&config, 1);
    let peer = ends.pairs[&ids[0]];
    ends.engines[0].push(ends.now, ids[0], 3_000_000);
    ends.settle();
    let first = ends.engines[1].counters().bytes_delivered;
    assert_eq!(
        first, config.window,
        "without posts the endpoint's window applies"
    );
    ends.engines[1].post(ends.now, peer, 5000);
    ends.engines[1].consume(ends.now, peer, first);
    ends.engines[1].post(ends.now, peer, 2_000_000);
    ends.settle();
    let second = ends.engines[1].counters().bytes_delivered;
    assert!(second > first && second <= 2_005_000 + first, "{second}");
}

/// Options that are off cost no packet and no option bit.
#[test]
fn default_stream_uses_no_optional_features() {
    let outcome: Outcome = run(
        both(&Config::default(), 1),
        [plan(vec![vec![1; 100_000]]), plan(Vec::new())],
        clean(),
        1,
    );
    assert_eq!(joined(&outcome.received[1]).len(), 100_000);
    let odd = Options::SORT | Options::BTAG | Options::RES | Options::DREQ;
    for line in &outcome.trace {
        let header = Header::parse(&line.packet).expect("a good packet");
        assert_eq!(header.options.0 & odd.0, 0);
        assert!(header.format != Format::Data || header.dlen > 0);
    }
}
