//! A received stream: its state and the data of its sender.

use super::amplification_limit::SenderAddress;
use super::config::Config;
use super::endpoint_state::GroupEndpointState;
use super::quarantine::FinalControl;
use crate::codec::Arrival;
use crate::config::ErrorControl;
use crate::numbers::SyncNumber;
use crate::numbers::{Key, SEQ_MAX};
use crate::pdu::{Body, CommonControl, Format, Header, Options, RTN, Reject};
use crate::rx::{FragmentFlags, Gap, ReceiveState};
use core::ops::Range;
use core::time::Duration;
use engine::{Address, AssociationId, Bytes, CloseReason, Delivery, Event, Instant};
use std::collections::VecDeque;

/// Bytes of the window for each fragment that the reassembly queue may hold.
const BYTES_PER_FRAGMENT: u64 = 64;

/// The state of a received stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiverPhase {
    /// JCNTL is to be sent or not yet answered.
    Joining,
    /// Data are received.
    Active,
    /// The whole stream has arrived; status requests are still answered.
    Complete,
    Ended,
}

/// A control packet scheduled by slotting.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduledControl {
    pub(super) echo: SyncNumber,
    pub(super) at: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) id: AssociationId,
    /// This receiver's key, sent as `xkey` in JCNTL.
    pub(super) key: Key,
    pub(super) sender: Address,
    pub(super) sender_key: Key,
    /// Whether the sender is known to be at its address.
    pub(super) sender_address: SenderAddress,
    /// The sender granted or refused the join, or the stream needs none.
    pub(super) is_answered: bool,
    pub(super) phase: ReceiverPhase,
    /// It is a member of a counted group.
    pub(super) counted: bool,
    /// The key that its control packets carry: the sender's, or in a counted group the one that
    /// the sender granted to this member alone (0018, Keys).
    pub(super) answer_key: Key,
    pub(super) rx: ReceiveState,
    pub(super) scheduled_control: VecDeque<ScheduledControl>,
    /// When JCNTL becomes due; again if `joins_sent` is not 0.
    pub(super) join_at: Option<Instant>,
    /// JCNTL is sent as soon as the credit allows.
    pub(super) join_due: bool,
    pub(super) joins_sent: u32,
    /// The first byte it requests: 0 for the oldest, all ones for the next.
    pub(super) requested_start: u64,
    pub(super) last_received_at: Instant,
    /// The oldest byte the sender can retransmit, from its control packets.
    pub(super) sender_una: u64,
    /// A control packet is due without a status request.
    pub(super) control_due: bool,
    /// Control packets that damping suppressed.
    pub(super) damped: u64,
    /// The whole stream has arrived.
    complete: bool,
    /// It lacks bytes that the sender has released.
    pub(super) bytes_unrecoverable: bool,
}

impl Receiver {
    pub(super) fn new(id: AssociationId, key: Key, sender: Address, sender_key: Key) -> Receiver {
        Receiver {
            id,
            key,
            sender,
            sender_key,
            sender_address: SenderAddress::unvalidated(),
            is_answered: false,
            phase: ReceiverPhase::Joining,
            counted: false,
            answer_key: sender_key,
            rx: ReceiveState::default(),
            scheduled_control: VecDeque::new(),
            join_at: None,
            join_due: false,
            joins_sent: 0,
            requested_start: 0,
            last_received_at: Instant::ZERO,
            sender_una: 0,
            control_due: false,
            damped: 0,
            complete: false,
            bytes_unrecoverable: false,
        }
    }

    /// Handles a packet of the sender.
    pub(super) fn handle(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        arrival: &Arrival<'_>,
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), Reject> {
        let arrival = arrival.near(self.rx.next_seq)?;
        let (header, packet) = (&arrival.header, arrival.octets);
        let body = arrival.body(self.rx.next_seq).ok_or(Reject::Body)?;
        if self.phase == ReceiverPhase::Ended {
            return Err(Reject::State);
        }
        self.last_received_at = now;
        self.sender_address.record_received(packet.len());
        match body {
            Body::Tcntl { common, xkey, .. } if header.key & RTN != 0 => {
                self.handle_join_accepted(ep, &common, xkey)?;
            }
            Body::Diag(_) if header.key & RTN != 0 => {
                self.is_answered = true;
                self.terminate(ep, CloseReason::Refused);
                return Ok(());
            }
            Body::Data { data } | Body::First { data, .. } => {
                let range = arrival.data_range(data);
                self.handle_data(ep, now, header, packet, range, deliveries)?;
            }
            Body::Cntl(common) => self.handle_control(ep, &common)?,
            _ => return Err(Reject::State),
        }
        self.handle_close_bits(ep, header)?;
        if header.options.has(Options::SREQ) {
            self.schedule_control(ep, now, header.sync);
        }
        Ok(())
    }

    /// Handles the TCNTL that accepts the join: the stream begins at `rseq` (0009, Joining).
    fn handle_join_accepted(
        &mut self,
        ep: &mut GroupEndpointState,
        common: &CommonControl,
        xkey: u64,
    ) -> Result<(), Reject> {
        if self.phase != ReceiverPhase::Joining {
            return Ok(());
        }
        if common.rseq > SEQ_MAX || xkey & RTN != 0 {
            return Err(Reject::Body);
        }
        let granted_key = Key::stated(xkey);
        self.counted = granted_key.is_some();
        self.answer_key = granted_key.unwrap_or(self.answer_key);
        // The key that it returned was in a JCNTL to its address, and cannot be guessed.
        self.sender_address = SenderAddress::Validated;
        self.start_at(ep, common.rseq);
        Ok(())
    }

    /// Begins to receive at byte `start`.
    pub(super) fn start_at(&mut self, ep: &mut GroupEndpointState, start: u64) {
        self.phase = ReceiverPhase::Active;
        self.is_answered = true;
        self.join_at = None;
        self.join_due = false;
        self.sender_una = self.sender_una.max(start);
        self.rx.next_seq = start;
        self.rx.advertised_alloc = start + ep.config.window;
        self.rx.gap = match start {
            0 => Gap::None,
            _ => Gap::opened(ep.config.framing),
        };
        ep.events.push_back(Event::Accepted(self.id, self.sender));
    }

    /// Handles the sender's CNTL, whose `rseq` is the oldest byte it can retransmit. A receiver
    /// that lacks older ones drops out (0009, The sender's own control packets).
    fn handle_control(
        &mut self,
        ep: &mut GroupEndpointState,
        common: &CommonControl,
    ) -> Result<(), Reject> {
        if common.rseq > SEQ_MAX {
            return Err(Reject::Body);
        }
        self.sender_una = self.sender_una.max(common.rseq);
        if self.phase == ReceiverPhase::Active
            && self.rx.next_seq < self.sender_una
            && !self.rx.error_control_off
        {
            let lost = self.sender_una - self.rx.next_seq;
            ep.counters.count_gap(lost);
            self.send_leave(ep, true);
            self.terminate(ep, CloseReason::Aborted);
        }
        Ok(())
    }

    fn handle_data(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        header: &Header,
        packet: &[u8],
        range: Range<usize>,
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), Reject> {
        let seq = header.seq;
        let end = seq.saturating_add(range.len() as u64);
        self.rx.error_control_off = header.options.has(Options::NOERR);
        if range.is_empty() || self.phase != ReceiverPhase::Active {
            return Ok(());
        }
        if end > SEQ_MAX || self.rx.final_seq.is_some_and(|last| end > last) {
            return Err(Reject::State);
        }
        if self.rx.is_full {
            return Err(Reject::BeyondWindow);
        }
        let eom = header.options.has(Options::EOM);
        // XTP 4.0 s. 6.7, NOERR: a gap is never repaired.
        if self.rx.error_control_off {
            self.skip_to(ep, seq);
        } else if end > self.rx.advertised_alloc {
            return Err(Reject::BeyondWindow);
        } else if seq > self.rx.next_seq {
            return self.queue_out_of_order(ep, now, header, &packet[range], eom);
        }
        if end > self.rx.next_seq {
            self.deliver_in_order(ep, seq, range, eom, deliveries);
        }
        Ok(())
    }

    /// Gives up the bytes below `seq` and reports the gap.
    fn skip_to(&mut self, ep: &mut GroupEndpointState, seq: u64) {
        if seq > self.rx.next_seq {
            let lost = seq - self.rx.next_seq;
            ep.counters.count_gap(lost);
            self.rx.next_seq = seq;
            self.rx.gap = Gap::opened(ep.config.framing);
        }
    }

    fn deliver_in_order(
        &mut self,
        ep: &mut GroupEndpointState,
        seq: u64,
        range: Range<usize>,
        eom: bool,
        deliveries: &mut Vec<Delivery>,
    ) {
        let known = (self.rx.next_seq - seq) as usize;
        self.deliver(
            ep,
            Bytes::Packet(range.start + known..range.end),
            eom,
            deliveries,
        );
        while let Some(piece) = self.rx.reassembly.pop_at(self.rx.next_seq) {
            self.deliver(
                ep,
                Bytes::Reassembled(piece.bytes),
                piece.flags.end_of_message,
                deliveries,
            );
        }
    }

    fn deliver(
        &mut self,
        ep: &mut GroupEndpointState,
        bytes: Bytes,
        end: bool,
        deliveries: &mut Vec<Delivery>,
    ) {
        let len = match &bytes {
            Bytes::Packet(range) => range.len(),
            Bytes::Reassembled(held) => held.len(),
        } as u64;
        self.rx.next_seq += len;
        if self.rx.gap == Gap::DiscardingMessage {
            self.rx.gap.record_discarded(end);
            return;
        }
        self.rx.unread_bytes += len;
        ep.counters.bytes_delivered += len;
        deliveries.push(Delivery {
            note: engine::Note::default(),
            association: self.id,
            bytes,
            gap: std::mem::take(&mut self.rx.gap) != Gap::None,
            begin_tag: false,
            end_tag: false,
            end_of_message: end,
        });
    }

    /// Puts out-of-order bytes into the reassembly queue.
    fn queue_out_of_order(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        header: &Header,
        bytes: &[u8],
        eom: bool,
    ) -> Result<(), Reject> {
        if header.options.has(Options::FASTNAK) && header.seq > self.rx.reassembly.end() {
            let pause = ep.config.status_delay;
            if self.rx.last_fastnak_at.is_none_or(|at| now >= at + pause) {
                self.rx.last_fastnak_at = Some(now);
                self.control_due = true;
            }
        }
        if ep.config.error == ErrorControl::GoBackN {
            return Ok(());
        }
        let runs_max = (ep.config.window / BYTES_PER_FRAGMENT) as usize;
        let marks = FragmentFlags {
            end_of_message: eom,
            ..FragmentFlags::default()
        };
        let kept = self
            .rx
            .reassembly
            .insert(header.seq, bytes, marks, runs_max);
        ep.counters.bytes_copied += kept.ok_or(Reject::BeyondWindow)? as u64;
        Ok(())
    }

    /// Handles WCLOSE and END of the sender's packet.
    fn handle_close_bits(
        &mut self,
        ep: &mut GroupEndpointState,
        header: &Header,
    ) -> Result<(), Reject> {
        if self.phase == ReceiverPhase::Ended {
            return Ok(());
        }
        if header.options.has(Options::WCLOSE) {
            let len = match header.format {
                Format::Data => u64::from(header.dlen),
                _ => 0,
            };
            let last = header.seq.saturating_add(len);
            if last > SEQ_MAX || self.rx.final_seq.is_some_and(|known| known != last) {
                return Err(Reject::State);
            }
            self.rx.final_seq = Some(last);
            if self.rx.error_control_off {
                self.skip_to(ep, last);
            }
        }
        let complete = self.rx.is_complete();
        if complete && self.phase == ReceiverPhase::Active {
            self.phase = ReceiverPhase::Complete;
            self.complete = true;
            ep.events.push_back(Event::Finished(self.id));
        }
        if header.options.has(Options::END) {
            let graceful = complete && self.phase == ReceiverPhase::Complete;
            self.terminate(
                ep,
                match graceful {
                    true => CloseReason::Graceful,
                    false => CloseReason::Aborted,
                },
            );
        }
        Ok(())
    }

    /// The reply to status requests after this context ended: RCLOSE if the whole stream arrived,
    /// else END (0009, Closing).
    pub(super) fn final_control(&self) -> FinalControl {
        let gone = Options::END.with(Options::NOERR, self.bytes_unrecoverable);
        let options = if self.complete { Options::RCLOSE } else { gone };
        FinalControl {
            key: self.answer_key,
            options: Options::MULTI | options,
            rseq: self.rx.next_seq,
        }
    }

    pub(super) fn terminate(&mut self, ep: &mut GroupEndpointState, reason: CloseReason) {
        if self.phase == ReceiverPhase::Joining {
            // The user was never told of this stream.
            ep.refused_joins += 1;
        } else if self.phase != ReceiverPhase::Ended {
            ep.events.push_back(Event::Closed(self.id, reason));
        }
        self.phase = ReceiverPhase::Ended;
    }

    /// The allocation that a control packet sent now would carry.
    pub(super) fn next_alloc(&self, ep: &GroupEndpointState) -> u64 {
        (self.rx.dseq() + ep.config.window).max(self.rx.advertised_alloc)
    }

    /// How long the sender may be silent. Once the whole stream has arrived, that is two longest
    /// WTIMERs and the quarantine (0009, Closing).
    fn idle_timeout(&self, config: &Config) -> Duration {
        match self.phase {
            ReceiverPhase::Complete => 2 * config.wtimer_max + config.quarantine,
            _ => config.silence_max,
        }
    }

    /// When the silence of the sender ends the stream.
    pub(super) fn silence_at(&self, config: &Config) -> Option<Instant> {
        let ended = self.phase == ReceiverPhase::Ended;
        (!ended).then_some(self.last_received_at + self.idle_timeout(config))
    }

    /// The earliest deadline.
    pub(super) fn deadline(&self, config: &Config) -> Option<Instant> {
        let silence = self.idle_timeout(config);
        let answers = self.scheduled_control.iter().map(|answer| answer.at);
        let all = answers.chain(self.join_at);
        all.chain([self.last_received_at + silence]).min()
    }

    /// Handles an expired deadline.
    pub(super) fn handle_timeout(&mut self, ep: &mut GroupEndpointState, now: Instant) {
        let silence = self.idle_timeout(&ep.config);
        if now >= self.last_received_at + silence {
            let reason = match self.phase {
                ReceiverPhase::Complete => CloseReason::Graceful,
                _ => CloseReason::TimedOut,
            };
            self.terminate(ep, reason);
        }
    }
}
