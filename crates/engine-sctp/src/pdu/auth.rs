//! AUTH: the chunks behind it come from an end that knows the key (RFC 4895).

use super::chunk::{CHUNK_HEADER_LEN, begin_chunk, end_chunk};
use super::parameter::{ParameterType, parameters, push_parameter};
use super::{ChunkType, u16_at};

/// The number of a shared key (RFC 4895 section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId(pub u16);

/// How a code is computed (RFC 4895 section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HmacId(pub u16);

impl HmacId {
    /// HMAC with SHA-1, which every end has.
    pub const SHA1: HmacId = HmacId(1);
    /// HMAC with SHA-256.
    pub const SHA256: HmacId = HmacId(3);

    /// Octets of a code; None for a number that is not known here.
    pub fn code_len(self) -> Option<usize> {
        match self {
            HmacId::SHA1 => Some(20),
            HmacId::SHA256 => Some(32),
            _ => None,
        }
    }
}

/// Octets of an AUTH's numbers of key and HMAC.
const FIELDS_LEN: usize = 4;

/// Where the code lies in an AUTH, from the chunk's first octet.
pub const CODE_AT: usize = CHUNK_HEADER_LEN + FIELDS_LEN;

/// An AUTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthChunk<'a> {
    /// The key.
    pub key: KeyId,
    /// How the code was computed.
    pub hmac: HmacId,
    /// The code.
    pub code: &'a [u8],
}

impl<'a> AuthChunk<'a> {
    /// Of a chunk's value; None if it is too short.
    pub fn parse(value: &'a [u8]) -> Option<AuthChunk<'a>> {
        Some(AuthChunk {
            key: KeyId(u16_at(value, 0)?),
            hmac: HmacId(u16_at(value, 2)?),
            code: &value[FIELDS_LEN..],
        })
    }
}

/// Octets of an AUTH with this HMAC: a multiple of four.
pub fn auth_len(hmac: HmacId) -> usize {
    CODE_AT + hmac.code_len().unwrap_or(0)
}

/// Appends an AUTH with zeros for its code.
pub fn push_auth(out: &mut Vec<u8>, key: KeyId, hmac: HmacId) {
    let start = begin_chunk(out, ChunkType::AUTH, 0);
    out.extend(key.0.to_be_bytes());
    out.extend(hmac.0.to_be_bytes());
    out.resize(start + auth_len(hmac), 0);
    end_chunk(out, start);
}

/// Limits of what a peer offers, octets: the random number has 32 (RFC 4895 section 3.1), there are two
/// dozen types of chunks, and two HMACs. All of it lies in the state cookie: 124 octets with the headers.
const RANDOM_MAX: usize = 64;
const CHUNKS_MAX: usize = 32;
const HMACS_MAX: usize = 16;

/// What an end says of authentication in its INIT or INIT-ACK (RFC 4895 section 6.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthOffer {
    random: Vec<u8>,
    chunks: Option<Vec<u8>>,
    hmacs: Vec<u8>,
}

impl AuthOffer {
    /// An offer with this random number, of the types of chunks that are taken only behind an AUTH,
    /// and of HMACs, the preferred one first.
    pub fn new(random: [u8; 32], chunks: &[ChunkType], hmacs: &[HmacId]) -> AuthOffer {
        AuthOffer {
            random: random.to_vec(),
            chunks: (!chunks.is_empty()).then(|| chunks.iter().map(|kind| kind.0).collect()),
            hmacs: hmacs.iter().flat_map(|hmac| hmac.0.to_be_bytes()).collect(),
        }
    }

    /// Of its parameters alone, as [`AuthOffer::push`] writes them; None if it is not usable.
    pub(super) fn parse(octets: &[u8]) -> Option<AuthOffer> {
        let mut offer = AuthOffer::default();
        for parameter in parameters(octets) {
            offer.add(parameter.kind, parameter.value);
        }
        offer.if_usable()
    }

    /// Takes in a parameter of an INIT or INIT-ACK; the first of each type counts.
    pub(super) fn add(&mut self, kind: ParameterType, value: &[u8]) {
        match kind {
            ParameterType::RANDOM if self.random.is_empty() => self.random = value.to_vec(),
            ParameterType::CHUNKS => {
                self.chunks.get_or_insert_with(|| value.to_vec());
            }
            ParameterType::HMAC_ALGO if self.hmacs.is_empty() => self.hmacs = value.to_vec(),
            _ => {}
        }
    }

    /// This offer, if it has what authentication needs and no more than is kept.
    pub(super) fn if_usable(self) -> Option<AuthOffer> {
        let chunks_len = self.chunks.as_ref().map_or(0, Vec::len);
        let fits = self.random.len() <= RANDOM_MAX
            && chunks_len <= CHUNKS_MAX
            && self.hmacs.len() <= HMACS_MAX;
        let is_whole = !self.random.is_empty() && self.hmacs().next().is_some();
        (fits && is_whole).then_some(self)
    }

    /// The types of chunks that its sender takes only behind an AUTH. Four types never are (RFC 4895
    /// section 3.2).
    pub fn chunks(&self) -> impl Iterator<Item = ChunkType> {
        let listed = self.chunks.iter().flatten().map(|kind| ChunkType(*kind));
        listed.filter(|kind| !NEVER_AUTHENTICATED.contains(kind))
    }

    /// Its HMACs, the preferred one first.
    pub fn hmacs(&self) -> impl Iterator<Item = HmacId> {
        let (pairs, _) = self.hmacs.as_chunks::<2>();
        pairs.iter().map(|pair| HmacId(u16::from_be_bytes(*pair)))
    }

    /// Its parameters one after another, headers included and without padding: the key vector of its
    /// sender (RFC 4895 section 6.1).
    pub fn key_vector(&self) -> Vec<u8> {
        let mut vector = Vec::new();
        for (kind, value) in self.parameters() {
            vector.extend(kind.0.to_be_bytes());
            vector.extend((value.len() as u16 + 4).to_be_bytes());
            vector.extend(value);
        }
        vector
    }

    fn parameters(&self) -> impl Iterator<Item = (ParameterType, &[u8])> {
        let chunks = self.chunks.as_deref();
        let chunks = chunks.map(|chunks| (ParameterType::CHUNKS, chunks));
        [Some((ParameterType::RANDOM, &self.random[..])), chunks]
            .into_iter()
            .flatten()
            .chain([(ParameterType::HMAC_ALGO, &self.hmacs[..])])
    }

    /// Appends its parameters.
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        for (kind, value) in self.parameters() {
            push_parameter(out, kind, value);
        }
    }
}

/// Types that are not authenticated, even if a peer lists them (RFC 4895 section 3.2).
pub const NEVER_AUTHENTICATED: [ChunkType; 4] = [
    ChunkType::INIT,
    ChunkType::INIT_ACK,
    ChunkType::SHUTDOWN_COMPLETE,
    ChunkType::AUTH,
];
