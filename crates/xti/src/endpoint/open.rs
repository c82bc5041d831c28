//! open: an endpoint of each provider.

use super::gathered::GatherLimit;
use super::{Inner, Provider, Shared, XtiEndpoint, XtiState};
use crate::StreamOptions;
use crate::carrier::{CarriedProtocol, Carrier};
use crate::connections::ConnectionProvider;
use crate::datagrams::{DatagramCarrier, DatagramProvider};
use crate::error::{Error, TliError};
use crate::inet::{KernelUdp, Setup, Shared as SocketShared, SocketProvider, UnixDatagrams};
use crate::loopback::{LoopDatagrams, LoopProtocol, RING_OCTETS};
use crate::tpi::{Information, Primitive, ServiceType};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use streams::{HeadOptions, Module, Runtime};

/// The token of an endpoint that accepts no connections; those of others begin at 1.
const NO_TOKEN: u32 = 0;

/// Octets of a message into which short sends are collected: a block of the pool.
const HOLD: usize = 8192;

impl XtiEndpoint {
    /// Opens an endpoint of the provider `/dev/tcp` (t_open); its sockets get `setup`.
    ///
    /// # Errors
    ///
    /// [`TliError::System`] when the stream cannot be opened.
    pub fn open_tcp(setup: Setup, options: StreamOptions) -> Result<XtiEndpoint, Error> {
        let provider = match options.expedited {
            true => SocketProvider::new(setup, options.marks),
            false => SocketProvider::without_expedited(setup, options.marks),
        };
        let (socket, token) = (provider.shared(), provider.token());
        let driver = Box::new(provider);
        XtiEndpoint::open(driver, (socket, token, Provider::Tcp), options)
    }

    /// Opens an endpoint of connections of this host, of the provider `/dev/unix_cotsord` (t_open); its sockets get
    /// `setup`.
    ///
    /// # Errors
    ///
    /// [`TliError::System`] when the stream cannot be opened.
    pub fn open_unix(setup: Setup, options: StreamOptions) -> Result<XtiEndpoint, Error> {
        let options = StreamOptions {
            expedited: false,
            ..options
        };
        let provider = SocketProvider::unix(setup, options.marks);
        let below = (provider.shared(), provider.token(), Provider::Tcp);
        XtiEndpoint::open(Box::new(provider), below, options)
    }

    /// Opens an endpoint of datagrams of this host, of the provider `/dev/unix_clts` (t_open); its socket gets `setup`.
    ///
    /// # Errors
    ///
    /// [`TliError::System`] when the stream cannot be opened.
    pub fn open_unix_datagrams(setup: Setup, options: StreamOptions) -> Result<XtiEndpoint, Error> {
        XtiEndpoint::open_datagrams(Box::new(UnixDatagrams::new(setup)), options)
    }

    /// Opens an endpoint of datagrams, of the provider `/dev/udp` (t_open); its socket gets `setup`.
    ///
    /// # Errors
    ///
    /// [`TliError::System`] when the stream cannot be opened.
    pub fn open_udp(setup: Setup, options: StreamOptions) -> Result<XtiEndpoint, Error> {
        XtiEndpoint::open_datagrams(Box::new(KernelUdp::new(setup)), options)
    }

    /// Opens an endpoint whose datagrams `carrier` carries (t_open).
    ///
    /// # Errors
    ///
    /// [`TliError::System`] when the stream cannot be opened.
    pub fn open_datagrams(
        carrier: Box<dyn DatagramCarrier>,
        options: StreamOptions,
    ) -> Result<XtiEndpoint, Error> {
        let provider = DatagramProvider::new(carrier, options.marks, options.headroom);
        let below = (provider.shared(), NO_TOKEN, Provider::Datagrams);
        XtiEndpoint::open(Box::new(provider), below, options)
    }

    /// Opens an endpoint by the name of its provider (t_open): `/dev/tcp`, `/dev/udp`, `/dev/unix_cotsord`,
    /// `/dev/unix_clts`, `/dev/ticlts`, `/dev/ticots` or `/dev/ticotsord`. Sockets get nothing but what their options say.
    ///
    /// # Errors
    ///
    /// [`TliError::BadName`]; [`TliError::System`] when the stream cannot be opened.
    pub fn open_device(name: &str, options: StreamOptions) -> Result<XtiEndpoint, Error> {
        let service = match name {
            "/dev/tcp" => return XtiEndpoint::open_tcp(Arc::new(|_| Ok(())), options),
            "/dev/udp" => return XtiEndpoint::open_udp(Arc::new(|_| Ok(())), options),
            "/dev/unix_cotsord" => return XtiEndpoint::open_unix(Arc::new(|_| Ok(())), options),
            "/dev/unix_clts" => {
                return XtiEndpoint::open_unix_datagrams(Arc::new(|_| Ok(())), options);
            }
            "/dev/ticlts" => ServiceType::Datagrams,
            "/dev/ticots" => ServiceType::Connections,
            "/dev/ticotsord" => ServiceType::ConnectionsWithRelease,
            _ => return Err(TliError::BadName.into()),
        };
        XtiEndpoint::open_loopback(service, RING_OCTETS, options)
    }

    /// Opens an endpoint of the loop-back provider of a service (t_open): `/dev/ticots`, `/dev/ticotsord`
    /// or `/dev/ticlts`. Its rings have at least `ring_octets`.
    ///
    /// # Errors
    ///
    /// [`TliError::System`] when the stream cannot be opened.
    pub fn open_loopback(
        service: ServiceType,
        ring_octets: usize,
        options: StreamOptions,
    ) -> Result<XtiEndpoint, Error> {
        if service == ServiceType::Datagrams {
            let provider = LoopDatagrams::new(ring_octets, options.marks);
            let below = (provider.shared(), NO_TOKEN, Provider::LoopDatagrams);
            return XtiEndpoint::open(Box::new(provider), below, options);
        }
        let protocol = LoopProtocol::new(service, ring_octets);
        let provider = ConnectionProvider::new(protocol, options.marks);
        let below = (provider.shared(), provider.token(), Provider::Loop(service));
        XtiEndpoint::open(Box::new(provider), below, options)
    }

    /// Opens an endpoint whose connections `carrier` carries (t_open).
    ///
    /// # Errors
    ///
    /// [`TliError::System`] when the stream cannot be opened.
    pub fn open_over(
        carrier: Box<dyn Carrier>,
        options: StreamOptions,
    ) -> Result<XtiEndpoint, Error> {
        let kind = Provider::Carried(carrier.name());
        let provider = ConnectionProvider::new(CarriedProtocol::new(carrier), options.marks);
        let below = (provider.shared(), provider.token(), kind);
        XtiEndpoint::open(Box::new(provider), below, options)
    }

    fn open(
        driver: Box<dyn Module>,
        (socket, token, provider): (Arc<SocketShared>, u32, Provider),
        options: StreamOptions,
    ) -> Result<XtiEndpoint, Error> {
        let mut runtime = Runtime::new(options.hysteresis);
        let stream = runtime.open(driver)?;
        let mut inner = Inner {
            runtime,
            stream,
            state: XtiState::Unbound,
            outstanding: 0,
            queue_len: 0,
            information: Information::UNKNOWN,
            ahead: None,
            rest: None,
            spare: None,
            gather_limit: None,
            gathered: None,
            received: None,
            takes_runs: false,
            came_with: Vec::new(),
        };
        match inner.ask(&Primitive::InfoRequest)? {
            Primitive::InfoAck(information) => inner.information = information,
            _ => return Err(TliError::Protocol.into()),
        }
        inner.gather_limit = GatherLimit::of(provider, &options, inner.information.tsdu);
        if options.hold && inner.information.tsdu == 0 {
            inner.collect_short_sends(options.marks.high())?;
        }
        Ok(XtiEndpoint {
            shared: Arc::new(Shared {
                inner: Mutex::new(inner),
                socket,
                receiving: Mutex::new(()),
                listed: AtomicBool::new(false),
                queued_on: AtomicUsize::new(0),
                helped_on_same: AtomicU64::new(0),
                helped_on_other: AtomicU64::new(0),
                waits: AtomicU64::new(0),
                options,
                token,
                provider,
            }),
        })
    }
}

impl Inner {
    /// The head collects short sends, no more of them than its queue may hold.
    fn collect_short_sends(&mut self, most: usize) -> Result<(), Error> {
        let hold = HeadOptions {
            hold: Some(HOLD.min(most)),
            ..HeadOptions::default()
        };
        Ok(self.runtime.set_options(self.stream, hold)?)
    }
}
