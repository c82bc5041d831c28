//! The study's figures, computed by its engines.

use study::dcruz::compare::{cells, expected_cells, row};
use study::dcruz::run::{Point, points, run, run_once};
use study::dcruz::{Cell, Standing};

#[test]
fn tables_17_to_21_match_to_the_last_digit() {
    let (columns, cells) = expected_cells();
    assert_eq!((columns.len(), cells.len()), (24, 60));
    let beyond: Vec<&Cell> = cells
        .iter()
        .filter(|cell| cell.standing == Standing::Beyond)
        .collect();
    assert!(beyond.is_empty(), "{beyond:#?}");
    // Two throughputs that no exchange of whole frames gives, each printed in two tables; the other
    // misprints are percentages.
    let misprints = cells
        .iter()
        .filter(|cell| cell.standing == Standing::Misprint);
    let throughputs = misprints.filter(|cell| cell.figure.ends_with("B/s"));
    let printed: Vec<f64> = throughputs.map(|cell| cell.paper).collect();
    assert_eq!(printed, [990_712.0, 1_071_598.0, 990_712.0, 1_071_598.0]);
}

/// The points of a size of 3.5 unicast, with fewer messages than the study.
fn points_of(size: usize, with_delays: bool, load: usize) -> Vec<Point> {
    let wanted = |point: &Point| {
        point.variant.revision_name() == "3.5"
            && !point.variant.multicast
            && (point.size, point.with_delays, point.load) == (size, with_delays, load)
    };
    points().into_iter().filter(wanted).collect()
}

#[test]
fn saturated_throughput_within_half_a_percent_of_paper() {
    for (size, load) in [(0, 15), (1, 13), (2, 12), (3, 12)] {
        let results = run(&points_of(size, false, load), 1500, &[1], 1, |_, _| {});
        let throughput = &cells(&results[0])[0];
        assert!(throughput.difference.abs() < 0.005, "{throughput:?}");
    }
}

#[test]
fn host_delay_plateaus_fall_with_load_as_in_paper() {
    for (size, loads) in [(2, [9, 12]), (3, [10, 12])] {
        let at = |load| {
            let results = run(&points_of(size, true, load), 4000, &[1, 2], 2, |_, _| {});
            cells(&results[0])[0].clone()
        };
        let [first, last] = loads.map(at);
        for cell in [&first, &last] {
            assert!(cell.difference.abs() < 0.01, "{cell:?}");
        }
        assert!(last.ours < first.ours && last.paper < first.paper);
    }
}

#[test]
fn unsaturated_throughput_equals_generated_load() {
    for point in points().iter().filter(|point| point.load == 4) {
        let results = run(&[*point], 1000, &[3], 1, |_, _| {});
        let row = row(&results[0]);
        assert_eq!(row.complete, row.runs);
        let off = row.throughput_bps / row.generated_bps - 1.0;
        assert!(off.abs() < 0.005, "{row:?}");
    }
}

#[test]
fn results_independent_of_thread_count() {
    let points: Vec<Point> = points().into_iter().step_by(29).collect();
    let run = |jobs| run(&points, 200, &[1, 2], jobs, |_, _| {});
    assert_eq!(run(1), run(5));
}

#[test]
fn minimum_delays_match_calculation() {
    // 6 B: frames of 576 and 912 bits, a gap of 96, two propagations of 11.5.
    let free = run_once(&points_of(0, false, 0)[0], 300, 1);
    assert!((free.min_delay_tu - 1607.0).abs() < 1e-9, "{free:?}");
    // 1024 B with host delays: the copy, two checksums, less the gap that hides them.
    let busy = run_once(&points_of(2, true, 0)[0], 300, 1);
    assert!(
        (busy.min_delay_tu - (9751.0 + 2694.0 + 2.0 - 96.0)).abs() < 1e-6,
        "{busy:?}"
    );
}
