//! Address validation between agents: before data may flow between two agents, one echoes a token
//! that the other issued and that travelled through their common client.
//!
//! The checking agent connects, which shows its address, and sends the token only after the peer
//! has sent an agent's version message. The peer proves by a digest that it knows the token.

use crate::server::canonical_ip;
use crate::server::session_state::VerifiedPeer;
use crate::version_exchange::{self, CallerKind};
use control::session::{TOKEN_LEN, Token};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Timeout of a peer check.
const PEER_CHECK_TIMEOUT: Duration = Duration::from_secs(3);

/// When a failed peer check is answered, after its start: later than any way in which it can fail,
/// so that the time says nothing about what is at the address.
const FAILURE_ANSWER_TIME: Duration = Duration::from_millis(3300);

/// Lifetime of a token.
const TOKEN_LIFETIME: Duration = Duration::from_secs(30);

/// Tokens issued at a time.
const TOKENS_MAX: usize = 64;

/// Issued tokens, and the peers that presented them.
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

    /// Issues a token for a session.
    pub(crate) fn issue(&self, session: u64) -> Token {
        let mut token = [0; TOKEN_LEN];
        // Without random numbers it stays zero, which is never accepted.
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

    /// Redeems `token`, presented by the peer at `known`; true if it was valid. A token is valid
    /// once.
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

    /// The peers that presented tokens of `session` since the last call.
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

    /// Whether this agent issued the token. Presenting it would make the agent check itself, and
    /// its own address a permitted destination.
    pub(crate) fn is_own_token(&self, token: &Token) -> bool {
        self.lock()
            .iter()
            .any(|one| constant_time_eq(&one.token, token))
    }

    /// Revokes the tokens of a session that has ended.
    pub(crate) fn revoke(&self, session: u64) {
        self.lock().retain(|one| one.session != session);
    }
}

/// Compares two tokens in constant time.
fn constant_time_eq(one: &Token, other: &Token) -> bool {
    let differ = one
        .iter()
        .zip(other)
        .fold(0, |differ, (a, b)| differ | (a ^ b));
    std::hint::black_box(differ) == 0
}

/// The digest that proves knowledge of the token.
fn proof(token: &Token) -> [u8; 32] {
    let mut text = b"towpath greeting answered ".to_vec();
    text.extend_from_slice(token);
    let digest = ring::digest::digest(&ring::digest::SHA256, &text);
    let mut proof = [0; 32];
    proof.copy_from_slice(digest.as_ref());
    proof
}

/// Checks the address of a peer check: no unspecified, multicast or broadcast address, and no
/// loopback address unless the client is local, so that a remote client cannot reach this host's
/// loopback. Errors: the reason, one sentence.
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
    // Keep the scope of an IPv6 address; an IPv4-mapped address has none.
    Ok(if ip == to.ip() {
        to
    } else {
        SocketAddr::new(ip, to.port())
    })
}

/// Presents `token` to the agent at `to`.
/// Errors: the same sentence for every failure, after the same time, so that a client cannot scan ports through this
/// agent.
pub(crate) fn check_peer(to: SocketAddr, token: Token) -> Result<VerifiedPeer, String> {
    let answer_at = Instant::now() + FAILURE_ANSWER_TIME;
    let met = present_token(to, token).ok().flatten();
    met.ok_or_else(|| {
        std::thread::sleep(answer_at.saturating_duration_since(Instant::now()));
        "no towpath agent of this version that takes part in this race answers there".into()
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

/// Answers an agent's peer check.
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

/// The addresses of both ends of a connection.
fn connection_addresses(socket: &TcpStream) -> io::Result<VerifiedPeer> {
    Ok(VerifiedPeer {
        peer: canonical_ip(socket.peer_addr()?.ip()),
        local: canonical_ip(socket.local_addr()?.ip()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn failed_checks_take_the_same_time() {
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("bound")
        };
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = |listener: &TcpListener| listener.local_addr().expect("bound");
        let targets = [closed, address(&other), address(&silent)];
        std::thread::spawn(move || {
            let (mut tcp, _) = other.accept().expect("the check");
            let _ = tcp.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
        });
        let checks = targets.map(|to| {
            std::thread::spawn(move || {
                let began = Instant::now();
                let why = check_peer(to, [1; TOKEN_LEN]).expect_err("no agent is there");
                (why, began.elapsed())
            })
        });
        let results = checks.map(|check| check.join().expect("no panic"));
        for (why, took) in &results {
            assert_eq!(why, &results[0].0);
            assert!(*took >= FAILURE_ANSWER_TIME, "{took:?} tells what is there");
        }
        assert!(FAILURE_ANSWER_TIME > PEER_CHECK_TIMEOUT);
    }

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
