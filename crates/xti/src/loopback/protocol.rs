//! Connections between ends of one host, for the provider of connections.

use super::link::{Arriving, LoopLink};
use super::names::{self, ARRIVING_MAX};
use super::{TIDU, TSDU, WITH_DATA, geometry};
use crate::connections::{Protocol, Sleep};
use crate::provider::answer_without_options;
use crate::tpi::{Information, Primitive, RELEASE_DATA, SEND_ZERO, ServiceType, State};
use channel::Geometry;
use socket2::Socket;
use std::io;
use streams::Pool;

/// `ticots` or `ticotsord`.
pub(crate) struct LoopProtocol {
    service: ServiceType,
    geometry: Geometry,
    /// What an end that listens has.
    listener: Option<Socket>,
    arriving: Vec<Arriving>,
}

impl LoopProtocol {
    /// With or without orderly release; its rings have at least `ring_octets`.
    pub(crate) fn new(service: ServiceType, ring_octets: usize) -> LoopProtocol {
        LoopProtocol {
            service,
            geometry: geometry(ring_octets),
            listener: None,
            arriving: Vec::new(),
        }
    }
}

impl Protocol for LoopProtocol {
    type Link = LoopLink;

    /// It is also that of its addresses.
    fn name(&self) -> &'static str {
        match self.service {
            ServiceType::Connections => "ticots",
            _ => "ticotsord",
        }
    }

    fn information(&self) -> Information {
        Information {
            tsdu: TSDU as i32,
            etsdu: TSDU as i32,
            connect: WITH_DATA as i32,
            disconnect: WITH_DATA as i32,
            address: names::NAME_MAX as i32,
            options: -2,
            tidu: TIDU as i32,
            service: self.service,
            state: State::Unbound as u32,
            flags: match self.service {
                ServiceType::ConnectionsWithRelease => SEND_ZERO | RELEASE_DATA,
                _ => SEND_ZERO,
            },
        }
    }

    /// Ends that only connect may share an address: it is theirs by word alone.
    fn bind(&mut self, address: &[u8], listens: bool) -> io::Result<Vec<u8>> {
        if address.len() > names::NAME_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !listens {
            return Ok(match address {
                [] => names::new_address(),
                address => address.to_vec(),
            });
        }
        let (socket, address) = names::listen(self.name(), address)?;
        self.listener = Some(socket);
        Ok(address)
    }

    fn stop_listening(&mut self) {
        self.listener = None;
        self.arriving.clear();
    }

    /// Those of which a part has come are looked at again.
    fn accept(&mut self, pool: &mut Pool) -> Option<LoopLink> {
        let listener = self.listener.as_ref()?;
        while self.arriving.len() < ARRIVING_MAX {
            let Some(socket) = names::accept(listener) else {
                break;
            };
            self.arriving.push(Arriving::Socket(socket));
        }
        let mut whole = None;
        for arriving in std::mem::take(&mut self.arriving) {
            match whole {
                Some(_) => self.arriving.push(arriving),
                None => match arriving.look(pool) {
                    Some(Ok(link)) => whole = Some(link),
                    Some(Err(arriving)) => self.arriving.push(arriving),
                    None => {}
                },
            }
        }
        whole
    }

    fn is_arriving(&self) -> bool {
        !self.arriving.is_empty()
    }

    fn connect(&mut self, own: &[u8], destination: &[u8], said: &[u8]) -> io::Result<LoopLink> {
        let socket = names::connect(self.name(), destination)?;
        LoopLink::open(socket, self.geometry, (own, said), destination)
    }

    fn sleep(&mut self) -> Sleep {
        Sleep::OnDescriptor
    }

    fn waitable(&self) -> Option<Socket> {
        self.listener.as_ref()?.try_clone().ok()
    }

    fn answer_options(&mut self, _: Option<&mut LoopLink>, octets: &[u8], flags: u32) -> Primitive {
        answer_without_options(octets, flags)
    }

    fn takes_message_options(&self, _: Option<&LoopLink>, _: &[u8]) -> bool {
        false
    }

    fn options_of_messages(&self) -> Option<&[u8]> {
        None
    }

    fn report_options(&mut self) {}

    fn adopt(&self, _: &mut LoopLink) {}
}
