//! Sampling this process.

use profile::folded_stacks::FoldedStacks;
use profile::table::{Column, Detail, MeasuredSize, SampleTally, SideProfile};
use profile::{KernelSymbols, ProfileError, Sampler, Symbolizer, available, tracepoint};
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::time::{Duration, Instant};

/// The sampled workload: time is spent in the kernel, which fills and copies.
#[inline(never)]
fn read_zeros() {
    let mut zeros = File::open("/dev/zero").expect("it is everywhere");
    let mut buffer = vec![0u8; 64 << 10];
    let end = Instant::now() + Duration::from_millis(300);
    while Instant::now() < end {
        zeros.read_exact(&mut buffer).expect("zeros");
        black_box(&buffer);
    }
}

#[test]
fn sampler_sees_kernel_and_user_frames() {
    let clock = match available() {
        Ok(clock) => clock,
        Err(error @ (ProfileError::Privilege(_) | ProfileError::Absent(_))) => {
            eprintln!("SKIPPED: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let symbols = match KernelSymbols::load() {
        Ok(symbols) => symbols,
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            return;
        }
    };
    // Threads started by this thread from here on are sampled; the harness started the others.
    let own = thread_id();
    let mut sampler = Sampler::attach(clock, &[own]).expect("it may be sampled");
    sampler.start().expect("it begins");
    std::thread::spawn(read_zeros).join().expect("it ends");
    let recording = sampler.stop();
    let mut symbolizer = Symbolizer::new(symbols);
    symbolizer.load_process(std::process::id());
    let (mut tree, mut tally) = (FoldedStacks::default(), SampleTally::default());
    let mut inside = 0;
    for sample in &recording.samples {
        assert_eq!(sample.process, std::process::id());
        let frames = symbolizer.frames(sample);
        inside += usize::from(frames.iter().any(|frame| frame.name.contains("read_zeros")));
        tree.add(&frames, sample.weight as f64);
        tally.add(&frames, sample.weight as f64);
    }
    // About 900 are expected; the machine decides how many there are.
    assert!(recording.samples.len() > 20, "{}", recording.samples.len());
    assert!(
        inside * 2 > recording.samples.len(),
        "{inside} stacks are whole"
    );
    let weight: f64 = recording.samples.iter().map(|one| one.weight as f64).sum();
    assert!((tree.root.weight - weight).abs() < 1.0);
    assert!((tally.weight() - weight).abs() < 1.0);
    let side = SideProfile::of(
        "reader",
        &[MeasuredSize {
            column: Column {
                messages: 10_000,
                cpu_s: 1.0,
                ..Column::default()
            },
            tally,
            ..MeasuredSize::default()
        }],
        Detail::Main,
    );
    let sum: f64 = side
        .layers
        .iter()
        .filter_map(|rows| rows.layer.values[0])
        .sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
}

#[test]
fn system_calls_are_counted() {
    let points = tracepoint::tracepoints();
    if !points.contains_key("system calls") {
        eprintln!("SKIPPED: this user sees no tracepoints; run as root");
        return;
    }
    let counters = tracepoint::TracepointCounters::attach(thread_id(), &points);
    counters.start().expect("they begin");
    let mut zeros = File::open("/dev/zero").expect("it is everywhere");
    for _ in 0..1000 {
        zeros.read_exact(&mut [0]).expect("a zero");
    }
    let counts = counters.stop();
    let calls = counts["system calls"];
    assert!((1000..1200).contains(&calls), "{calls}");
}

/// The ID of the calling thread, which the kernel takes as a process with this thread alone.
fn thread_id() -> u32 {
    let path = std::fs::read_link("/proc/thread-self").expect("/proc is there");
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).expect("a number")
}
