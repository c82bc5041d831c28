//! The consumer of a store with lent ranges.

use super::loans::{self, PayloadPart};
use super::ring::Consumer;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::Ordering;

impl Consumer {
    /// Takes the loans below the position last read. To be called after [`head`](Consumer::head)
    /// and before a batch names bytes below that.
    pub fn take_loans(&mut self) {
        if let Some(loans) = self.ring.loans.get() {
            loans.take_handed_over(&mut self.loans);
        }
    }

    /// Returns all loans: the circuit is closed and sends no more.
    pub fn return_all_loans(&mut self) {
        self.take_loans();
        if let (Some(first), Some(last)) = (self.loans.front(), self.loans.back()) {
            let start = match self.withdrawn.is_empty() {
                true => first.start,
                false => self.withdrawn.start,
            };
            self.withdrawn = start..last.end();
        }
        self.mark_outlived();
        self.return_loans(u64::MAX, false);
    }

    #[inline]
    pub(super) fn return_loans(&mut self, position: u64, is_done: bool) {
        if self.loans.is_empty() {
            return;
        }
        if let Some(loans) = self.ring.loans.get() {
            loans.give_back(&mut self.loans, position, is_done);
        }
    }

    /// Notes of all loans that their buffers may be in packets for ever.
    fn mark_outlived(&self) {
        let referenced = self.ring.consumer.referenced.load(Ordering::Relaxed);
        self.loans
            .iter()
            .for_each(|loan| loan.mark_outlived(referenced));
    }

    /// Whether some bytes of `payload` are lent, and all of those in pages of their own.
    pub(super) fn is_lent_in_pages(&self, payload: &Range<u64>) -> bool {
        self.is_lent(payload) && loans::are_in_pages(&self.loans, payload)
    }

    #[inline]
    pub(super) fn is_lent(&self, payload: &Range<u64>) -> bool {
        !self.loans.is_empty() && loans::overlaps(&self.loans, payload)
    }

    /// Appends the slices that make up `payload`.
    pub(super) fn gather_lent<'a>(&'a self, payload: &Range<u64>, slices: &mut Vec<IoSlice<'a>>) {
        for part in self.parts(payload) {
            match part {
                PayloadPart::Lent(bytes) => slices.push(IoSlice::new(bytes)),
                PayloadPart::Stored(range) => {
                    slices.extend(self.octet_ranges(&range).map(|part| self.io_slice(part)));
                }
            }
        }
    }

    pub(super) fn visit_lent(&self, payload: &Range<u64>, take: &mut dyn FnMut(&[u8])) {
        let mut slices = Vec::new();
        self.gather_lent(payload, &mut slices);
        slices.iter().for_each(|slice| take(slice));
    }

    pub(super) fn copy_lent(&self, payload: &Range<u64>, octets: &mut Vec<u8>) {
        let mut slices = Vec::new();
        self.gather_lent(payload, &mut slices);
        slices
            .iter()
            .for_each(|slice| octets.extend_from_slice(slice));
    }

    /// Appends the bytes of `payload`, but none of loans that were returned: those are their owner's.
    pub fn copy_kept(&self, payload: &Range<u64>, octets: &mut Vec<u8>) {
        let gone = self.withdrawn.clone();
        let front = payload.start..payload.end.min(gone.start);
        let back = payload.start.max(gone.end)..payload.end;
        if gone.is_empty() {
            return self.copy(payload, octets);
        }
        for part in [front, back] {
            if !part.is_empty() {
                self.copy(&part, octets);
            }
        }
    }

    /// Memory of a loan that was returned is its owner's again: in its place would be sent what the
    /// store held before.
    #[inline]
    pub(super) fn assert_not_withdrawn(&self, payload: &Range<u64>) {
        let gone = &self.withdrawn;
        assert!(
            payload.start >= gone.end || payload.end <= gone.start,
            "the engine names bytes of a loan that was returned"
        );
    }

    fn parts(&self, payload: &Range<u64>) -> impl Iterator<Item = PayloadPart<'_>> {
        let tail = self.ring.consumer.tail.load(Ordering::Relaxed);
        assert!(
            payload.end <= self.head() && payload.start >= tail,
            "the engine names bytes outside the store"
        );
        self.assert_not_withdrawn(payload);
        loans::parts(&self.loans, payload.clone())
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.mark_outlived();
    }
}
