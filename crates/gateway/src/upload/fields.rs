//! The fields of an upload: their names, their rules, and the values that are sent (specification
//! 4.3).
//!
//! An empty field counts as absent, because browsers send fields that were left blank.

use catalog::Route;
use domain::field_error::FieldErrorKind;
use domain::time::Timestamp;
use failures::Failure;
use failures::FieldProblem;
use serde_json::json;
use web::error::ApiError;
use web::fields::short;

/// The text fields, in the order in which they are sent.
const TEXTS: [&str; 7] = [
    "categories",
    "description",
    "price",
    "is_subscription_item",
    "tag",
    "private",
    "to_be_posted_at",
];

/// The longest file name, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// The content type that says nothing about a file.
const ANYTHING: &str = "application/octet-stream";

/// Types by file extension, for callers that send no content type.
const ENDINGS: &[(&str, &str)] = &[
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("png", "image/png"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("bmp", "image/bmp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("mp4", "video/mp4"),
    ("m4v", "video/x-m4v"),
    ("mov", "video/quicktime"),
    ("webm", "video/webm"),
    ("mkv", "video/x-matroska"),
    ("avi", "video/x-msvideo"),
    ("mpg", "video/mpeg"),
    ("mpeg", "video/mpeg"),
    ("3gp", "video/3gpp"),
];

/// What a part of the form is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldName {
    File,
    Text(&'static str),
    /// A second file.
    SecondFile,
    /// An unknown field, or one that was sent before.
    Other,
}

/// The fields received so far.
#[derive(Debug, Default)]
pub(super) struct GivenFields {
    has_file: bool,
    texts: Vec<(&'static str, String)>,
    problems: Vec<FieldProblem>,
}

/// The number of problems that are reported. A form with more is not read any further.
const PROBLEMS_MAX: usize = 20;

/// What the form says about its file.
#[derive(Debug)]
pub(super) struct FileHead {
    /// Its name, without folders.
    pub(super) name: String,
    content_type: Option<String>,
}

/// The outgoing form: its fields, and the type of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckedFields {
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) content_type: String,
}

impl GivenFields {
    /// Which field a part is. Unknown and repeated fields are refused.
    pub(super) fn place_of(&mut self, name: Option<&str>) -> FieldName {
        let name = name.unwrap_or_default();
        if name == "file" {
            if !std::mem::replace(&mut self.has_file, true) {
                return FieldName::File;
            }
            self.refuse_repeated(name);
            return FieldName::SecondFile;
        }
        let Some(known) = TEXTS.into_iter().find(|text| *text == name) else {
            let message =
                format!("there is no such field; known fields are file, {}", TEXTS.join(", "));
            self.refuse(&short(name), FieldErrorKind::UnknownField, message);
            return FieldName::Other;
        };
        if self.text(known).is_none() {
            return FieldName::Text(known);
        }
        self.refuse_repeated(known);
        FieldName::Other
    }

    /// Stores the text of a field.
    pub(super) fn put(&mut self, name: &'static str, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes);
        if text.is_err() {
            self.refuse(name, FieldErrorKind::BadFormat, "must be UTF-8");
        }
        self.texts.push((name, text.unwrap_or_default().to_owned()));
    }

    /// The part's headers about its file. A file needs a name; folders before the name are dropped.
    pub(super) fn file_head(
        &mut self,
        name: Option<&str>,
        content_type: Option<&str>,
    ) -> Option<FileHead> {
        let head = FileHead::new(name, content_type);
        if head.is_none() {
            let message = format!(
                "must be sent as a file, with a filename of at most {FILE_NAME_BYTES_MAX} bytes"
            );
            self.refuse("file", FieldErrorKind::BadFormat, message);
        }
        head
    }

    fn refuse_repeated(&mut self, name: &str) {
        self.refuse(name, FieldErrorKind::Duplicate, "is given more than once; send it once");
    }

    /// Reports each problem with a field once.
    fn refuse(&mut self, name: &str, kind: FieldErrorKind, message: impl Into<String>) {
        let problem = FieldProblem::new("body", name, kind, message);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Whether a problem was found.
    pub(super) fn is_wrong(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Whether there are so many problems that reading on is pointless.
    pub(super) fn is_hopeless(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    /// The refusal of a form that could not be read to its end. Problems with its fields are
    /// reported in place of its size.
    pub(super) fn failed(mut self, error: ApiError) -> ApiError {
        match error {
            ApiError::Failure(Failure::Invalid(found)) => {
                self.problems.extend(found);
                ApiError::Failure(Failure::Invalid(self.problems))
            }
            ApiError::UploadTooLarge(..) if self.is_wrong() => {
                ApiError::Failure(Failure::Invalid(self.problems))
            }
            other => other,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }

    /// A field that is present and not blank.
    fn filled(&self, name: &str) -> Option<&str> {
        self.text(name).filter(|text| !text.trim().is_empty())
    }
}

impl FileHead {
    fn new(name: Option<&str>, content_type: Option<&str>) -> Option<Self> {
        let name = name.unwrap_or_default();
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default().trim();
        let is_usable =
            (1..=FILE_NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
        let essence = |kind: &str| kind.split(';').next().map(|kind| kind.trim().to_owned());
        is_usable
            .then(|| Self { name: name.to_owned(), content_type: content_type.and_then(essence) })
    }

    /// The type that the caller sent, or the one that belongs to the file extension.
    fn content_type(&self) -> &str {
        let told = self.content_type.as_deref().filter(|kind| *kind != ANYTHING);
        let by_ending = || {
            let (_, ending) = self.name.rsplit_once('.')?;
            let is_it = |(known, _): &&(&str, &str)| known.eq_ignore_ascii_case(ending);
            ENDINGS.iter().find(is_it).map(|(_, kind)| *kind)
        };
        told.or_else(by_ending).unwrap_or(ANYTHING)
    }
}

/// Checks every field and builds the outgoing form. All problems are reported together, including
/// those found while reading. `file` and `is_empty` describe the file, if there is one.
pub(super) fn check(
    route: &Route,
    given: &GivenFields,
    file: Option<&FileHead>,
    is_empty: bool,
) -> Result<CheckedFields, Vec<FieldProblem>> {
    let mut check = FieldCheck { given, problems: given.problems.clone() };
    if !given.has_file {
        check.refuse("file", FieldErrorKind::Missing, "is required");
    }
    if is_empty {
        check.refuse("file", FieldErrorKind::TooShort, "must not be empty");
    }
    let content_type = file.map_or("", FileHead::content_type);
    let is_subscription_item = check.flag("is_subscription_item");
    // An item for subscribers is never sold alone, so a price sent with it is ignored.
    let price =
        if is_subscription_item == Some(true) { Some("0".to_owned()) } else { check.price(route) };
    let fields = [
        ("categories", check.categories(file.map(FileHead::content_type))),
        ("description", check.description()),
        ("price", price),
        ("is_subscription_item", is_subscription_item.map(|flag| flag.to_string())),
        ("tag", check.words("tag")),
        ("private", check.flag("private").map(|flag| flag.to_string())),
        ("to_be_posted_at", check.time("to_be_posted_at")),
    ];
    if !check.problems.is_empty() {
        return Err(check.problems);
    }
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Ok(CheckedFields { fields: fields.collect(), content_type: content_type.to_owned() })
}

/// The fields, and the problems found so far.
struct FieldCheck<'a> {
    given: &'a GivenFields,
    problems: Vec<FieldProblem>,
}

impl FieldCheck<'_> {
    fn refuse(&mut self, name: &str, kind: FieldErrorKind, message: &str) {
        self.problems.push(FieldProblem::new("body", name, kind, message));
    }

    /// Checked by the catalogue's rule for the price.
    fn price(&mut self, route: &Route) -> Option<String> {
        let price = self.given.filled("price")?.trim();
        if let Err(problem) = route.check_body(&json!({ "price": price })) {
            self.problems.push(problem.into());
        }
        // Written as a plain number, without a sign or leading zeros.
        Some(price.parse::<i64>().map_or_else(|_| price.to_owned(), |whole| whole.to_string()))
    }

    fn flag(&mut self, name: &str) -> Option<bool> {
        let flag = self.given.filled(name)?.trim().parse();
        if flag.is_err() {
            self.refuse(name, FieldErrorKind::WrongType, "must be true or false");
        }
        flag.ok()
    }

    fn time(&mut self, name: &str) -> Option<String> {
        let time = Timestamp::from_rfc3339(self.given.filled(name)?.trim());
        if time.is_none() {
            self.refuse(
                name,
                FieldErrorKind::BadFormat,
                "must be a time with its zone, such as 2026-12-24T18:00:00Z",
            );
        }
        time.map(Timestamp::to_rfc3339)
    }

    fn description(&mut self) -> Option<String> {
        let text = self.given.filled("description")?;
        let is_odd = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
        if text.chars().any(is_odd) {
            self.refuse(
                "description",
                FieldErrorKind::BadFormat,
                "must not contain control characters",
            );
        }
        Some(text.to_owned())
    }

    /// A comma-separated list of words.
    fn words(&mut self, name: &str) -> Option<String> {
        let text = self.given.filled(name)?;
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let is_unusable = |word: &&str| word.is_empty() || word.chars().any(char::is_control);
        if words.iter().any(is_unusable) {
            self.refuse(
                name,
                FieldErrorKind::BadFormat,
                "must be comma-separated words without control characters",
            );
        }
        Some(words.join(","))
    }

    /// The categories sent, or those that follow from the type of the file.
    fn categories(&mut self, content_type: Option<&str>) -> Option<String> {
        if let Some(words) = self.words("categories") {
            return Some(words);
        }
        // Without a file its type is unknown; the missing file is reported.
        let by_type = match content_type?.split('/').next() {
            Some("image") => Some("media,image"),
            Some("video") => Some("media,video"),
            _ => None,
        };
        if by_type.is_none() {
            self.refuse(
                "categories",
                FieldErrorKind::Missing,
                "is required unless the file's Content-Type is an image or video type",
            );
        }
        by_type.map(str::to_owned)
    }
}
