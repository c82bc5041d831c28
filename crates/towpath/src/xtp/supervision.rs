//! Openings of peers that a user looks at before they are answered.
//!
//! With [`Config::supervised`](super::Config::supervised) nothing is answered until the user has decided:
//!
//! ```
//! use std::time::Duration;
//! use towpath::xtp::{Endpoint, EndpointConfig, Refusal};
//!
//! let limit = Duration::from_secs(5);
//! let mut config = EndpointConfig::default();
//! config.config.supervised = true;
//! let server = Endpoint::bind("127.0.0.1:0".parse()?, &config)?;
//! server.listen(true);
//! let to = server.local_addr();
//!
//! let client = Endpoint::bind("127.0.0.1:0".parse()?, &EndpointConfig::default())?;
//! let asking = std::thread::spawn(move || client.connect(to, limit).map(drop));
//! let opening = server.next_opening(limit)?;
//! assert!(opening.peer().ip().is_loopback());
//! opening.refuse(Refusal::NoResource)?;
//! let error = asking.join().expect("no panic").expect_err("it was refused");
//! assert!(error.to_string().contains("no resource"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::circuit::Circuit;
use super::endpoint::Endpoint;
use engine::Address;
use engine_xtp::pdu::DiagValue;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Most bytes that an opening keeps of its first data; more stay in its circuit.
const FIRST_DATA_MAX: usize = 64 << 10;

/// Why an opening is refused: the values of a DIAG that its peer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No reason is given.
    Unspecified,
    /// Nobody listens for it.
    NoListener,
    /// This service is not provided.
    NoProvider,
    /// There is no room for it.
    NoResource,
}

impl Refusal {
    /// The reasons, by the names of the option and of messages.
    pub const ALL: [(&'static str, Refusal); 4] = [
        ("unspecified", Refusal::Unspecified),
        ("no listener", Refusal::NoListener),
        ("no provider", Refusal::NoProvider),
        ("no resource", Refusal::NoResource),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let mut all = Refusal::ALL.iter();
        all.find(|(_, one)| *one == self)
            .map_or("", |(name, _)| name)
    }

    fn value(self) -> DiagValue {
        match self {
            Refusal::Unspecified => DiagValue::UNSPECIFIED,
            Refusal::NoListener => DiagValue::NO_LISTENER,
            Refusal::NoProvider => DiagValue::NO_PROVIDER,
            Refusal::NoResource => DiagValue::NO_RESOURCE,
        }
    }

    /// The reason that a DIAG gives; those of malformed packets count as unspecified.
    pub(super) fn of(value: DiagValue) -> Refusal {
        let mut all = Refusal::ALL.iter();
        let found = all.find(|(_, one)| one.value() == value);
        found.map_or(Refusal::Unspecified, |(_, one)| *one)
    }
}

/// What a FIRST asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningRequest {
    /// The peer's address.
    pub peer: Address,
    /// The service, by its name: `stream`, `transaction`, `datagram` and others.
    pub service: &'static str,
    /// The priority, if the peer has one.
    pub sort: Option<u16>,
    /// The peer wants to send only into buffers that are posted (RES).
    pub reserves: bool,
    /// Bytes that came with it, or behind it.
    pub first_data: u64,
    /// It is not decided about.
    pub is_waiting: bool,
}

/// An association that a peer opened and that is not answered. Dropped, it is refused.
pub struct Opening {
    endpoint: Endpoint,
    /// None once it is decided.
    circuit: Option<Circuit>,
    first_data: Vec<u8>,
}

impl Opening {
    pub(super) fn new(endpoint: Endpoint, circuit: Circuit) -> Opening {
        Opening {
            endpoint,
            circuit: Some(circuit),
            first_data: Vec::new(),
        }
    }

    fn circuit(&self) -> &Circuit {
        self.circuit.as_ref().expect("it is not decided yet")
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.circuit().peer()
    }

    /// What the peer asks for; None when it has given up.
    pub fn request(&self) -> Option<OpeningRequest> {
        self.endpoint.opening_request(self.circuit().id())
    }

    /// The data that came with FIRST, or behind it without an answer, up to 64 KiB; none where the peer opened
    /// explicitly, and none with [`super::Config::early_accept`] off.
    ///
    /// # Errors
    ///
    /// `ConnectionReset` when the peer has given up, or errors of the wire.
    pub fn first_data(&mut self) -> io::Result<&[u8]> {
        let circuit = self.circuit.as_mut().expect("it is not decided yet");
        while self.first_data.len() < FIRST_DATA_MAX {
            let len = self.first_data.len();
            self.first_data.resize(FIRST_DATA_MAX, 0);
            let part = circuit.receive_part(&mut self.first_data[len..], Duration::ZERO);
            let more = match &part {
                Ok(Some(part)) => part.len,
                _ => 0,
            };
            self.first_data.truncate(len + more);
            match part {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) if is_empty(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(&self.first_data)
    }

    /// Answers the peer: the circuit, and the data that [`first_data`](Opening::first_data) took out of it.
    /// Errors are those of the wire.
    pub fn admit(mut self) -> io::Result<(Circuit, Vec<u8>)> {
        let circuit = self.circuit.take().expect("it is not decided yet");
        self.endpoint.admit(circuit.id())?;
        Ok((circuit, std::mem::take(&mut self.first_data)))
    }

    /// Refuses it, and tells the peer why. Errors are those of the wire.
    pub fn refuse(mut self, why: Refusal) -> io::Result<()> {
        self.refuse_now(why)
    }

    fn refuse_now(&mut self, why: Refusal) -> io::Result<()> {
        match self.circuit.take() {
            Some(circuit) => self.endpoint.refuse(circuit.id(), why),
            None => Ok(()),
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        // The peer finds out by its timer what it is not told.
        let _ = self.refuse_now(Refusal::Unspecified);
    }
}

/// Whether there is nothing to receive now.
fn is_empty(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

impl Endpoint {
    /// The next opening of a peer, not answered yet, where [`Config::supervised`](super::Config::supervised) is
    /// set; waits up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut`; `InvalidInput` where openings are answered without a decision.
    pub fn next_opening(&self, limit: Duration) -> io::Result<Opening> {
        if !self.is_supervised() {
            let text = "this endpoint answers openings itself; set supervised in its configuration, or supervise=on";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let circuit = self.accept(limit)?;
        Ok(Opening::new(self.clone(), circuit))
    }

    /// What the peer of a circuit asks for, while it waits for [`admit`](Endpoint::admit) or
    /// [`refuse`](Endpoint::refuse).
    pub fn waiting_opening(&self, id: engine::AssociationId) -> Option<OpeningRequest> {
        self.opening_request(id)
            .filter(|request| request.is_waiting)
    }

    /// Refuses a circuit that a peer opened and that is not admitted, and tells the peer why.
    /// Errors are those of the wire.
    pub fn refuse(&self, id: engine::AssociationId, why: Refusal) -> io::Result<()> {
        self.command(|engine, now| engine.refuse(now, id, why.value()))
    }
}
