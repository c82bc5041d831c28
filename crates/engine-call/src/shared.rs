//! What both ends of all transactions share: configuration, events, control packets, counters.

use crate::config::CallConfig;
use crate::pdu::{HEADER_LEN, Header};
use engine::{Counters, Event, IncomingMessage, Path, TransactionEvent};
use std::collections::VecDeque;

/// What both ends of all transactions share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: CallConfig,
    pub(crate) events: VecDeque<Event>,
    pub(crate) control: VecDeque<(Path, [u8; HEADER_LEN])>,
    pub(crate) incoming: u64,
    pub(crate) counters: Counters,
}

/// Control packets that wait, at most: beyond it they are lost, as on a path.
const CONTROL_MAX: usize = 1024;

impl Shared {
    pub(crate) fn next_incoming(&mut self) -> IncomingMessage {
        self.incoming += 1;
        IncomingMessage(self.incoming)
    }

    pub(crate) fn tell(&mut self, event: TransactionEvent) {
        self.events.push_back(Event::Transaction(event));
    }

    pub(crate) fn send_control(&mut self, path: Path, header: &Header) {
        if self.control.len() < CONTROL_MAX {
            self.control.push_back((path, header.emit()));
        }
    }
}
