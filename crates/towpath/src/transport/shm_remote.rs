//! shm-remote: rings of shared memory whose other end is on another host.
//!
//! Each end is a channel each way to a proxy, a thread for each direction, which carries messages on by
//! `xtp-message`: one association a direction. The first message of an association says to which
//! circuit it belongs and which direction it is.

use super::shm::{self, ShmCircuit};
use super::shm_carrier::{BreakReason, Carrier};
use super::xtp;
use crate::channel_proxy::{carry_in, carry_out, is_pause, to_io_error};
use crate::contract::{
    Circuit, CircuitResult, Class, Interest, Listener, OptionHelp, Rendezvous, Transport,
    Unavailable,
};
use crate::engine_setup;
use crate::options::Options;
use channel::{ChannelReceiver, ChannelSender, Signal};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// The transport.
#[derive(Debug)]
pub struct ShmRemote;

/// What carries the messages between the proxies.
const CARRIER: xtp::Xtp = xtp::MESSAGES;

/// Octets of the first message: a random number of the circuit, then the direction.
const HELLO_LEN: usize = 9;

/// Circuits of which one direction has come, at most: a peer that opens more loses the oldest. As many
/// associations may be silent.
const HALVES_MAX: usize = 1024;

/// Time between looks for new associations while the first message of one has not come.
const NAME_INTERVAL: Duration = Duration::from_millis(1);

impl Transport for ShmRemote {
    fn name(&self) -> &'static str {
        "shm-remote"
    }

    fn summary(&self) -> &'static str {
        "rings of shared memory to a proxy, which carries messages on by xtp-message"
    }

    fn class(&self) -> Class {
        CARRIER.class()
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        CARRIER.class_with(own)
    }

    fn options(&self) -> &[OptionHelp] {
        CARRIER.options()
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        let checked = CARRIER.check_options(own);
        checked.map_err(|text| format!("{}, which carries it: {text}", self.name()))
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        CARRIER.available(options)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(RemoteListener {
            inner: CARRIER.listen(&doubled(options))?,
            options: options.clone(),
            unnamed: Vec::new(),
            halves: Vec::new(),
        }))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let inner = doubled(options);
        let mut there = CARRIER.connect(rendezvous, 2 * index, &inner)?;
        let mut back = CARRIER.connect(rendezvous, 2 * index + 1, &inner)?;
        let number = engine_setup::random_seed();
        for (circuit, direction) in [(&mut there, Direction::There), (&mut back, Direction::Back)] {
            circuit.send(&Hello { number, direction }.encode())?;
            circuit.flush()?;
        }
        circuit_of(
            Directions {
                outgoing: there,
                incoming: back,
            },
            options,
        )
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

/// The options of the carrier, which has an association a direction.
fn doubled(options: &Options) -> Options {
    Options {
        circuits: options.circuits.max(1) * 2,
        ..options.clone()
    }
}

/// Which way an association carries messages, seen from the connecting side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    There,
    Back,
}

#[derive(Debug, PartialEq, Eq)]
struct Hello {
    number: u64,
    direction: Direction,
}

impl Hello {
    fn encode(&self) -> [u8; HELLO_LEN] {
        let mut octets = [0; HELLO_LEN];
        octets[..8].copy_from_slice(&self.number.to_be_bytes());
        octets[8] = u8::from(self.direction == Direction::Back);
        octets
    }

    /// None for octets that are no hello.
    fn decode(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; HELLO_LEN] = octets.try_into().ok()?;
        let (number, direction) = octets.split_first_chunk::<8>()?;
        let direction = match direction {
            [0] => Direction::There,
            [1] => Direction::Back,
            _ => return None,
        };
        let number = u64::from_be_bytes(*number);
        Some(Self { number, direction })
    }
}

struct RemoteListener {
    inner: Box<dyn Listener>,
    options: Options,
    /// Associations whose first message has not come yet, the oldest first.
    unnamed: Vec<Box<dyn Circuit>>,
    /// Associations whose other direction has not come yet, the oldest first.
    halves: Vec<(Hello, Box<dyn Circuit>)>,
}

impl Listener for RemoteListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        self.inner.rendezvous()
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        loop {
            if let Some(directions) = self.take_directions() {
                return circuit_of(directions, &self.options);
            }
            let until = self.wait_for_a_name(deadline);
            match self.inner.accept(until) {
                Ok(circuit) => keep_newest(&mut self.unnamed, circuit),
                Err(error) if is_pause(&error) && Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl RemoteListener {
    /// Both directions of a circuit, once each has said which it is. An association that says anything
    /// else, or ends, is dropped; one that is silent stays for the next call.
    fn take_directions(&mut self) -> Option<Directions> {
        let mut at = 0;
        while at < self.unnamed.len() {
            let hello = match hello_of(&mut *self.unnamed[at]) {
                Ok(hello) => hello,
                Err(error) if is_pause(&error) => {
                    at += 1;
                    continue;
                }
                Err(_) => None,
            };
            let circuit = self.unnamed.remove(at);
            let directions = hello.and_then(|hello| self.join(hello, circuit));
            if directions.is_some() {
                return directions;
            }
        }
        None
    }

    /// Joins an association to the other direction, or keeps it until that comes.
    fn join(&mut self, hello: Hello, circuit: Box<dyn Circuit>) -> Option<Directions> {
        let same = |half: &(Hello, Box<dyn Circuit>)| {
            half.0.number == hello.number && half.0.direction != hello.direction
        };
        let Some(at) = self.halves.iter().position(same) else {
            keep_newest(&mut self.halves, (hello, circuit));
            return None;
        };
        let (_, other) = self.halves.remove(at);
        let (incoming, outgoing) = match hello.direction {
            Direction::There => (circuit, other),
            Direction::Back => (other, circuit),
        };
        Some(Directions { outgoing, incoming })
    }

    /// Waits a moment for the first message of the newest association without one; until when a new
    /// association may be waited for then. A silent one holds up no other.
    fn wait_for_a_name(&mut self, deadline: Instant) -> Instant {
        let Some(newest) = self.unnamed.last_mut() else {
            return deadline;
        };
        let moment = deadline.min(Instant::now() + NAME_INTERVAL);
        // The next look at it finds what is wrong with it.
        let _ = newest.wait(Interest::Read, moment);
        moment
    }
}

/// Keeps `item` with at most [`HALVES_MAX`] of its kind.
fn keep_newest<T>(kept: &mut Vec<T>, item: T) {
    if kept.len() == HALVES_MAX {
        kept.remove(0);
    }
    kept.push(item);
}

/// The first message of an association; None if it is no hello, or the association has ended.
/// Errors: a pause while it has not come; what the association failed with.
fn hello_of(circuit: &mut dyn Circuit) -> io::Result<Option<Hello>> {
    let mut octets = [0; HELLO_LEN + 1];
    let received = circuit.try_recv(&mut octets)?;
    Ok(received.and_then(|len| Hello::decode(&octets[..len])))
}

/// The associations of one circuit.
struct Directions {
    outgoing: Box<dyn Circuit>,
    incoming: Box<dyn Circuit>,
}

/// Starts the proxies of a circuit, and joins them to the user by a channel each way.
fn circuit_of(directions: Directions, options: &Options) -> CircuitResult {
    let geometry = shm::geometry(options)?;
    let (near, far) = UnixStream::pair()?;
    let own = channel::open_pair(near, geometry, Signal::Futex).map_err(to_io_error)?;
    let (to_user, from_user) = channel::accept_pair(far, Signal::Futex).map_err(to_io_error)?;
    let effective = directions.outgoing.effective();
    let broken = BreakReason::default();
    let outgoing = proxy_out(directions.outgoing, from_user, broken.clone())?;
    proxy_in(directions.incoming, to_user, broken.clone())?;
    let carrier = Carrier {
        broken,
        outgoing: Some(outgoing),
        effective,
    };
    Ok(Box::new(ShmCircuit::new(own, options, Some(carrier))))
}

/// A broken association drops its channel's end, which the user's next call says.
fn proxy_out(
    mut circuit: Box<dyn Circuit>,
    mut from_user: ChannelReceiver,
    broken: BreakReason,
) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new()
        .name("shm-remote-out".into())
        .spawn(move || {
            if let Err(error) = carry_out(&mut from_user, &mut *circuit) {
                broken.keep(&error);
            }
        })
}

/// It ends with its association, or within 50 ms of the user's end.
fn proxy_in(
    mut circuit: Box<dyn Circuit>,
    to_user: ChannelSender,
    broken: BreakReason,
) -> io::Result<()> {
    let proxy = thread::Builder::new().name("shm-remote-in".into());
    proxy.spawn(move || drop(carry_in(&mut *circuit, to_user, |error| broken.keep(error))))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_decoded_equals_what_was_encoded_and_other_octets_are_none() {
        for direction in [Direction::There, Direction::Back] {
            let hello = Hello {
                number: 0x0102_0304_0506_0708,
                direction,
            };
            assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        }
        assert_eq!(Hello::decode(&[0; 8]), None);
        assert_eq!(Hello::decode(&[2; 9]), None);
        assert_eq!(Hello::decode(&[0; 10]), None);
    }

    #[test]
    fn receiver_gets_the_reason_why_the_carrier_of_its_channel_ended() {
        let options = Options::default();
        let mut listener = ShmRemote.listen(&options).expect("it listens");
        let rendezvous = listener.rendezvous().expect("an address");
        let number = 1;
        let ends = [Direction::There, Direction::Back].map(|direction| {
            let index = usize::from(direction == Direction::Back);
            let end = CARRIER.connect(&rendezvous, index, &doubled(&options));
            let mut end = end.expect("it connects");
            let hello = Hello { number, direction };
            end.send(&hello.encode()).expect("it is sent");
            end.flush().expect("it leaves");
            end
        });
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut circuit = listener.accept(deadline).expect("a circuit");
        drop(ends);
        let error = circuit
            .recv(&mut [0; 64])
            .expect_err("no channel was closed");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let text = error.to_string();
        assert!(text.contains("before its channel was closed"), "{text}");
    }

    /// A connecting end that is held up between its opening and its first message loses nothing, and holds up
    /// no other.
    #[test]
    fn association_that_is_silent_for_longer_than_an_accept_waits_is_kept() {
        let options = Options {
            circuits: 2,
            ..Options::default()
        };
        let mut listener = ShmRemote.listen(&options).expect("it listens");
        let rendezvous = listener.rendezvous().expect("an address");
        let connect = |index| {
            let circuit = CARRIER.connect(&rendezvous, index, &doubled(&options));
            circuit.expect("it connects")
        };
        let mut slow = [connect(0), connect(1)];
        let soon = Instant::now() + Duration::from_millis(50);
        let error = listener.accept(soon).err().expect("none has a name");
        assert!(is_pause(&error), "{error}");
        let other = ShmRemote.connect(&rendezvous, 1, &options);
        let other = other.expect("it connects");
        let deadline = Instant::now() + Duration::from_secs(30);
        listener.accept(deadline).expect("the other's circuit");
        drop(other);
        for (circuit, direction) in slow.iter_mut().zip([Direction::There, Direction::Back]) {
            let hello = Hello {
                number: 1,
                direction,
            };
            circuit.send(&hello.encode()).expect("it is sent");
            circuit.flush().expect("it leaves");
        }
        listener.accept(deadline).expect("the slow one's circuit");
    }
}
