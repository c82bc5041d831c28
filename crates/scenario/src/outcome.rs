//! The result of a run as a row.

use samples::{Steady, series_mean, steady_state};
use serde::Serialize;
use sim::{AdapterReport, FlowReport, Histogram, NetworkReport, StopReason};

/// Slices of the throughput series for steady-state detection.
const SLICES: usize = 200;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunOutcome {
    /// Name of the scenario.
    pub scenario: String,
    /// Values changed in it, `key=value`.
    pub changes: Vec<String>,
    /// Its seed.
    pub seed: u64,
    /// `complete`, `time_limit`, `stuck` or `exhausted`.
    pub ending: &'static str,
    /// Simulated time, s.
    pub elapsed_s: f64,
    /// All circuits together.
    pub total: Totals,
    /// The shared cable, if there is one.
    pub ether: Option<EtherRow>,
    /// Every station.
    pub stations: Vec<StationRow>,
    /// Every circuit.
    pub circuits: Vec<CircuitRow>,
    /// Events handled.
    pub events: u64,
}

/// All circuits together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Totals {
    /// Messages produced.
    pub offered: u64,
    /// Messages settled at their senders.
    pub settled: u64,
    /// Messages given up with their circuits.
    pub given_up: u64,
    /// Messages received, counted once a receiver.
    pub received: u64,
    /// User bytes a second, all receivers together.
    pub throughput_bps: f64,
    /// From production to the receiving user.
    pub delay: Option<DelayStats>,
}

/// Delays, us.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DelayStats {
    /// Mean.
    pub mean_us: f64,
    /// Minimum.
    pub min_us: f64,
    /// Median; null with too few values, as are the other quantiles.
    pub p50_us: Option<f64>,
    /// 90 % are below.
    pub p90_us: Option<f64>,
    /// 99 % are below.
    pub p99_us: Option<f64>,
    /// 99.9 % are below.
    pub p999_us: Option<f64>,
    /// Maximum.
    pub max_us: f64,
}

/// The shared cable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EtherRow {
    /// Share of the time it carried frames without collision.
    pub utilisation: f64,
    /// Share of the time collisions took.
    pub collided: f64,
    /// Transmissions that collided.
    pub collisions: u64,
    /// Frames sent without collision.
    pub sent: u64,
    /// Frames given up after 16 attempts.
    pub dropped: u64,
}

/// A station.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StationRow {
    /// Share of the time its main processor worked for writer, reader, sender and receiver.
    pub busy: [f64; 4],
    /// Frames at its network controller, mean over time.
    pub controller_mean: f64,
    /// Most frames there at once.
    pub controller_max: u64,
    /// Most packets that waited for its receiver at once.
    pub arrivals_max: u64,
    /// Most parts of messages, each as long as a packet's payload, that waited for its writer at once.
    pub writer_max: u64,
    /// Most runs of arrived bytes that waited for its reader at once.
    pub reader_max: u64,
    /// Most bytes that its protocol had delivered and its users had not read.
    pub unread_max_bytes: u64,
    /// Packets dropped because `chips.queue` of them waited for its receiver.
    #[serde(skip_serializing_if = "is_zero")]
    pub arrivals_dropped: u64,
    /// Packets built.
    pub packets_built: u64,
    /// Of these, retransmissions.
    pub retransmissions: u64,
    /// Packets that went through rings of its host.
    #[serde(skip_serializing_if = "is_zero")]
    pub ring_packets: u64,
    /// What its adapter counted, on medium `atm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterRow>,
}

/// The adapter of a station.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AdapterRow {
    /// Cells dropped because the receive queue was full.
    pub overruns: u64,
    /// Most cells in the receive queue.
    pub receive_max: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Cells that found the transmit queue full.
    pub bus_stalls: u64,
    /// Share of the time for which the bus was blocked.
    pub stalled: f64,
    /// Stalls longer than the bus allows.
    pub bus_errors: u64,
    /// Share of the time for which the processor moved octets of packets into the transmit queue.
    pub copying: f64,
    /// That time, s.
    pub copy_s: f64,
    /// All time of the processor for sending cells, s.
    pub send_s: f64,
    /// Cells sent.
    pub cells_sent: u64,
}

/// A circuit. One that replaces another has a row of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CircuitRow {
    /// The station that sends.
    pub from: usize,
    /// Messages produced.
    pub offered: u64,
    /// Messages settled.
    pub settled: u64,
    /// Messages not settled when the circuit was closed early, and those produced afterwards.
    pub given_up: u64,
    /// Messages that the protocol gave up, as their lives allow.
    pub abandoned: u64,
    /// Replies to calls; several to one of a group.
    #[serde(skip_serializing_if = "is_zero")]
    pub replies: u64,
    /// Bytes the sender's protocol released before a receiver had them.
    pub lost_bytes: u64,
    /// Most bytes in the send buffer at once.
    pub held_max_bytes: u64,
    /// User bytes a second up to the last settled message, at the receiver that has the fewest.
    pub user_bps: f64,
    /// Octets of the packets they came in, a second.
    pub packet_bps: f64,
    /// Octets of packets a second that the produced messages would make at the rate at which they
    /// were produced.
    pub generated_bps: f64,
    /// From the controller starting a message's last frame to the packet that settled the message.
    pub exchange: Option<DelayStats>,
    /// Each receiver.
    pub receivers: Vec<ReceiverRow>,
}

/// A receiver of a circuit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReceiverRow {
    /// Its station.
    pub station: usize,
    /// Messages received.
    pub messages: u64,
    /// User bytes received.
    pub bytes: u64,
    /// Octets of the packets they came in.
    pub packet_bytes: u64,
    /// User bytes a second up to the last message.
    pub throughput_bps: f64,
    /// The same in steady state, if the run reached it.
    pub steady_bps: Option<f64>,
    /// Its standard error by batch means.
    pub steady_error_bps: Option<f64>,
    /// The warm-up: `settled`, `never settled` or `too short`.
    pub settling: &'static str,
    /// Gaps between deliveries.
    pub gaps: u64,
    /// Bytes that were not the ones sent.
    pub wrong_bytes: u64,
    /// From production to the user.
    pub delay: Option<DelayStats>,
}

impl RunOutcome {
    /// The row of a run.
    pub fn new(
        scenario: &str,
        changes: &[String],
        seed: u64,
        report: &NetworkReport,
    ) -> RunOutcome {
        let elapsed_ps = report.elapsed_ps.max(1) as f64;
        let circuits: Vec<CircuitRow> = report.flows.iter().map(circuit_row).collect();
        let mut delay = Histogram::default();
        let receivers = report.flows.iter().flat_map(|flow| &flow.receivers);
        let (mut received, mut bytes) = (0, 0);
        for receiver in receivers {
            delay.merge(&receiver.delay);
            received += receiver.messages;
            bytes += receiver.bytes;
        }
        RunOutcome {
            scenario: scenario.to_owned(),
            changes: changes.to_vec(),
            seed,
            ending: match report.ending {
                StopReason::Complete => "complete",
                StopReason::TimeLimit => "time_limit",
                StopReason::Stuck => "stuck",
                StopReason::Exhausted => "exhausted",
            },
            elapsed_s: elapsed_ps / 1e12,
            total: Totals {
                offered: report.flows.iter().map(|flow| flow.offered).sum(),
                settled: report.flows.iter().map(|flow| flow.settled).sum(),
                given_up: report.flows.iter().map(|flow| flow.given_up).sum(),
                received,
                throughput_bps: bytes as f64 / (elapsed_ps / 1e12),
                delay: delay_stats(&delay),
            },
            ether: report.ether.map(|(counters, time)| EtherRow {
                utilisation: time.carrying_ps as f64 / elapsed_ps,
                collided: time.collided_ps as f64 / elapsed_ps,
                collisions: counters.collisions,
                sent: counters.sent,
                dropped: counters.dropped,
            }),
            stations: report
                .stations
                .iter()
                .map(|station| StationRow {
                    busy: station.busy_ps.map(|busy| busy as f64 / elapsed_ps),
                    controller_mean: station.controller_ps as f64 / elapsed_ps,
                    controller_max: station.controller_max,
                    arrivals_max: station.arrivals_max,
                    writer_max: station.writer_max,
                    reader_max: station.reader_max,
                    unread_max_bytes: station.unread_max_bytes,
                    arrivals_dropped: station.arrivals_dropped,
                    packets_built: station.counters.packets_built,
                    retransmissions: station.counters.retransmissions,
                    ring_packets: station.ring_packets,
                    adapter: adapter_row(&station.adapter, elapsed_ps),
                })
                .collect(),
            circuits,
            events: report.events,
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// None where nothing was counted: polling, or no adapter.
fn adapter_row(adapter: &AdapterReport, elapsed_ps: f64) -> Option<AdapterRow> {
    (adapter.receive_max > 0 || adapter.copy_ps > 0).then(|| AdapterRow {
        overruns: adapter.overruns,
        receive_max: adapter.receive_max,
        interrupts: adapter.interrupts,
        bus_stalls: adapter.bus_stalls,
        stalled: adapter.stall_ps as f64 / elapsed_ps,
        bus_errors: adapter.bus_errors,
        copying: adapter.copy_ps as f64 / elapsed_ps,
        copy_s: adapter.copy_ps as f64 / 1e12,
        send_s: adapter.send_ps as f64 / 1e12,
        cells_sent: adapter.cells_sent,
    })
}

fn circuit_row(flow: &FlowReport) -> CircuitRow {
    let receivers = flow.receivers.iter().map(|receiver| {
        let rates = receiver.series.rates(SLICES);
        let (settling, kept) = match steady_state(&rates) {
            Steady::From(slice) => ("settled", Some(&rates[slice..])),
            Steady::Never => ("never settled", None),
            Steady::TooShort => ("too short", None),
        };
        let steady = kept.and_then(series_mean);
        ReceiverRow {
            station: receiver.station,
            messages: receiver.messages,
            bytes: receiver.bytes,
            packet_bytes: receiver.packet_bytes,
            throughput_bps: receiver.bytes as f64 / (receiver.last_ps.max(1) as f64 / 1e12),
            steady_bps: steady.map(|mean| mean.mean),
            steady_error_bps: steady.map(|mean| mean.standard_error),
            settling,
            gaps: receiver.gaps,
            wrong_bytes: receiver.wrong_bytes,
            delay: delay_stats(&receiver.delay),
        }
    });
    let rates = rates(flow);
    CircuitRow {
        from: flow.from,
        offered: flow.offered,
        settled: flow.settled,
        given_up: flow.given_up,
        abandoned: flow.abandoned,
        replies: flow.replies,
        lost_bytes: flow.lost_bytes,
        held_max_bytes: flow.buffered_max,
        user_bps: rates[0],
        packet_bps: rates[1],
        generated_bps: rates[2],
        exchange: delay_stats(&flow.exchange),
        receivers: receivers.collect(),
    }
}

/// User bytes and packet octets a second at the receiver with the fewest, and packet octets a second
/// as they were produced.
fn rates(flow: &FlowReport) -> [f64; 3] {
    let Some(receiver) = flow.receivers.iter().min_by_key(|receiver| receiver.bytes) else {
        return [0.0; 3];
    };
    let seconds = |ps: u64| ps.max(1) as f64 / 1e12;
    let settled_s = seconds(flow.last_settled_ps);
    let a_message = receiver.packet_bytes as f64 / receiver.messages.max(1) as f64;
    [
        receiver.bytes as f64 / settled_s,
        receiver.packet_bytes as f64 / settled_s,
        a_message * flow.offered as f64 / seconds(flow.last_offered_ps),
    ]
}

fn delay_stats(histogram: &Histogram) -> Option<DelayStats> {
    let us = |ps: u64| ps as f64 / 1e6;
    let percentile = |q| histogram.percentile(q).map(us);
    Some(DelayStats {
        mean_us: histogram.mean()? / 1e6,
        min_us: us(histogram.min()?),
        p50_us: percentile(0.5),
        p90_us: percentile(0.9),
        p99_us: percentile(0.99),
        p999_us: percentile(0.999),
        max_us: us(histogram.max()?),
    })
}
