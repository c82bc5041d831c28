//! Runs the study and prints the comparison.
fn main() {
    let messages: u64 = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(2000);
    let start = std::time::Instant::now();
    let report = study::dcruz::study(messages, &[1, 2, 3], 2, |_, _| {});
    for c in &report.cells {
        println!("{c:?}");
    }
    for r in &report.rows {
        if r.complete != r.runs {
            println!("INCOMPLETE {r:?}");
        }
    }
    println!("{} events {:?}", report.events, start.elapsed());
}
