//! Groups and message circuits for C programs: objects by number, as in `towpath_xtp.h`.

use library::xtp::group::{GroupEndpointConfig, GroupWords, Receiver, Sender, Stream};
use library::xtp::{Circuit, Endpoint, EndpointConfig, Tags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Objects of a process, at most: as many as it may have descriptors as a rule.
const OBJECTS_MAX: usize = 1024;

/// How long the end of a circuit is waited for when it is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// What a number stands for.
enum Object {
    Receiver(Receiver),
    Stream(Mutex<Stream>),
    Sender(Mutex<Sender>),
    Endpoint(Endpoint),
    Circuit(Mutex<Option<Circuit>>),
}

static OBJECTS: Mutex<BTreeMap<i32, Arc<Object>>> = Mutex::new(BTreeMap::new());

fn insert(object: Object) -> io::Result<i32> {
    let mut objects = lock(&OBJECTS);
    if objects.len() >= OBJECTS_MAX {
        return Err(Errno::MFILE.into());
    }
    let number = objects.keys().next_back().map_or(1, |last| last + 1);
    objects.insert(number, Arc::new(object));
    Ok(number)
}

fn find(number: i32) -> io::Result<Arc<Object>> {
    let found = lock(&OBJECTS).get(&number).map(Arc::clone);
    found.ok_or_else(|| Errno::BADF.into())
}

/// Options of the form `KEY=VALUE,KEY=VALUE`.
fn parse_options(text: &str) -> io::Result<BTreeMap<String, String>> {
    let words = text.split(',').filter(|word| !word.is_empty());
    let pairs = words.map(|word| word.split_once('='));
    let pairs = pairs.map(|pair| pair.map(|(k, v)| (k.to_owned(), v.to_owned())));
    pairs
        .collect::<Option<_>>()
        .ok_or_else(|| Errno::INVAL.into())
}

/// The configuration of a group, and the address of the interface.
fn group_settings(
    group: SocketAddr,
    interface: Option<SocketAddr>,
    options: &str,
) -> io::Result<(IpAddr, GroupEndpointConfig)> {
    let words = GroupWords::parse(&parse_options(options)?).map_err(|_| Errno::INVAL)?;
    if words.replicate {
        // Its receivers would have to be named.
        return Err(Errno::INVAL.into());
    }
    let mut settings = GroupEndpointConfig::default();
    words.apply(&mut settings);
    let any: IpAddr = match group {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Ok((interface.map_or(any, |address| address.ip()), settings))
}

/// Joins a group.
pub(crate) fn join(
    group: SocketAddr,
    interface: Option<SocketAddr>,
    options: &str,
) -> io::Result<i32> {
    let (local, settings) = group_settings(group, interface, options)?;
    insert(Object::Receiver(Receiver::join(group, local, &settings)?))
}

/// The next stream of a receiver.
pub(crate) fn accept_stream(receiver: i32, limit: Duration) -> io::Result<i32> {
    match &*find(receiver)? {
        Object::Receiver(receiver) => insert(Object::Stream(Mutex::new(receiver.accept(limit)?))),
        _ => Err(Errno::BADF.into()),
    }
}

/// Octets of a stream; 0 at its end.
pub(crate) fn receive(stream: i32, buffer: &mut [u8], limit: Duration) -> io::Result<usize> {
    match &*find(stream)? {
        Object::Stream(stream) => Ok(lock(stream).recv(buffer, limit)?.unwrap_or(0)),
        _ => Err(Errno::BADF.into()),
    }
}

/// Opens a stream to a group.
pub(crate) fn open(
    group: SocketAddr,
    interface: Option<SocketAddr>,
    members: u32,
    options: &str,
) -> io::Result<i32> {
    let (local, mut settings) = group_settings(group, interface, options)?;
    settings.config.members_min = members.max(1) as usize;
    let sender = Sender::open(group, local, &settings)?;
    insert(Object::Sender(Mutex::new(sender)))
}

/// Calls `act` with a sender.
pub(crate) fn with_sender<R>(
    number: i32,
    act: impl FnOnce(&mut Sender) -> io::Result<R>,
) -> io::Result<R> {
    match &*find(number)? {
        Object::Sender(sender) => act(&mut lock(sender)),
        _ => Err(Errno::BADF.into()),
    }
}

/// Opens an endpoint of message circuits.
pub(crate) fn open_messages(local: SocketAddr, options: &str) -> io::Result<i32> {
    let settings = EndpointConfig::parse(&parse_options(options)?).map_err(|_| Errno::INVAL)?;
    let endpoint = Endpoint::bind_messages(local, &settings)?;
    endpoint.listen(true);
    insert(Object::Endpoint(endpoint))
}

fn endpoint(number: i32) -> io::Result<Endpoint> {
    match &*find(number)? {
        Object::Endpoint(endpoint) => Ok(endpoint.clone()),
        _ => Err(Errno::BADF.into()),
    }
}

/// Where an endpoint is.
pub(crate) fn local_addr(number: i32) -> io::Result<SocketAddr> {
    endpoint(number).map(|endpoint| endpoint.local_addr())
}

/// The next circuit of a peer.
pub(crate) fn accept_circuit(number: i32, limit: Duration) -> io::Result<i32> {
    let circuit = endpoint(number)?.accept(limit)?;
    insert(Object::Circuit(Mutex::new(Some(circuit))))
}

/// A circuit to a peer.
pub(crate) fn connect(number: i32, to: SocketAddr, limit: Duration) -> io::Result<i32> {
    let circuit = endpoint(number)?.connect(to, limit)?;
    insert(Object::Circuit(Mutex::new(Some(circuit))))
}

fn with_circuit<R>(number: i32, act: impl FnOnce(&mut Circuit) -> io::Result<R>) -> io::Result<R> {
    match &*find(number)? {
        Object::Circuit(circuit) => act(lock(circuit).as_mut().ok_or(Errno::BADF)?),
        _ => Err(Errno::BADF.into()),
    }
}

/// Sends a message, with a tag or none.
pub(crate) fn send_message(
    number: i32,
    tag: Option<[u8; 8]>,
    message: &[u8],
    limit: Duration,
) -> io::Result<()> {
    with_circuit(number, |circuit| {
        let tags = Tags {
            begin: tag,
            end: None,
        };
        circuit.send_tagged(tags, message, limit)?;
        circuit.flush()
    })
}

/// Sends a message as the study's character driver wrote: back once the peer has acknowledged it.
pub(crate) fn write_message(number: i32, message: &[u8], limit: Duration) -> io::Result<()> {
    let begun = Instant::now();
    with_circuit(number, |circuit| {
        circuit.send(message, limit)?;
        circuit.drain(limit.saturating_sub(begun.elapsed()))
    })
}

/// The next message: its tag and its length; a length of 0 at the end.
pub(crate) fn receive_message(
    number: i32,
    buffer: &mut [u8],
    limit: Duration,
) -> io::Result<(Option<[u8; 8]>, usize)> {
    with_circuit(number, |circuit| {
        let received = circuit.recv_tagged(buffer, limit)?;
        Ok(received.map_or((None, 0), |(tags, len)| (tags.begin, len)))
    })
}

/// Ends what a number stands for.
pub(crate) fn close(number: i32) -> io::Result<()> {
    let removed = lock(&OBJECTS).remove(&number).ok_or(Errno::BADF)?;
    if let Object::Circuit(circuit) = &*removed
        && let Some(circuit) = lock(circuit).take()
    {
        // A peer that is gone has nothing to acknowledge.
        let _ = circuit.close(CLOSE_TIMEOUT);
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
