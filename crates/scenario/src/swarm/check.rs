//! Runs a drawn scenario and checks the invariants.

use super::draw;
use super::draw::RETRIES;
use crate::file::Scenario;
use crate::{build, parse};
use sim::{FlowReport, NetworkReport, Node, ReceiverReport, StopReason};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An invariant of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Bytes are delivered as they were sent.
    Undamaged,
    /// No byte is delivered twice, and no request.
    NotDoubled,
    /// No byte is left out or delivered too early.
    InOrder,
    /// Messages end where they were ended.
    WholeMessages,
    /// The sender releases nothing before its receiver has it, and no reply comes to a request that
    /// was not executed.
    NotLost,
    /// No circuit is closed early unless something drawn may close it.
    NotGivenUp,
    /// After all faults have ended, all messages not given up get through.
    NotStuck,
    /// The engines make progress in every step.
    NotSpinning,
    /// The medium accounts for every frame and all of its time.
    Accounted,
    /// No engine panics.
    NoPanic,
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The scenario's seed.
    pub seed: u64,
    /// Which invariant.
    pub invariant: Invariant,
    /// Where, and by how much.
    pub detail: String,
}

/// Totals of scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Scenarios.
    pub scenarios: u64,
    /// Messages settled.
    pub messages: u64,
    /// Messages given up with their circuits.
    pub given_up: u64,
    /// Packets retransmitted.
    pub retransmissions: u64,
    /// Events handled.
    pub events: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.scenarios += other.scenarios;
        self.messages += other.messages;
        self.given_up += other.given_up;
        self.retransmissions += other.retransmissions;
        self.events += other.events;
    }
}

/// Steps of the event loop no drawn scenario needs: the longest take some 100,000.
const STEPS_MAX: u64 = 3_000_000;

/// Runs the scenario of `seed`.
///
/// # Errors
///
/// The first invariant that does not hold.
pub fn check(seed: u64) -> Result<Tally, Violation> {
    check_with(seed, &|engine| engine)
}

/// The same with every engine passed through `wrap`. Errors are those of [`check`].
pub fn check_with(seed: u64, wrap: &dyn Fn(Node) -> Node) -> Result<Tally, Violation> {
    let violated = |(invariant, detail)| Violation {
        seed,
        invariant,
        detail,
    };
    let ran = catch_unwind(AssertUnwindSafe(|| run(seed, wrap)));
    let panicked = (
        Invariant::NoPanic,
        "an engine panicked, see above".to_owned(),
    );
    ran.unwrap_or(Err(panicked)).map_err(violated)
}

/// An invariant that does not hold, and where.
pub type InvariantFailure = (Invariant, String);

fn run(seed: u64, wrap: &dyn Fn(Node) -> Node) -> Result<Tally, InvariantFailure> {
    let text = draw(seed);
    let refused = |detail| {
        (
            Invariant::NoPanic,
            format!("the scenario is invalid: {detail}"),
        )
    };
    let scenario = parse(&text).map_err(refused)?;
    check_scenario(&scenario, wrap)
}

/// Runs `scenario` with its own seed, every engine passed through `wrap`.
///
/// # Errors
///
/// The first invariant that does not hold, and where.
pub fn check_scenario(
    scenario: &Scenario,
    wrap: &dyn Fn(Node) -> Node,
) -> Result<Tally, InvariantFailure> {
    let network = build::build_with(scenario, scenario.seed, wrap);
    let refused = |detail| {
        (
            Invariant::NoPanic,
            format!("the scenario is invalid: {detail}"),
        )
    };
    let mut network = network.map_err(|(_, detail)| refused(detail))?;
    network.limit_steps(STEPS_MAX);
    let ending = network.run(scenario.time_limit.0);
    let report = network.report(ending);
    let copies = Copies::of(scenario);
    for (number, flow) in report.flows.iter().enumerate() {
        for receiver in &flow.receivers {
            check_contents(receiver, copies, flow.offered).map_err(|(invariant, detail)| {
                let where_ = format!("circuit {number} at station {}: {detail}", receiver.station);
                (invariant, where_)
            })?;
        }
        let all = |(invariant, detail)| (invariant, format!("circuit {number}: {detail}"));
        check_sender(scenario, &report, flow).map_err(all)?;
    }
    check_stop_reason(&report)?;
    check_accounting(&report)?;
    Ok(tally(&report))
}

/// How often a message may arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copies {
    /// The protocol knows what it has delivered: no byte comes twice. Of calls, which may be asked for again, others count.
    Known,
    /// A datagram that nothing repeats comes once.
    One,
    /// A datagram may come twice over a path that duplicates packets (RFC 768 promises no more; of a packet the path
    /// makes two at most): whole each time, and with its own bytes.
    Two,
}

impl Copies {
    fn of(scenario: &Scenario) -> Copies {
        let is_udp = scenario.station[0].engine.protocol.get_ref() == "udp";
        let duplicates = |faults: crate::file::FaultSpec| faults.duplicate.0 > 0;
        match (is_udp, scenario.faults.is_some_and(duplicates)) {
            (false, _) => Copies::Known,
            (true, false) => Copies::One,
            (true, true) => Copies::Two,
        }
    }

    /// Messages that a receiver gets at most of so many sent.
    fn most(self, sent: u64) -> u64 {
        match self {
            Copies::Known => u64::MAX,
            Copies::One => sent,
            Copies::Two => 2 * sent,
        }
    }
}

/// Checks what a receiver got of `offered` messages.
fn check_contents(
    receiver: &ReceiverReport,
    copies: Copies,
    offered: u64,
) -> Result<(), InvariantFailure> {
    let ReceiverReport {
        wrong_bytes,
        repeated_bytes,
        skipped_bytes,
        wrong_ends,
        ..
    } = *receiver;
    let fault = |invariant, count: u64, detail: &str| match count {
        0 => Ok(()),
        _ => Err((invariant, format!("{count} {detail}"))),
    };
    // Bytes left out and delivered later are out of order; bytes delivered again only are doubled.
    if skipped_bytes > 0 {
        return fault(Invariant::InOrder, skipped_bytes, "bytes left out");
    }
    if copies != Copies::Two {
        fault(Invariant::NotDoubled, repeated_bytes, "bytes repeated")?;
    }
    let beyond = receiver.messages.saturating_sub(copies.most(offered));
    fault(
        Invariant::NotDoubled,
        beyond,
        "messages more than were sent",
    )?;
    fault(Invariant::Undamaged, wrong_bytes, "bytes damaged")?;
    fault(Invariant::WholeMessages, wrong_ends, "ends at wrong places")
}

/// Checks the sender's side of a circuit.
fn check_sender(
    scenario: &Scenario,
    report: &NetworkReport,
    flow: &FlowReport,
) -> Result<(), InvariantFailure> {
    if flow.lost_bytes > 0 {
        let detail = format!("{} bytes released too early", flow.lost_bytes);
        return Err((Invariant::NotLost, detail));
    }
    if flow.given_up > 0 && !may_give_up(scenario) && !overfills_a_queue(report) {
        let detail = format!("{} messages given up without a disturbance", flow.given_up);
        return Err((Invariant::NotGivenUp, detail));
    }
    let crashes = scenario
        .disturbance
        .iter()
        .any(|spec| spec.kind.get_ref() == "crash");
    let protocol = scenario.station[0].engine.protocol.get_ref();
    let lossy = matches!(protocol.as_str(), "bare" | "udp");
    let mut received = flow.receivers.iter().map(|receiver| receiver.messages);
    // What was given up is settled when all in front of it is.
    let must_arrive = flow.settled.saturating_sub(flow.abandoned);
    // A call to a group is settled by some of its members.
    if !flow.to_group && !crashes && !lossy && received.any(|received| received < must_arrive) {
        let detail = format!("{must_arrive} messages settled that did not all arrive");
        return Err((Invariant::NotLost, detail));
    }
    Ok(())
}

/// Whether a circuit may be closed early: a loss burst goes on until enough frames were lost in it,
/// and few retries may all be lost.
fn may_give_up(scenario: &Scenario) -> bool {
    let runs = scenario
        .faults
        .is_some_and(|faults| faults.loss_run.is_some());
    let few = |spec: &crate::file::StationSpec| match spec.engine.protocol.get_ref().as_str() {
        "xtp" | "xtp-group" | "sctp" => spec.engine.retries != Some(RETRIES),
        "call" => spec.engine.retries.is_some(),
        "vmtp" => spec.engine.retries != Some(RETRIES),
        _ => false,
    };
    // Some replies of a group may be too late, and few tries may all be lost.
    let may_fail = |spec: &crate::file::TrafficSpec| spec.collect.is_some() || spec.tries.is_some();
    if scenario.traffic.iter().any(may_fail) {
        return true;
    }
    // A cut of one path of several closes nothing: data go on by the others.
    let disturbs = |spec: &crate::disturbance::DisturbanceSpec| spec.path.is_none();
    scenario.disturbance.iter().any(disturbs) || runs || scenario.station.iter().any(few)
}

/// Whether a station lost most of its packets in its own queue. XTP without a congestion controller may
/// fill that queue for minutes; what another circuit of the station answers may be dropped there each
/// time (docs/decisions/0019).
fn overfills_a_queue(report: &NetworkReport) -> bool {
    let mut stations = report.stations.iter();
    stations.any(|station| 2 * station.frames_dropped > station.counters.packets_built)
}

fn check_stop_reason(report: &NetworkReport) -> Result<(), InvariantFailure> {
    let (offered, done) = report.flows.iter().fold((0, 0), |(offered, done), flow| {
        (offered + flow.offered, done + flow.settled + flow.given_up)
    });
    let left = format!("{} of {offered} messages are left", offered - done);
    match report.ending {
        StopReason::Complete => Ok(()),
        StopReason::Exhausted => Err((Invariant::NotSpinning, left)),
        StopReason::TimeLimit | StopReason::Stuck => Err((Invariant::NotStuck, left)),
    }
}

fn check_accounting(report: &NetworkReport) -> Result<(), InvariantFailure> {
    // Little's law: the number of frames at a controller, integrated over time, is the time each
    // was there, summed over frames.
    for (number, station) in report.stations.iter().enumerate() {
        if report.ending == StopReason::Complete && station.controller_ps != station.sojourn_ps {
            let (present, each) = (station.controller_ps, station.sojourn_ps);
            let detail = format!("station {number}: {present} frame ps present, {each} by frame");
            return Err((Invariant::Accounted, detail));
        }
    }
    let Some((counters, time)) = report.ether else {
        return Ok(());
    };
    let sum = time.carrying_ps + time.collided_ps + time.idle_ps;
    let frames = counters.sent + counters.dropped;
    if sum != report.elapsed_ps || counters.offered < frames {
        let detail = format!(
            "{sum} of {} ps, {frames} of {} frames",
            report.elapsed_ps, counters.offered
        );
        return Err((Invariant::Accounted, detail));
    }
    Ok(())
}

fn tally(report: &NetworkReport) -> Tally {
    let retransmissions = |station: &sim::StationReport| station.counters.retransmissions;
    Tally {
        scenarios: 1,
        messages: report.flows.iter().map(|flow| flow.settled).sum(),
        given_up: report.flows.iter().map(|flow| flow.given_up).sum(),
        retransmissions: report.stations.iter().map(retransmissions).sum(),
        events: report.events,
    }
}
