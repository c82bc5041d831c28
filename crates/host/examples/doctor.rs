//! Prints facts about this host, doctor's findings, and the cost of a snapshot.

use std::time::Instant;

fn main() {
    let machine = host::machine(&results::TestSpec::default());
    for fact in &machine.facts {
        println!("{:8} {:34} {}", fact.group, fact.name, fact.value);
    }
    for finding in &machine.findings {
        println!("\n{:?}: {}", finding.severity, finding.what);
        if !finding.effect.is_empty() {
            println!("    {}\n    remedy: {}", finding.effect, finding.remedy);
        }
    }
    let start = Instant::now();
    let before = host::Snapshot::take();
    let cost = start.elapsed();
    let seen = before.until(&host::Snapshot::take());
    println!(
        "\na snapshot takes {cost:?}; the next one came {:?} later",
        seen.span
    );
}
