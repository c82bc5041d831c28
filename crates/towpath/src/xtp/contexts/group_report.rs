//! The part of a report on an endpoint of groups. Field names are the JSON keys.

use super::report::address;
use engine_xtp::group::introspection::{GroupView, MemberView, ReceiverView, SenderView};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A stream that the endpoint sends to a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSenderReport {
    /// Its identifier within the endpoint.
    pub circuit: u32,
    /// The group's address.
    pub group: String,
    /// opening, active, finishing or ended.
    pub state: String,
    /// counted, buckets or none.
    pub reliability: String,
    /// Its key, hexadecimal.
    pub key: String,
    /// End of the data submitted by the user.
    pub send_end: u64,
    /// Next byte to send for the first time.
    pub send_next: u64,
    /// All bytes below are acknowledged by all members.
    pub send_acknowledged: u64,
    /// The least allocation of all members.
    pub send_allocation: u64,
    /// Lost bytes not retransmitted yet.
    pub send_lost_bytes: u64,
    /// Sending rate limit.
    pub rate_bytes_per_s: Option<u32>,
    /// The last sync value used.
    pub sync: u32,
    /// Status requests that not all members have answered, or buckets in use.
    pub requests: usize,
    /// Smoothed RTT, once measured.
    pub rtt_ns: Option<u64>,
    /// RTT variation.
    pub rtt_variation_ns: u64,
    /// Time since the last control packet of a receiver.
    pub silence_ns: u64,
    /// Running timers and the time left of each.
    pub timers_ns: BTreeMap<String, u64>,
    /// The members of a counted group: departed ones first.
    pub members: Vec<GroupMemberReport>,
}

/// A member of a counted group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMemberReport {
    /// Its address.
    pub address: String,
    /// member, done, left, lost, silent, restarted or excluded.
    pub state: String,
    /// The first byte that it was granted.
    pub start: u64,
    /// It has all bytes from `start` to here.
    pub received: u64,
    /// It accepts bytes below this; none for one that departed.
    pub allocation: Option<u64>,
    /// Status requests in a row that it left without an answer.
    pub unanswered: u32,
    /// Bytes that were sent again for it.
    pub lacked_bytes: u64,
}

/// A stream that the endpoint receives from a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupReceiverReport {
    /// Its identifier within the endpoint.
    pub circuit: u32,
    /// The sender's address.
    pub sender: String,
    /// Whether the sender has shown that it is there.
    pub validated: bool,
    /// joining, active, complete or ended.
    pub state: String,
    /// Whether it is a member of a counted group.
    pub counted: bool,
    /// The receiver's key, hexadecimal.
    pub key: String,
    /// The sender's key, hexadecimal.
    pub sender_key: String,
    /// Requests to join sent.
    pub joins: u32,
    /// All bytes below have arrived.
    pub receive_next: u64,
    /// Bytes the user has not read.
    pub unread_bytes: u64,
    /// Bytes in the reassembly queue.
    pub held_bytes: u64,
    /// The allocation advertised to the sender.
    pub receive_allocation: u64,
    /// The oldest byte that the sender can send again.
    pub sender_acknowledged: u64,
    /// Control packets that damping suppressed.
    pub damped: u64,
    /// Time since the last packet of the sender.
    pub silence_ns: u64,
    /// Running timers and the time left of each.
    pub timers_ns: BTreeMap<String, u64>,
}

pub(super) fn sender_reports(view: &GroupView) -> Vec<GroupSenderReport> {
    view.senders.iter().map(sender_report).collect()
}

pub(super) fn receiver_reports(view: &GroupView) -> Vec<GroupReceiverReport> {
    view.receivers.iter().map(receiver_report).collect()
}

fn sender_report(view: &SenderView) -> GroupSenderReport {
    GroupSenderReport {
        circuit: view.association.0,
        group: address(view.group),
        state: view.state.to_owned(),
        reliability: view.reliability.to_owned(),
        key: format!("{:016x}", view.key),
        send_end: view.end,
        send_next: view.next,
        send_acknowledged: view.acknowledged,
        send_allocation: view.allocation,
        send_lost_bytes: view.lost_bytes,
        rate_bytes_per_s: view.rate.map(|limit| limit.rate_bytes_per_s),
        sync: view.sync,
        requests: view.outstanding_requests,
        rtt_ns: view.rtt.map(|rtt| rtt.as_nanos() as u64),
        rtt_variation_ns: view.rtt_variation.as_nanos() as u64,
        silence_ns: view.since_last_received.as_nanos() as u64,
        timers_ns: timers(&view.timers),
        members: view.members.iter().map(member_report).collect(),
    }
}

fn member_report(view: &MemberView) -> GroupMemberReport {
    GroupMemberReport {
        address: address(view.member.address),
        state: view.member.state.name().to_owned(),
        start: view.member.start,
        received: view.member.received,
        allocation: view.allocation,
        unanswered: view.unanswered,
        lacked_bytes: view.lacked_bytes,
    }
}

fn receiver_report(view: &ReceiverView) -> GroupReceiverReport {
    GroupReceiverReport {
        circuit: view.association.0,
        sender: address(view.sender),
        validated: view.is_validated,
        state: view.state.to_owned(),
        counted: view.is_counted,
        key: format!("{:016x}", view.key),
        sender_key: format!("{:016x}", view.sender_key),
        joins: view.joins_sent,
        receive_next: view.next,
        unread_bytes: view.unread_bytes,
        held_bytes: view.reassembly_bytes,
        receive_allocation: view.advertised_alloc,
        sender_acknowledged: view.sender_acknowledged,
        damped: view.damped,
        silence_ns: view.since_last_received.as_nanos() as u64,
        timers_ns: timers(&view.timers),
    }
}

fn timers(armed: &[(&'static str, Duration)]) -> BTreeMap<String, u64> {
    let armed = armed.iter();
    armed
        .map(|(name, left)| ((*name).to_owned(), left.as_nanos() as u64))
        .collect()
}
