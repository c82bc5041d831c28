//! Options of an endpoint, and its state as the provider sees it.

use super::transfer::Flags;
use super::{Inner, Provider, XtiEndpoint, XtiReceived, XtiState};
use crate::carrier::CarriedProtocol;
use crate::connections::ConnectionProvider;
use crate::error::{Error, TliError};
use crate::tpi::{
    OptionStatus, OptionsAction, Primitive, State, TransportOption, parse_options, write_options,
};
use std::time::Duration;

impl XtiEndpoint {
    /// Sets, checks or reads options (t_optmgmt), in every state: each with what became of it, and the
    /// worst of all. All are of one level; [`ALL_OPTIONS`](crate::tpi::ALL_OPTIONS) stands alone. An
    /// option that the provider does not have is no error but [`OptionStatus::NotSupported`].
    ///
    /// # Errors
    ///
    /// [`TliError::BadOption`] for none, too many, or several levels; [`TliError::System`].
    pub fn manage_options(
        &self,
        options: &[TransportOption],
        action: OptionsAction,
    ) -> Result<(Vec<TransportOption>, OptionStatus), Error> {
        let request = Primitive::OptionsRequest {
            options: write_options(options),
            flags: action as u32,
        };
        let Primitive::OptionsAck { options, flags } = self.lock().ask(&request)? else {
            return Err(TliError::Protocol.into());
        };
        let options = parse_options(&options).ok_or(TliError::Protocol)?;
        let worst = OptionStatus::from_number(flags).ok_or(TliError::Protocol)?;
        Ok((options, worst))
    }

    /// Sends a message with options of its own, of those that say something of messages ([`crate::sctp::name`]);
    /// waits for room at most this long. Further parts of it, behind a send with [`Flags::more`], need none.
    /// Errors are those of [`XtiEndpoint::send`]; `BadOption` for options that a message cannot have, or that the
    /// provider does not have: then nothing is sent.
    pub fn send_with(
        &self,
        octets: &[u8],
        flags: Flags,
        options: &[TransportOption],
        limit: Duration,
    ) -> Result<usize, Error> {
        self.send_all(octets, flags, &write_options(options), limit)
    }

    /// The same without waiting. Errors are those of [`XtiEndpoint::send_with`]; `Flow` when nothing is taken.
    pub fn try_send_with(
        &self,
        octets: &[u8],
        flags: Flags,
        options: &[TransportOption],
    ) -> Result<usize, Error> {
        self.send_once(octets, flags, &write_options(options))
    }

    /// As [`XtiEndpoint::try_receive`], with the options that came with the message. From the first such call on the
    /// provider tells them (T_SCTP_RECVOPT): what it had handed on before has none.
    /// Errors are those of [`XtiEndpoint::try_receive`].
    pub fn try_receive_with(
        &self,
        buffer: &mut [u8],
        options: &mut Vec<TransportOption>,
    ) -> Result<XtiReceived, Error> {
        options.clear();
        let mut inner = self.lock();
        inner.report_message_options(self.shared.provider)?;
        let received = inner.receive_now(buffer)?;
        options.append(&mut inner.came_with);
        Ok(received)
    }

    /// Asks the provider anew what it can, and returns the state of the endpoint (t_sync).
    ///
    /// # Errors
    ///
    /// [`TliError::StateChanging`] while the provider owes an answer; [`TliError::System`] when the
    /// stream has failed.
    pub fn sync(&self) -> Result<XtiState, Error> {
        let mut inner = self.lock();
        let Primitive::InfoAck(information) = inner.ask(&Primitive::InfoRequest)? else {
            return Err(TliError::Protocol.into());
        };
        if !SETTLED
            .iter()
            .any(|state| *state as u32 == information.state)
        {
            return Err(TliError::StateChanging.into());
        }
        inner.information = information;
        Ok(inner.state)
    }
}

type Carried = ConnectionProvider<CarriedProtocol>;

impl Inner {
    /// Whether a message may have these options (TBADOPT).
    pub(super) fn check_message_options(
        &mut self,
        provider: Provider,
        options: &[u8],
    ) -> Result<(), Error> {
        let takes = match provider {
            Provider::Carried(_) => self
                .runtime
                .driver::<Carried>(self.stream)?
                .takes_message_options(options),
            _ => false,
        };
        match takes {
            true => Ok(()),
            false => Err(TliError::BadOption.into()),
        }
    }

    fn report_message_options(&mut self, provider: Provider) -> Result<(), Error> {
        if let Provider::Carried(_) = provider {
            let report =
                |driver: &mut Carried, _: &mut streams::Context<'_>| driver.report_options();
            self.runtime.with_driver(self.stream, report)?;
        }
        Ok(())
    }
}

/// States of a provider that owes no answer.
const SETTLED: [State; 7] = [
    State::Unbound,
    State::Idle,
    State::WaitConnect,
    State::WaitResponse,
    State::DataTransfer,
    State::WaitRelease,
    State::WaitReleaseRequest,
];
