//! A compiled recipe: what each part is made of, and the headers that a signed request carries.
//!
//! Signing writes all text that is made for one request into one piece of memory, of which the
//! headers are slices.

use std::io::Write as _;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use outbound::{BodyContentView, ClientError};
use zeroize::Zeroizing;

use super::SigningInput;
use super::account::AccountSource;
use super::digest::{DigestAlgorithm, FinishedDigest, KeyedDigest};
use super::encoding::PartEncoding;
use super::kept_values::KeptValues;

/// A checked recipe.
#[derive(Clone)]
pub(super) struct SigningRecipe {
    /// Each names only parts before it.
    pub(super) parts: Vec<PartSource>,
    pub(super) headers: Vec<RecipeHeader>,
    /// What is read of an account's credentials.
    pub(super) of_account: Vec<AccountReading>,
    /// Whether there is one random part, which then is the nonce as it came.
    pub(super) takes_nonce: bool,
}

/// What is read of an account, and the key of the configuration that says so.
#[derive(Clone)]
pub(super) struct AccountReading {
    pub(super) key: String,
    pub(super) source: AccountSource,
}

/// What a part is made of.
#[derive(Clone)]
pub(super) enum PartSource {
    Method,
    /// The path with its query, as it is sent.
    Target,
    /// The path alone.
    Path,
    TimeSeconds,
    TimeMillis,
    Body(BodyDigest),
    Random {
        bytes: usize,
        encoding: PartEncoding,
    },
    /// The same for every request.
    Fixed(Zeroizing<String>),
    /// By its place among what is read of an account.
    OfAccount(usize),
    /// By its place among the signing values.
    Value(usize),
    Digest(JoinedDigest),
}

/// The digest of a request's body.
#[derive(Clone)]
pub(super) struct BodyDigest {
    pub(super) algorithm: DigestAlgorithm,
    pub(super) encoding: PartEncoding,
    /// Whether no body is an empty text rather than the digest of nothing.
    pub(super) is_empty_text: bool,
    /// What stands for a body that is not in memory.
    pub(super) spooled: Option<String>,
}

/// The digest of other parts.
#[derive(Clone)]
pub(super) struct JoinedDigest {
    pub(super) of: Vec<usize>,
    pub(super) separator: String,
    pub(super) function: DigestFunction,
    pub(super) encoding: PartEncoding,
}

/// How parts are digested.
#[derive(Clone)]
pub(super) enum DigestFunction {
    Plain(DigestAlgorithm),
    Keyed(Box<KeyedDigest>),
    /// With a part as the key.
    KeyedBy(DigestAlgorithm, usize),
}

/// A header and the template of its value.
#[derive(Clone)]
pub(super) struct RecipeHeader {
    pub(super) name: HeaderName,
    pub(super) pieces: Vec<HeaderPiece>,
    /// Whether a part that is a secret is in it.
    pub(super) is_sensitive: bool,
    /// The value, where it is the same for every request.
    pub(super) fixed: Option<HeaderValue>,
}

/// A piece of a header's template.
#[derive(Clone)]
pub(super) enum HeaderPiece {
    Text(String),
    Part(usize),
}

/// What is signed.
pub(super) struct RequestParts<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) body: BodyContentView<'a>,
    pub(super) account: &'a [Zeroizing<String>],
    pub(super) values: Option<&'a KeptValues>,
    pub(super) input: SigningInput,
}

/// Where the text of a part is.
#[derive(Clone, Copy)]
enum PartText<'a> {
    Lent(&'a [u8]),
    /// In the memory of this request.
    Written(usize, usize),
}

/// A part of a recipe, and its number among the parts.
#[derive(Clone, Copy)]
struct NumberedPart<'a> {
    index: usize,
    part: &'a PartSource,
}

/// Random bytes that a part asks for.
#[derive(Clone, Copy)]
struct RandomPart {
    index: usize,
    bytes: usize,
    encoding: PartEncoding,
}

impl SigningRecipe {
    /// Whether bodies have to be in memory to be signed.
    pub(super) fn needs_body(&self) -> bool {
        let needs =
            |part: &PartSource| matches!(part, PartSource::Body(body) if body.spooled.is_none());
        self.parts.iter().any(needs)
    }

    /// Signs a request and puts the headers on it.
    pub(super) fn sign(
        &self,
        request: &RequestParts<'_>,
        headers: &mut HeaderMap,
    ) -> Result<(), ClientError> {
        let mut written = Vec::with_capacity(self.written_bytes());
        let mut texts = Vec::with_capacity(self.parts.len());
        for (index, part) in self.parts.iter().enumerate() {
            let begin = written.len();
            let lent = self.write(NumberedPart { index, part }, request, &texts, &mut written)?;
            texts.push(lent.map_or(PartText::Written(begin, written.len()), PartText::Lent));
        }
        let written = Bytes::from(written);
        for header in &self.headers {
            headers.insert(header.name.clone(), header.value(&texts, &written)?);
        }
        Ok(())
    }

    /// Writes the text of a part, or lends it where it is somewhere already.
    fn write<'a>(
        &'a self,
        numbered: NumberedPart<'a>,
        request: &RequestParts<'a>,
        texts: &[PartText<'a>],
        written: &mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, ClientError> {
        let NumberedPart { index, part } = numbered;
        match part {
            PartSource::Method => return Ok(Some(request.method.as_bytes())),
            PartSource::Target => return Ok(Some(request.target.as_bytes())),
            PartSource::Path => {
                let path = request.target.split('?').next().unwrap_or_default();
                return Ok(Some(path.as_bytes()));
            }
            PartSource::Fixed(text) => return Ok(Some(text.as_bytes())),
            PartSource::OfAccount(place) => {
                let text = request.account.get(*place);
                return text.map(|text| Some(text.as_bytes())).ok_or_else(absent_credential);
            }
            PartSource::Value(place) => {
                let text = request.values.and_then(|values| values.get(*place));
                return text.map(|text| Some(text.as_bytes())).ok_or_else(absent_value);
            }
            PartSource::TimeSeconds => write_number(request.input.now.unix_seconds(), written),
            PartSource::TimeMillis => write_number(request.input.now.unix_millis(), written),
            PartSource::Random { bytes, encoding } => {
                let random = RandomPart { index, bytes: *bytes, encoding: *encoding };
                self.write_random(random, request.input.nonce, written);
            }
            PartSource::Body(digest) => digest.write(request.body, written)?,
            PartSource::Digest(digest) => {
                let finished = digest.finish(texts, written);
                digest.encoding.write(finished.as_bytes(), written);
            }
        }
        Ok(None)
    }

    /// Random bytes. Where there are several parts, or a long one, all of them are derived from the
    /// request's own random bytes, so that none tells another.
    fn write_random(&self, random: RandomPart, nonce: [u8; 16], written: &mut Vec<u8>) {
        let RandomPart { index, bytes, encoding } = random;
        if self.takes_nonce {
            return encoding.write(nonce.get(..bytes).unwrap_or(&nonce), written);
        }
        let Some(keyed) = DigestAlgorithm::Sha512.keyed(&nonce) else { return };
        let mut derived = Vec::with_capacity(bytes.saturating_add(64));
        let mut round = 0_u32;
        while derived.len() < bytes {
            let label = format!("random {index} {round}");
            derived.extend_from_slice(keyed.of([label.as_bytes()].into_iter()).as_bytes());
            round = round.saturating_add(1);
        }
        encoding.write(derived.get(..bytes).unwrap_or(&derived), written);
    }

    /// As many bytes as the parts that are made for a request take together at most.
    fn written_bytes(&self) -> usize {
        const DIGITS_MAX: usize = 20;
        let of_part = |part: &PartSource| match part {
            PartSource::TimeSeconds | PartSource::TimeMillis => DIGITS_MAX,
            PartSource::Random { bytes, encoding } => encoding.written_bytes(*bytes),
            PartSource::Body(digest) => digest.written_bytes(),
            PartSource::Digest(digest) => digest.written_bytes(),
            PartSource::Method
            | PartSource::Target
            | PartSource::Path
            | PartSource::Fixed(_)
            | PartSource::OfAccount(_)
            | PartSource::Value(_) => 0,
        };
        self.parts.iter().map(of_part).sum()
    }
}

impl BodyDigest {
    fn write(&self, body: BodyContentView<'_>, written: &mut Vec<u8>) -> Result<(), ClientError> {
        match (body, &self.spooled) {
            (BodyContentView::InMemory([]), _) if self.is_empty_text => {}
            (BodyContentView::InMemory(bytes), _) => {
                let digest = self.algorithm.of([bytes].into_iter());
                self.encoding.write(digest.as_bytes(), written);
            }
            (BodyContentView::Spooled, Some(text)) => written.extend_from_slice(text.as_bytes()),
            (BodyContentView::Spooled, None) => {
                return Err(ClientError::signing("the body is not in memory to be hashed"));
            }
        }
        Ok(())
    }

    fn written_bytes(&self) -> usize {
        let spooled = self.spooled.as_ref().map_or(0, String::len);
        self.encoding.written_bytes(self.algorithm.bytes()).max(spooled)
    }
}

impl JoinedDigest {
    fn finish(&self, texts: &[PartText<'_>], written: &[u8]) -> FinishedDigest {
        let text = |place: usize| texts.get(place).map_or(&b""[..], |text| text.in_memory(written));
        let pieces = self.of.iter().enumerate().flat_map(|(number, place)| {
            let separator = if number == 0 { "" } else { self.separator.as_str() };
            [separator.as_bytes(), text(*place)]
        });
        match &self.function {
            DigestFunction::Plain(algorithm) => algorithm.of(pieces),
            DigestFunction::Keyed(keyed) => keyed.of(pieces),
            DigestFunction::KeyedBy(algorithm, key) => match algorithm.keyed(text(*key)) {
                Some(keyed) => keyed.of(pieces),
                // HMAC takes keys of every length.
                None => algorithm.of(pieces),
            },
        }
    }

    const fn written_bytes(&self) -> usize {
        let bytes = match &self.function {
            DigestFunction::Plain(algorithm) | DigestFunction::KeyedBy(algorithm, _) => {
                algorithm.bytes()
            }
            DigestFunction::Keyed(keyed) => keyed.bytes(),
        };
        self.encoding.written_bytes(bytes)
    }
}

impl PartText<'_> {
    fn in_memory<'m>(&'m self, written: &'m [u8]) -> &'m [u8] {
        match self {
            Self::Lent(text) => text,
            Self::Written(begin, end) => written.get(*begin..*end).unwrap_or_default(),
        }
    }
}

impl RecipeHeader {
    fn value(&self, texts: &[PartText<'_>], written: &Bytes) -> Result<HeaderValue, ClientError> {
        if let Some(fixed) = &self.fixed {
            return Ok(fixed.clone());
        }
        let text = |place: &usize| texts.get(*place).copied().unwrap_or(PartText::Lent(b""));
        let bytes = match self.pieces.as_slice() {
            [HeaderPiece::Part(place)] => match text(place) {
                PartText::Written(begin, end) if end <= written.len() => written.slice(begin..end),
                other => Bytes::from_owner(Zeroizing::new(other.in_memory(written).to_vec())),
            },
            pieces => Bytes::from_owner(joined(pieces, texts, written)),
        };
        let mut value = HeaderValue::from_maybe_shared(bytes).map_err(ClientError::build)?;
        value.set_sensitive(self.is_sensitive);
        Ok(value)
    }
}

/// In one piece of memory that is wiped with the header.
fn joined(pieces: &[HeaderPiece], texts: &[PartText<'_>], written: &Bytes) -> Zeroizing<Vec<u8>> {
    let of_piece = |piece: &'_ HeaderPiece, take: &mut dyn FnMut(&[u8])| match piece {
        HeaderPiece::Text(text) => take(text.as_bytes()),
        HeaderPiece::Part(place) => {
            take(texts.get(*place).map_or(&b""[..], |text| text.in_memory(written)));
        }
    };
    let mut bytes = 0;
    for piece in pieces {
        of_piece(piece, &mut |text| bytes += text.len());
    }
    let mut value = Zeroizing::new(Vec::with_capacity(bytes));
    for piece in pieces {
        of_piece(piece, &mut |text| value.extend_from_slice(text));
    }
    value
}

fn write_number(number: impl std::fmt::Display, written: &mut Vec<u8>) {
    // A vector takes all bytes.
    drop(write!(written, "{number}"));
}

fn absent_credential() -> ClientError {
    ClientError::signing("a credential that it names is absent")
}

fn absent_value() -> ClientError {
    ClientError::signing("a signing value is not there")
}
