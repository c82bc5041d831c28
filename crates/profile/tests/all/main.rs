//! Sampling this process.

use profile::calls::CallCounter;
use profile::folded_stacks::FoldedStacks;
use profile::function_tracer::FunctionTracer;
use profile::table::{Column, Detail, MeasuredSize, SampleTally, SideProfile};
use profile::{
    CallCounting, FunctionList, KernelSymbols, ProfileError, Sampler, Symbolizer, available,
    tracepoint,
};
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

/// Reads a zero so many times in a thread that is started now, whose process is counted.
fn read_in_a_thread(times: u32) {
    let reader = std::thread::spawn(move || {
        let mut zeros = File::open("/dev/zero").expect("it is everywhere");
        for _ in 0..times {
            zeros.read_exact(&mut [0]).expect("a zero");
        }
    });
    reader.join().expect("it ends");
}

/// Instances of the function tracer that this process made.
fn own_instances() -> usize {
    let own = format!("towpath-{}-", std::process::id());
    let all = std::fs::read_dir("/sys/kernel/tracing/instances");
    let names = all.into_iter().flatten().flatten();
    names
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&own))
        .count()
}

#[test]
fn function_tracer_counts_each_call_and_leaves_nothing() {
    let list: FunctionList = "vfs_read,*_sys_read".parse().expect("a list");
    let tracer = match FunctionTracer::attach(thread_id(), &list) {
        Ok(tracer) => tracer,
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            return;
        }
    };
    read_in_a_thread(50);
    tracer.start().expect("it begins");
    read_in_a_thread(1000);
    let counted = tracer.stop().expect("it ends");
    read_in_a_thread(50);
    assert_eq!(counted.lost, 0);
    for routine in ["vfs_read", "sys_read"] {
        let calls = counted.calls.get(routine).copied().unwrap_or(0);
        assert!(
            (1000..1050).contains(&calls),
            "{routine}: {:?}",
            counted.calls
        );
    }
    drop(tracer);
    assert_eq!(own_instances(), 0);
    let unknown: FunctionList = "vfs_read,no_such_function_*".parse().expect("a list");
    let refused = FunctionTracer::attach(thread_id(), &unknown).expect_err("it matches nothing");
    assert!(
        refused.to_string().contains("no_such_function_*"),
        "{refused}"
    );
    assert_eq!(own_instances(), 0);
}

#[test]
fn calls_that_do_not_fit_are_counted_as_lost() {
    let tracer = match FunctionTracer::attach(thread_id(), &FunctionList::All) {
        Ok(tracer) => tracer,
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            return;
        }
    };
    tracer.start().expect("it begins");
    // The buffer of a processor holds 1.2 million calls; a read makes about ten.
    read_in_a_thread(400_000);
    let counted = tracer.stop().expect("it ends");
    assert!(counted.lost > 0 && counted.calls.is_empty(), "{counted:?}");
}

#[test]
fn routines_are_counted_by_tracepoints_without_a_tracer() {
    let points = tracepoint::routines();
    if !points.contains_key("sys_read") {
        eprintln!("SKIPPED: this user sees no tracepoints of system calls; run as root");
        return;
    }
    let counting = CallCounting::Tracepoints {
        points,
        because: "of the test".into(),
    };
    let counter = CallCounter::attach(&counting, thread_id()).expect("it is set up");
    counter.start().expect("it begins");
    read_in_a_thread(1000);
    let counted = counter.stop().expect("it ends");
    let calls = counted.calls["sys_read"];
    assert!((1000..1050).contains(&calls), "{calls}");
    assert_eq!(counted.lost, 0);
    // What is used here is said, with the reason if it is not the tracer.
    let found = CallCounting::find(&FunctionList::Network).expect("the list is ours");
    assert_eq!(
        found.because().is_none(),
        matches!(found, CallCounting::FunctionTracer { .. })
    );
    assert_eq!(own_instances(), 0);
}
