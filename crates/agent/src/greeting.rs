//! Agents that meet: before data flows between two of them, one echoes a token that the other made
//! up and that travelled through the client both have let in.
//!
//! The greeting agent connects, and so shows the other where it is; it says nothing until what
//! answers there has said that it is an agent. The other shows by its answer that it knows the token
//! too.

use crate::preface::{self, Caller};
use crate::server::state::Acquaintance;
use control::session::{TOKEN_LEN, Token};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a greeting may take.
const LIMIT: Duration = Duration::from_secs(3);

/// How long a token is good for.
const GOOD: Duration = Duration::from_secs(30);

/// Tokens at a time.
const TOKENS_MAX: usize = 64;

/// Tokens that are out, and who has brought one.
#[derive(Default)]
pub(crate) struct Tokens {
    all: Mutex<Vec<Expected>>,
}

struct Expected {
    session: u64,
    token: Token,
    until: Instant,
    met: Option<Acquaintance>,
}

impl Tokens {
    fn lock(&self) -> MutexGuard<'_, Vec<Expected>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one up for a session.
    pub(crate) fn make(&self, session: u64) -> Token {
        let mut token = [0; TOKEN_LEN];
        // Without random numbers it stays zero, and zero is never accepted.
        let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut token);
        let mut all = self.lock();
        all.retain(|one| one.until > Instant::now() || one.met.is_some());
        if all.len() < TOKENS_MAX {
            all.push(Expected {
                session,
                token,
                until: Instant::now() + GOOD,
                met: None,
            });
        }
        token
    }

    /// Somebody at `known` brings `token`; true when it is one that is out. Each is good once.
    fn redeem(&self, token: &Token, known: Acquaintance) -> bool {
        let mut all = self.lock();
        let now = Instant::now();
        let fits = |one: &&mut Expected| {
            one.met.is_none()
                && one.until > now
                && same(&one.token, token)
                && *token != [0; TOKEN_LEN]
        };
        let Some(found) = all.iter_mut().find(fits) else {
            return false;
        };
        found.met = Some(known);
        true
    }

    /// Those who brought tokens of `session` since the last time.
    pub(crate) fn take(&self, session: u64) -> Vec<Acquaintance> {
        let mut all = self.lock();
        let met = all
            .iter()
            .filter(|one| one.session == session)
            .filter_map(|one| one.met)
            .collect();
        all.retain(|one| one.session != session || one.met.is_none());
        met
    }

    /// The session is over.
    pub(crate) fn forget(&self, session: u64) {
        self.lock().retain(|one| one.session != session);
    }
}

/// Whether two tokens are the same, in a time that does not depend on where they differ.
fn same(one: &Token, other: &Token) -> bool {
    let differ = one
        .iter()
        .zip(other)
        .fold(0, |differ, (a, b)| differ | (a ^ b));
    std::hint::black_box(differ) == 0
}

/// What proves that its sender knows the token.
fn proof(token: &Token) -> [u8; 32] {
    let mut text = b"towpath greeting answered ".to_vec();
    text.extend_from_slice(token);
    let digest = ring::digest::digest(&ring::digest::SHA256, &text);
    let mut proof = [0; 32];
    proof.copy_from_slice(digest.as_ref());
    proof
}

/// Brings `token` to the agent at `to`.
pub(crate) fn greet(to: SocketAddr, token: Token) -> Result<Acquaintance, String> {
    let end = Instant::now() + LIMIT;
    let plain = |error: std::io::Error| error.to_string();
    let mut socket = TcpStream::connect_timeout(&to, LIMIT).map_err(plain)?;
    let mut theirs = [0; preface::LEN];
    preface::read(&mut socket, &mut theirs, end).map_err(plain)?;
    preface::read_agent(&theirs)?;
    preface::write(&mut socket, &preface::caller(Caller::Agent)).map_err(plain)?;
    preface::write(&mut socket, &token).map_err(plain)?;
    let mut answer = [0; 32];
    let read = preface::read(&mut socket, &mut answer, end);
    if read.is_err() || answer != proof(&token) {
        return Err("the agent there knows nothing of this race".into());
    }
    let local = socket.local_addr().map_err(plain)?;
    Ok(Acquaintance {
        peer: to.ip(),
        local: local.ip(),
    })
}

/// Answers an agent that has said that it is one.
pub(crate) fn answer(mut socket: TcpStream, tokens: &Tokens) -> std::io::Result<()> {
    let end = Instant::now() + LIMIT;
    let mut token = [0; TOKEN_LEN];
    preface::read(&mut socket, &mut token, end)?;
    let known = Acquaintance {
        peer: socket.peer_addr()?.ip(),
        local: socket.local_addr()?.ip(),
    };
    if tokens.redeem(&token, known) {
        preface::write(&mut socket, &proof(&token))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_once_and_for_its_session() {
        let known = Acquaintance {
            peer: [127, 0, 0, 1].into(),
            local: [127, 0, 0, 2].into(),
        };
        let tokens = Tokens::default();
        let token = tokens.make(7);
        let mut wrong = token;
        wrong[15] ^= 1;
        assert!(!tokens.redeem(&wrong, known) && !tokens.redeem(&[0; TOKEN_LEN], known));
        assert!(tokens.redeem(&token, known));
        assert!(!tokens.redeem(&token, known));
        assert_eq!(tokens.take(8), []);
        assert_eq!(tokens.take(7), [known]);
        assert_eq!(tokens.take(7), []);
        let other = tokens.make(7);
        tokens.forget(7);
        assert!(!tokens.redeem(&other, known));
    }
}
