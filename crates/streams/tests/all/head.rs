//! What users call: octets, messages, requests, errors.

use crate::kit::{REVERSE, driver};
use streams::modules::{Buffer, Meter, Pass};
use streams::{
    Error, Extra, FlushRequest, HeadOptions, Hysteresis, Message, MessageKind, Priority,
    ReadControl, ReadMode, Runtime, Side, Want,
};

fn arrive(runtime: &mut Runtime, device: &crate::kit::Shared, text: &str) {
    let block = runtime.pool_mut().copy(0, text.as_bytes());
    device
        .lock()
        .unwrap()
        .arriving
        .push_back(Message::data(block));
}

#[test]
fn written_octets_reach_the_driver_in_packets_of_its_length() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(100_000, 1);
    let stream = runtime.open(driver).unwrap();
    device.lock().unwrap().room = 10;
    assert_eq!(runtime.write(stream, &[7; 10_000]), Ok(10_000));
    runtime.run(10);
    let lengths: Vec<usize> = device
        .lock()
        .unwrap()
        .taken
        .iter()
        .map(|m| m.2.len())
        .collect();
    assert_eq!(lengths, [4096, 4096, 1808]);
}

#[test]
fn full_driver_takes_a_part_then_blocks_until_its_low_mark() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(8192, 4096);
    let stream = runtime.open(driver).unwrap();
    assert_eq!(
        runtime.write(stream, &[7; 20_000]),
        Ok(8192),
        "two packets fill it"
    );
    assert_eq!(runtime.write(stream, b"x"), Err(Error::WouldBlock));
    assert!(runtime.writer_waits(stream).unwrap() && !runtime.poll(stream).unwrap().output);
    device.lock().unwrap().room = 2;
    runtime.ready(stream).unwrap();
    runtime.run(10);
    assert!(!runtime.writer_waits(stream).unwrap(), "woken");
    assert_eq!(runtime.write(stream, b"x"), Ok(1));
}

#[test]
fn full_reader_stops_the_driver_until_it_reads() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(100, 10);
    let stream = runtime.open(driver).unwrap();
    let options = HeadOptions {
        high_water: Some(4),
        low_water: Some(2),
        ..HeadOptions::default()
    };
    runtime.set_options(stream, options).unwrap();
    for text in ["ab", "cd", "ef"] {
        arrive(&mut runtime, &device, text);
    }
    runtime.ready(stream).unwrap();
    runtime.run(10);
    assert_eq!(
        device.lock().unwrap().arriving.len(),
        1,
        "4 octets of 4 are at the head"
    );
    let mut buffer = [0; 3];
    assert_eq!(runtime.read(stream, &mut buffer), Ok(3));
    assert_eq!(runtime.run(10), 1, "the driver goes on below the low mark");
    assert_eq!(device.lock().unwrap().arriving.len(), 0);
    let mut rest = [0; 8];
    assert_eq!(runtime.read(stream, &mut rest), Ok(3));
    assert_eq!((&buffer[..], &rest[..3]), (&b"abc"[..], &b"def"[..]));
}

fn read_in_mode(mode: ReadMode) -> Vec<String> {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(100, 10);
    let stream = runtime.open(driver).unwrap();
    let options = HeadOptions {
        read_mode: Some(mode),
        ..HeadOptions::default()
    };
    runtime.set_options(stream, options).unwrap();
    for text in ["abcde", "fg"] {
        arrive(&mut runtime, &device, text);
    }
    runtime.ready(stream).unwrap();
    runtime.run(10);
    let mut reads = Vec::new();
    let mut buffer = [0; 3];
    while let Ok(len) = runtime.read(stream, &mut buffer) {
        reads.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
    }
    reads
}

#[test]
fn read_mode_decides_what_becomes_of_boundaries() {
    assert_eq!(read_in_mode(ReadMode::Octets), ["abc", "def", "g"]);
    assert_eq!(read_in_mode(ReadMode::MessageOrLose), ["abc", "fg"]);
    assert_eq!(read_in_mode(ReadMode::MessageAndKeep), ["abc", "de", "fg"]);
}

fn read_of_control(control: ReadControl) -> (Result<usize, Error>, Vec<u8>) {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(100, 10);
    let stream = runtime.open(driver).unwrap();
    let options = HeadOptions {
        read_control: Some(control),
        ..HeadOptions::default()
    };
    runtime.set_options(stream, options).unwrap();
    let parts = ["head", "data"].map(|text| runtime.pool_mut().copy(0, text.as_bytes()));
    let [control, data] = parts;
    device
        .lock()
        .unwrap()
        .arriving
        .push_back(Message::proto(control, Some(data)));
    runtime.ready(stream).unwrap();
    runtime.run(10);
    let mut buffer = [0; 16];
    let len = runtime.read(stream, &mut buffer);
    (len, buffer[..len.unwrap_or(0)].to_vec())
}

#[test]
fn read_of_a_control_part_fails_reads_it_or_drops_it() {
    assert_eq!(
        read_of_control(ReadControl::Refuse),
        (Err(Error::BadMessage), vec![])
    );
    assert_eq!(
        read_of_control(ReadControl::AsData),
        (Ok(8), b"headdata".to_vec())
    );
    assert_eq!(
        read_of_control(ReadControl::Discard),
        (Ok(4), b"data".to_vec())
    );
}

#[test]
fn message_larger_than_the_buffers_comes_in_parts() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, b) = runtime.pipe();
    runtime
        .put_message(a, Some(b"control"), Some(b"data"), Priority::Band(2))
        .unwrap();
    let (mut control, mut data) = ([0; 4], [0; 3]);
    let first = runtime
        .get_message(b, &mut control, &mut data, Want::Any)
        .unwrap();
    assert_eq!((first.control, first.data), (Some(4), Some(3)));
    assert!(first.more_control && first.more_data && first.priority == Priority::Band(2));
    let rest = runtime
        .get_message(b, &mut control, &mut data, Want::Band(2))
        .unwrap();
    assert_eq!((rest.control, rest.data), (Some(3), Some(1)));
    assert!(!rest.more_control && !rest.more_data);
    assert_eq!(
        runtime.get_message(b, &mut control, &mut data, Want::Any),
        Err(Error::WouldBlock)
    );
}

#[test]
fn get_of_a_band_waits_for_one_and_high_priority_comes_first() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, b) = runtime.pipe();
    runtime
        .put_message(a, None, Some(b"plain"), Priority::Band(0))
        .unwrap();
    let (mut control, mut data) = ([0; 8], [0; 8]);
    let wanted = runtime.get_message(b, &mut control, &mut data, Want::Band(1));
    assert_eq!(wanted, Err(Error::WouldBlock));
    runtime
        .put_message(a, Some(b"now"), None, Priority::High)
        .unwrap();
    let got = runtime
        .get_message(b, &mut control, &mut data, Want::High)
        .unwrap();
    assert_eq!(
        (got.priority, got.control, got.data),
        (Priority::High, Some(3), None)
    );
    let none = runtime.put_message(a, None, Some(b"x"), Priority::High);
    assert!(matches!(none, Err(Error::Invalid(_))));
}

#[test]
fn high_priority_passes_a_full_queue() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(4, 1);
    let stream = runtime.open(driver).unwrap();
    runtime.write(stream, b"full").unwrap();
    assert_eq!(runtime.write(stream, b"x"), Err(Error::WouldBlock));
    runtime
        .put_message(stream, Some(b"now"), None, Priority::High)
        .unwrap();
    device.lock().unwrap().room = 9;
    runtime.run(10);
    let kinds: Vec<MessageKind> = device.lock().unwrap().taken.iter().map(|m| m.0).collect();
    assert_eq!(kinds, [MessageKind::HighProto, MessageKind::Data]);
}

#[test]
fn request_is_answered_by_the_driver_through_modules() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, _) = driver(100, 10);
    let stream = runtime.open(driver).unwrap();
    runtime.push(stream, Box::new(Pass)).unwrap();
    runtime.push(stream, Box::new(Buffer::default())).unwrap();
    runtime.request(stream, REVERSE, b"abc").unwrap();
    assert_eq!(runtime.take_answer(stream).unwrap().octets, b"cba");
    runtime.request(stream, 99, b"").unwrap();
    assert_eq!(runtime.take_answer(stream), Err(Error::Refused));
    assert!(matches!(
        runtime.take_answer(stream),
        Err(Error::Invalid(_))
    ));
}

#[test]
fn request_into_a_pipe_is_refused_by_the_other_head() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, _) = runtime.pipe();
    runtime.request(a, REVERSE, b"abc").unwrap();
    assert_eq!(runtime.take_answer(a), Err(Error::Refused));
}

#[test]
fn flush_empties_both_directions_once() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(4, 1);
    let stream = runtime.open(driver).unwrap();
    runtime.push(stream, Box::new(Buffer::default())).unwrap();
    arrive(&mut runtime, &device, "read");
    runtime.ready(stream).unwrap();
    runtime.run(10);
    runtime.write(stream, b"full").unwrap();
    runtime.write(stream, b"more").unwrap();
    let all = FlushRequest {
        read: true,
        write: true,
        band: None,
    };
    runtime.flush(stream, all).unwrap();
    assert_eq!(runtime.read(stream, &mut [0; 8]), Err(Error::WouldBlock));
    device.lock().unwrap().room = 9;
    runtime.ready(stream).unwrap();
    runtime.run(10);
    assert_eq!(device.lock().unwrap().taken.len(), 0);
    assert!(runtime.poll(stream).unwrap().output);
}

fn send_up(
    runtime: &mut Runtime,
    stream: streams::StreamId,
    device: &crate::kit::Shared,
    message: Message,
) {
    device.lock().unwrap().arriving.push_back(message);
    runtime.ready(stream).unwrap();
    runtime.run(10);
}

#[test]
fn error_from_below_fails_calls_and_hang_up_ends_reads() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(100, 10);
    let stream = runtime.open(driver).unwrap();
    arrive(&mut runtime, &device, "last");
    send_up(
        &mut runtime,
        stream,
        &device,
        Message::new(MessageKind::HangUp),
    );
    assert_eq!(runtime.write(stream, b"x"), Err(Error::HungUp));
    let mut buffer = [0; 8];
    assert_eq!(
        runtime.read(stream, &mut buffer),
        Ok(4),
        "what came before is read"
    );
    assert_eq!(runtime.read(stream, &mut buffer), Ok(0));
    let ready = runtime.poll(stream).unwrap();
    assert!(ready.hung_up && !ready.output);
    let failed = Extra::Errors {
        read: Some(71),
        write: Some(71),
    };
    send_up(
        &mut runtime,
        stream,
        &device,
        Message::with_extra(MessageKind::Error, failed),
    );
    assert_eq!(runtime.read(stream, &mut buffer), Err(Error::Failed(71)));
    assert_eq!(runtime.write(stream, b"x"), Err(Error::Failed(71)));
}

#[test]
fn options_from_below_leave_room_for_a_header() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(100, 10);
    let stream = runtime.open(driver).unwrap();
    let options = HeadOptions {
        write_offset: Some(16),
        packet_max: Some(2),
        ..HeadOptions::default()
    };
    send_up(
        &mut runtime,
        stream,
        &device,
        Message::with_extra(MessageKind::SetOptions, Extra::Options(options)),
    );
    let (a, b) = runtime.pipe();
    runtime.set_options(a, options).unwrap();
    runtime.write(a, b"four").unwrap();
    let message = runtime.take_blocks(b, Want::Any).unwrap();
    assert_eq!((message.data[0].headroom(), message.data[0].len()), (16, 2));
    device.lock().unwrap().room = 9;
    runtime.write(stream, b"four").unwrap();
    runtime.run(10);
    assert_eq!(device.lock().unwrap().taken.len(), 2);
}

#[test]
fn closed_stream_is_none_and_its_number_serves_again() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, device) = driver(100, 10);
    let stream = runtime.open(driver).unwrap();
    device.lock().unwrap().room = 9;
    runtime.write(stream, b"last words").unwrap();
    runtime.close(stream).unwrap();
    assert_eq!(
        device.lock().unwrap().taken.len(),
        1,
        "what was written leaves"
    );
    assert_eq!(runtime.write(stream, b"x"), Err(Error::BadStream));
    assert_eq!(runtime.close(stream), Err(Error::BadStream));
    assert_eq!(runtime.fifo(), stream);
}

#[test]
fn modules_are_listed_from_the_head_down_and_only_those_pushed_are_popped() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (driver, _) = driver(100, 10);
    let stream = runtime.open(driver).unwrap();
    let meter = Meter::default();
    let counts = meter.counts();
    runtime.push(stream, Box::new(meter)).unwrap();
    runtime.push(stream, Box::new(Buffer::default())).unwrap();
    assert_eq!(
        runtime.modules(stream).unwrap(),
        ["buffer", "meter", "device"]
    );
    runtime.write(stream, b"counted").unwrap();
    assert_eq!(
        (counts.messages(Side::Write), counts.octets(Side::Write)),
        (1, 7)
    );
    runtime.pop(stream).unwrap();
    runtime.pop(stream).unwrap();
    assert!(matches!(runtime.pop(stream), Err(Error::Modules(_))));
    assert_eq!(runtime.modules(stream).unwrap(), ["device"]);
}
