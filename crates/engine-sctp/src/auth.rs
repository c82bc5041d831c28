//! Keys of an association and the codes of its packets (RFC 4895).

use crate::numbers::Tag;
use crate::pdu::auth::{AuthChunk, AuthOffer, CODE_AT, HmacId, KeyId, auth_len, push_auth};
use crate::pdu::{COMMON_HEADER_LEN, ChunkType, Chunks};
use core::fmt;
use engine::{KeyedStream, Purpose, Seal, Secret};
use ring::hmac;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A key that both ends know.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SharedKey(Vec<u8>);

/// Longest shared key, octets.
pub const KEY_LEN_MAX: usize = 1024;

/// Shared keys of an association, at most: each takes some 1.4 KiB.
pub(crate) const KEYS_MAX: usize = 16;

impl SharedKey {
    /// A key of these octets, of which the first [`KEY_LEN_MAX`] count.
    pub fn new(octets: &[u8]) -> SharedKey {
        SharedKey(octets[..octets.len().min(KEY_LEN_MAX)].to_vec())
    }
}

/// All types that may be authenticated and change something.
const EVERYTHING: [ChunkType; 16] = [
    ChunkType::DATA,
    ChunkType::SACK,
    ChunkType::HEARTBEAT,
    ChunkType::HEARTBEAT_ACK,
    ChunkType::ABORT,
    ChunkType::SHUTDOWN,
    ChunkType::SHUTDOWN_ACK,
    ChunkType::ERROR,
    ChunkType::COOKIE_ECHO,
    ChunkType::COOKIE_ACK,
    ChunkType::I_DATA,
    ChunkType::ASCONF_ACK,
    ChunkType::RE_CONFIG,
    ChunkType::FORWARD_TSN,
    ChunkType::ASCONF,
    ChunkType::I_FORWARD_TSN,
];

/// Says nothing of the key.
impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey of {} octets", self.0.len())
    }
}

/// What an endpoint authenticates, and with which keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// Types of chunks that are taken from peers only behind an AUTH. INIT, INIT-ACK, SHUTDOWN-COMPLETE
    /// and AUTH itself never are.
    pub chunks: Vec<ChunkType>,
    /// HMACs, the preferred one first.
    pub hmacs: Vec<HmacId>,
    /// Keys that both ends know. Number 0 is the empty key unless it is here.
    pub keys: BTreeMap<KeyId, SharedKey>,
    /// The key that packets are sent with.
    pub active_key: KeyId,
}

impl Default for Authentication {
    /// SHA-256 and SHA-1, the empty key, and no type of chunk besides those of dynamic addresses.
    fn default() -> Authentication {
        Authentication {
            chunks: Vec::new(),
            hmacs: vec![HmacId::SHA256, HmacId::SHA1],
            keys: BTreeMap::new(),
            active_key: KeyId(0),
        }
    }
}

impl Authentication {
    /// Every type of chunk that may be is authenticated.
    pub fn of_everything() -> Authentication {
        Authentication {
            chunks: EVERYTHING.to_vec(),
            ..Authentication::default()
        }
    }

    /// What is offered to a peer in an association with this tag. Its random number follows from the
    /// secret and the tag, so that an INIT leaves no state.
    pub(crate) fn offer(
        &self,
        (secret, seed): (&Secret, u64),
        tag: Tag,
        has_dynamic_addresses: bool,
    ) -> AuthOffer {
        let seed = seed.rotate_left(32) ^ u64::from(tag.0);
        let mut numbers = KeyedStream::new(secret, Purpose::Visible, seed);
        let mut random = [0; 32];
        for word in random.as_chunks_mut::<8>().0 {
            *word = numbers.next_u64().to_be_bytes();
        }
        let mut chunks = self.chunks.clone();
        if has_dynamic_addresses {
            // RFC 5061 section 4.2.7.
            chunks.extend([ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
        }
        chunks.sort_unstable();
        chunks.dedup();
        AuthOffer::new(random, &chunks, &self.hmacs)
    }
}

/// A set of types of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChunkSet([u64; 4]);

impl ChunkSet {
    fn of(kinds: impl Iterator<Item = ChunkType>) -> ChunkSet {
        let mut set = ChunkSet::default();
        for ChunkType(kind) in kinds {
            set.0[usize::from(kind >> 6)] |= 1 << (kind & 63);
        }
        set
    }

    fn contains(&self, kind: ChunkType) -> bool {
        self.0[usize::from(kind.0 >> 6)] >> (kind.0 & 63) & 1 == 1
    }
}

/// Why what is behind an AUTH is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthFault {
    /// The HMAC was not offered: the peer is told (RFC 4895 section 6.3).
    Hmac(HmacId),
    /// No such key, or a wrong code.
    Code,
}

/// The authentication of an association.
#[derive(Debug)]
pub(crate) struct AuthState {
    own: AuthOffer,
    peer: AuthOffer,
    /// Types that are taken only behind an AUTH, here and at the peer.
    own_set: ChunkSet,
    peer_set: ChunkSet,
    /// The one of the peer's HMACs that packets are sent with.
    hmac: HmacId,
    /// The keys of the association, for each HMAC that was offered.
    keys: BTreeMap<KeyId, Vec<(HmacId, hmac::Key)>>,
    active: KeyId,
    seal: Arc<CodeSeal>,
}

impl AuthState {
    /// None if the peer has no HMAC that is known here.
    pub(crate) fn new(config: &Authentication, own: AuthOffer, peer: AuthOffer) -> Option<Self> {
        let hmac = peer.hmacs().find(|hmac| hmac.code_len().is_some())?;
        let empty = hmac::Key::new(hmac::HMAC_SHA256, &[]);
        let mut state = AuthState {
            own_set: ChunkSet::of(own.chunks()),
            peer_set: ChunkSet::of(peer.chunks()),
            own,
            peer,
            hmac,
            keys: BTreeMap::new(),
            active: config.active_key,
            seal: Arc::new(CodeSeal { key: empty }),
        };
        state.set_key(KeyId(0), &SharedKey::default());
        for (id, key) in config.keys.iter().take(KEYS_MAX) {
            state.set_key(*id, key);
        }
        if !state.set_active(config.active_key) {
            state.set_active(KeyId(0));
        }
        Some(state)
    }

    /// Adds a shared key or changes it; false if there are too many.
    pub(crate) fn set_key(&mut self, id: KeyId, shared: &SharedKey) -> bool {
        if self.keys.len() > KEYS_MAX && !self.keys.contains_key(&id) {
            return false;
        }
        let secret = association_key(shared, &self.own.key_vector(), &self.peer.key_vector());
        let mut hmacs: Vec<HmacId> = self.own.hmacs().collect();
        hmacs.push(self.hmac);
        let keys = hmacs.into_iter().filter_map(|hmac| {
            let algorithm = algorithm(hmac)?;
            Some((hmac, hmac::Key::new(algorithm, &secret)))
        });
        self.keys.insert(id, keys.collect());
        if id == self.active {
            self.set_active(id);
        }
        true
    }

    /// Packets are sent with this key from now on; false without it.
    pub(crate) fn set_active(&mut self, id: KeyId) -> bool {
        let keys = self.keys.get(&id).into_iter().flatten();
        let Some((_, key)) = keys.into_iter().find(|(hmac, _)| *hmac == self.hmac) else {
            return false;
        };
        self.active = id;
        self.seal = Arc::new(CodeSeal { key: key.clone() });
        true
    }

    /// Forgets a key; false for one that is not known, or that packets are sent with.
    pub(crate) fn delete_key(&mut self, id: KeyId) -> bool {
        id != self.active && self.keys.remove(&id).is_some()
    }

    /// The key that packets are sent with.
    pub(crate) fn active(&self) -> KeyId {
        self.active
    }

    /// The HMAC that packets are sent with.
    pub(crate) fn hmac(&self) -> HmacId {
        self.hmac
    }

    /// What the two ends offered, this one first.
    pub(crate) fn offers(&self) -> [&AuthOffer; 2] {
        [&self.own, &self.peer]
    }

    /// Whether chunks of this type are taken only behind an AUTH.
    pub(crate) fn requires(&self, kind: ChunkType) -> bool {
        self.own_set.contains(kind)
    }

    /// Whether the peer takes chunks of this type only behind an AUTH.
    pub(crate) fn peer_requires(&self, kind: ChunkType) -> bool {
        self.peer_set.contains(kind)
    }

    /// Whether one of these chunks, which are whole, needs an AUTH in front.
    pub(crate) fn covers(&self, chunks: &[u8]) -> bool {
        Chunks::of(chunks).any(|chunk| self.peer_requires(chunk.kind))
    }

    /// Octets of an AUTH that is sent.
    pub(crate) fn len(&self) -> usize {
        auth_len(self.hmac)
    }

    /// Appends an AUTH whose code is to be completed.
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        push_auth(out, self.active, self.hmac);
    }

    /// What completes the code of packets that begin with an AUTH.
    pub(crate) fn seal(&self) -> Arc<dyn Seal> {
        Arc::<CodeSeal>::clone(&self.seal)
    }

    /// `chunks` with an AUTH in front, complete.
    pub(crate) fn sealed(&self, chunks: &[u8]) -> Vec<u8> {
        let mut octets = Vec::new();
        self.push(&mut octets);
        octets.extend_from_slice(chunks);
        self.seal.complete(&mut octets);
        octets
    }

    /// Whether the AUTH at the beginning of `octets`, which go to the end of the packet, is right.
    pub(crate) fn check(&self, chunk: &AuthChunk<'_>, octets: &[u8]) -> Result<(), AuthFault> {
        if !self.own.hmacs().any(|hmac| hmac == chunk.hmac) {
            return Err(AuthFault::Hmac(chunk.hmac));
        }
        let keys = self.keys.get(&chunk.key).ok_or(AuthFault::Code)?;
        let key = keys.iter().find(|(hmac, _)| *hmac == chunk.hmac);
        let (_, key) = key.ok_or(AuthFault::Code)?;
        let (front, rest) = octets.split_at_checked(CODE_AT).ok_or(AuthFault::Code)?;
        let rest = rest.get(chunk.code.len()..).ok_or(AuthFault::Code)?;
        let mut context = hmac::Context::with_key(key);
        context.update(front);
        let code_len = chunk.hmac.code_len().unwrap_or(0);
        context.update(&[0; 32][..code_len]);
        context.update(rest);
        let code = context.sign();
        // A comparison whose time says nothing of where they differ.
        let pairs = code.as_ref().iter().zip(chunk.code);
        let differs = pairs.fold(0, |sum, (a, b)| sum | (a ^ b));
        let is_right = differs == 0 && chunk.code.len() == code_len;
        is_right.then_some(()).ok_or(AuthFault::Code)
    }
}

fn algorithm(hmac: HmacId) -> Option<hmac::Algorithm> {
    match hmac {
        HmacId::SHA1 => Some(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        HmacId::SHA256 => Some(hmac::HMAC_SHA256),
        _ => None,
    }
}

/// The shared key and both key vectors, the one that is less as a number first (RFC 4895 section 6.1).
fn association_key(shared: &SharedKey, own: &[u8], peer: &[u8]) -> Vec<u8> {
    let digits = |vector: &[u8]| {
        let zeros = vector.iter().take_while(|octet| **octet == 0).count();
        let digits = vector[zeros..].to_vec();
        (digits.len(), digits, vector.len())
    };
    let (first, second) = match digits(own) <= digits(peer) {
        true => (own, peer),
        false => (peer, own),
    };
    [&shared.0, first, second].concat()
}

/// Completes the code of packets that begin with an AUTH.
#[derive(Debug)]
struct CodeSeal {
    key: hmac::Key,
}

impl CodeSeal {
    /// `chunks` begin with an AUTH whose code is zeros.
    fn complete(&self, chunks: &mut [u8]) {
        let code = hmac::sign(&self.key, chunks);
        let code = code.as_ref();
        if let Some(field) = chunks.get_mut(CODE_AT..CODE_AT + code.len()) {
            field.copy_from_slice(code);
        }
    }
}

impl Seal for CodeSeal {
    fn seal(&self, packet: &mut [u8]) {
        if let Some(chunks) = packet.get_mut(COMMON_HEADER_LEN..) {
            self.complete(chunks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DATA "abc" with TSN 1.
    const DATA: [u8; 20] = [
        0, 3, 0, 19, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x61, 0x62, 0x63, 0,
    ];

    fn random(first: u8) -> [u8; 32] {
        core::array::from_fn(|index| first + index as u8)
    }

    /// Two ends with key 7, of which the second takes this HMAC alone.
    fn states(hmac: HmacId) -> [AuthState; 2] {
        let chunks = [ChunkType::DATA, ChunkType::SACK, ChunkType::ASCONF];
        let first = AuthOffer::new(random(0), &chunks, &[HmacId::SHA256, HmacId::SHA1]);
        let second = AuthOffer::new(random(32), &[], &[HmacId::SHA1]);
        let mut config = Authentication::default();
        config.keys.insert(KeyId(7), SharedKey::new(b"towpath"));
        let state = |own: &AuthOffer, peer: &AuthOffer| {
            AuthState::new(&config, own.clone(), peer.clone()).expect("both know SHA-1")
        };
        let mut states = [state(&first, &second), state(&second, &first)];
        for state in &mut states {
            state.hmac = hmac;
            assert!(state.set_key(KeyId(0), &SharedKey::default()));
            assert!(state.set_key(KeyId(7), &SharedKey::new(b"towpath")));
            assert!(state.set_active(KeyId(0)));
        }
        states
    }

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    /// The codes were computed with another library, by RFC 4895 section 6.
    #[test]
    fn codes_are_those_of_the_rfc() {
        let codes = [
            (HmacId::SHA1, 0, "9008e6d0e5dc13720b4fa06343a568439f216d86"),
            (HmacId::SHA1, 7, "d98ed06eae61c961c3e6c36872a851b82a50e8db"),
            (
                HmacId::SHA256,
                0,
                "c17c8a5586ae78c14571dd05634be4e0d9a32f920ece1361a518c95e6b52fdc9",
            ),
            (
                HmacId::SHA256,
                7,
                "77fc27b3ea137f415a4d334716281c4b758d7ec343e0a0767b718d00bf11cd78",
            ),
        ];
        for (hmac, key, code) in codes {
            for state in &mut states(hmac) {
                assert!(state.set_active(KeyId(key)));
                let octets = state.sealed(&DATA);
                let header = [
                    15,
                    0,
                    0,
                    octets.len() as u8 - 20,
                    0,
                    key as u8,
                    0,
                    hmac.0 as u8,
                ];
                assert_eq!(octets[..8], header);
                assert_eq!(hex(&octets[CODE_AT..octets.len() - 20]), code);
            }
        }
    }

    #[test]
    fn code_covers_every_octet_behind_it_and_the_numbers_in_front() {
        let [_, state] = states(HmacId::SHA1);
        let octets = state.sealed(&DATA);
        let check = |octets: &[u8]| {
            let chunk = AuthChunk::parse(&octets[4..28]).expect("an AUTH");
            state.check(&chunk, octets)
        };
        assert_eq!(check(&octets), Ok(()));
        for at in 0..octets.len() {
            let mut changed = octets.clone();
            changed[at] ^= 1;
            assert!(check(&changed).is_err(), "octet {at}");
        }
        let mut other_hmac = octets.clone();
        other_hmac[7] = 3;
        let fault = Err(AuthFault::Hmac(HmacId::SHA256));
        assert_eq!(check(&other_hmac), fault, "it was not offered");
        assert_eq!(check(&octets[..octets.len() - 4]), Err(AuthFault::Code));
    }

    #[test]
    fn lesser_key_vector_comes_first_at_both_ends() {
        let shared = SharedKey::new(b"k");
        let expected = b"k\x00\x02\x01\x00".to_vec();
        assert_eq!(association_key(&shared, &[1, 0], &[0, 2]), expected);
        assert_eq!(
            association_key(&shared, &[0, 2], &[1, 0]),
            b"k\x00\x02\x01\x00"
        );
        // Equal numbers: the shorter vector first.
        assert_eq!(association_key(&shared, &[0, 5], &[5]), b"k\x05\x00\x05");
    }

    #[test]
    fn keys_have_a_limit_and_the_active_one_stays() {
        let [mut state, _] = states(HmacId::SHA256);
        let added = (100..200).filter(|id| state.set_key(KeyId(*id), &SharedKey::new(b"x")));
        assert_eq!(added.count(), KEYS_MAX - 1, "key 7 is one of them");
        assert!(!state.delete_key(KeyId(0)), "it is active");
        assert!(state.delete_key(KeyId(7)) && !state.set_active(KeyId(7)));
        assert_eq!(
            format!("{:?}", SharedKey::new(b"secret")),
            "SharedKey of 6 octets"
        );
    }
}
