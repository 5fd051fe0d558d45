//! Reads an upload's form (RFC 7578): its file is written to disk as it arrives, its fields are
//! stored and checked.
//!
//! Whatever the caller sends, memory is bounded: the parser receives at most the bytes that the
//! file has taken from it, plus an allowance for fields and framing.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use bytes::Bytes;
use catalog::Route;
use domain::field_error::FieldErrorKind;
use domain::id::CustomerId;
use failures::Failure;
use failures::FieldProblem;
use futures_util::stream::{self, Stream};
use http::HeaderMap;
use sha2::{Digest as _, Sha256};
use web::error::ApiError;
use web::middleware::body::{BodyProblem, BodyReader};

use super::fields::{self, FieldName, FileHead, GivenFields};
use super::spool::{SpoolProblem, SpoolWriter, SpooledFile};
use crate::state::GatewayState;

/// The most that is passed to the parser in one piece.
const PIECE_BYTES: usize = 16 * 1024;
/// The allowance for pieces of the file that the parser has not returned yet.
const PARSER_BYTES: usize = 4 * PIECE_BYTES;

/// A complete form: the outgoing fields, and the file.
pub(super) struct UploadForm {
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) file_name: String,
    pub(super) content_type: String,
    pub(super) file: SpooledFile,
    file_hash: Option<[u8; 32]>,
}

/// How a form is read.
pub(super) struct FormReading {
    /// The boundary between the parts.
    pub(super) boundary: String,
    /// Whether the form needs a hash to be compared with another.
    pub(super) wants_hash: bool,
    /// The customer who sent it.
    pub(super) customer: CustomerId,
}

/// What has been read of the form so far.
struct FormParts<'a> {
    gateway: &'a GatewayState,
    customer: CustomerId,
    /// Bytes that were taken from the parser as content of files.
    saved: &'a AtomicU64,
    hash: Option<Sha256>,
    given: GivenFields,
    /// What the form says about the file, and the file itself if it was stored.
    file: Option<(FileHead, Option<SpooledFile>)>,
}

/// The boundary between the parts, from the content type.
pub(super) fn boundary(headers: &HeaderMap) -> Result<String, ApiError> {
    let content_type = headers.get(http::header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    content_type
        .and_then(|text| multer::parse_boundary(text).ok())
        .filter(|boundary| (1..=70).contains(&boundary.len()))
        .ok_or(ApiError::NotAForm)
}

/// Reads a form to the end of its body and checks it.
pub(super) async fn read(
    gateway: &GatewayState,
    route: &Route,
    body: Body,
    reading: FormReading,
) -> Result<UploadForm, ApiError> {
    let limits = &gateway.config.http.limits;
    let beside_file_max = limits.upload_fields_bytes_max.saturating_add(PARSER_BYTES);
    let body_max = limits.upload_bytes_max.saturating_add(beside_file_max);
    let mut reader =
        BodyReader::new(body, &gateway.web.upload_limits(body_max)).map_err(of_body)?;
    let saved = AtomicU64::new(0);
    let feed = ParserFeed::new(&mut reader, &saved, beside_file_max);
    let mut form = multer::Multipart::new(feed.pieces(), reading.boundary);
    let hash = reading.wants_hash.then(Sha256::new);
    let customer = reading.customer;
    let mut parts = FormParts {
        gateway,
        customer,
        saved: &saved,
        hash,
        given: GivenFields::default(),
        file: None,
    };
    let taken = parts.take_all(&mut form).await;
    drop(form);
    let ended = match taken {
        Ok(()) => read_epilogue(&mut reader, limits.upload_fields_bytes_max).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => parts.finish(route),
        Err(error) => Err(parts.given.failed(error)),
    }
}

/// Content after the last boundary is ignored (RFC 2046, section 5.1.1), but a body that breaks off
/// must be noticed.
async fn read_epilogue(reader: &mut BodyReader<Body>, bytes_max: usize) -> Result<(), ApiError> {
    let mut bytes = 0_usize;
    while let Some(part) = reader.next().await.map_err(of_body)? {
        bytes = bytes.saturating_add(part.len());
        if bytes > bytes_max {
            return Err(beside_file(bytes_max));
        }
    }
    Ok(())
}

impl FormParts<'_> {
    /// Reads all parts, even after a problem, so that all problems are reported together. Stops
    /// early at the maximum number of problems.
    async fn take_all(&mut self, form: &mut multer::Multipart<'_>) -> Result<(), ApiError> {
        while let Some(part) = form.next_field().await.map_err(|error| of_parser(&error))? {
            self.take(part).await?;
            if self.given.is_hopeless() {
                break;
            }
        }
        Ok(())
    }

    async fn take(&mut self, mut part: multer::Field<'_>) -> Result<(), ApiError> {
        match self.given.place_of(part.name()) {
            FieldName::File => {
                let content_type = part.content_type().map(AsRef::as_ref);
                let head = self.given.file_head(part.file_name(), content_type);
                match head {
                    // The file of a refused form is not stored.
                    Some(head) if !self.given.is_wrong() => {
                        let file = self.save(&mut part).await?;
                        self.file = Some((head, Some(file)));
                    }
                    Some(head) => {
                        self.pass_over(&mut part, true).await?;
                        self.file = Some((head, None));
                    }
                    None => self.pass_over(&mut part, true).await?,
                }
            }
            FieldName::Text(name) => {
                let bytes = part.bytes().await.map_err(|error| of_parser(&error))?;
                self.given.put(name, &bytes);
            }
            FieldName::SecondFile => self.pass_over(&mut part, true).await?,
            FieldName::Other => self.pass_over(&mut part, false).await?,
        }
        Ok(())
    }

    /// Reads and discards a part. The content of a file may be as long as a file; anything else
    /// counts against the allowance.
    async fn pass_over(
        &mut self,
        part: &mut multer::Field<'_>,
        is_file: bool,
    ) -> Result<(), ApiError> {
        while let Some(piece) = part.chunk().await.map_err(|error| of_parser(&error))? {
            if is_file {
                self.note_taken(&piece);
            }
        }
        Ok(())
    }

    fn note_taken(&self, piece: &Bytes) {
        self.saved.fetch_add(u64::try_from(piece.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    async fn save(&mut self, part: &mut multer::Field<'_>) -> Result<SpooledFile, ApiError> {
        let bytes_max = self.gateway.config.http.limits.upload_bytes_max;
        let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        let spool = &self.gateway.spool;
        let created = spool.create(&self.gateway.random, self.customer, bytes_max).await;
        let mut file = created.map_err(of_spool)?;
        loop {
            let piece = tokio::select! {
                biased;
                () = file.given_up() => return Err(ApiError::BodyTimeout),
                piece = part.chunk() => piece.map_err(|error| of_parser(&error))?,
            };
            let Some(piece) = piece else { break };
            self.add(&mut file, &piece).await?;
        }
        file.finish().await.map_err(of_spool)
    }

    async fn add(&mut self, file: &mut SpoolWriter, piece: &Bytes) -> Result<(), ApiError> {
        file.add(piece).await.map_err(of_spool)?;
        self.note_taken(piece);
        if let Some(hash) = &mut self.hash {
            hash.update(piece);
        }
        Ok(())
    }

    /// Checks all fields together.
    fn finish(self, route: &Route) -> Result<UploadForm, ApiError> {
        let (head, file) = self.file.unzip();
        let file = file.flatten();
        let is_empty = file.as_ref().is_some_and(|file| file.bytes() == 0);
        let checked =
            fields::check(route, &self.given, head.as_ref(), is_empty).map_err(Failure::Invalid)?;
        let (Some(head), Some(file)) = (head, file) else {
            return Err(ApiError::Failure(Failure::Internal(
                "the file of a complete form was not stored".to_owned(),
            )));
        };
        Ok(UploadForm {
            fields: checked.fields,
            content_type: checked.content_type,
            file_name: head.name,
            file,
            file_hash: self.hash.map(|hash| hash.finalize().into()),
        })
    }
}

impl UploadForm {
    /// A digest by which two forms are compared. A form that was read without a hash of its file
    /// must not be compared.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let file = self.file_hash.unwrap_or_default();
        let own = [self.file_name.as_bytes(), self.content_type.as_bytes(), &file];
        let fields =
            self.fields.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        for part in own.into_iter().chain(fields) {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

/// Feeds the parser with small pieces of a body, never more than may be in memory.
struct ParserFeed<'a> {
    reader: &'a mut BodyReader<Body>,
    rest: Bytes,
    fed: u64,
    saved: &'a AtomicU64,
    beside_file_max: usize,
}

/// Why feeding the parser stops.
#[derive(Debug, thiserror::Error)]
enum FeedProblem {
    #[error(transparent)]
    Body(#[from] BodyProblem),
    #[error("fields and framing are larger than {0} bytes")]
    BesideFile(usize),
}

impl<'a> ParserFeed<'a> {
    fn new(reader: &'a mut BodyReader<Body>, saved: &'a AtomicU64, beside_file_max: usize) -> Self {
        Self { reader, rest: Bytes::new(), fed: 0, saved, beside_file_max }
    }

    /// The parser takes pieces while they are ready, so each becomes ready only when it asks again.
    fn pieces(self) -> impl Stream<Item = Result<Bytes, FeedProblem>> + 'a {
        stream::unfold(self, async |mut feed| {
            tokio::task::yield_now().await;
            let piece = feed.next().await.transpose()?;
            Some((piece, feed))
        })
    }

    async fn next(&mut self) -> Result<Option<Bytes>, FeedProblem> {
        if self.rest.is_empty() {
            let Some(part) = self.reader.next().await? else { return Ok(None) };
            self.rest = part;
        }
        let piece = self.rest.split_to(PIECE_BYTES.min(self.rest.len()));
        self.fed = self.fed.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        let held = self.fed.saturating_sub(self.saved.load(Ordering::Relaxed));
        if usize::try_from(held).unwrap_or(usize::MAX) > self.beside_file_max {
            return Err(FeedProblem::BesideFile(self.beside_file_max));
        }
        Ok(Some(piece))
    }
}

fn beside_file(bytes_max: usize) -> ApiError {
    let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    ApiError::UploadTooLarge("the form without its file", bytes_max)
}

fn of_body(problem: BodyProblem) -> ApiError {
    match problem {
        BodyProblem::TooLarge(bytes_max) => {
            ApiError::UploadTooLarge("the form", u64::try_from(bytes_max).unwrap_or(u64::MAX))
        }
        other => other.into(),
    }
}

fn of_spool(problem: SpoolProblem) -> ApiError {
    match problem {
        SpoolProblem::TooLarge(bytes_max) => ApiError::UploadTooLarge("the file", bytes_max),
        SpoolProblem::NoRoom(problem) => problem.into(),
        SpoolProblem::Disk(error) => {
            tracing::error!(%error, "the file of an upload could not be written to disk");
            ApiError::Failure(Failure::Overloaded)
        }
    }
}

/// An error of the parser concerns the form, unless it came from the feed.
fn of_parser(error: &multer::Error) -> ApiError {
    if let multer::Error::StreamReadFailed(source) = error
        && let Some(problem) = source.downcast_ref::<FeedProblem>()
    {
        return match problem {
            FeedProblem::Body(problem) => of_body(*problem),
            FeedProblem::BesideFile(bytes_max) => beside_file(*bytes_max),
        };
    }
    let msg = "is not a complete multipart form; send each part with its headers and close the form \
               with its boundary";
    let kind = FieldErrorKind::Malformed;
    FieldProblem { loc: vec!["body".to_owned()], msg: msg.to_owned(), kind }.into()
}
