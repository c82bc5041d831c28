//! What a group's sender puts on the wire.

use super::config::Reliability;
use super::sender::{Knowledge, Sender};
use super::shared::{Shared, control};
use crate::pdu::{Body, CHECK_AT, Common, Format, HEADER_LEN, Header, Options};
use crate::shared::plain;
use crate::tx::{Bucket, Limits};
use core::ops::Range;
use engine::{Batch, CloseReason, Framing, Instant};

/// Slots of bytes from which on a short packet pays that makes those behind it begin at a slot's
/// border, as for two parties.
const ALIGN_FROM: u64 = 16;

/// The bytes of one packet.
struct Cut {
    bytes: Range<u64>,
    again: bool,
    eom: bool,
}

impl Sender {
    /// Fills `batch` with what may be sent now.
    pub(super) fn transmit(&mut self, sh: &mut Shared, now: Instant, batch: &mut Batch) {
        if sh.config.reliability == Reliability::None {
            // What the last call sent is out, all copies of it too.
            self.release(sh, self.next);
        }
        batch.set_destination(self.id, self.group);
        if let Some(reason) = self.ended {
            return self.transmit_end(sh, batch, reason);
        }
        if self.first_due {
            return self.transmit_first(sh, now, batch);
        }
        if self.request_due {
            return self.transmit_request(sh, now, batch);
        }
        if !self.connected {
            return;
        }
        self.transmit_data(sh, now, batch);
        self.watch_linger(sh, now);
        self.watch(sh, now);
        if batch.is_empty() && self.is_given_away(sh) {
            self.end(sh, CloseReason::Graceful);
            self.transmit_end(sh, batch, CloseReason::Graceful);
        }
    }

    /// Whether everything was sent of a stream that nobody acknowledges.
    fn is_given_away(&self, sh: &Shared) -> bool {
        let all = self.finishing && self.next == self.end;
        all && sh.config.reliability == Reliability::None
    }

    /// The options of every packet.
    fn options(&self, sh: &Shared) -> Options {
        Options::MULTI
            .with(Options::NOERR, sh.config.reliability == Reliability::None)
            .with(Options::NOFLOW, sh.config.reliability == Reliability::None)
            .with(Options::FASTNAK, sh.config.fastnak)
    }

    fn transmit_first(&mut self, sh: &mut Shared, now: Instant, batch: &mut Batch) {
        self.first_due = false;
        let counted = matches!(self.knowledge, Knowledge::Counted(_));
        if counted && !self.connected {
            self.first_at = Some(now + sh.config.wait_initial + sh.slot());
        }
        let options = self.options(sh).with(Options::SREQ, counted);
        let body = Body::First {
            domain: 0,
            address: sh.address_segment(self.group),
            traffic: sh.traffic(),
            data: &[],
        };
        self.sync = self.sync.wrapping_add(1);
        self.push_control(sh, batch, options, &body, 0);
    }

    /// A CNTL that asks all.
    fn transmit_request(&mut self, sh: &mut Shared, now: Instant, batch: &mut Batch) {
        self.request_due = false;
        self.sync = self.sync.wrapping_add(1);
        let (sync, sent) = (self.sync, self.sent());
        let mut verdict = None;
        if let Knowledge::Buckets(ring) = &mut self.knowledge {
            verdict = ring.open(now, sync, sent);
        }
        self.ask(sh, now);
        if let Some(verdict) = verdict {
            self.act(sh, verdict);
            if let Some(reason) = self.ended {
                return self.transmit_end(sh, batch, reason);
            }
        }
        self.pace(sh, now);
        let wclose = self.finishing && self.next == self.end;
        let options = self.options(sh) | Options::SREQ.with(Options::WCLOSE, wclose);
        let body = Body::Cntl(self.common());
        self.push_control(sh, batch, options, &body, self.next);
    }

    /// When the next bucket is opened, and how fast the sender goes until then.
    fn pace(&mut self, sh: &Shared, now: Instant) {
        let Knowledge::Buckets(ring) = &self.knowledge else {
            return;
        };
        let usual = self.rtt.wait(&sh.timing, 0);
        let wait = ring.wait().unwrap_or(usual).min(sh.timing.wait_max) + sh.slot();
        self.request_at = Some(now + ring.config.switching(wait));
        let packet_len = sh.config.packet_len as u64;
        let own = ring.rate(wait, sh.config.initial_window, packet_len);
        let limits = Limits {
            own: self.limits.all(),
            peer: Some(own),
        };
        if let Some(limit) = limits.all() {
            let bucket = self.rate.get_or_insert_with(|| Bucket::new(limit, now));
            bucket.change(limit, now);
        }
    }

    /// The stream is over for everybody.
    fn transmit_end(&mut self, sh: &mut Shared, batch: &mut Batch, reason: CloseReason) {
        let wclose = reason == CloseReason::Graceful;
        let options = self.options(sh) | Options::END.with(Options::WCLOSE, wclose);
        let body = Body::Cntl(self.common());
        self.push_control(sh, batch, options, &body, self.next);
    }

    /// The control segment of the sender's own packets: the oldest byte it can send again. There is
    /// no other direction that it could speak of.
    fn common(&self) -> Common {
        Common {
            rseq: self.una,
            alloc: 0,
            echo: 0,
        }
    }

    fn push_control(
        &self,
        sh: &mut Shared,
        batch: &mut Batch,
        options: Options,
        body: &Body<'_>,
        seq: u64,
    ) {
        let octets = control(self.key, options, body, (self.sync, seq));
        batch.push(&octets, self.next..self.next);
        sh.counters.packets_built += 1;
        sh.counters.bytes_summed += octets.len() as u64;
    }

    fn transmit_data(&mut self, sh: &mut Shared, now: Instant, batch: &mut Batch) {
        let mut next = self.next_cut(sh);
        while let Some(cut) = next.take() {
            let len = HEADER_LEN + (cut.bytes.end - cut.bytes.start) as usize;
            let short = !batch.is_empty() && len < batch.segment_size();
            let long = !batch.is_empty() && len > batch.segment_size();
            if long || batch.room() == 0 || !self.may_send(now, len) {
                break;
            }
            self.advance(sh, &cut);
            next = self.next_cut(sh);
            self.push_data(sh, now, batch, &cut, next.is_none());
            if short {
                break;
            }
        }
    }

    /// Whether the rate lets a packet of `len` octets go.
    fn may_send(&mut self, now: Instant, len: usize) -> bool {
        let Some(bucket) = &mut self.rate else {
            return true;
        };
        if bucket.allows(now) {
            bucket.spend(len);
            return true;
        }
        self.rate_at = Some(bucket.next_refill());
        false
    }

    /// The next bytes to send: what was lost first, then what is new.
    fn next_cut(&mut self, sh: &Shared) -> Option<Cut> {
        if let Some(lost) = self.again.first() {
            return Some(self.cut(sh, lost.start, lost.end, true));
        }
        let free = sh.config.reliability == Reliability::None;
        let limit = self.end.min(if free { u64::MAX } else { self.limit });
        if limit <= self.next {
            return None;
        }
        let (next, end) = (self.next, self.end);
        let cut = self.cut(sh, next, end, false);
        let idle = next == self.una;
        if cut.bytes.end > limit {
            let bytes = cut.bytes.start..limit;
            return idle.then_some(Cut {
                bytes,
                eom: false,
                ..cut
            });
        }
        let full = cut.bytes.end < end || cut.bytes.end - cut.bytes.start == sh.payload_max();
        (full || cut.eom || self.pushed >= cut.bytes.end || self.finishing || idle).then_some(cut)
    }

    /// Cuts a packet that begins at `start`: it ends at the end of a message, or at `end`; in a
    /// longer byte stream at a slot's border too, so that packets lie in one piece.
    fn cut(&mut self, sh: &Shared, start: u64, end: u64, again: bool) -> Cut {
        let payload = sh.payload_max();
        let mut stop = end.min(start + payload);
        if sh.config.framing == Framing::Stream {
            if start >= self.border || start + payload < self.border {
                self.border = (start / payload + 1) * payload;
            }
            if end - start >= ALIGN_FROM * payload {
                stop = stop.min(self.border);
            }
        }
        let message_end = self.ends.after(start).filter(|&ends| ends <= stop);
        Cut {
            bytes: start..message_end.unwrap_or(stop),
            again,
            eom: message_end.is_some(),
        }
    }

    fn advance(&mut self, sh: &mut Shared, cut: &Cut) {
        self.sync = self.sync.wrapping_add(1);
        if cut.again {
            self.again.advance(cut.bytes.end);
            self.repeated.note(cut.bytes.clone(), self.sync);
            sh.counters.retransmissions += 1;
        } else {
            self.next = cut.bytes.end;
        }
    }

    fn push_data(
        &mut self,
        sh: &mut Shared,
        now: Instant,
        batch: &mut Batch,
        cut: &Cut,
        last: bool,
    ) {
        let len = cut.bytes.end - cut.bytes.start;
        self.unasked += len;
        let counted = matches!(self.knowledge, Knowledge::Counted(_));
        let asks = counted && self.wants_answer(sh, cut, last);
        let wclose = self.finishing && cut.bytes.end == self.end;
        let options = self
            .options(sh)
            .with(Options::NOCHECK, !sh.config.checksum)
            .with(Options::SREQ, asks)
            .with(Options::EOM, cut.eom)
            .with(Options::WCLOSE, wclose);
        let header = Header {
            options,
            dlen: len as u32,
            sync: self.sync,
            seq: cut.bytes.start,
            ..plain(self.key, Format::Data)
        };
        if asks {
            self.ask(sh, now);
        }
        let sum_at = sh.config.checksum.then_some(CHECK_AT);
        batch.push_with_checksum(&header.emit_summed(), cut.bytes.clone(), sum_at);
        sh.counters.packets_built += 1;
        sh.counters.bytes_sent += len;
        sh.counters.bytes_summed += HEADER_LEN as u64 + if sum_at.is_some() { len } else { 0 };
    }

    /// One request every `status_every` bytes or quarter of the window, with the last
    /// retransmission, with the end, and when the window is used up.
    fn wants_answer(&self, sh: &Shared, cut: &Cut, last: bool) -> bool {
        let quarter = self.limit.saturating_sub(self.una) / 4;
        let every = sh.config.status_every.min(quarter.max(sh.payload_max()));
        let end = self.finishing && cut.bytes.end == self.end;
        self.unasked >= every
            || self.ask_next
            || end
            || cut.again && self.again.is_empty()
            || last && self.is_blocked()
    }

    /// Bounds the wait of bytes that were held back.
    fn watch_linger(&mut self, sh: &Shared, now: Instant) {
        if self.next.max(self.pushed) >= self.end {
            self.linger_at = None;
        } else if self.linger_at.is_none() {
            self.linger_at = Some(now + sh.config.linger);
        }
    }
}
