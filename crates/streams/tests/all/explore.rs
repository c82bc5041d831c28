//! Small cases, all of them: three queues in a row, marks 0 to 3, every order of steps up to a depth.
//! A wake-up is never lost: when nothing can run, either all arrived or the device has no room.

use crate::kit::{driver, marks};
use streams::modules::Buffer;
use streams::{Error, Hysteresis, Runtime};

/// One step of the outside.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The user writes an octet.
    Write,
    /// The user writes in band 1.
    WriteBand,
    /// The user writes an empty message.
    WriteEmpty,
    /// The scheduler runs one procedure.
    Run,
    /// The device takes one message.
    Take,
}

const STEPS: [Step; 5] = [
    Step::Write,
    Step::WriteBand,
    Step::WriteEmpty,
    Step::Run,
    Step::Take,
];

fn play(hysteresis: Hysteresis, high: usize, low: usize, steps: &[Step]) {
    let mut runtime = Runtime::new(hysteresis);
    let (driver, device) = driver(high, low);
    let stream = runtime.open(driver).unwrap();
    runtime
        .push(stream, Box::new(Buffer::new(marks(high, low))))
        .unwrap();
    runtime
        .push(stream, Box::new(Buffer::deferring(marks(high, low))))
        .unwrap();
    let mut written = 0;
    for step in steps {
        let put = |runtime: &mut Runtime, data: &[u8], band| match runtime.put_message(
            stream,
            None,
            Some(data),
            streams::Priority::Band(band),
        ) {
            Ok(()) => 1,
            Err(Error::WouldBlock) => 0,
            Err(error) => panic!("{error}"),
        };
        match step {
            Step::Write => written += put(&mut runtime, b"x", 0),
            Step::WriteBand => written += put(&mut runtime, b"y", 1),
            Step::WriteEmpty => written += put(&mut runtime, b"", 0),
            Step::Run => {
                runtime.run(1);
            }
            Step::Take => {
                device.lock().unwrap().room += 1;
                runtime.ready(stream).unwrap();
            }
        }
    }
    device.lock().unwrap().room = usize::MAX;
    runtime.ready(stream).unwrap();
    assert!(
        runtime.run(1000) < 1000,
        "no procedure runs for ever: {steps:?}"
    );
    let taken = device.lock().unwrap().taken.len();
    assert_eq!(
        taken, written,
        "all arrive: {hysteresis:?} {high}/{low} {steps:?}"
    );
    assert!(
        runtime.poll(stream).unwrap().output,
        "room again: {steps:?}"
    );
}

#[test]
fn no_wakeup_is_lost_in_any_order_of_steps() {
    const DEPTH: usize = 6;
    for hysteresis in [Hysteresis::Full, Hysteresis::Wake, Hysteresis::Off] {
        for (high, low) in [
            (1, 0),
            (1, 1),
            (2, 0),
            (2, 1),
            (2, 2),
            (3, 0),
            (3, 1),
            (3, 3),
        ] {
            for number in 0..STEPS.len().pow(DEPTH as u32) {
                let mut rest = number;
                let steps = [(); DEPTH].map(|()| {
                    let step = STEPS[rest % STEPS.len()];
                    rest /= STEPS.len();
                    step
                });
                play(hysteresis, high, low, &steps);
            }
        }
    }
}
