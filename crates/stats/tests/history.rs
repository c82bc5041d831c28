//! Each cell over many runs.

mod common;

use common::{Noise, block, plan};
use results::{Cell, Plan, Trial, VerdictKind};
use stats::{CellHistory, RunCells};

fn trials(plan: &Plan, seed: u64, speed: impl Fn(&str, u64) -> f64) -> Vec<Trial> {
    let mut noise = Noise::calm(seed);
    let blocks = 1..=10;
    blocks
        .flat_map(|number| block(plan, number, &mut noise, &speed))
        .collect()
}

fn run(seed: u64, speed: impl Fn(&str, u64) -> f64) -> RunCells {
    let plan = plan(&["tcp", "udp"]);
    RunCells::of(&plan, &trials(&plan, seed, speed))
}

fn kinds(one: &CellHistory) -> Vec<(usize, usize, VerdictKind)> {
    let steps = one.steps.iter();
    steps
        .map(|step| (step.from, step.to, step.verdict.kind))
        .collect()
}

#[test]
fn history_finds_run_and_cell_that_changed() {
    let slower = |name: &str, size| {
        if name == "udp" && size == 1024 {
            0.8
        } else {
            1.0
        }
    };
    let runs = [
        run(1, |_, _| 1.0),
        run(2, |_, _| 1.0),
        run(3, slower),
        run(4, slower),
    ];
    let cells = stats::history(&runs, 0.05, 0.0);
    assert_eq!(cells.len(), 6);
    for one in &cells {
        let changed = one.cell.transport() == "udp" && one.cell.size() == Some(1024);
        let expected = |to| match changed && to == 2 {
            true => VerdictKind::Slower,
            false => VerdictKind::NotEnoughData,
        };
        let expected: Vec<_> = (1..4).map(|to| (to - 1, to, expected(to))).collect();
        assert_eq!(kinds(one), expected, "{:?}", one.cell);
        assert!(
            one.values
                .iter()
                .all(|value| value.is_some_and(|value| value.n == 10))
        );
    }
}

#[test]
fn history_of_cell_missing_in_a_run_compares_runs_that_have_it() {
    let plan = plan(&["tcp", "udp"]);
    let mut middle = trials(&plan, 2, |_, _| 1.0);
    middle.retain(|trial| trial.cell.transport() == "tcp");
    let middle = RunCells::of(&plan, &middle);
    let runs = [run(1, |_, _| 1.0), middle, run(3, |_, _| 0.5)];
    let cells = stats::history(&runs, 0.05, 0.03);
    let udp = cells.iter().find(|one| one.cell.transport() == "udp");
    let udp = udp.expect("a cell of two runs");
    assert_eq!(kinds(udp), [(0, 2, VerdictKind::Slower)]);
    assert!(udp.values[1].is_none());
    let names: Vec<String> = cells.iter().map(|one| one.cell.text(Cell::SIZE)).collect();
    assert_eq!(names, ["64", "64", "1024", "1024", "16384", "16384"]);
}

#[test]
fn all_verdicts_of_history_are_one_family() {
    // 12 equal runs of 6 cells are 66 tests; without a correction most histories would have a false one.
    let differing = (0..60u64).filter(|seed| {
        let runs: Vec<RunCells> = (0..12).map(|n| run(seed * 12 + n, |_, _| 1.0)).collect();
        let cells = stats::history(&runs, 0.05, 0.0);
        let steps = cells.iter().flat_map(|one| &one.steps);
        let mut kinds = steps.map(|step| step.verdict.kind);
        kinds.any(|kind| kind != VerdictKind::NotEnoughData)
    });
    // 5 % of 60 and three standard deviations.
    let differing = differing.count();
    assert!(differing <= 8, "{differing} of 60");
}
