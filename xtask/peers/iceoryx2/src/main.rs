//! Messages of 64 octets between two processes by crate `iceoryx2`, publish-subscribe.
//!
//! `iceoryx2-peer delay SECONDS` prints the median round trip in us, `iceoryx2-peer throughput SECONDS` the
//! received messages per second. The ends look for messages without a pause, on CPUs 0 and 1, and a publisher
//! waits for a subscriber whose buffer is full, so that all messages arrive.

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::error::Error;
use std::hint::spin_loop;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;
type Message = [u8; 64];

const USAGE: &str = "usage: iceoryx2-peer delay|throughput SECONDS";

/// Samples that a subscriber's buffer holds: 1 MiB of messages, as a ring of ours.
const BUFFER: usize = (1 << 20) / size_of::<Message>();

/// The first octet of the message that ends a run.
const END: u8 = 255;

/// How long an end waits for the other to be there.
const LIMIT: Duration = Duration::from_secs(10);

/// One direction, between the processes of one run.
struct Direction {
    service:
        iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, Message, ()>,
}

impl Direction {
    fn open(node: &Node<ipc::Service>, run: &str, to: &str) -> Outcome<Direction> {
        let name = format!("towpath/{run}/{to}");
        let service = node
            .service_builder(&name.as_str().try_into()?)
            .publish_subscribe::<Message>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(BUFFER)
            .max_publishers(1)
            .max_subscribers(1)
            .open_or_create()?;
        Ok(Direction { service })
    }

    fn publisher(&self) -> Outcome<Publisher<ipc::Service, Message, ()>> {
        let builder = self.service.publisher_builder();
        Ok(builder
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()?)
    }

    fn subscriber(&self) -> Outcome<Subscriber<ipc::Service, Message, ()>> {
        Ok(self
            .service
            .subscriber_builder()
            .buffer_size(BUFFER)
            .create()?)
    }

    fn wait_for_subscriber(&self) -> Outcome<()> {
        let end = Instant::now() + LIMIT;
        while self.service.dynamic_config().number_of_subscribers() == 0 {
            if Instant::now() > end {
                return Err("the other process does not come".into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["answer", run] => answer(run),
        ["count", run] => count(run),
        ["delay", seconds] => delay(Duration::from_secs_f64(seconds.parse()?)),
        ["throughput", seconds] => throughput(Duration::from_secs_f64(seconds.parse()?)),
        _ => Err(USAGE.into()),
    }
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // Without such a CPU the scheduler chooses.
    let _ = sched_setaffinity(None, &set);
}

/// Starts the other end.
fn start(what: &str, run: &str) -> Outcome<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    Ok(command.args([what, run]).stdout(Stdio::piped()).spawn()?)
}

fn send(publisher: &Publisher<ipc::Service, Message, ()>, first: u8) -> Outcome<()> {
    publisher.loan_uninit()?.write_payload([first; 64]).send()?;
    Ok(())
}

/// The first octet of the next message.
fn receive(subscriber: &Subscriber<ipc::Service, Message, ()>) -> Outcome<u8> {
    loop {
        if let Some(sample) = subscriber.receive()? {
            return Ok(sample[0]);
        }
        spin_loop();
    }
}

fn delay(span: Duration) -> Outcome<()> {
    pin(0);
    let run = std::process::id().to_string();
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let (there, back) = (
        Direction::open(&node, &run, "there")?,
        Direction::open(&node, &run, "back")?,
    );
    let (publisher, subscriber) = (there.publisher()?, back.subscriber()?);
    let mut child = start("answer", &run)?;
    there.wait_for_subscriber()?;
    let mut trips = Vec::new();
    let end = Instant::now() + span;
    while Instant::now() < end {
        let began = Instant::now();
        send(&publisher, 1)?;
        receive(&subscriber)?;
        trips.push(began.elapsed());
    }
    send(&publisher, END)?;
    child.wait()?;
    let middle = trips.len() / 2;
    let (_, median, _) = trips.select_nth_unstable(middle);
    println!("{:.4}", median.as_secs_f64() * 1e6);
    Ok(())
}

/// The far end of `delay`.
fn answer(run: &str) -> Outcome<()> {
    pin(1);
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let (there, back) = (
        Direction::open(&node, run, "there")?,
        Direction::open(&node, run, "back")?,
    );
    let (publisher, subscriber) = (back.publisher()?, there.subscriber()?);
    loop {
        match receive(&subscriber)? {
            END => return Ok(()),
            first => send(&publisher, first)?,
        }
    }
}

fn throughput(span: Duration) -> Outcome<()> {
    pin(0);
    let run = std::process::id().to_string();
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let there = Direction::open(&node, &run, "there")?;
    let publisher = there.publisher()?;
    let mut child = start("count", &run)?;
    there.wait_for_subscriber()?;
    let end = Instant::now() + span;
    while Instant::now() < end {
        for _ in 0..64 {
            send(&publisher, 1)?;
        }
    }
    send(&publisher, END)?;
    let output = child.stdout.take().ok_or("no pipe")?;
    let line = BufReader::new(output).lines().next().ok_or("no count")??;
    child.wait()?;
    println!("{line}");
    Ok(())
}

/// The far end of `throughput`.
fn count(run: &str) -> Outcome<()> {
    pin(1);
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let subscriber = Direction::open(&node, run, "there")?.subscriber()?;
    let (mut messages, mut began) = (0_u64, None);
    while receive(&subscriber)? != END {
        began.get_or_insert_with(Instant::now);
        messages += 1;
    }
    let seconds = began.map_or(0.0, |began| began.elapsed().as_secs_f64());
    let mut output = std::io::stdout();
    writeln!(output, "{:.0}", messages as f64 / seconds.max(1e-9))?;
    Ok(())
}
