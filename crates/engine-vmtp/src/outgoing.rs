//! Messages on their way out, group by group.

use crate::blocks::{BlockMask, GroupMasks, HEADER_DATA_MAX, Segment};
use crate::config::{RETRY_WAIT_MAX, VmtpConfig};
use crate::pdu::header::{USER_DATA, USER_DATA_CO_RESIDENT};
use crate::pdu::{CHECK_LEN, Control, Flags, HEADER_LEN, PACKET_MIN, VmtpHeader};
use crate::peers::Peer;
use core::time::Duration;
use engine::{
    Batch, CallFlags, CallNote, Counters, Instant, Integrity, OutgoingMessage, Store, checksum,
};

/// A message on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) message: OutgoingMessage,
    len: u64,
    segment: Segment,
    acknowledged: GroupMasks,
    /// Blocks that are to leave.
    unsent: GroupMasks,
    /// The first group that is not wholly acknowledged.
    oldest: u16,
    /// Groups below this one were sent.
    begun: u16,
    /// A packet without segment data is to leave, for this group, and asks for an acknowledgement if
    /// it repeats others.
    bare_packet: Option<u16>,
    /// Times it was sent again, by anybody's wish.
    pub(crate) count: u32,
    /// Times it was sent again without an answer.
    pub(crate) retries: u32,
    /// Times the peer was asked what it has, halved with each group that it has.
    pub(crate) rounds: u32,
    /// When the first packet left.
    pub(crate) began_at: Option<Instant>,
    /// When the last packet left.
    pub(crate) sent_at: Option<Instant>,
    /// When the last blocks left.
    blocks_sent_at: Option<Instant>,
    /// The next packet leaves no earlier: the gap between two.
    pub(crate) next_at: Instant,
    /// It waits in the queue of the endpoint.
    pub(crate) queued: bool,
    /// What is to leave first, and how it is checked.
    pub(crate) asked: CallNote,
}

/// What [`Outgoing::transmit`] writes with.
pub(crate) struct Sending<'a> {
    pub(crate) now: Instant,
    pub(crate) config: &'a VmtpConfig,
    pub(crate) counters: &'a mut Counters,
    pub(crate) peer: &'a mut Peer,
}

/// How a transmission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// All that is to leave has left.
    Everything,
    /// The batch is full.
    More,
    /// The next packet leaves at [`Outgoing::next_at`].
    Paced,
    /// The address may get no more before it is probed.
    NoCredit,
}

impl Outgoing {
    pub(crate) fn new(
        (message, len): (OutgoingMessage, u64),
        window: u16,
        asked: CallNote,
    ) -> Outgoing {
        // What does not fit the header beside CoResidentEntity is a segment.
        let segment = match asked.co_resident {
            Some(_) if len > USER_DATA_CO_RESIDENT.len() as u64 => Segment::new(len),
            _ => Segment::of_message(len),
        };
        let mut outgoing = Outgoing {
            message,
            len,
            segment,
            acknowledged: GroupMasks::none(segment.groups()),
            unsent: GroupMasks::none(segment.groups()),
            oldest: 0,
            begun: 0,
            bare_packet: segment.is_empty().then_some(0),
            count: 0,
            retries: 0,
            rounds: 0,
            began_at: None,
            sent_at: None,
            blocks_sent_at: None,
            next_at: Instant::from_nanos(0),
            queued: false,
            asked,
        };
        outgoing.open_window(window);
        outgoing
    }

    /// Packet groups of the message.
    pub(crate) fn groups(&self) -> u16 {
        self.segment.groups()
    }

    /// Whether it has a segment, of which blocks can be missing.
    pub(crate) fn has_segment(&self) -> bool {
        !self.segment.is_empty()
    }

    /// Whether the peer asks for what is missing (NRT).
    pub(crate) fn is_repaired(&self) -> bool {
        !self.asked.flags.has(CallFlags::NO_REPAIR)
    }

    /// Whether packets wait to leave.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.bare_packet.is_some() || self.next_group().is_some()
    }

    /// Whether the peer has all of it.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.oldest >= self.groups()
    }

    /// Groups that are in flight or before it may leave: as many as the window has.
    fn open_window(&mut self, window: u16) {
        let end = self.groups().min(self.oldest.saturating_add(window.max(1)));
        while self.begun < end {
            self.unsent.set(self.begun, self.segment.blocks(self.begun));
            self.begun += 1;
        }
    }

    fn next_group(&self) -> Option<u16> {
        (self.oldest..self.begun).find(|group| !self.unsent.get(*group).is_empty())
    }

    /// A packet without data goes out, which the peer answers with what it has (RFC 1045
    /// section 2.5.4): the first retransmission.
    pub(crate) fn ask(&mut self) {
        self.count += 1;
        self.bare_packet = Some(self.oldest.min(self.groups() - 1));
    }

    /// The peer has these blocks of a group. Those that the group does not have say nothing.
    pub(crate) fn acknowledge(&mut self, group: u16, blocks: BlockMask, window: u16) {
        if group >= self.begun {
            return;
        }
        let blocks = blocks.and(self.segment.blocks(group));
        let have = self.acknowledged.get(group).or(blocks);
        self.acknowledged.set(group, have);
        self.unsent
            .set(group, self.unsent.get(group).without(blocks));
        while self.oldest < self.begun
            && self.acknowledged.get(self.oldest) == self.segment.blocks(self.oldest)
        {
            self.oldest += 1;
            self.rounds /= 2;
        }
        self.open_window(window);
    }

    /// The peer has of a group only these blocks: the others go out again, unless they have just
    /// left. Returns how many.
    pub(crate) fn repeat_missing(&mut self, group: u16, have: BlockMask) -> u32 {
        if group >= self.begun || self.wants_to_send() {
            return 0;
        }
        let missing = self.segment.blocks(group).without(have);
        let have = self.segment.blocks(group).without(missing);
        self.unsent.set(group, missing);
        // What was acknowledged by an earlier life of the peer may be missing again.
        self.acknowledged.set(group, have);
        self.oldest = self.oldest.min(group);
        if self.segment.is_empty() {
            self.bare_packet = Some(0);
        }
        self.count += 1;
        missing.count()
    }

    /// Everything goes out again.
    pub(crate) fn repeat_all(&mut self) {
        self.count += 1;
        self.oldest = 0;
        for group in 0..self.begun {
            self.acknowledged.set(group, BlockMask::NONE);
            self.unsent.set(group, self.segment.blocks(group));
        }
        if self.segment.is_empty() {
            self.bare_packet = Some(0);
        }
    }

    /// The peer did not answer in time, and is asked again.
    pub(crate) fn note_silence(&mut self) {
        self.retries += 1;
        self.rounds += 1;
    }

    /// Whether the peer was asked, and has not answered with a group.
    pub(crate) fn is_asking(&self) -> bool {
        self.retries > 0 || self.rounds > 0
    }

    /// How long its next answer is waited for: longer each time that answers come and groups do not. They may come late,
    /// through a queue that questions fill. Before it is given up the wait is the longest: a host whose processor has other
    /// work for half a second is not away.
    pub(crate) fn answer_wait(&self, peer: &Peer, config: &VmtpConfig) -> Duration {
        match self.retries >= config.retries_max {
            true => RETRY_WAIT_MAX,
            false => peer.retry_wait(config, self.retries.max(self.rounds).saturating_sub(1)),
        }
    }

    /// Whether blocks left so recently that a report of what is missing is older.
    pub(crate) fn has_just_left(&self, now: Instant, rtt_min: Duration) -> bool {
        self.blocks_sent_at.is_some_and(|at| now < at + rtt_min)
    }

    /// The next packet with data: its group and blocks, and its length.
    fn next_packet(&self, config: &VmtpConfig) -> Option<(u16, BlockMask, u64)> {
        let group = self.next_group()?;
        let blocks = self.unsent.get(group).lowest(config.blocks_a_packet());
        let data = self.segment.octets(group, blocks).next_multiple_of(8);
        Some((group, blocks, PACKET_MIN as u64 + data))
    }

    /// Whether its next packet is as long as those of `batch`, so that they leave in one call of the wire.
    pub(crate) fn joins(&self, batch: &Batch, config: &VmtpConfig) -> bool {
        let next = self.next_packet(config);
        let has_room = batch.room() > 0 && batch.len_of_last() == batch.packet_len();
        let is_equal = next.is_some_and(|(_, _, len)| len == batch.packet_len() as u64);
        has_room && is_equal && self.bare_packet.is_none()
    }

    /// Fills the batch with the next packets. `first` is the header of the first group, without what
    /// belongs to a packet.
    pub(crate) fn transmit(
        &mut self,
        sending: &mut Sending<'_>,
        first: &VmtpHeader,
        batch: &mut Batch,
    ) -> Left {
        if self.has_segment() && !sending.peer.is_valid {
            // While there is credit for a probe.
            return Left::NoCredit;
        }
        if let Some(group) = self.bare_packet {
            if sending.peer.credit() < PACKET_MIN as u64 {
                return Left::NoCredit;
            }
            if self.is_plain() {
                self.push_plain(sending, first, batch);
                return Left::Everything;
            }
            self.push_bare(sending, first, group, batch);
        }
        let mut prepared: Option<(u16, [u8; HEADER_LEN])> = None;
        while let Some((group, blocks, len)) = self.next_packet(sending.config) {
            if sending.now < self.next_at {
                return Left::Paced;
            }
            let is_equal = batch.is_empty()
                || batch.len_of_last() == batch.packet_len() && len <= batch.packet_len() as u64;
            if !is_equal || batch.room() == 0 {
                return Left::More;
            }
            let unsent = self.unsent.get(group).without(blocks);
            self.unsent.set(group, unsent);
            self.blocks_sent_at = Some(sending.now);
            // Those of a group differ in their blocks alone.
            let header = match &mut prepared {
                Some((prepared, header)) if *prepared == group => header,
                other => &mut other.insert((group, self.header(first, group).emit())).1,
            };
            self.push_blocks(sending, header, (group, blocks), batch);
            let is_response = first.control.is_response();
            let gap = sending.peer.gap(sending.config, is_response);
            if !gap.is_zero() {
                self.next_at = sending.now + gap;
            }
        }
        Left::Everything
    }

    /// Whether it lies in a header, leaves for the first time and asks for nothing: there is no more to it than one packet.
    #[inline]
    fn is_plain(&self) -> bool {
        self.segment.is_empty() && self.count == 0 && self.asked.is_none()
    }

    /// The packet of a plain message: what [`Outgoing::push_bare`] makes of one, in few steps.
    #[inline]
    fn push_plain(&mut self, sending: &mut Sending<'_>, first: &VmtpHeader, batch: &mut Batch) {
        self.bare_packet = None;
        let header = VmtpHeader {
            // The field is the user's, who says with it how long his data is.
            segment_size: self.len as u32,
            ..*first
        };
        let mut octets = [0; PACKET_MIN];
        octets[..HEADER_LEN].copy_from_slice(&header.emit());
        let in_header = USER_DATA.start + self.len.min(HEADER_DATA_MAX) as usize;
        let mut builder = batch.begin();
        builder.add_own(&octets[..USER_DATA.start]);
        builder.add_user(Store::Message(self.message), 0..self.len);
        builder.add_own(&octets[in_header..]);
        builder.end(integrity(sending.config));
        self.note_sent(sending, (PACKET_MIN as u64, self.len));
    }

    /// A packet without segment data.
    fn push_bare(
        &mut self,
        sending: &mut Sending<'_>,
        first: &VmtpHeader,
        group: u16,
        batch: &mut Batch,
    ) {
        self.bare_packet = None;
        let mut header = self.header(first, group);
        // A Response without a segment comes again whole: nothing of it can be missing.
        if self.has_segment() || (self.count > 0 && !header.control.is_response()) {
            header.control = header.control.with(Control::ACKNOWLEDGE);
        }
        let mut octets = [0; PACKET_MIN];
        octets[..HEADER_LEN].copy_from_slice(&header.emit());
        let message = Store::Message(self.message);
        let start = match first.flags.has(Flags::CO_RESIDENT) && !first.control.is_response() {
            true => USER_DATA_CO_RESIDENT.start,
            false => USER_DATA.start,
        };
        let in_header = start + self.len.min(HEADER_DATA_MAX) as usize;
        let builder = match self.has_segment() {
            true => batch.begin().own(&octets),
            false => {
                let builder = batch.begin().own(&octets[..start]);
                let builder = builder.user(message, 0..self.len);
                builder.own(&octets[in_header..])
            }
        };
        builder.end(integrity(sending.config));
        let user = if self.has_segment() { 0 } else { self.len };
        self.note_sent(sending, (PACKET_MIN as u64, user));
    }

    /// A packet of blocks; `header` is that of its group.
    fn push_blocks(
        &mut self,
        sending: &mut Sending<'_>,
        header: &mut [u8; HEADER_LEN],
        (group, blocks): (u16, BlockMask),
        batch: &mut Batch,
    ) {
        let octets = self.segment.octets(group, blocks);
        let padded = octets.next_multiple_of(8);
        VmtpHeader::set_blocks(header, blocks, (padded / 4) as u16);
        let mut builder = batch.begin();
        builder.add_own(header);
        let message = Store::Message(self.message);
        for run in blocks.runs() {
            builder.add_user(message, self.segment.range_of(group, run));
        }
        let mut tail = [0; 8 + CHECK_LEN];
        let padding = (padded - octets) as usize;
        let checks_header = self.asked.flags.has(CallFlags::HEADER_CHECK);
        let integrity = match checks_header && sending.config.checksum {
            true => {
                let check = checksum::vmtp(header).to_be_bytes();
                tail[padding..padding + CHECK_LEN].copy_from_slice(&check);
                Integrity::None
            }
            false => integrity(sending.config),
        };
        builder.add_own(&tail[..padding + CHECK_LEN]);
        builder.end(integrity);
        let packet = (HEADER_LEN + CHECK_LEN) as u64 + padded;
        self.note_sent(sending, (packet, octets));
    }

    /// The header of a packet of `group`.
    fn header(&self, first: &VmtpHeader, group: u16) -> VmtpHeader {
        let last = self.groups() - 1;
        let mut control = first.control;
        if !control.is_response() {
            control = control.with_retransmit_count(self.count);
        }
        if group > 0 {
            control = control.with(Control::NOT_START);
            if control.is_response() {
                control = control.with_gap_or_group_count(0);
            }
        }
        if group < last {
            let more = Control::NOT_END | Control::CONTINUED | Control::ACKNOWLEDGE;
            control = control.with(more);
            if !control.is_response() {
                // The numbers are skipped behind the last group.
                control = control.without(Control::SKIP_TRANSACTIONS);
            }
        }
        let mut flags = first.flags.0;
        let mut message_delivery = 0;
        let asked = self.asked.flags;
        if self.has_segment() {
            flags |= Flags::SEGMENT;
        }
        if asked.has(CallFlags::PARTIAL) && self.has_segment() {
            flags |= Flags::PARTIAL;
            message_delivery = self.segment.blocks(group).0;
        }
        if asked.has(CallFlags::CONDITIONAL) {
            flags |= Flags::CONDITIONAL;
        }
        if asked.has(CallFlags::NO_REPAIR) {
            control = control.with(Control::NO_RETRANSMISSION);
        }
        VmtpHeader {
            control: control.with_priority(self.asked.priority),
            checks_header_only: asked.has(CallFlags::HEADER_CHECK),
            message_delivery,
            transaction: first.transaction.wrapping_add(u32::from(group)),
            flags: Flags(flags),
            // Without a segment the field is the user's, who says with it how long his data is.
            segment_size: self.len as u32,
            ..*first
        }
    }

    fn note_sent(&mut self, sending: &mut Sending<'_>, (packet, user): (u64, u64)) {
        self.began_at.get_or_insert(sending.now);
        self.sent_at = Some(sending.now);
        sending.peer.note_sent(packet);
        sending.counters.packets_built += 1;
        sending.counters.bytes_sent += user;
        sending.counters.bytes_summed += if sending.config.checksum { packet } else { 0 };
        sending.counters.retransmissions += u64::from(self.count > 0);
    }
}

fn integrity(config: &VmtpConfig) -> Integrity {
    match config.checksum {
        true => Integrity::Vmtp,
        false => Integrity::None,
    }
}

#[cfg(test)]
mod tests;
