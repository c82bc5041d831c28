//! A run sends what the same messages one by one are.

use super::*;
use crate::association::Association;
use crate::config::SctpConfig;
use crate::numbers::{Port, Tag, Tsn};
use crate::tx::{Cut, Submission};
use engine::{Instant, Note, SplitMix64};

const NOW: Instant = Instant::from_nanos(0);

/// A sender with messages of these lengths, and what its run may use.
fn sender(lengths: &[u64], unordered: bool, window: u64, rwnd: u64) -> (SendState, Run) {
    let config = SctpConfig {
        unordered,
        ..SctpConfig::default()
    };
    let local = (Tag(1), Tsn(u32::MAX - 3));
    let path = engine::Path::to(engine::Address::Station(1));
    let mut a = Association::new(NOW, &config, &[path], (Port(1), Port(2)), local);
    a.tx.rwnd = rwnd;
    let mut rules = *a.tx.messages.rules();
    rules.unordered = unordered;
    a.tx.messages.set_rules(rules);
    let mut end = 0;
    for len in lengths {
        end += len;
        a.tx.messages.submit(&Submission {
            now: NOW,
            end,
            is_end: true,
            push: false,
            note: &Note::default(),
        });
    }
    let request = AckRequest::new(&a, 0, (window, window), 1452);
    let run = Run {
        left: 1452,
        window,
        request,
        path: 0,
        flight: 0,
        octets: 0,
        bytes: 0,
    };
    (a.tx, run)
}

/// The chunks that leave one by one: flags besides that of a request, number, bytes.
fn one_by_one(tx: &mut SendState, run: &mut Run) -> Vec<Cut> {
    let mut cuts = Vec::new();
    while run.flight < run.window
        && let Some(cut) = tx.messages.cut_whole(run.left.min(tx.rwnd) as usize)
    {
        let octets = (DATA_HEADER_LEN as u64 + cut.range.end - cut.range.start).next_multiple_of(4);
        run.left -= octets;
        run.flight += octets;
        tx.rwnd -= octets;
        cuts.push(cut);
    }
    cuts
}

#[test]
fn run_sends_what_leaves_one_by_one() {
    let mut random = SplitMix64::new(11);
    let mut most = 0;
    for _ in 0..400 {
        let lengths: Vec<u64> = (0..random.below(40))
            .map(|_| 1 + random.below(120))
            .collect();
        let (window, rwnd) = (random.below(2000), random.below(3000));
        let unordered = random.below(3) == 0;
        let (mut tx, mut run) = sender(&lengths, unordered, window, rwnd);
        let (mut other, mut left) = sender(&lengths, unordered, window, rwnd);
        let mut sent = Vec::new();
        tx.send_run(&mut run, |header, range, padding| {
            sent.push((header, range, padding));
        });
        let cuts = one_by_one(&mut other, &mut left);
        assert_eq!(sent.len(), cuts.len());
        most = most.max(cuts.len());
        assert_eq!((run.left, run.flight), (left.left, left.flight));
        assert_eq!((tx.rwnd, run.octets), (other.rwnd, left.flight));
        assert_eq!(tx.messages.position(), other.messages.position());
        for (index, ((header, range, padding), cut)) in sent.iter().zip(&cuts).enumerate() {
            let octets = header.to_be_bytes();
            let len = (cut.range.end - cut.range.start) as usize;
            let data =
                DataHeader::parse(octets[1] & !crate::pdu::data::FLAG_IMMEDIATE, &octets[4..]);
            let data = data.expect("a header");
            let numbers = (data.flags, data.stream, u32::from(data.ssn.0), data.ppid);
            assert_eq!(numbers, (cut.flags, cut.stream, cut.number, cut.ppid));
            assert_eq!(data.tsn, Tsn((u32::MAX - 3).wrapping_add(index as u32)));
            assert_eq!((range, (padding + len) % 4), (&cut.range, 0));
            assert!(*padding < 4, "no more than needed");
        }
        // What is next leaves in the same way.
        let [next, another] = [&mut tx, &mut other].map(|tx| tx.messages.cut(1452, 1436));
        assert_eq!(next, another);
    }
    assert!(most > 10, "runs of many");
}
