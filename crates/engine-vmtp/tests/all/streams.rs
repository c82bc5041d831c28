//! Streams: runs of calls, served and answered in order.

use crate::cluster::{Cluster, User, entity};
use engine::{CallFlags, CallNote, Note, SplitMix64, TransactionEnd, TransactionId};
use engine_vmtp::VmtpConfig;
use engine_vmtp::pdu::{Control, NotifyClient, ResponseCode};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(200);

fn of_stream(number: u16, is_last: bool) -> Note {
    Note {
        stream: number,
        call: CallNote {
            flags: CallFlags::NONE.with_if(is_last, CallFlags::END_OF_STREAM),
            ..CallNote::default()
        },
        ..Note::default()
    }
}

fn text(number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| b'a' + ((at + number) % 26) as u8)
        .collect()
}

/// Begins calls of these lengths in a run.
fn run_of(cluster: &mut Cluster, stream: u16, lengths: &[usize]) -> Vec<TransactionId> {
    let last = lengths.len() - 1;
    let calls = lengths.iter().enumerate().map(|(number, len)| {
        let note = of_stream(stream, number == last);
        cluster.call_noted(0, entity(1), &text(number, *len), &note)
    });
    calls.collect()
}

/// All were served in order, once, and answered.
fn assert_served(cluster: &Cluster, calls: &[TransactionId], lengths: &[usize]) {
    let requests: Vec<&Vec<u8>> = cluster.hosts[1].requests.iter().map(|one| &one.1).collect();
    assert_eq!(requests.len(), lengths.len());
    for (number, len) in lengths.iter().enumerate() {
        assert!(*requests[number] == text(number, *len), "request {number}");
        let wanted = String::from_utf8_lossy(&text(number, *len)).into_owned();
        assert!(
            cluster.replies_to(0, calls[number]) == [wanted],
            "reply {number}"
        );
    }
    cluster.assert_settled();
}

#[test]
fn run_without_loss_is_served_in_order_and_costs_no_other_packet() {
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    let lengths = [10; 20];
    let calls = run_of(&mut cluster, 1, &lengths);
    cluster.run(Duration::from_millis(150));
    assert_eq!(cluster.sent.len(), 40, "a request and a response each");
    cluster.run(LONG);
    assert_served(&cluster, &calls, &lengths);
    let requests: Vec<Control> = cluster
        .sent
        .iter()
        .filter(|(from, _)| *from == 0)
        .map(|(_, header)| header.control)
        .collect();
    for (number, control) in requests.iter().enumerate() {
        assert_eq!(control.has(Control::NOT_START), number > 0, "{number}");
        assert_eq!(control.has(Control::NOT_END), number < 19, "{number}");
    }
}

#[test]
fn messages_of_any_length_make_a_run() {
    let lengths = [0, 20, 21, 3000, 16_384, 40_000, 5, 17_000, 600];
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    let calls = run_of(&mut cluster, 1, &lengths);
    cluster.run(LONG);
    assert_served(&cluster, &calls, &lengths);
}

#[test]
fn runs_survive_loss() {
    for seed in 0..60 {
        let config = VmtpConfig {
            retries_max: 30,
            ..VmtpConfig::default()
        };
        let mut cluster = Cluster::new(2, &config);
        let mut random = SplitMix64::new(seed);
        let loss = 2 + seed % 18;
        cluster.loses = Some(Box::new(move |_, _, _| random.below(100) < loss));
        let lengths = [10, 700, 0, 20_000, 20, 3000, 1, 1, 50, 1100];
        let calls = run_of(&mut cluster, 7, &lengths);
        for _ in 0..30 {
            cluster.run(LONG);
        }
        assert_served(&cluster, &calls, &lengths);
    }
}

#[test]
fn second_run_follows_the_first_and_streams_do_not_wait_for_each_other() {
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    for _ in 0..3 {
        let calls = run_of(&mut cluster, 1, &[5, 6, 7]);
        let other = run_of(&mut cluster, 2, &[8, 9]);
        cluster.run(LONG);
        for call in calls.iter().chain(&other) {
            assert_eq!(cluster.replies_to(0, *call).len(), 1);
        }
    }
    assert_eq!(cluster.hosts[1].requests.len(), 15);
    cluster.assert_settled();
}

#[test]
fn server_that_is_slow_queues_the_run_and_answers_in_order() {
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    cluster.hosts[1].user = User::Silent;
    let calls = run_of(&mut cluster, 1, &[10, 10, 10]);
    cluster.run(Duration::from_secs(1));
    assert_eq!(cluster.hosts[1].requests.len(), 1, "the others wait");
    for _ in 0..3 {
        // The newest: those that are answered are kept for a client that asks again.
        let known = cluster.hosts[1].engine.transaction_ids();
        let newest = *known.last().expect("a request");
        cluster.reply(1, newest, b"done".to_vec());
        cluster.run(Duration::from_millis(100));
    }
    for call in calls {
        assert_eq!(cluster.replies_to(0, call), ["done"]);
    }
}

/// The server answers the first packet of the run as one without streams does.
fn refuse_streams(cluster: &mut Cluster) {
    let first = cluster.sent[0].1;
    let refusal = NotifyClient {
        is_remote: false,
        client: first.client,
        control: Control::response(0),
        receive_sequence: 0,
        transaction: first.transaction,
        delivery: Default::default(),
        code: ResponseCode::STREAMING_NOT_SUPPORTED,
    };
    cluster.notify(1, 0, &refusal);
}

#[test]
fn client_falls_back_to_one_call_at_a_time_where_runs_are_not_served() {
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    let calls = run_of(&mut cluster, 1, &[5, 6, 7, 8]);
    // The requests are lost; a server without streams says so.
    cluster.loses = Some(Box::new(|from, _, _| from == 0));
    cluster.run(Duration::from_micros(100));
    cluster.loses = None;
    refuse_streams(&mut cluster);
    cluster.run(LONG);
    assert_served(&cluster, &calls, &[5, 6, 7, 8]);
    let runs = cluster.sent.iter().skip(4).filter(|(from, header)| {
        let run = Control::NOT_START | Control::NOT_END;
        *from == 0 && header.control.0 & run != 0
    });
    assert_eq!(runs.count(), 0);
}

#[test]
fn response_that_stands_for_earlier_ones_answers_them_too() {
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    cluster.hosts[1].user = User::Silent;
    let calls = run_of(&mut cluster, 1, &[5, 6, 7, 8]);
    cluster.run(Duration::from_micros(1500));
    let requests: Vec<_> = cluster.sent.iter().filter(|(from, _)| *from == 0).collect();
    let third = requests[2].1;
    let response = engine_vmtp::pdu::VmtpHeader {
        control: Control::response(0).with_gap_or_group_count(2),
        code: 0,
        segment_size: 0,
        ..third
    };
    cluster.inject(1, 0, &response);
    cluster.run(Duration::from_millis(10));
    for call in &calls[..3] {
        assert_eq!(cluster.replies_to(0, *call), [""]);
        assert!(
            cluster.hosts[0]
                .ends
                .contains(&(*call, TransactionEnd::Complete))
        );
    }
    assert!(cluster.replies_to(0, calls[3]).is_empty());
}

#[test]
fn call_of_a_run_that_is_given_up_leaves_the_others() {
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    let calls = run_of(&mut cluster, 1, &[5, 600, 7]);
    let now = cluster.now;
    engine::Transactions::abandon(&mut cluster.hosts[0].engine, now, calls[2]);
    cluster.run(LONG);
    assert_eq!(cluster.replies_to(0, calls[0]).len(), 1);
    assert_eq!(cluster.replies_to(0, calls[1]).len(), 1);
    assert!(cluster.hosts[0].stores.outgoing.is_empty());
}

#[test]
fn young_server_that_probes_the_client_serves_calls_whose_successors_wait() {
    let config = VmtpConfig {
        packet_lifetime: Duration::from_secs(1),
        ..VmtpConfig::default()
    };
    let mut cluster = Cluster::young(2, &config);
    let mut calls = run_of(&mut cluster, 1, &[3000]);
    calls.extend(run_of(&mut cluster, 1, &[3000]));
    cluster.run(LONG);
    for call in calls {
        assert_eq!(cluster.replies_to(0, call).len(), 1);
    }
    assert_eq!(cluster.hosts[1].requests.len(), 2);
}

#[test]
fn run_that_begins_before_the_one_before_it_is_over_executes_nothing_twice() {
    for len in [10, 3000] {
        let mut cluster = Cluster::new(2, &VmtpConfig::default());
        let lengths = [len; 5];
        let mut calls = Vec::new();
        for _ in 0..4 {
            calls.extend(run_of(&mut cluster, 1, &lengths));
        }
        cluster.run(LONG);
        for call in &calls {
            assert_eq!(cluster.replies_to(0, *call).len(), 1, "{len} octets");
        }
        assert_eq!(cluster.hosts[1].requests.len(), 20, "{len} octets");
        cluster.assert_settled();
    }
}

#[test]
fn request_of_a_run_that_never_gets_whole_leaves_those_before_it_to_be_served() {
    let config = VmtpConfig {
        retries_max: 3,
        ..VmtpConfig::default()
    };
    let mut cluster = Cluster::new(2, &config);
    cluster.hosts[1].user = User::Silent;
    // Of the second request no block but the first two ever comes.
    let mut requests = Vec::new();
    cluster.loses = Some(Box::new(move |from, _, header| {
        if from == 0 && header.segment_size > 0 && !requests.contains(&header.transaction) {
            requests.push(header.transaction);
        }
        let is_second = requests.get(1) == Some(&header.transaction);
        from == 0 && is_second && header.delivery.0 & 3 == 0
    }));
    run_of(&mut cluster, 1, &[600, 3000, 600]);
    cluster.run(Duration::from_secs(5));
    // The client, which hears that the first is being served, goes on; a server forgets nothing.
    assert_eq!(cluster.hosts[1].requests.len(), 1);
    cluster.loses = None;
    for _ in 0..3 {
        let known = cluster.hosts[1].engine.transaction_ids();
        let newest = *known.last().expect("a request");
        cluster.reply(1, newest, b"done".to_vec());
        cluster.run(Duration::from_secs(20));
    }
    let served = cluster.hosts[1].requests.iter();
    let lengths: Vec<usize> = served.map(|request| request.1.len()).collect();
    assert_eq!(lengths, [600, 3000, 600], "each once, in order");
}

#[test]
fn server_asks_once_whether_a_reply_of_several_groups_has_come_while_its_stream_goes_on() {
    use std::{cell::Cell, rc::Rc};
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    let questions = Rc::new(Cell::new(0));
    let counted = questions.clone();
    cluster.loses = Some(Box::new(move |from, _, header| {
        let is_question = from == 1 && header.segment_size > 0 && header.delivery.is_empty();
        counted.set(counted.get() + u32::from(is_question && header.control.is_response()));
        false
    }));
    // The second of two groups has fewer blocks than the first; the run stays open.
    let note = of_stream(1, false);
    let call = cluster.call_noted(0, entity(1), &text(1, 20_000), &note);
    cluster.run(LONG);
    assert_eq!(cluster.replies_to(0, call).len(), 1);
    assert_eq!(questions.get(), 1);
}

#[test]
fn message_of_several_groups_to_a_server_without_runs_fails_with_its_code() {
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    cluster.loses = Some(Box::new(|from, _, _| from == 0));
    let call = cluster.call(0, entity(1), &text(1, 20_000));
    cluster.run(Duration::from_micros(100));
    refuse_streams(&mut cluster);
    cluster.run(LONG);
    let code = ResponseCode::STREAMING_NOT_SUPPORTED.0;
    assert_eq!(cluster.hosts[0].ends, [(call, TransactionEnd::Code(code))]);
}
