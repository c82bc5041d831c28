//! Invalid and disturbed trials, and the ledger of trials that lost messages.

use super::charts::Figure;
use super::timeline::label;
use crate::quantity;
use crate::view::View;
use results::{Ledger, Status, Trial};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Section {
    total: usize,
    good: usize,
    pilots: usize,
    marked: Vec<MarkedTrialRow>,
    more: usize,
    ledger: Vec<LedgerRow>,
    /// The trials in the order they ran.
    pub(super) order: Vec<Figure>,
}

#[derive(Serialize)]
struct MarkedTrialRow {
    index: u64,
    label: String,
    status: &'static str,
    reason: String,
}

#[derive(Serialize)]
struct LedgerRow {
    label: String,
    counts: Vec<String>,
}

/// Maximum rows of a list; the files have the rest.
const ROWS_MAX: usize = 200;

pub(super) fn section(view: &View) -> Section {
    let marked = view.failed_pilots().chain(view.marked_trials());
    let marked: Vec<MarkedTrialRow> = marked.map(row).collect();
    let lossy = view
        .counted_trials()
        .filter_map(|trial| Some((trial, trial.ledger.as_ref()?)));
    let lossy = lossy.filter(|(_, ledger)| ledger.delivered != ledger.sent || !balances(ledger));
    let order = crate::chart::order::chart(view);
    let caption = "In the order they ran";
    Section {
        order: order
            .map(|plot| super::workload::figure(view, caption, &plot))
            .into_iter()
            .collect(),
        total: view.counted_trials().count(),
        good: view
            .counted_trials()
            .filter(|trial| trial.status == Status::Ok)
            .count(),
        pilots: view.run.trials.len() - view.counted_trials().count(),
        more: marked.len().saturating_sub(ROWS_MAX),
        marked: marked.into_iter().take(ROWS_MAX).collect(),
        ledger: lossy
            .take(ROWS_MAX)
            .map(|(trial, ledger)| ledger_row(trial, ledger))
            .collect(),
    }
}

fn balances(ledger: &Ledger) -> bool {
    ledger.unaccounted == 0
}

fn row(trial: &Trial) -> MarkedTrialRow {
    let status = match trial.status {
        Status::Ok => "disturbed",
        Status::Invalid => "invalid",
        Status::Failed => "failed",
        Status::Interrupted => "interrupted",
    };
    let mut reasons: Vec<String> = Vec::new();
    if !trial.reason.is_empty() {
        reasons.push(quantity::clean(&trial.reason, 300));
    }
    reasons.extend(
        trial
            .disturbed
            .iter()
            .take(8)
            .map(|what| quantity::clean(what, 200)),
    );
    MarkedTrialRow {
        index: trial.index,
        label: label(trial),
        status,
        reason: reasons.join("; "),
    }
}

fn ledger_row(trial: &Trial, ledger: &Ledger) -> LedgerRow {
    let counts = [
        ledger.sent,
        ledger.delivered,
        ledger.lost_host,
        ledger.lost_link,
        ledger.corrupt,
        ledger.in_flight,
        ledger.duplicates,
    ];
    let mut counts: Vec<String> = counts
        .iter()
        .map(|n| quantity::grouped(*n as f64))
        .collect();
    counts.push(quantity::grouped(ledger.unaccounted as f64));
    LedgerRow {
        label: label(trial),
        counts,
    }
}
