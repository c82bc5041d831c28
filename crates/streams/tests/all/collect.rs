//! Short writes that a head collects (SO_STRHOLD): they leave together, and nothing passes them.

use crate::kit::{REVERSE, driver};
use crate::random::Random;
use streams::modules::Pass;
use streams::{Error, HeadOptions, Hysteresis, MessageKind, Priority, Runtime, StreamId};

fn hold(runtime: &mut Runtime, stream: StreamId, octets: usize) {
    let options = HeadOptions {
        hold: Some(octets),
        ..HeadOptions::default()
    };
    runtime.set_options(stream, options).unwrap();
}

#[test]
fn short_writes_leave_as_one_message_with_the_next_run() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(1000, 0);
    device.lock().unwrap().room = 9;
    let stream = runtime.open(driver).unwrap();
    hold(&mut runtime, stream, 64);
    for part in [&b"ab"[..], b"", b"cd", b"e"] {
        assert_eq!(runtime.write(stream, part), Ok(part.len()));
    }
    assert!(runtime.has_work());
    assert!(device.lock().unwrap().taken.is_empty());
    runtime.run(9);
    let taken = device.lock().unwrap().taken.clone();
    assert_eq!(taken, [(MessageKind::Data, 0, b"abcde".to_vec())]);
    assert!(!runtime.has_work());
}

#[test]
fn nothing_that_goes_down_passes_what_was_collected() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(1000, 0);
    device.lock().unwrap().room = 99;
    let stream = runtime.open(driver).unwrap();
    hold(&mut runtime, stream, 64);
    let band = Priority::Band(0);
    runtime.write(stream, b"1").unwrap();
    runtime
        .put_message(stream, Some(b"proto"), Some(b"data"), band)
        .unwrap();
    runtime.write(stream, b"2").unwrap();
    runtime.write(stream, &[b'L'; 17]).unwrap();
    runtime.write(stream, b"3").unwrap();
    runtime.request(stream, REVERSE, b"ioctl").unwrap();
    runtime.write(stream, b"4").unwrap();
    runtime.push(stream, Box::new(Pass)).unwrap();
    runtime.write(stream, b"5").unwrap();
    runtime.pop(stream).unwrap();
    runtime.write(stream, b"6").unwrap();
    runtime.close(stream).unwrap();
    let taken = device.lock().unwrap().taken.clone();
    let data: Vec<u8> = taken
        .into_iter()
        .flat_map(|(_, _, octets)| octets)
        .collect();
    assert_eq!(data, [&b"1protodata2"[..], &[b'L'; 17], b"3456"].concat());
}

#[test]
fn writer_is_refused_once_the_queue_is_full_and_all_that_was_taken_leaves() {
    for all in [Hysteresis::Full, Hysteresis::Wake, Hysteresis::Off] {
        let mut runtime = Runtime::new(all);
        let (driver, device) = driver(32, 8);
        let stream = runtime.open(driver).unwrap();
        hold(&mut runtime, stream, 16);
        let mut written = Vec::new();
        let refused = (0..100_u8).find(|&number| {
            let part = [number; 3];
            match runtime.write(stream, &part) {
                Ok(len) => written.extend_from_slice(&part[..len]),
                Err(error) => {
                    assert_eq!(error, Error::WouldBlock);
                    return true;
                }
            }
            if number % 5 == 4 {
                runtime.run(9);
            }
            false
        });
        assert!(refused.is_some(), "32 octets and one collection at most");
        assert!(written.len() <= 32 + 16, "{}", written.len());
        device.lock().unwrap().room = 99;
        runtime.ready(stream).unwrap();
        runtime.run(99);
        let taken = device.lock().unwrap().taken.clone();
        let left: Vec<u8> = taken
            .into_iter()
            .flat_map(|(_, _, octets)| octets)
            .collect();
        assert_eq!(left, written);
        assert_eq!(runtime.write(stream, b"on"), Ok(2));
    }
}

#[test]
fn octets_of_random_writes_arrive_in_order_whatever_is_run_pushed_and_popped() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut runtime = Runtime::new(Hysteresis::Full);
        let (a, b) = runtime.pipe();
        hold(&mut runtime, a, random.below(40) as usize);
        let (mut written, mut read, mut pushed) = (Vec::new(), Vec::new(), 0);
        for step in 0..300_u32 {
            match random.below(8) {
                0..4 => {
                    let part = vec![step as u8; random.below(30) as usize];
                    let len = runtime.write(a, &part).unwrap();
                    written.extend_from_slice(&part[..len]);
                }
                4 => {
                    let budget = random.below(3) as usize;
                    runtime.run(budget);
                }
                5 if pushed < 3 => {
                    runtime.push(a, Box::new(Pass)).unwrap();
                    pushed += 1;
                }
                6 if pushed > 0 => {
                    runtime.pop(a).unwrap();
                    pushed -= 1;
                }
                _ => receive(&mut runtime, b, &mut read),
            }
        }
        runtime.run(99);
        receive(&mut runtime, b, &mut read);
        assert_eq!(read, written, "seed {seed}");
    }
}

fn receive(runtime: &mut Runtime, stream: StreamId, into: &mut Vec<u8>) {
    let mut buffer = [0; 16_384];
    match runtime.read(stream, &mut buffer) {
        Ok(len) => into.extend_from_slice(&buffer[..len]),
        Err(error) => assert_eq!(error, Error::WouldBlock),
    }
}
