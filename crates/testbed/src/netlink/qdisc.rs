//! Queueing disciplines: the kernel's token bucket, tc-tbf(8).

use super::Netlink;
use super::message::Request;
use std::io;

const RTM_NEWQDISC: u16 = 36;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// `TC_LINKLAYER_ETHERNET`: the kernel reckons times itself and wants no table.
const LINKLAYER_ETHERNET: u8 = 1;

/// A rate with a queue in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    /// Bits a second.
    pub(crate) rate_bps: u64,
    /// Octets that may go at once.
    pub(crate) burst_bytes: u32,
    /// Octets that may wait.
    pub(crate) queue_bytes: u32,
}

/// Puts a token bucket in front of interface `index`.
pub(crate) fn add_token_bucket(
    netlink: &mut Netlink,
    index: u32,
    bucket: TokenBucket,
) -> io::Result<()> {
    // struct tcmsg: family and padding, index, handle, parent, info.
    let mut fixed = [0; 20];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
    let mut request = Request::replace(RTM_NEWQDISC, &fixed);
    request.text(TCA_KIND, "tbf");
    let options = request.open(TCA_OPTIONS);
    let rate = bucket.rate_bps / 8;
    request.attribute(TCA_TBF_PARMS, &parameters(rate, &bucket));
    request.attribute(TCA_TBF_RATE64, &rate.to_ne_bytes());
    request.number(TCA_TBF_BURST, bucket.burst_bytes);
    request.close(options);
    netlink.ask(request)
}

/// `struct tc_tbf_qopt`: rate, peak rate (none), limit, buffer and mtu (both given elsewhere).
fn parameters(rate: u64, bucket: &TokenBucket) -> [u8; 36] {
    let mut octets = [0; 36];
    octets[1] = LINKLAYER_ETHERNET;
    let short = u32::try_from(rate).unwrap_or(u32::MAX);
    octets[8..12].copy_from_slice(&short.to_ne_bytes());
    octets[24..28].copy_from_slice(&bucket.queue_bytes.to_ne_bytes());
    octets
}
