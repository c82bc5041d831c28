//! An optional congestion controller, so that XTP can share a path.

use crate::api::Congestion;

#[derive(Clone, Debug)]
pub(crate) struct Controller {
    mode: Congestion,
    segment: u64,
    window: u64,
    threshold: u64,
}

/// Packets in the first window, as RFC 6928 has it.
const INITIAL_SEGMENTS: u64 = 10;

impl Controller {
    /// None when the mode is off.
    pub(crate) fn new(mode: Congestion, segment: u64) -> Option<Controller> {
        (mode != Congestion::Off).then_some(Controller {
            mode,
            segment,
            window: INITIAL_SEGMENTS * segment,
            threshold: u64::MAX,
        })
    }

    /// Bytes that may be in flight.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    pub(crate) fn on_acknowledged(&mut self, bytes: u64) {
        let grown = if self.window < self.threshold {
            bytes
        } else {
            self.segment * bytes / self.window.max(1)
        };
        self.window = (self.window + grown).min(WINDOW_MAX);
    }

    /// A round trip was measured; `queued` when much of it was spent in queues.
    pub(crate) fn on_round_trip(&mut self, queued: bool) {
        if self.mode == Congestion::Delay && queued {
            self.shrink_to(self.window - self.window / 8);
        }
    }

    pub(crate) fn on_loss(&mut self) {
        self.shrink_to(self.window / 2);
    }

    /// A request was not answered: begin anew.
    pub(crate) fn on_silence(&mut self) {
        self.shrink_to(self.window / 2);
        self.window = 2 * self.segment;
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
        control.on_loss();
        assert_eq!(control.window(), 10_000);
        control.on_acknowledged(10_000);
        assert_eq!(control.window(), 11_000);
        control.on_silence();
        assert_eq!(control.window(), 2000);
        assert!(Controller::new(Congestion::Off, 1000).is_none());
    }
}
