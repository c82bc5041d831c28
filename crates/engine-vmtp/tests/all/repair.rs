//! Lost packets, one at a time: what each costs.

use crate::network::{Pair, data_packets, pair_of};
use engine::test_kit::ReplyPolicy;
use engine_vmtp::VmtpConfig;
use engine_vmtp::blocks::BlockMask;
use std::time::Duration;

/// Packets of one block each.
fn pair() -> Pair {
    let config = VmtpConfig {
        packet_len: 580,
        packet_lifetime: Duration::ZERO,
        ..VmtpConfig::default()
    };
    pair_of(1, &config)
}

/// Loses the first packet of `from` with this block.
fn lose_block(pair: &mut Pair, from: usize, block: u32) {
    let mut lost = false;
    pair.drops = Some(Box::new(move |sent| {
        sent.from == from
            && sent.header.delivery == BlockMask(1 << block)
            && !std::mem::replace(&mut lost, true)
    }));
}

#[test]
fn each_block_of_a_request_lost_alone_is_retransmitted_alone() {
    for block in 0..32 {
        let mut pair = pair();
        pair.answer = ReplyPolicy::Empty;
        lose_block(&mut pair, 0, block);
        let call = pair.call((0..16_384).map(|at| at as u8).collect());
        pair.finish_call(call);
        assert_eq!(pair.reply_to(call), Some(Vec::new()), "block {block}");
        assert_eq!(data_packets(&pair), 33, "block {block}");
        // What asks for it, and the Response.
        assert_eq!(pair.sent.len(), 35, "block {block}");
    }
}

#[test]
fn each_block_of_a_response_lost_alone_is_retransmitted_alone() {
    for block in 0..32 {
        let mut pair = pair();
        // The server has probed the address then.
        let call = pair.call(vec![1; 100]);
        pair.finish_call(call);
        let before = (pair.sent.len(), data_packets(&pair));
        lose_block(&mut pair, 1, block);
        pair.answer = ReplyPolicy::Octets(16_384);
        let call = pair.call(vec![1; 20]);
        pair.finish_call(call);
        assert_eq!(pair.reply_to(call), Some(vec![7; 16_384]), "block {block}");
        assert_eq!(data_packets(&pair) - before.1, 33, "block {block}");
        // The Request, and what asks for the block.
        assert_eq!(pair.sent.len() - before.0, 35, "block {block}");
    }
}

#[test]
fn group_that_is_lost_whole_comes_again_after_one_packet_without_data() {
    let mut pair = pair();
    pair.answer = ReplyPolicy::Empty;
    let mut left = 32;
    pair.drops = Some(Box::new(move |sent| {
        left -= i32::from(sent.from == 0);
        sent.from == 0 && left >= 0
    }));
    let call = pair.call(vec![1; 16_384]);
    pair.finish_call(call);
    assert_eq!(pair.reply_to(call), Some(Vec::new()));
    // The group twice, the question and its answer, the Response.
    assert_eq!((data_packets(&pair), pair.sent.len()), (64, 67));
}

#[test]
fn lost_response_is_asked_for_and_not_executed_again() {
    for len in [0, 20, 600, 16_384] {
        let mut pair = pair();
        pair.answer = ReplyPolicy::Octets(len);
        let mut lost = false;
        pair.drops = Some(Box::new(move |sent| {
            let is_response = sent.from == 1 && sent.header.control.is_response();
            is_response && !std::mem::replace(&mut lost, true)
        }));
        let call = pair.call(vec![1; 1000]);
        pair.finish_call(call);
        assert_eq!(pair.reply_to(call), Some(vec![7; len]));
        assert_eq!(pair.requests(), 1);
    }
}

#[test]
fn message_of_4_mib_survives_loss_both_ways() {
    let config = VmtpConfig {
        packet_lifetime: Duration::ZERO,
        retries_max: 20,
        ..VmtpConfig::default()
    };
    let mut pair = pair_of(3, &config);
    pair.loss_percent = 2;
    let request: Vec<u8> = (0..4 << 20)
        .map(|at: u32| (at * 7 + (at >> 9)) as u8)
        .collect();
    let mut wanted = request.clone();
    wanted.reverse();
    let call = pair.call(request);
    pair.finish_call(call);
    assert!(pair.reply_to(call) == Some(wanted));
    assert_eq!(pair.requests(), 1);
    let least = 2 * (4 << 20) / 1024;
    let data = data_packets(&pair);
    assert!(data < least + least / 10, "{data} packets for {least}");
}
