//! Sampling this process.

use profile::fold::Tree;
use profile::table::{Column, Measured, Side, Tally};
use profile::{KernelSymbols, Namer, ProfileError, Recorder, available, count};
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::time::{Duration, Instant};

/// What is sampled: the time is spent in the kernel, which fills and copies.
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
fn a_thread_is_sampled_in_the_kernel_and_in_its_own_procedures() {
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
    // A thread started from here on is sampled: this one started the harness' others before.
    let own = thread_id();
    let mut recorder = Recorder::watch(clock, &[own]).expect("it may be sampled");
    recorder.start().expect("it begins");
    std::thread::spawn(read_zeros).join().expect("it ends");
    let recording = recorder.stop();
    let mut namer = Namer::new(symbols);
    namer.learn(std::process::id());
    let (mut tree, mut tally) = (Tree::default(), Tally::default());
    let mut inside = 0;
    for sample in &recording.samples {
        assert_eq!(sample.process, std::process::id());
        let frames = namer.frames(sample);
        inside += usize::from(frames.iter().any(|frame| frame.name.contains("read_zeros")));
        tree.add(&frames, sample.weight as f64);
        tally.add(&frames, sample.weight as f64);
    }
    // Most of 900: how many the machine lets us have is not for a test to say.
    assert!(recording.samples.len() > 20, "{}", recording.samples.len());
    assert!(
        inside * 2 > recording.samples.len(),
        "{inside} stacks are whole"
    );
    let weight: f64 = recording.samples.iter().map(|one| one.weight as f64).sum();
    assert!((tree.root.weight - weight).abs() < 1.0);
    assert!((tally.weight() - weight).abs() < 1.0);
    let side = Side::of(
        "reader",
        &[Measured {
            column: Column {
                messages: 10_000,
                cpu_s: 1.0,
                ..Column::default()
            },
            tally,
            ..Measured::default()
        }],
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
    let points = count::tracepoints();
    if !points.contains_key("system calls") {
        eprintln!("SKIPPED: this user sees no tracepoints; run as root");
        return;
    }
    let counters = count::Counters::watch(thread_id(), &points);
    counters.start().expect("they begin");
    let mut zeros = File::open("/dev/zero").expect("it is everywhere");
    for _ in 0..1000 {
        zeros.read_exact(&mut [0]).expect("a zero");
    }
    let counts = counters.stop();
    let calls = counts["system calls"];
    assert!((1000..1200).contains(&calls), "{calls}");
}

/// The number of the calling thread, which the kernel takes for a process with this thread alone.
fn thread_id() -> u32 {
    let path = std::fs::read_link("/proc/thread-self").expect("/proc is there");
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).expect("a number")
}
