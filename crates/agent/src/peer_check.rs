//! Agents that meet: before data flows between two of them, one echoes a token that the other made
//! up and that travelled through the client both have let in.
//!
//! The greeting agent connects, and so shows the other where it is; it says nothing until what
//! answers there has said that it is an agent. The other shows by its answer that it knows the token
//! too.

use crate::server::canonical_ip;
use crate::server::session_state::VerifiedPeer;
use crate::version_exchange::{self, CallerKind};
use control::session::{TOKEN_LEN, Token};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a greeting may take.
const PEER_CHECK_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a token is good for.
const TOKEN_LIFETIME: Duration = Duration::from_secs(30);

/// Tokens at a time.
const TOKENS_MAX: usize = 64;

/// Tokens that are out, and who has brought one.
#[derive(Default)]
pub(crate) struct Tokens {
    pending: Mutex<Vec<PendingToken>>,
}

struct PendingToken {
    session: u64,
    token: Token,
    expires_at: Instant,
    verified: Option<VerifiedPeer>,
}

impl Tokens {
    fn lock(&self) -> MutexGuard<'_, Vec<PendingToken>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one up for a session.
    pub(crate) fn issue(&self, session: u64) -> Token {
        let mut token = [0; TOKEN_LEN];
        // Without random numbers it stays zero, and zero is never accepted.
        let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut token);
        let mut all = self.lock();
        all.retain(|one| one.expires_at > Instant::now() || one.verified.is_some());
        if all.len() < TOKENS_MAX {
            all.push(PendingToken {
                session,
                token,
                expires_at: Instant::now() + TOKEN_LIFETIME,
                verified: None,
            });
        }
        token
    }

    /// Somebody at `known` brings `token`; true when it is one that is out. Each is good once.
    fn redeem(&self, token: &Token, known: VerifiedPeer) -> bool {
        let mut all = self.lock();
        let now = Instant::now();
        let fits = |one: &&mut PendingToken| {
            one.verified.is_none()
                && one.expires_at > now
                && constant_time_eq(&one.token, token)
                && *token != [0; TOKEN_LEN]
        };
        let Some(found) = all.iter_mut().find(fits) else {
            return false;
        };
        found.verified = Some(known);
        true
    }

    /// Those who brought tokens of `session` since the last time.
    pub(crate) fn take_verified(&self, session: u64) -> Vec<VerifiedPeer> {
        let mut all = self.lock();
        let met = all
            .iter()
            .filter(|one| one.session == session)
            .filter_map(|one| one.verified)
            .collect();
        all.retain(|one| one.session != session || one.verified.is_none());
        met
    }

    /// Whether this agent made it up; to greet with it would be to greet itself, and to make its own
    /// address one that data may go to.
    pub(crate) fn is_own_token(&self, token: &Token) -> bool {
        self.lock()
            .iter()
            .any(|one| constant_time_eq(&one.token, token))
    }

    /// The session is over.
    pub(crate) fn revoke(&self, session: u64) {
        self.lock().retain(|one| one.session != session);
    }
}

/// Whether two tokens are the same, in a time that does not depend on where they differ.
fn constant_time_eq(one: &Token, other: &Token) -> bool {
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

/// Where a client may have this agent greet another: not on this host, which would open what listens
/// on its loopback to somebody elsewhere, and nowhere that is no host's address. A client on this host
/// may reach its loopback anyhow.
///
/// # Errors
///
/// A sentence.
pub(crate) fn check_target_address(to: SocketAddr, client: IpAddr) -> Result<SocketAddr, String> {
    let ip = canonical_ip(to.ip());
    let everybody = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    if ip.is_unspecified() || ip.is_multicast() || everybody {
        return Err(format!("{ip} is no host's address"));
    }
    if ip.is_loopback() && !client.is_loopback() {
        return Err(format!(
            "{ip} is this agent's own host; name the other agent by an address of the network"
        ));
    }
    // A scope stays with its address; an address of IPv4 in one of IPv6 has none.
    Ok(if ip == to.ip() {
        to
    } else {
        SocketAddr::new(ip, to.port())
    })
}

/// Brings `token` to the agent at `to`.
///
/// # Errors
///
/// One sentence for all that may be wrong, so that nobody learns through it what listens there.
pub(crate) fn check_peer(to: SocketAddr, token: Token) -> Result<VerifiedPeer, String> {
    let met = present_token(to, token).ok().flatten();
    met.ok_or_else(|| {
        "no towpath agent of this version answers there that knows of this race".into()
    })
}

fn present_token(to: SocketAddr, token: Token) -> io::Result<Option<VerifiedPeer>> {
    let end = Instant::now() + PEER_CHECK_TIMEOUT;
    let mut socket = TcpStream::connect_timeout(&to, PEER_CHECK_TIMEOUT)?;
    let known = connection_addresses(&socket)?;
    let mut theirs = [0; version_exchange::LEN];
    version_exchange::read_exact_until(&mut socket, &mut theirs, end)?;
    if version_exchange::parse_agent(&theirs).is_err() {
        return Ok(None);
    }
    version_exchange::write_all(
        &mut socket,
        &version_exchange::encode_caller(CallerKind::Agent),
    )?;
    version_exchange::write_all(&mut socket, &token)?;
    let mut answer = [0; 32];
    version_exchange::read_exact_until(&mut socket, &mut answer, end)?;
    Ok((answer == proof(&token)).then_some(known))
}

/// Answers an agent that has said that it is one.
pub(crate) fn answer_peer_check(mut socket: TcpStream, tokens: &Tokens) -> io::Result<()> {
    let end = Instant::now() + PEER_CHECK_TIMEOUT;
    let mut token = [0; TOKEN_LEN];
    version_exchange::read_exact_until(&mut socket, &mut token, end)?;
    let known = connection_addresses(&socket)?;
    if tokens.redeem(&token, known) {
        version_exchange::write_all(&mut socket, &proof(&token))?;
    }
    Ok(())
}

/// Both ends of a connection.
fn connection_addresses(socket: &TcpStream) -> io::Result<VerifiedPeer> {
    Ok(VerifiedPeer {
        peer: canonical_ip(socket.peer_addr()?.ip()),
        local: canonical_ip(socket.local_addr()?.ip()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_client_cannot_target_agent_loopback() {
        let local: IpAddr = [127, 0, 0, 1].into();
        let remote: IpAddr = [192, 0, 2, 1].into();
        let to = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for own in [
            "127.0.0.1:7470",
            "127.9.9.9:1",
            "[::1]:7470",
            "[::ffff:127.0.0.1]:7470",
        ] {
            check_target_address(to(own), remote).expect_err(own);
            check_target_address(to(own), local).expect(own);
        }
        for not_a_host in [
            "0.0.0.0:1",
            "[::]:1",
            "224.0.0.1:1",
            "[ff02::1]:1",
            "255.255.255.255:1",
        ] {
            check_target_address(to(not_a_host), local).expect_err(not_a_host);
        }
        let mapped = check_target_address(to("[::ffff:192.0.2.9]:7470"), remote);
        assert_eq!(mapped, Ok(to("192.0.2.9:7470")));
        let scoped = to("[fe80::1%3]:7470");
        assert_eq!(check_target_address(scoped, remote), Ok(scoped));
    }

    #[test]
    fn token_redeemed_once_and_only_for_its_session() {
        let known = VerifiedPeer {
            peer: [127, 0, 0, 1].into(),
            local: [127, 0, 0, 2].into(),
        };
        let tokens = Tokens::default();
        let token = tokens.issue(7);
        let mut wrong = token;
        wrong[15] ^= 1;
        assert!(!tokens.redeem(&wrong, known) && !tokens.redeem(&[0; TOKEN_LEN], known));
        assert!(tokens.is_own_token(&token) && !tokens.is_own_token(&wrong));
        assert!(tokens.redeem(&token, known));
        assert!(!tokens.redeem(&token, known));
        assert_eq!(tokens.take_verified(8), []);
        assert_eq!(tokens.take_verified(7), [known]);
        assert_eq!(tokens.take_verified(7), []);
        let other = tokens.issue(7);
        tokens.revoke(7);
        assert!(!tokens.redeem(&other, known));
    }
}
