//! The provider of datagrams (T_CLTS) over whatever carries them: the kernel's UDP, or a driver that makes
//! its packets itself.
//!
//! * `carrier` - what carries them; `headers` - its headers in front of the user's octets.
//! * `requests` - what all providers of datagrams do alike.

mod carrier;
mod headers;
pub(crate) mod requests;

pub use carrier::{BATCH_MAX, DatagramCarrier, DatagramHeaders, Found, no_options};

use crate::inet::{Shared, SocketAddress, TIDU};
use crate::provider::{EPROTO, indicate};
use crate::tpi::{
    ADDRESS_MAX, Primitive, State, TransportOption, datagram_options, parse_options,
    write_datagram_indication, write_options,
};
use headers::HEADER_MAX;
use requests::{DatagramService, destination_of};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use streams::{
    Block, Context, Error, Extra, HeadOptions, Marks, Message, MessageKind, Module, ModuleInfo,
    Side,
};

/// Octets of an address of the Internet ([`crate::inet::encode`]).
pub const INTERNET_ADDRESS_MAX: i32 = 28;

/// Arrivals shorter than this are copied into blocks of their length, so that a queue pins no more than
/// twice its octets.
const LENT_MIN: usize = TIDU / 2;

/// Receives of one run at most: datagrams that are none fill no queue, and must not hold the stream for as long as
/// they come.
const ROUNDS_MAX: usize = 256;

/// EOPNOTSUPP: an option of a datagram was not taken.
pub(crate) const NOT_SUPPORTED: i32 = 95;

/// The provider: the driver of a stream.
pub(crate) struct DatagramProvider {
    /// Octets of the header that is written in front of datagrams; 0 where the carrier puts them together itself.
    headroom: usize,
    carrier: Box<dyn DatagramCarrier>,
    marks: Marks,
    state: State,
    /// The address that it is bound to; empty before that.
    address: Vec<u8>,
    shared: Arc<Shared>,
    /// A block to receive into.
    spare: Option<Block>,
    /// What the last receive found.
    found: Vec<Found>,
    /// Datagrams that are about to leave together.
    batch: Vec<Message>,
    /// The last source, as it is written into indications.
    source: Option<(SocketAddress, Vec<u8>)>,
}

impl DatagramProvider {
    /// A provider whose write queue has `marks`.
    /// With `headroom` the carrier's headers go in front of the user's octets, if it has such.
    pub(crate) fn new(
        mut carrier: Box<dyn DatagramCarrier>,
        marks: Marks,
        headroom: bool,
    ) -> DatagramProvider {
        let headers = carrier.headers().filter(|_| headroom);
        let headroom = headers.map_or(0, |headers| headers.header_len());
        let headroom = if headroom > HEADER_MAX { 0 } else { headroom };
        DatagramProvider {
            headroom,
            carrier,
            marks,
            state: State::Unbound,
            address: Vec::new(),
            shared: Arc::default(),
            spare: None,
            found: Vec::new(),
            batch: Vec::new(),
            source: None,
        }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The user wants the options of datagrams that come.
    pub(crate) fn report_options(&mut self) {
        self.carrier.report_options();
    }

    /// Datagrams that came and were none.
    pub(crate) fn malformed(&self) -> u64 {
        self.carrier.malformed()
    }

    /// Takes those in front of the queue that have one destination and one length; false when it is empty.
    fn take_batch(&mut self, context: &mut Context<'_>) -> bool {
        let Some(mut first) = context.get(Side::Write) else {
            return false;
        };
        first.pull_up(self.headroom, context.pool());
        let len = first.data_octets();
        let most = self.carrier.batch_max(len).clamp(1, BATCH_MAX);
        self.batch.push(first);
        // A get that finds nothing would let what is put back schedule the procedure again, without end.
        while self.batch.len() < most && !context.is_empty(Side::Write) {
            let Some(mut next) = context.get(Side::Write) else {
                break;
            };
            let first = &self.batch[0];
            let has_options = [first, &next].map(|one| !options_of(one).is_empty());
            if next.data_octets() != len
                || has_options != [false, false]
                || destination_of(&next) != destination_of(first)
            {
                context.put_back(Side::Write, next);
                break;
            }
            next.pull_up(self.headroom, context.pool());
            self.batch.push(next);
        }
        true
    }

    fn send_batch(&mut self, options: Option<&mut [TransportOption]>) -> io::Result<()> {
        let options = options.ok_or(io::ErrorKind::InvalidInput)?;
        let destination = self.batch.first().and_then(destination_of);
        let destination = destination.and_then(SocketAddress::decode);
        let destination = destination.ok_or(io::ErrorKind::InvalidInput)?;
        if self.headroom > 0 && options.is_empty() && self.write_headers(destination)? {
            return self.send_headed(destination);
        }
        let mut datagrams = [&[][..]; BATCH_MAX];
        for (place, message) in datagrams.iter_mut().zip(&self.batch) {
            *place = message.data.first().map_or(&[][..], Block::octets);
        }
        let datagrams = &datagrams[..self.batch.len()];
        self.carrier.send(destination, datagrams, options)
    }

    /// Datagrams did not leave (T_UDERROR_IND).
    fn tell_errors(
        &mut self,
        context: &mut Context<'_>,
        error: &io::Error,
        options: Vec<TransportOption>,
    ) {
        let errno = match error.kind() {
            io::ErrorKind::Unsupported => NOT_SUPPORTED,
            _ => error.raw_os_error().unwrap_or(EPROTO),
        };
        let options = write_options(&options);
        for message in &self.batch {
            if !context.can_put_next(Side::Read, 0) {
                return;
            }
            let indication = Primitive::DatagramError {
                destination: destination_of(message).unwrap_or_default().to_vec(),
                options: options.clone(),
                errno: errno as u32,
            };
            indicate(context, &indication);
        }
    }

    fn count_calls(&self) {
        let (sends, receives) = self.carrier.system_calls();
        self.shared.sends.store(sends, Ordering::Relaxed);
        self.shared.receives.store(receives, Ordering::Relaxed);
    }

    fn receive_once(&mut self, context: &mut Context<'_>) -> bool {
        let spare = self.spare.take();
        let mut block = spare.unwrap_or_else(|| context.pool().allocate(0, TIDU));
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let received = block.fill(|room| self.carrier.receive(room, &mut found));
        for one in &found {
            self.pass_up(context, &block, one);
        }
        self.found = found;
        if block.len() < LENT_MIN {
            block.clear();
            self.spare = Some(block);
        } else {
            context.pool().release(block);
        }
        received.is_ok()
    }

    /// T_UNITDATA_IND. The octets are lent where most of the block is used, else copied.
    fn pass_up(&mut self, context: &mut Context<'_>, block: &Block, one: &Found) {
        if block.octets().get(one.range.clone()).is_none() {
            return;
        }
        let data = if block.len() >= LENT_MIN {
            let mut lent = block.duplicate();
            lent.keep(one.range.clone());
            lent
        } else {
            context.copy(&block.octets()[one.range.clone()])
        };
        if self.source.as_ref().is_none_or(|(at, _)| *at != one.source) {
            self.source = Some((one.source, one.source.encode()));
        }
        let source = self.source.as_ref().map_or(&[][..], |(_, octets)| octets);
        let control = if one.options.is_empty() {
            let mut control = [0; 20 + ADDRESS_MAX];
            context.copy(write_datagram_indication(source, &mut control))
        } else {
            let indication = Primitive::DatagramIndication {
                source: source.to_vec(),
                options: write_options(&one.options),
            };
            context.copy(&indication.octets())
        };
        context.put_next(Side::Read, Message::proto(control, Some(data)));
    }
}

/// The options of a datagram, in place.
fn options_of(message: &Message) -> &[u8] {
    let control = message.control.as_ref();
    control.map_or(&[][..], |control| datagram_options(control.octets()))
}

impl DatagramService for DatagramProvider {
    fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    fn address(&self) -> &[u8] {
        &self.address
    }

    fn limits(&self) -> (i32, i32, i32, u32) {
        let longest = i32::try_from(self.carrier.datagram_max()).unwrap_or(i32::MAX);
        let (address, options) = (self.carrier.address_max(), self.carrier.options_max());
        (longest, address, options, 0)
    }

    fn bind(&mut self, address: &[u8]) -> io::Result<()> {
        let wanted = match address {
            [] => None,
            address => Some(SocketAddress::decode(address).ok_or(io::ErrorKind::InvalidInput)?),
        };
        self.address = self.carrier.bind(wanted)?.encode();
        self.shared.set_socket(self.carrier.socket());
        Ok(())
    }

    fn unbind(&mut self) {
        self.carrier.unbind();
        self.address.clear();
        self.shared.set_socket(None);
    }

    fn answer_options(&mut self, octets: &[u8], flags: u32) -> Primitive {
        self.carrier.answer_options(octets, flags)
    }

    /// Receives what is there while the head has room.
    fn receive_queued(&mut self, context: &mut Context<'_>) {
        if self.address.is_empty() || self.shared.received_outside.load(Ordering::Relaxed) {
            return;
        }
        let mut rounds = 0..ROUNDS_MAX;
        while context.can_put_next(Side::Read, 0)
            && rounds.next().is_some()
            && self.receive_once(context)
        {}
        self.count_calls();
    }

    /// Service procedure of the write queue: as many datagrams a system call as the carrier takes.
    fn send_queued(&mut self, context: &mut Context<'_>) {
        if self.address.is_empty() {
            return;
        }
        while self.take_batch(context) {
            let first = self.batch.first().map_or(&[][..], options_of);
            let mut options = parse_options(first);
            let sent = self.send_batch(options.as_deref_mut());
            self.count_calls();
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.shared.send_blocked.store(true, Ordering::Relaxed);
                    let look_soon = !self.carrier.socket_tells_room();
                    self.shared.look_soon.store(look_soon, Ordering::Relaxed);
                    while let Some(message) = self.batch.pop() {
                        context.put_back(Side::Write, message);
                    }
                    return;
                }
                Err(error) => self.tell_errors(context, &error, options.unwrap_or_default()),
                Ok(()) => {}
            }
            for message in self.batch.drain(..) {
                message.release(context.pool());
            }
        }
        self.shared.send_blocked.store(false, Ordering::Relaxed);
        self.shared.look_soon.store(false, Ordering::Relaxed);
    }
}

impl Module for DatagramProvider {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::with_services(self.carrier.name(), self.marks, self.carrier.datagram_max())
    }

    /// The head leaves room in front of what users send (SO_WROFF).
    fn open(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        if self.headroom > 0 {
            let options = HeadOptions {
                write_offset: Some(self.headroom),
                ..HeadOptions::default()
            };
            let message = Message::with_extra(MessageKind::SetOptions, Extra::Options(options));
            context.put_next(Side::Read, message);
        }
        Ok(())
    }

    fn close(&mut self, context: &mut Context<'_>) {
        requests::close(self, context);
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        requests::put(self, context, side, message);
    }

    fn service(&mut self, context: &mut Context<'_>, side: Side) {
        requests::service(self, context, side);
    }

    fn ready(&mut self, context: &mut Context<'_>) {
        requests::ready(self, context);
    }
}
