//! Queueing disciplines: token bucket, tc-tbf(8), and network emulator, tc-netem(8).

use ::netlink::{Netlink, Request, attribute};
use link::LinkConfig;
use std::io;

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
/// Octets before the attributes of an answer: `struct tcmsg`.
const ANSWER_FIXED: usize = 20;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_NETEM_CORRUPT: u16 = 4;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// `TC_LINKLAYER_ETHERNET`: the kernel computes times itself and needs no rate table.
const LINKLAYER_ETHERNET: u8 = 1;

/// Parameters of a token bucket filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    /// Rate, bit/s.
    pub(crate) rate_bps: u64,
    /// Burst, octets.
    pub(crate) burst_bytes: u32,
    /// Queue limit, octets.
    pub(crate) queue_bytes: u32,
}

/// Adds a token bucket filter to interface `index`.
pub(crate) fn add_token_bucket(
    netlink: &mut Netlink,
    index: u32,
    bucket: TokenBucket,
) -> io::Result<()> {
    let mut request = root_qdisc(index, "tbf");
    let options = request.open(TCA_OPTIONS);
    let rate = bucket.rate_bps / 8;
    request.attribute(TCA_TBF_PARMS, &tbf_parameters(rate, &bucket));
    request.attribute(TCA_TBF_RATE64, &rate.to_ne_bytes());
    request.number(TCA_TBF_BURST, bucket.burst_bytes);
    request.close(options);
    netlink.request(request)
}

/// `struct tc_tbf_qopt`: rate, peak rate (none), limit, buffer and mtu (both given elsewhere).
fn tbf_parameters(rate: u64, bucket: &TokenBucket) -> [u8; 36] {
    let mut octets = [0; 36];
    octets[1] = LINKLAYER_ETHERNET;
    let short = u32::try_from(rate).unwrap_or(u32::MAX);
    octets[8..12].copy_from_slice(&short.to_ne_bytes());
    octets[24..28].copy_from_slice(&bucket.queue_bytes.to_ne_bytes());
    octets
}

/// Adds netem to interface `index`, with the rate, delay, jitter, loss, duplication and corruption
/// of `config`, and a queue of `packets`. Fails with `NotFound` if the kernel has no netem.
pub(crate) fn add_netem(
    netlink: &mut Netlink,
    index: u32,
    config: &LinkConfig,
    packets: u32,
) -> io::Result<()> {
    let mut request = root_qdisc(index, "netem");
    let options = request.open(TCA_OPTIONS);
    request.raw(&netem_parameters(config, packets));
    if let Some(rate_bps) = config.rate_bps {
        let rate = rate_bps / 8;
        let mut octets = [0; 16];
        let short = u32::try_from(rate).unwrap_or(u32::MAX);
        octets[..4].copy_from_slice(&short.to_ne_bytes());
        request.attribute(TCA_NETEM_RATE, &octets);
        request.attribute(TCA_NETEM_RATE64, &rate.to_ne_bytes());
    }
    for (kind, ps) in [
        (TCA_NETEM_LATENCY64, config.delay_ps),
        (TCA_NETEM_JITTER64, config.jitter_ps),
    ] {
        request.attribute(kind, &(ps / 1000).to_ne_bytes());
    }
    let mut corrupt = [0; 8];
    corrupt[..4].copy_from_slice(&netem_probability(config.corrupt_ppm).to_ne_bytes());
    request.attribute(TCA_NETEM_CORRUPT, &corrupt);
    request.close(options);
    netlink.request(request)
}

/// Octets that wait in the root qdisc of interface `index`.
/// Errors: a system error; `InvalidData` if the answer has no such number.
pub(crate) fn backlog_octets(netlink: &mut Netlink, index: u32) -> io::Result<u64> {
    let request = Request::get_echoed(RTM_GETQDISC, &root_of(index));
    let answer = netlink.request_reply(request)?;
    backlog_in(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The backlog in an answer: the second number of `struct gnet_stats_queue`.
fn backlog_in(answer: &[u8]) -> Option<u64> {
    let all = attribute(answer.get(ANSWER_FIXED..)?, TCA_STATS2)?;
    let queue = attribute(all, TCA_STATS_QUEUE)?;
    let backlog = queue.get(4..8)?.try_into().ok()?;
    Some(u32::from_ne_bytes(backlog).into())
}

/// The root qdisc of interface `index`: `struct tcmsg` with family and padding, index, handle,
/// parent, info.
fn root_qdisc(index: u32, kind: &str) -> Request {
    let mut request = Request::replace(RTM_NEWQDISC, &root_of(index));
    request.text(TCA_KIND, kind);
    request
}

fn root_of(index: u32) -> [u8; 20] {
    let mut fixed = [0; 20];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
    fixed
}

/// `struct tc_netem_qopt`: latency (given elsewhere), limit, loss, gap (none), duplicate, jitter
/// (given elsewhere).
fn netem_parameters(config: &LinkConfig, packets: u32) -> [u8; 24] {
    let mut octets = [0; 24];
    octets[4..8].copy_from_slice(&packets.to_ne_bytes());
    octets[8..12].copy_from_slice(&netem_probability(config.loss_ppm).to_ne_bytes());
    octets[16..20].copy_from_slice(&netem_probability(config.duplicate_ppm).to_ne_bytes());
    octets
}

/// Converts ppm to netem's scale, 0 to 2^32 - 1.
fn netem_probability(ppm: u32) -> u32 {
    (u64::from(ppm) * u64::from(u32::MAX) / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backlog_is_read_and_a_cut_answer_has_none() {
        let mut request = Request::change(RTM_NEWQDISC, &root_of(3));
        request.text(TCA_KIND, "tbf");
        let all = request.open(TCA_STATS2);
        request.attribute(1, &[9; 16]);
        let queue = [4u32, 6056, 1, 2, 3].map(u32::to_ne_bytes).concat();
        request.attribute(TCA_STATS_QUEUE, &queue);
        request.close(all);
        let message = request.finish(1);
        let answer = &message[16..];
        assert_eq!(backlog_in(answer), Some(6056));
        for len in 0..answer.len() {
            assert_eq!(backlog_in(&answer[..len]), None, "{len}");
        }
    }

    #[test]
    fn netem_probability_scales_to_u32() {
        assert_eq!(netem_probability(0), 0);
        assert_eq!(netem_probability(500_000), u32::MAX / 2);
        assert_eq!(netem_probability(1_000_000), u32::MAX);
        let config = LinkConfig {
            loss_ppm: 10_000,
            duplicate_ppm: 1_000_000,
            ..LinkConfig::default()
        };
        let octets = netem_parameters(&config, 7);
        assert_eq!(octets[4..8], 7u32.to_ne_bytes());
        assert_eq!(octets[8..12], 42_949_672u32.to_ne_bytes());
        assert_eq!(octets[16..20], u32::MAX.to_ne_bytes());
    }
}
