//! Where the closing of an association stands, a state for each direction (0007, Close).

/// The stream of this side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SendingEnd {
    /// The user may submit more.
    #[default]
    Open,
    /// The user has finished: no more data follow, and WCLOSE goes with the last.
    Finishing,
    /// WCLOSE was sent.
    WcloseSent,
    /// RCLOSE was received: the peer has everything.
    RcloseReceived,
    /// There is none: only the peer sends.
    Absent,
}

/// The stream of the peer. WCLOSE was received when `rx.final_seq` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReceivingEnd {
    /// Its end was not reported to the host.
    #[default]
    Open,
    /// Its end was reported to the host.
    Reported,
    /// RCLOSE was sent: this side has everything.
    RcloseSent,
}

/// The closing of both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closing {
    pub(crate) sending: SendingEnd,
    pub(crate) receiving: ReceivingEnd,
}

impl Closing {
    /// The user has finished this side's stream.
    #[inline]
    pub(crate) fn is_finishing(self) -> bool {
        !matches!(self.sending, SendingEnd::Open | SendingEnd::Absent)
    }

    /// The user has finished this side's stream, and the peer does not have all of it yet.
    pub(crate) fn is_ending(self) -> bool {
        self.is_finishing() && !self.rclose_received()
    }

    #[inline]
    pub(crate) fn wclose_sent(self) -> bool {
        self.sending >= SendingEnd::WcloseSent
    }

    #[inline]
    pub(crate) fn rclose_received(self) -> bool {
        self.sending >= SendingEnd::RcloseReceived
    }

    #[inline]
    pub(crate) fn rclose_sent(self) -> bool {
        self.receiving == ReceivingEnd::RcloseSent
    }

    /// The user finishes this side's stream, if there is one.
    pub(crate) fn finish(&mut self) {
        self.sending = match self.sending {
            SendingEnd::Open => SendingEnd::Finishing,
            later => later,
        };
    }

    /// A packet with these close bits was sent.
    #[inline]
    pub(crate) fn record_sent(&mut self, wclose: bool, rclose: bool) {
        if wclose {
            self.sending = self.sending.max(SendingEnd::WcloseSent);
        }
        if rclose && self.receiving == ReceivingEnd::Reported {
            self.receiving = ReceivingEnd::RcloseSent;
        }
    }

    /// The peer has everything that this side sent, and its end.
    pub(crate) fn record_rclose(&mut self) {
        self.sending = self.sending.max(SendingEnd::RcloseReceived);
    }
}
