//! The bytes of a stream between their submission and their acknowledgement, and how they are cut into packets.
//!
//! An association has one for its peer, a stream to a group one for all of its members.

use super::{MessageEnds, RetransmissionQueue, TagPositions};
use crate::pdu::TAG_LEN;
use core::ops::Range;
use engine::Framing;

/// Positions in the send buffer are sequence numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueue {
    /// End of the data that the user submitted.
    pub(crate) submitted: u64,
    /// Bytes below this are sent even in a part-filled packet (PSH).
    pub(crate) pushed: u64,
    /// The next byte to send for the first time (RFC 9293, SND.NXT).
    pub(crate) next_seq: u64,
    /// End of the slot that the last packet was taken from.
    slot_boundary: u64,
    /// Everything below was acknowledged, or given up (RFC 9293, SND.UNA); by all members of a group.
    pub(crate) acknowledged: u64,
    /// Bytes from here on may not be sent: the peer's allocation, or the least one of a group.
    pub(crate) alloc: u64,
    pub(crate) retransmission_queue: RetransmissionQueue,
    pub(crate) message_ends: MessageEnds,
    pub(crate) begin_tags: TagPositions,
    /// Ends of messages with an end tag.
    pub(crate) end_tags: TagPositions,
    /// Bytes sent since the last status request.
    pub(crate) bytes_since_request: u64,
    /// The next DATA packet carries a status request.
    pub(crate) request_with_next_data: bool,
    /// The DATA packet that has the byte before this one carries a status request, for which the user waits; 0 for none.
    pub(crate) request_at: u64,
}

/// Range and flags of one DATA packet.
#[derive(Clone, Debug)]
pub(crate) struct PacketPlan {
    pub(crate) bytes: Range<u64>,
    pub(crate) is_retransmission: bool,
    /// The packet begins with a tag (BTAG).
    pub(crate) begin_tag: bool,
    /// The packet ends with a tag (ETAG).
    pub(crate) end_tag: bool,
    pub(crate) eom: bool,
    /// The packet ends at a slot boundary.
    ends_at_boundary: bool,
}

/// When bytes wait for others, to leave in the same packet (0007, Coalescing).
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaterMarks {
    /// With so many bytes in flight, or fewer, everything is sent.
    pub(crate) low: u64,
    /// So many unsent bytes are sent no matter how many are in flight.
    pub(crate) high: u64,
    /// What exceeds a multiple of this waits for more; None: nothing does.
    pub(crate) multiple: Option<u64>,
}

/// How a queue is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CutRules {
    pub(crate) framing: Framing,
    /// Bytes of a slot of the send buffer, in which header and payload are contiguous.
    pub(crate) slot: u64,
    /// Most bytes of a packet: what the peer accepts and the path carries.
    pub(crate) payload_max: u64,
    /// With so many bytes in flight, or fewer, part-filled packets are sent.
    pub(crate) low_water: u64,
    /// Full packets are sent no matter how many bytes are in flight.
    pub(crate) sends_full: bool,
}

/// Backlog in slots from which a short packet, which mostly costs a system call of its own, pays
/// off because all later packets are aligned to slots (0007, Packets).
const ALIGN_MIN_SLOTS: u64 = 16;

impl SendQueue {
    /// An empty one that may send so many bytes.
    pub(crate) fn with_alloc(alloc: u64) -> SendQueue {
        SendQueue {
            alloc,
            ..SendQueue::default()
        }
    }

    /// Bytes sent and not acknowledged.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.next_seq - self.acknowledged.min(self.next_seq)
    }

    /// Bytes submitted and not sent.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.submitted.saturating_sub(self.next_seq)
    }

    /// Whether all that was submitted has been sent.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.next_seq == self.submitted
    }

    /// Data up to `end` are in the send buffer. The water marks decide whether they are sent now or
    /// coalesced; with `push` they are sent.
    pub(crate) fn submit(&mut self, end: u64, push: bool, marks: &WaterMarks) {
        self.submitted = self.submitted.max(end);
        if push || self.bytes_in_flight() <= marks.low {
            self.pushed = self.submitted;
        } else if self.unsent_bytes() >= marks.high {
            let part = marks.multiple.map_or(0, |of| self.submitted % of);
            self.pushed = self.pushed.max(self.submitted - part);
        }
    }

    /// Whether bytes wait to be coalesced with others.
    pub(crate) fn is_coalescing(&self) -> bool {
        self.next_seq.max(self.pushed) < self.submitted
    }

    /// Everything below `position` is acknowledged.
    pub(crate) fn release(&mut self, position: u64) {
        self.acknowledged = position;
        self.message_ends.release(position);
        self.begin_tags.release(position);
        self.end_tags.release(position);
        self.retransmission_queue.advance(position);
    }

    /// The packet with the first lost bytes.
    #[inline]
    pub(crate) fn next_lost(&mut self, rules: &CutRules) -> Option<PacketPlan> {
        let lost = self.retransmission_queue.first()?;
        Some(self.plan(lost, rules, true))
    }

    /// The next packet of new bytes below `limit`, if it may leave now.
    #[inline]
    pub(crate) fn next_new(&mut self, limit: u64, rules: &CutRules) -> Option<PacketPlan> {
        if limit <= self.next_seq {
            return None;
        }
        let (next, end) = (self.next_seq, self.submitted);
        let in_flight = self.bytes_in_flight();
        let plan = self.plan(next..end, rules, false);
        if plan.bytes.end > limit {
            // The allocation splits a packet only when nothing is in flight (silly window avoidance),
            // and never within a tag.
            let limit = avoid_splitting_tag(&self.end_tags, next, limit);
            let bytes = next..limit;
            let parts =
                in_flight == 0 && limit > next && (!plan.begin_tag || limit - next >= TAG_LEN);
            return parts.then_some(PacketPlan {
                bytes,
                end_tag: false,
                eom: false,
                ..plan
            });
        }
        // A packet is sent when it ends a message, was pushed, is full, or with little in flight
        // (0007, Coalescing).
        let full = plan.ends_at_boundary || plan.bytes.end < end;
        let goes = plan.eom || self.pushed >= plan.bytes.end || full && rules.sends_full;
        (goes || in_flight <= rules.low_water).then_some(plan)
    }

    /// Plans a packet from the start of `bytes`. It ends at the end of a message, at the peer's packet limit, at
    /// the next tag, or with `bytes`; in a byte stream also at a slot boundary, so that header and payload
    /// are contiguous in memory (0007, Packets).
    #[inline]
    fn plan(&mut self, bytes: Range<u64>, rules: &CutRules, is_retransmission: bool) -> PacketPlan {
        let Range { start, end } = bytes;
        let boundary = self.next_slot_boundary(start, end, rules);
        let mut stop = end.min(boundary).min(start + rules.payload_max);
        let mut begin_tag = false;
        if !self.begin_tags.is_empty() {
            let (here, next) = self.begin_tags.at(start);
            begin_tag = here;
            stop = stop.min(next);
        }
        let message_end = self.message_ends.next_after(start);
        let message_end = message_end.filter(|message_end| *message_end <= stop);
        stop = message_end.unwrap_or(stop);
        let mut end_tag = false;
        if !self.end_tags.is_empty() {
            stop = avoid_splitting_tag(&self.end_tags, start, stop).max(start + 1);
            let least = if begin_tag { 2 * TAG_LEN } else { TAG_LEN };
            end_tag = self.end_tags.at(stop).0 && stop - start >= least;
        }
        PacketPlan {
            bytes: start..stop,
            is_retransmission,
            begin_tag,
            end_tag,
            eom: message_end.is_some(),
            ends_at_boundary: stop == boundary,
        }
    }

    /// Latest end of a packet from `start`, with data up to `end`.
    #[inline]
    pub(crate) fn next_slot_boundary(&mut self, start: u64, end: u64, rules: &CutRules) -> u64 {
        let slot = rules.slot;
        if rules.payload_max < slot {
            // Shorter packets than the store was cut for are aligned to nothing.
            return start + rules.payload_max;
        }
        if rules.framing == Framing::Messages {
            return start + slot;
        }
        let known = self.slot_boundary;
        if start >= known || start + slot < known {
            let before = match start < slot {
                true => 0,
                false => start / slot * slot,
            };
            self.slot_boundary = before + slot;
        }
        let aligned = start + slot == self.slot_boundary;
        if !aligned && rules.framing == Framing::Stream && end - start < ALIGN_MIN_SLOTS * slot {
            return start + slot;
        }
        self.slot_boundary
    }

    /// The bytes of a packet were sent.
    pub(crate) fn mark_sent(&mut self, plan: &PacketPlan) {
        match plan.is_retransmission {
            true => self.retransmission_queue.advance(plan.bytes.end),
            false => self.next_seq = plan.bytes.end,
        }
    }

    /// Bytes after which a status request is due: a quarter of the window, at least one packet of `payload`, and no more
    /// than `most`.
    pub(crate) fn request_interval(&self, most: u64, payload: u64) -> u64 {
        let quarter = self.alloc.saturating_sub(self.acknowledged) / 4;
        most.min(quarter.max(payload))
    }

    /// Whether the packet with these bytes is to carry a status request: `every` so many bytes, with the next data, and
    /// where the user waits for its acknowledgement.
    pub(crate) fn is_request_due(&self, bytes: &Range<u64>, every: u64) -> bool {
        self.bytes_since_request >= every
            || self.request_with_next_data
            || bytes.start < self.request_at && self.request_at <= bytes.end
    }

    /// A status request was sent, alone or with data.
    pub(crate) fn note_request(&mut self) {
        self.bytes_since_request = 0;
        self.request_with_next_data = false;
    }
}

/// Moves the end `stop` of a packet from `start` so that no end tag is split.
fn avoid_splitting_tag(end_tags: &TagPositions, start: u64, stop: u64) -> u64 {
    match end_tags.next_after(start) {
        Some(end) if start + TAG_LEN <= end && stop < end && end - stop < TAG_LEN => end - TAG_LEN,
        _ => stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    const SLOT: u64 = 50;

    const MARKS: WaterMarks = WaterMarks {
        low: 0,
        high: SLOT,
        multiple: None,
    };

    fn rules(framing: Framing) -> CutRules {
        CutRules {
            framing,
            slot: SLOT,
            payload_max: SLOT,
            low_water: 0,
            sends_full: true,
        }
    }

    /// What a queue with these messages is cut into while its window opens at random.
    fn cut(random: &mut SplitMix64, framing: Framing, ends: &[u64]) -> Vec<PacketPlan> {
        let mut queue = SendQueue::default();
        for &end in ends {
            if framing == Framing::Messages {
                queue.message_ends.push(end);
            }
            queue.submit(end, true, &MARKS);
        }
        let mut packets = Vec::new();
        while !queue.has_sent_all() {
            queue.alloc = (queue.alloc + random.below(120)).min(queue.submitted);
            while let Some(plan) = queue.next_new(queue.alloc, &rules(framing)) {
                queue.mark_sent(&plan);
                packets.push(plan);
            }
            queue.release(queue.next_seq);
        }
        packets
    }

    #[test]
    fn packets_carry_every_byte_once_and_end_where_messages_do() {
        let mut random = SplitMix64::new(7);
        for framing in [Framing::Stream, Framing::Messages] {
            for _ in 0..200 {
                let mut end = 0;
                let lens: Vec<u64> = (0..20).map(|_| 1 + random.below(3 * SLOT)).collect();
                let ends = lens.iter().map(|len| {
                    end += len;
                    end
                });
                let ends: Vec<u64> = ends.collect();
                let packets = cut(&mut random, framing, &ends);
                let mut at = 0;
                for plan in &packets {
                    assert_eq!(plan.bytes.start, at, "in order, without a gap");
                    assert!(plan.bytes.end > at && plan.bytes.end - at <= SLOT);
                    at = plan.bytes.end;
                    assert_eq!(plan.eom, framing == Framing::Messages && ends.contains(&at));
                    assert!(!plan.is_retransmission);
                }
                assert_eq!(at, end);
            }
        }
    }

    #[test]
    fn allocation_splits_a_packet_only_with_nothing_in_flight() {
        let mut queue = SendQueue::default();
        queue.submit(3 * SLOT, true, &MARKS);
        let rules = rules(Framing::Stream);
        let first = queue.next_new(SLOT + 10, &rules).expect("a full one");
        queue.mark_sent(&first);
        assert_eq!(first.bytes, 0..SLOT);
        assert!(queue.next_new(SLOT + 10, &rules).is_none(), "a part waits");
        queue.release(SLOT);
        let part = queue.next_new(SLOT + 10, &rules).expect("a part");
        assert_eq!((part.bytes, part.eom), (SLOT..SLOT + 10, false));
    }

    #[test]
    fn lost_bytes_are_planned_again_and_tags_are_not_split() {
        let mut queue = SendQueue::default();
        queue.begin_tags.push(0);
        queue.end_tags.push(SLOT + 4);
        queue.message_ends.push(SLOT + 4);
        queue.submit(SLOT + 4, true, &MARKS);
        let rules = rules(Framing::Messages);
        let mut plans = Vec::new();
        while let Some(plan) = queue.next_new(SLOT + 4, &rules) {
            queue.mark_sent(&plan);
            plans.push((plan.bytes, plan.begin_tag, plan.end_tag, plan.eom));
        }
        let border = SLOT + 4 - TAG_LEN;
        let all = [
            (0..border, true, false, false),
            (border..SLOT + 4, false, true, true),
        ];
        assert_eq!(plans, all);
        queue.retransmission_queue.add(border..SLOT + 4);
        let again = queue.next_lost(&rules).expect("it is lost");
        assert!(again.is_retransmission && again.end_tag && again.eom);
        queue.mark_sent(&again);
        assert!(queue.next_lost(&rules).is_none());
    }

    #[test]
    fn bytes_beyond_a_multiple_wait_for_others() {
        let mut queue = SendQueue::default();
        let marks = WaterMarks {
            multiple: Some(SLOT),
            ..MARKS
        };
        queue.submit(10, false, &marks);
        assert_eq!(queue.pushed, 10, "nothing is in flight");
        queue.next_seq = 10;
        queue.submit(30, false, &marks);
        assert!(queue.is_coalescing());
        queue.submit(2 * SLOT + 5, false, &marks);
        assert_eq!(queue.pushed, 2 * SLOT);
    }
}
