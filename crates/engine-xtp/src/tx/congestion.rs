//! An optional congestion controller, so that XTP can share a path.

use super::bottleneck::{Bottleneck, Sight};
use crate::api::Congestion;
use engine::Instant;

/// One of the kinds there are.
#[derive(Clone, Debug)]
pub(crate) enum Controller {
    Window(Window),
    Rate(Box<Bottleneck>),
}

/// A window that grows until something happens.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// A long round trip is something too.
    heeds_delay: bool,
    segment: u64,
    window: u64,
    threshold: u64,
}

/// Packets in the first window, as RFC 6928 has it.
const INITIAL_SEGMENTS: u64 = 10;

impl Controller {
    /// None when the mode is off.
    pub(crate) fn new(mode: Congestion, segment: u64) -> Option<Controller> {
        match mode {
            Congestion::Off => None,
            Congestion::Loss => Some(Controller::Window(Window::new(false, segment))),
            Congestion::Delay => Some(Controller::Window(Window::new(true, segment))),
            Congestion::Rate => Some(Controller::Rate(Box::new(Bottleneck::new(segment)))),
        }
    }

    /// Bytes that may be in flight.
    pub(crate) fn window(&self) -> u64 {
        match self {
            Controller::Window(control) => control.window,
            Controller::Rate(control) => control.window(),
        }
    }

    /// One beyond the last byte that may be sent when everything below `acknowledged` was.
    pub(crate) fn limit(&self, acknowledged: u64) -> u64 {
        match self {
            Controller::Window(control) => acknowledged.saturating_add(control.window),
            Controller::Rate(control) => control.limit(acknowledged),
        }
    }

    /// Bytes between two status requests at most: whoever measures wants reports.
    pub(crate) fn status_every(&self) -> u64 {
        match self {
            Controller::Window(_) => u64::MAX,
            Controller::Rate(control) => control.window() / 8,
        }
    }

    /// The request `sync` is sent; `idle` when the user has nothing more to send.
    pub(crate) fn on_request(&mut self, now: Instant, sync: u32, idle: bool) {
        if let Controller::Rate(control) = self {
            control.on_request(now, sync, idle);
        }
    }

    pub(crate) fn on_acknowledged(&mut self, bytes: u64) {
        if let Controller::Window(control) = self {
            control.on_acknowledged(bytes);
        }
    }

    /// A round trip was measured; `queued` when much of it was spent in queues.
    pub(crate) fn on_round_trip(&mut self, queued: bool) {
        if let Controller::Window(control) = self
            && control.heeds_delay
            && queued
        {
            control.shrink_to(control.window - control.window / 8);
        }
    }

    /// A report came.
    pub(crate) fn on_report(&mut self, now: Instant, sight: &Sight) {
        if let Controller::Rate(control) = self {
            control.on_report(now, sight);
        }
    }

    /// `bytes` are to be sent again.
    pub(crate) fn on_loss(&mut self, bytes: u64) {
        match self {
            Controller::Window(control) => control.shrink_to(control.window / 2),
            Controller::Rate(control) => control.on_loss(bytes),
        }
    }

    /// A request was not answered.
    pub(crate) fn on_silence(&mut self) {
        match self {
            Controller::Window(control) => {
                // Begins anew.
                control.shrink_to(control.window / 2);
                control.window = 2 * control.segment;
            }
            Controller::Rate(control) => control.on_silence(),
        }
    }

    /// When a packet may be sent, if not now; `alone` when nothing is on the way.
    #[inline]
    pub(crate) fn blocked_until(&mut self, now: Instant, alone: bool) -> Option<Instant> {
        match self {
            Controller::Window(_) => None,
            Controller::Rate(control) => control.blocked_until(now, alone),
        }
    }

    /// A packet was sent.
    #[inline]
    pub(crate) fn spend(&mut self, octets: usize) {
        if let Controller::Rate(control) = self {
            control.spend(octets);
        }
    }
}

impl Window {
    fn new(heeds_delay: bool, segment: u64) -> Window {
        Window {
            heeds_delay,
            segment,
            window: INITIAL_SEGMENTS * segment,
            threshold: u64::MAX,
        }
    }

    fn on_acknowledged(&mut self, bytes: u64) {
        let grown = if self.window < self.threshold {
            bytes
        } else {
            self.segment * bytes / self.window.max(1)
        };
        self.window = (self.window + grown).min(WINDOW_MAX);
    }

    fn shrink_to(&mut self, window: u64) {
        self.window = window.max(2 * self.segment);
        self.threshold = self.window;
    }
}

/// No path has more than 1 GiB in flight.
const WINDOW_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_then_grows_by_a_packet_and_halves() {
        let mut control = Controller::new(Congestion::Loss, 1000).expect("it is on");
        control.on_acknowledged(10_000);
        assert_eq!(control.window(), 20_000);
        control.on_loss(1000);
        assert_eq!(control.window(), 10_000);
        control.on_acknowledged(10_000);
        assert_eq!(control.window(), 11_000);
        control.on_silence();
        assert_eq!(control.window(), 2000);
        assert!(Controller::new(Congestion::Off, 1000).is_none());
    }
}
