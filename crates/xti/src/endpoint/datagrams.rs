//! sndudata, rcvudata, rcvuderr: datagrams.

use super::{Inner, Look, XtiEndpoint, XtiReceived, XtiState, parse};
use crate::datagrams::DatagramProvider;
use crate::error::{Error, TliError};
use crate::tpi::{
    ADDRESS_MAX, Primitive, ServiceType, TransportOption, datagram_options, datagram_source,
    parse_options, write_datagram_request, write_options,
};
use std::sync::atomic::Ordering;
use std::time::Duration;
use streams::{Message, Priority, Want};

/// A datagram that did not leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramFailure {
    /// Where it was to go.
    pub destination: Vec<u8>,
    /// Its options, with what became of each.
    pub options: Vec<TransportOption>,
    /// The system's number of the error.
    pub errno: i32,
}

impl XtiEndpoint {
    /// Sends a datagram without waiting (t_sndudata with O_NONBLOCK).
    ///
    /// # Errors
    ///
    /// `NotSupported` on connections, `OutOfState` before a bind, `BadData` when it is longer than
    /// the provider takes, `BadAddress`, `Look` when an earlier one did not leave: see
    /// [`XtiEndpoint::receive_datagram_error`]; `Flow` when the queue is full.
    #[inline]
    pub fn try_send_datagram(&self, destination: &[u8], octets: &[u8]) -> Result<(), Error> {
        self.try_send_datagram_with(destination, octets, &[])
    }

    /// The same with options of this datagram alone. One that has an option which was not taken does not leave:
    /// [`XtiEndpoint::receive_datagram_error`] says which.
    /// Errors are those of [`XtiEndpoint::try_send_datagram`]; `BadOption` for more options than the provider takes.
    #[inline]
    pub fn try_send_datagram_with(
        &self,
        destination: &[u8],
        octets: &[u8],
        options: &[TransportOption],
    ) -> Result<(), Error> {
        let mut inner = self.lock();
        inner.require_datagrams()?;
        if octets.len() > inner.information.tsdu.max(0) as usize {
            return Err(TliError::BadData.into());
        }
        let longest = inner.information.address.max(0) as usize;
        if destination.len() > longest || destination.is_empty() {
            return Err(TliError::BadAddress.into());
        }
        if inner.look() == Some(Look::DatagramError) {
            return Err(TliError::Look.into());
        }
        let options = write_options(options);
        if !options.is_empty() && options.len() > inner.information.options.max(0) as usize {
            return Err(TliError::BadOption.into());
        }
        let mut put = inner.put_datagram(destination, octets, &options);
        if put == Err(streams::Error::WouldBlock) {
            // The queue is full: what it holds leaves now.
            inner.look_for_room(&self.shared.socket);
            put = inner.put_datagram(destination, octets, &options);
        }
        if !self.shared.options.deferred {
            inner.run_for_room(&self.shared.socket);
        }
        if inner.runtime.has_work() || self.shared.socket.send_blocked.load(Ordering::Relaxed) {
            self.shared.note_deferred();
        }
        match put {
            Err(streams::Error::WouldBlock) => Err(TliError::Flow.into()),
            other => Ok(other?),
        }
    }

    /// Sends a datagram, waiting for room at most this long (t_sndudata).
    /// Errors are those of [`XtiEndpoint::try_send_datagram`].
    pub fn send_datagram(
        &self,
        destination: &[u8],
        octets: &[u8],
        limit: Duration,
    ) -> Result<(), Error> {
        self.send_datagram_with(destination, octets, &[], limit)
    }

    /// The same with options of this datagram alone. Errors are those of [`XtiEndpoint::try_send_datagram_with`].
    pub fn send_datagram_with(
        &self,
        destination: &[u8],
        octets: &[u8],
        options: &[TransportOption],
        limit: Duration,
    ) -> Result<(), Error> {
        self.repeat_within(true, limit, || {
            self.try_send_datagram_with(destination, octets, options)
        })
    }

    /// Receives a datagram, or the rest of one, without waiting (t_rcvudata with O_NONBLOCK). Its
    /// source is put into `source`, which is empty for a rest.
    ///
    /// # Errors
    ///
    /// `NotSupported`, `OutOfState`, `NoData` when nothing is there, `Look` when a datagram of this
    /// end did not leave.
    #[inline]
    pub fn try_receive_datagram(
        &self,
        buffer: &mut [u8],
        source: &mut Vec<u8>,
    ) -> Result<XtiReceived, Error> {
        self.receive_datagram_once(buffer, source, None)
    }

    /// The same with the options that came with the datagram; none with a rest. From the first such call on the
    /// provider asks for them: what was received before has none.
    /// Errors are those of [`XtiEndpoint::try_receive_datagram`].
    pub fn try_receive_datagram_with(
        &self,
        buffer: &mut [u8],
        source: &mut Vec<u8>,
        options: &mut Vec<TransportOption>,
    ) -> Result<XtiReceived, Error> {
        self.report_options();
        self.receive_datagram_once(buffer, source, Some(options))
    }

    /// Options come with datagrams from here on, for [`XtiEndpoint::try_receive_datagram_with`].
    pub fn report_options(&self) {
        let mut inner = self.lock();
        let stream = inner.stream;
        // The providers of the loop-back have none.
        let _ = inner
            .runtime
            .with_driver(stream, |driver: &mut DatagramProvider, _| {
                driver.report_options();
            });
    }

    #[inline]
    fn receive_datagram_once(
        &self,
        buffer: &mut [u8],
        source: &mut Vec<u8>,
        mut options: Option<&mut Vec<TransportOption>>,
    ) -> Result<XtiReceived, Error> {
        let mut inner = self.lock();
        inner.require_datagrams()?;
        if let Some(received) = inner.receive_datagram(buffer, source, options.as_deref_mut())? {
            return Ok(received);
        }
        inner.look_below();
        let received = inner.receive_datagram(buffer, source, options)?;
        received.ok_or(TliError::NoData.into())
    }

    /// Receives a datagram, or the rest of one, waiting at most this long (t_rcvudata).
    /// Errors are those of [`XtiEndpoint::try_receive_datagram`].
    pub fn receive_datagram(
        &self,
        buffer: &mut [u8],
        source: &mut Vec<u8>,
        limit: Duration,
    ) -> Result<XtiReceived, Error> {
        self.repeat_within(false, limit, || self.try_receive_datagram(buffer, source))
    }

    /// The same with the options that came with the datagram.
    /// Errors are those of [`XtiEndpoint::try_receive_datagram_with`].
    pub fn receive_datagram_with(
        &self,
        buffer: &mut [u8],
        source: &mut Vec<u8>,
        options: &mut Vec<TransportOption>,
        limit: Duration,
    ) -> Result<XtiReceived, Error> {
        self.repeat_within(false, limit, || {
            self.try_receive_datagram_with(buffer, source, options)
        })
    }

    /// Which datagram did not leave, and why (t_rcvuderr).
    ///
    /// # Errors
    ///
    /// `NoDatagramError` when none is told.
    pub fn receive_datagram_error(&self) -> Result<DatagramFailure, Error> {
        let mut inner = self.lock();
        inner.require_datagrams()?;
        match inner.primitive_in_front() {
            Some(Primitive::DatagramError {
                destination,
                options,
                errno,
            }) => {
                inner.take_primitive();
                Ok(DatagramFailure {
                    destination,
                    options: parse_options(&options).unwrap_or_default(),
                    errno: errno as i32,
                })
            }
            _ => Err(TliError::NoDatagramError.into()),
        }
    }
}

impl Inner {
    fn require_datagrams(&self) -> Result<(), Error> {
        if self.information.service != ServiceType::Datagrams {
            return Err(TliError::NotSupported.into());
        }
        self.require(&[XtiState::Idle])
    }

    fn put_datagram(
        &mut self,
        destination: &[u8],
        octets: &[u8],
        options: &[u8],
    ) -> Result<(), streams::Error> {
        let band = Priority::Band(0);
        if !options.is_empty() {
            let request = Primitive::DatagramRequest {
                destination: destination.to_vec(),
                options: options.to_vec(),
            };
            let control = request.octets();
            return self
                .runtime
                .put_message(self.stream, Some(&control), Some(octets), band);
        }
        let mut control = [0; 20 + ADDRESS_MAX];
        let control = write_datagram_request(destination, &mut control);
        self.runtime
            .put_message(self.stream, Some(control), Some(octets), band)
    }

    /// What waits at the head; None when nothing does.
    fn receive_datagram(
        &mut self,
        buffer: &mut [u8],
        source: &mut Vec<u8>,
        mut options: Option<&mut Vec<TransportOption>>,
    ) -> Result<Option<XtiReceived>, Error> {
        source.clear();
        if let Some(options) = &mut options {
            options.clear();
        }
        let mut message = match self.rest.take() {
            Some(rest) => rest,
            None => match self.next_datagram(source, options)? {
                Some(message) => message,
                None => return Ok(None),
            },
        };
        let len = message.copy_data(0, buffer);
        let more = len < message.data_octets();
        if more {
            message.trim_front(len, self.runtime.pool_mut());
            self.rest = Some(message);
        } else {
            message.release(self.runtime.pool_mut());
        }
        Ok(Some(XtiReceived {
            len,
            more,
            expedited: false,
        }))
    }

    fn next_datagram(
        &mut self,
        source: &mut Vec<u8>,
        options: Option<&mut Vec<TransportOption>>,
    ) -> Result<Option<Message>, Error> {
        let message = match self.ahead.take() {
            Some(message) => message,
            None => match self.runtime.take_blocks(self.stream, Want::Any) {
                Ok(message) => message,
                Err(streams::Error::WouldBlock) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        };
        let control = message.control.as_ref();
        let control = control.map_or(&[][..], streams::Block::octets);
        if let Some(from) = datagram_source(control) {
            source.extend_from_slice(from);
            if let Some(options) = options {
                *options = parse_options(datagram_options(control)).unwrap_or_default();
            }
            return Ok(Some(message));
        }
        let other = parse(&message);
        // It waits to be looked at.
        self.ahead = Some(message);
        other?;
        Err(TliError::Look.into())
    }
}
