//! Options of an endpoint, and its state as the provider sees it.

use super::{XtiEndpoint, XtiState};
use crate::error::{Error, TliError};
use crate::tpi::{
    OptionStatus, OptionsAction, Primitive, State, TransportOption, parse_options, write_options,
};

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
