//! VMTP for C programs: endpoints by number, their requests that wait for an answer, and the calls of
//! RFC 1045's appendix.

use library::vmtp::{
    Call, CallFlags, CallNote, Client, Endpoint, EndpointConfig, EntityId, Found, Note,
    Reliability, Request,
};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests that a program has received and not answered, at most; those beyond are refused.
const REQUESTS_MAX: usize = 4096;

/// Endpoints of a process, at most: as many as it may have descriptors as a rule.
const ENDPOINTS_MAX: usize = 1024;

/// An endpoint of a program.
pub(crate) struct VmtpEndpoint {
    pub(crate) endpoint: Endpoint,
    caller: EntityId,
    /// Requests that are not answered, by the numbers that the program knows.
    requests: Mutex<Requests>,
    /// The call to a group that may have more replies.
    group_call: Mutex<Option<Call>>,
}

#[derive(Default)]
struct Requests {
    last: u64,
    waiting: BTreeMap<u64, Request>,
}

/// What a message control block says beside the message: struct vmtp_mcb of `towpath_vmtp.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ControlBlock {
    /// Of a call the server; of a reply who answered; of a request who is called.
    pub(crate) entity: u64,
    /// Of a request who calls.
    pub(crate) client: u64,
    /// The number of a request that is not answered.
    pub(crate) request: u64,
    /// VMTP's code, 24 bits.
    pub(crate) code: u32,
    /// DATAGRAM, CONDITIONAL, PARTIAL, MANY and IDEMPOTENT.
    pub(crate) flags: u32,
}

/// Flags of a control block, as in `towpath_vmtp.h`.
const DATAGRAM: u32 = 1;
const CONDITIONAL: u32 = 2;
const PARTIAL: u32 = 4;
const MANY: u32 = 8;
const IDEMPOTENT: u32 = 16;

static ENDPOINTS: Mutex<BTreeMap<i32, Arc<VmtpEndpoint>>> = Mutex::new(BTreeMap::new());

/// Binds an endpoint; its number.
pub(crate) fn open(local: SocketAddr) -> io::Result<i32> {
    let endpoint = Endpoint::bind(local, &EndpointConfig::default())?;
    let caller = endpoint.create_client()?.entity();
    let opened = Arc::new(VmtpEndpoint {
        endpoint,
        caller,
        requests: Mutex::default(),
        group_call: Mutex::new(None),
    });
    let mut endpoints = lock(&ENDPOINTS);
    if endpoints.len() >= ENDPOINTS_MAX {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let number = endpoints.keys().next_back().map_or(1, |last| last + 1);
    endpoints.insert(number, opened);
    Ok(number)
}

/// The endpoint with a number.
pub(crate) fn find(number: i32) -> io::Result<Arc<VmtpEndpoint>> {
    let found = lock(&ENDPOINTS).get(&number).map(Arc::clone);
    found.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
}

/// Ends an endpoint when the last call on it returns.
pub(crate) fn close(number: i32) -> io::Result<()> {
    let closed = lock(&ENDPOINTS).remove(&number);
    closed
        .map(drop)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
}

impl VmtpEndpoint {
    fn client(&self) -> Client<'_> {
        self.endpoint.client_of(self.caller)
    }

    /// Calls an entity, or a group, and waits for the first reply; a datagram is only sent.
    pub(crate) fn invoke(
        &self,
        block: &mut ControlBlock,
        message: &[u8],
        limit: Duration,
    ) -> io::Result<Vec<u8>> {
        let (to, client) = (EntityId(block.entity), self.client());
        if block.flags & DATAGRAM != 0 {
            client.send_datagram(to, message)?;
            return Ok(Vec::new());
        }
        let asked = block.flags;
        let flag = |flag: u32| asked & flag != 0;
        let flags = CallFlags::NONE
            .with_if(flag(CONDITIONAL), CallFlags::CONDITIONAL)
            .with_if(flag(PARTIAL), CallFlags::PARTIAL)
            .with_if(flag(MANY), CallFlags::MANY_REPLIES);
        let note = Note {
            tag: Some(u64::from(block.code & 0x00ff_ffff)),
            call: CallNote {
                flags,
                ..CallNote::default()
            },
            ..Note::default()
        };
        if let Some(call) = lock(&self.group_call).take() {
            client.abandon(call);
        }
        let call = client.begin(to, message, &note);
        let reply = take(&client, &call, block, limit);
        match flag(MANY) && reply.is_ok() {
            true => *lock(&self.group_call) = Some(call),
            false => client.abandon(call),
        }
        reply
    }

    /// The next reply to the last call with MANY.
    pub(crate) fn next_reply(
        &self,
        block: &mut ControlBlock,
        limit: Duration,
    ) -> io::Result<Vec<u8>> {
        let client = self.client();
        let call = lock(&self.group_call).take();
        let call = call.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTCONN))?;
        let reply = take(&client, &call, block, limit);
        let mut group_call = lock(&self.group_call);
        match group_call.is_none() {
            true => *group_call = Some(call),
            // Another thread has begun a call since.
            false => client.abandon(call),
        }
        reply
    }

    /// The next request.
    pub(crate) fn receive(&self, block: &mut ControlBlock, limit: Duration) -> io::Result<Vec<u8>> {
        let mut request = self.endpoint.receive(limit)?;
        let octets = std::mem::take(&mut request.octets);
        block.entity = request.to.0;
        block.client = request.from.0;
        block.code = request.note.tag.unwrap_or(0) as u32;
        let is_conditional = request.note.call.flags.has(CallFlags::CONDITIONAL);
        block.flags = if is_conditional { CONDITIONAL } else { 0 };
        let mut requests = lock(&self.requests);
        if requests.waiting.len() >= REQUESTS_MAX {
            drop(requests);
            self.endpoint.refuse(request);
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        requests.last += 1;
        block.request = requests.last;
        let number = requests.last;
        requests.waiting.insert(number, request);
        Ok(octets)
    }

    /// Answers a request.
    pub(crate) fn reply(&self, block: &ControlBlock, message: &[u8]) -> io::Result<()> {
        let request = self.take_request(block)?;
        let note = Note {
            tag: Some(u64::from(block.code & 0x00ff_ffff)),
            reliability: match block.flags & IDEMPOTENT != 0 {
                true => Reliability::Retransmissions(0),
                false => Reliability::Full,
            },
            ..Note::default()
        };
        self.endpoint.reply_noted(request, message, &note);
        Ok(())
    }

    /// Passes a request on.
    pub(crate) fn forward(
        &self,
        block: &ControlBlock,
        to: EntityId,
        message: &[u8],
    ) -> io::Result<()> {
        let request = self.take_request(block)?;
        self.endpoint.forward(request, to, message)
    }

    /// Whether an entity is where it was located.
    pub(crate) fn probe(&self, entity: EntityId, tries: u8, spacing: Duration) -> io::Result<bool> {
        let found = self.client().probe(entity, tries, spacing)?;
        Ok(matches!(found, Found::Somebody { .. }))
    }

    fn take_request(&self, block: &ControlBlock) -> io::Result<Request> {
        let request = lock(&self.requests).waiting.remove(&block.request);
        request.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }
}

/// The next reply to a call.
fn take(
    client: &Client<'_>,
    call: &Call,
    block: &mut ControlBlock,
    limit: Duration,
) -> io::Result<Vec<u8>> {
    let reply = client.take(call, limit);
    let reply = reply.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))?;
    block.entity = reply.from.0;
    block.code = reply.note.tag.unwrap_or(0) as u32;
    Ok(reply.octets)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
