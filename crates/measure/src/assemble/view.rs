//! The reports of a trial with their context.

use crate::environment::LinkStats;
use crate::spec::{Direction, FanOutChoice, RaceSpec};
use crate::trial::{Collected, TrialSpec};
use control::{CircuitReport, Workload};
use loadgen::contestant::{self, Component};

/// Most messages in one buffer of a transport with segmentation offload, one a segment.
const SEGMENTS_MAX: u64 = 128;

/// Octets of the kernel's longest buffer.
const BUFFER_MAX: u64 = 65_536;

/// The reports of a trial with their context.
pub(super) struct TrialView<'a> {
    pub(super) spec: &'a RaceSpec,
    pub(super) trial: &'a TrialSpec,
    pub(super) collected: &'a Collected,
}

impl TrialView<'_> {
    pub(super) fn receivers(&self) -> impl Iterator<Item = &CircuitReport> {
        self.collected.receiver.circuits.iter()
    }

    pub(super) fn senders(&self) -> impl Iterator<Item = &CircuitReport> {
        self.collected.sender.circuits.iter()
    }

    pub(super) fn circuits(&self) -> impl Iterator<Item = &CircuitReport> {
        self.senders().chain(self.receivers())
    }

    pub(super) fn span_s(&self) -> f64 {
        let first = self
            .circuits()
            .map(|report| report.first_ns)
            .filter(|&at| at > 0)
            .min();
        let last = self.circuits().map(|report| report.last_ns).max();
        last.unwrap_or(0).saturating_sub(first.unwrap_or(0)) as f64 * 1e-9
    }

    /// Message count; on a byte stream, whose reads are not messages, computed from bytes.
    pub(super) fn messages(&self, report: &CircuitReport, received: u64, bytes: u64) -> f64 {
        if is_stream(&report.transport) && self.trial.contest.workload != Workload::Offered {
            bytes as f64 / self.trial.contest.size.max(1) as f64
        } else {
            received as f64
        }
    }

    pub(super) fn delivered(&self) -> f64 {
        let one = |report| self.delivered_by(report);
        let back: f64 = if self.spec.direction == Direction::Both {
            self.senders().map(one).sum()
        } else {
            0.0
        };
        self.receivers().map(one).sum::<f64>() + back
    }

    pub(super) fn delivered_by(&self, report: &CircuitReport) -> f64 {
        self.messages(report, report.received, report.received_bytes)
    }

    pub(super) fn sent(&self) -> u64 {
        let back: u64 = if self.spec.direction == Direction::Both {
            self.receivers().map(|report| report.sent).sum()
        } else {
            0
        };
        self.senders().map(|report| report.sent).sum::<u64>() + back
    }

    /// The sum over all receivers; where each message goes to all of several, the least, which is what all got.
    pub(super) fn counted(&self, of_receivers: impl Iterator<Item = f64>) -> f64 {
        match self.is_to_all() {
            true => of_receivers.reduce(f64::min).unwrap_or(0.0),
            false => of_receivers.sum(),
        }
    }

    /// Messages sent; one that goes to all of several receivers counts once.
    pub(super) fn sent_messages(&self) -> f64 {
        let receivers = match self.is_to_all() {
            true => self.senders().count().max(1),
            false => 1,
        };
        self.sent() as f64 / receivers as f64
    }

    fn is_to_all(&self) -> bool {
        let choice = self.trial.contest.fan_out.map(|fan_out| fan_out.choice);
        choice == Some(FanOutChoice::All)
    }

    /// User bytes received, in both directions where both are used.
    pub(super) fn received_bytes(&self) -> u64 {
        let one = |report: &CircuitReport| report.received_bytes;
        let back: u64 = match self.spec.direction {
            Direction::Both => self.senders().map(one).sum(),
            _ => 0,
        };
        self.receivers().map(one).sum::<u64>() + back
    }

    /// User bytes sent, as the sources counted them.
    pub(super) fn sent_bytes(&self) -> u64 {
        let one = |report: &CircuitReport| report.measures.get("sent_bytes").copied();
        self.circuits().filter_map(one).sum::<f64>() as u64
    }

    /// The transports that ran together.
    pub(super) fn components(&self) -> Vec<Component> {
        contestant::components(&self.trial.contestant)
    }

    /// Link statistics of the direction that carried data, or of both together, all links side by
    /// side added; None without an emulated link.
    pub(super) fn data_link_stats(&self) -> Option<LinkStats> {
        let links = self.collected.environment.links.iter().copied();
        let [there, back] = links
            .reduce(|[there, back], [one_there, one_back]| [there + one_there, back + one_back])?;
        let one_way = matches!(
            self.trial.contest.workload,
            Workload::Throughput | Workload::Offered
        );
        Some(match self.spec.direction {
            Direction::Forward if one_way => there,
            Direction::Reverse if one_way => back,
            _ => there + back,
        })
    }

    /// Messages in one buffer of the kernel, at most. An engine packs messages into packets, and many packets into a buffer.
    pub(super) fn messages_per_buffer_max(&self) -> u64 {
        let of_one = |component: &Component| match component.transport().name() {
            "udp-segmented" => SEGMENTS_MAX,
            _ if component.class().kernel => 1,
            _ => (BUFFER_MAX / self.trial.contest.size.max(1)).max(1),
        };
        let components = self.components();
        components.iter().map(of_one).max().unwrap_or(1)
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        self.circuits()
            .filter_map(|report| report.counts.get(name))
            .sum()
    }
}

/// Whether the component of that label is a byte stream.
pub(super) fn is_stream(label: &str) -> bool {
    Component::parse(label).is_ok_and(|component| component.class().stream)
}

pub(super) fn send_span_s(view: &TrialView<'_>) -> f64 {
    let spans = view
        .senders()
        .map(|report| report.last_ns.saturating_sub(report.first_ns));
    spans.max().unwrap_or(0) as f64 * 1e-9
}
