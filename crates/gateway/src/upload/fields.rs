//! The fields of an upload: which there are, what each may be, and how they leave (specification 4.3).
//!
//! A field that is sent empty counts as not sent, as browsers send what was left blank.

use catalog::Route;
use domain::field_error::FieldErrorKind;
use domain::time::Timestamp;
use failures::Failure;
use failures::FieldProblem;
use serde_json::json;
use web::error::ApiError;
use web::fields::short;

/// The text fields, in the order in which they leave.
const TEXTS: [&str; 7] = [
    "categories",
    "description",
    "price",
    "is_subscription_item",
    "tag",
    "private",
    "to_be_posted_at",
];

/// The longest name of a file, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// What says nothing about a file.
const ANYTHING: &str = "application/octet-stream";

/// Types by the ending of a file's name, for callers that do not tell the type.
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

/// A field that the form has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldName {
    File,
    Text(&'static str),
    /// A file where there was one before.
    SecondFile,
    /// One that the form does not have, or that was there before.
    Other,
}

/// What was given so far.
#[derive(Debug, Default)]
pub(super) struct GivenFields {
    has_file: bool,
    texts: Vec<(&'static str, String)>,
    problems: Vec<FieldProblem>,
}

/// So many wrong fields are named. With more the form is not read any further.
const PROBLEMS_MAX: usize = 20;

/// What the form says about its file.
#[derive(Debug)]
pub(super) struct FileHead {
    /// Its name, without folders.
    pub(super) name: String,
    content_type: Option<String>,
}

/// What leaves: the fields, and the type of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckedFields {
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) content_type: String,
}

impl GivenFields {
    /// Which field a part is. An unknown one and one that was there before are wrong.
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

    /// Keeps the text of a field.
    pub(super) fn put(&mut self, name: &'static str, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes);
        if text.is_err() {
            self.refuse(name, FieldErrorKind::BadFormat, "must be UTF-8");
        }
        self.texts.push((name, text.unwrap_or_default().to_owned()));
    }

    /// What the form says about its file. A file needs a name; what looks like folders before it is dropped.
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

    /// Each mistake with a field is named once.
    fn refuse(&mut self, name: &str, kind: FieldErrorKind, message: impl Into<String>) {
        let problem = FieldProblem::new("body", name, kind, message);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Whether something is wrong already.
    pub(super) fn is_wrong(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Whether so much is wrong that reading on helps nobody.
    pub(super) fn is_hopeless(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    /// How a form is refused that could not be read to its end: what is known to be wrong with its fields is named
    /// rather than that it is too large.
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

    /// A field that was given and is not blank.
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

    /// The type that the caller told, or else the one that the name's ending tells.
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

/// Checks every field and writes the form that leaves; all problems are named together, also those of the parts. Of the
/// file: what the form says about it, if there is one, and whether it is empty.
pub(super) fn check(
    route: &Route,
    given: &GivenFields,
    (file, is_empty): (Option<&FileHead>, bool),
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
    // A subscription's item is never sold alone, whatever price came with it.
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

/// The fields, and what is wrong with them so far.
struct FieldCheck<'a> {
    given: &'a GivenFields,
    problems: Vec<FieldProblem>,
}

impl FieldCheck<'_> {
    fn refuse(&mut self, name: &str, kind: FieldErrorKind, message: &str) {
        self.problems.push(FieldProblem::new("body", name, kind, message));
    }

    /// The rule of the price is the catalogue's.
    fn price(&mut self, route: &Route) -> Option<String> {
        let price = self.given.filled("price")?.trim();
        if let Err(problem) = route.check_body(&json!({ "price": price })) {
            self.problems.push(problem.into());
        }
        // Written as a plain number: a sign or zeros before it are left out.
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
                "must not hold control characters",
            );
        }
        Some(text.to_owned())
    }

    /// A list of words with commas between them.
    fn words(&mut self, name: &str) -> Option<String> {
        let text = self.given.filled(name)?;
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let is_unusable = |word: &&str| word.is_empty() || word.chars().any(char::is_control);
        if words.iter().any(is_unusable) {
            self.refuse(
                name,
                FieldErrorKind::BadFormat,
                "must be words with commas between them, without control characters",
            );
        }
        Some(words.join(","))
    }

    /// What was given, or what the type of the file says.
    fn categories(&mut self, content_type: Option<&str>) -> Option<String> {
        if let Some(words) = self.words("categories") {
            return Some(words);
        }
        // Without a file nothing is known of its type, and the file is asked for.
        let by_type = match content_type?.split('/').next() {
            Some("image") => Some("media,image"),
            Some("video") => Some("media,video"),
            _ => None,
        };
        if by_type.is_none() {
            self.refuse(
                "categories",
                FieldErrorKind::Missing,
                "is required unless the file's Content-Type is a picture's or a video's",
            );
        }
        by_type.map(str::to_owned)
    }
}
