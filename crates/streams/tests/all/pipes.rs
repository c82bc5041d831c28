//! Pipes and FIFOs with modules on either end.

use streams::modules::{Buffer, Meter, Pass, Pipemod};
use streams::{Error, FlushRequest, Hysteresis, Runtime, Side};

fn read(runtime: &mut Runtime, stream: streams::StreamId) -> Vec<u8> {
    let mut buffer = [0; 64];
    let len = runtime.read(stream, &mut buffer).unwrap();
    buffer[..len].to_vec()
}

#[test]
fn pipe_carries_both_directions_through_modules_of_both_ends() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, b) = runtime.pipe();
    let meter = Meter::default();
    let counts = meter.counts();
    runtime.push(a, Box::new(meter)).unwrap();
    runtime.push(b, Box::new(Pass)).unwrap();
    runtime.write(a, b"there").unwrap();
    runtime.write(b, b"back").unwrap();
    assert_eq!(
        (read(&mut runtime, b), read(&mut runtime, a)),
        (b"there".to_vec(), b"back".to_vec())
    );
    assert_eq!(
        (counts.octets(Side::Write), counts.octets(Side::Read)),
        (5, 4)
    );
    assert_eq!(runtime.modules(a).unwrap(), ["meter"]);
    runtime.pop(a).unwrap();
    runtime.pop(b).unwrap();
    runtime.write(a, b"again").unwrap();
    assert_eq!(read(&mut runtime, b), b"again");
}

#[test]
fn fifo_returns_what_is_written_through_its_modules() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let fifo = runtime.fifo();
    runtime.write(fifo, b"plain").unwrap();
    assert_eq!(read(&mut runtime, fifo), b"plain");
    let meters = [Meter::default(), Meter::default()];
    let counts = meters.each_ref().map(Meter::counts);
    for meter in meters {
        runtime.push(fifo, Box::new(meter)).unwrap();
    }
    runtime.write(fifo, b"two").unwrap();
    assert_eq!(read(&mut runtime, fifo), b"two");
    for meter in &counts {
        assert_eq!(
            (meter.octets(Side::Write), meter.octets(Side::Read)),
            (3, 3)
        );
    }
    runtime.pop(fifo).unwrap();
    runtime.write(fifo, b"one").unwrap();
    assert_eq!(read(&mut runtime, fifo), b"one");
    runtime.pop(fifo).unwrap();
    runtime.write(fifo, b"none").unwrap();
    assert_eq!(read(&mut runtime, fifo), b"none");
    assert_eq!(
        (counts[0].octets(Side::Write), counts[1].octets(Side::Write)),
        (6, 3)
    );
}

#[test]
fn flush_of_what_was_written_empties_the_other_ends_reading_side_only() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, b) = runtime.pipe();
    runtime.write(a, b"there").unwrap();
    runtime.write(b, b"back").unwrap();
    let written = FlushRequest {
        read: false,
        write: true,
        band: None,
    };
    runtime.flush(a, written).unwrap();
    assert_eq!(runtime.read(b, &mut [0; 8]), Err(Error::WouldBlock));
    assert_eq!(read(&mut runtime, a), b"back");
}

/// A flush of what was written empties what the other end would read, and of nothing else, wherever pipemod is.
#[test]
fn pipemod_on_either_end_or_both_turns_a_flush_once() {
    for pushed in [[true, false], [false, true], [true, true]] {
        for (read, write) in [(false, true), (true, false), (true, true)] {
            let mut runtime = Runtime::new(Hysteresis::Full);
            let (a, b) = runtime.pipe();
            for (end, is_pushed) in [a, b].into_iter().zip(pushed) {
                if is_pushed {
                    runtime.push(end, Box::new(Pipemod)).unwrap();
                    assert_eq!(runtime.modules(end), Ok(vec!["pipemod"]));
                }
            }
            runtime.write(a, b"there").unwrap();
            runtime.write(b, b"back").unwrap();
            let request = FlushRequest {
                read,
                write,
                band: None,
            };
            runtime.flush(a, request).unwrap();
            let left = [a, b].map(|end| runtime.read(end, &mut [0; 8]).is_ok());
            assert_eq!(left, [!read, !write], "{pushed:?}");
        }
    }
}

#[test]
fn writer_blocked_by_a_pipe_is_woken_by_its_reader() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, b) = runtime.pipe();
    let mut written = 0;
    while runtime.write(a, &[1; 4096]).is_ok() {
        written += 4096;
    }
    assert_eq!(written, 65_536);
    let mut buffer = vec![0; 65_536 - 8192];
    runtime.read(b, &mut buffer).unwrap();
    assert!(
        runtime.writer_waits(a).unwrap(),
        "8,192 octets are left: the low mark"
    );
    runtime.read(b, &mut [0; 1]).unwrap();
    assert!(!runtime.writer_waits(a).unwrap());
}

#[test]
fn writer_blocked_before_a_push_is_woken_after_it() {
    for pushed_on_the_reader in [false, true] {
        let mut runtime = Runtime::new(Hysteresis::Full);
        let (a, b) = runtime.pipe();
        while runtime.write(a, &[1; 4096]).is_ok() {}
        let end = if pushed_on_the_reader { b } else { a };
        runtime.push(end, Box::new(Buffer::default())).unwrap();
        assert!(
            !runtime.writer_waits(a).unwrap(),
            "the wake-up would go to the module"
        );
        assert_eq!(runtime.write(a, b"more"), Ok(4), "the module queues");
    }
}

#[test]
fn closed_end_lets_the_other_read_the_rest_then_the_end() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, b) = runtime.pipe();
    runtime.push(a, Box::new(Buffer::default())).unwrap();
    runtime.write(a, b"rest").unwrap();
    runtime.close(a).unwrap();
    assert_eq!(read(&mut runtime, b), b"rest");
    assert_eq!(runtime.read(b, &mut [0; 8]), Ok(0));
    assert_eq!(runtime.write(b, b"x"), Err(Error::HungUp));
    runtime.close(b).unwrap();
}
