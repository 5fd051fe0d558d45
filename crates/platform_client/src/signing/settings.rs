//! How requests are signed, as the configuration describes it, before it is checked.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroizing;

/// How requests are signed: `platforms.<name>.signing`.
#[derive(Clone, Default)]
pub struct SigningSettings {
    /// The name of the scheme: `hmac-sha256-v1`, `recipe` or `external`.
    pub scheme: String,
    /// The signing key; its bytes are the key of every HMAC that names no other.
    pub key: Zeroizing<String>,
    /// `hmac-sha256-v1`: what the platform knows this client as.
    pub client_id: String,
    /// `hmac-sha256-v1`: the version of this client that the platform is told.
    pub client_version: String,
    /// `recipe`: the parts, each made of those before it.
    pub parts: Vec<PartSettings>,
    /// `recipe`: the headers of a signed request, with templates that name parts.
    pub headers: Vec<(String, String)>,
    /// `recipe`: where values come from that change while the service runs.
    pub values: Option<ValuesSettings>,
    /// `external`: the process that signs.
    pub external: Option<ExternalSettings>,
}

/// A part of a recipe. What a source has no use for stays empty.
#[derive(Clone, Default)]
pub struct PartSettings {
    /// Its name.
    pub name: String,
    /// Its source: `method`, `time_ms`, `hmac`, ….
    pub from: String,
    /// `text`: the text itself.
    pub text: String,
    /// `secret`: the text itself; `device_id`: the key that ids are derived with.
    pub secret: Zeroizing<String>,
    /// `field` and `device_id`: the credential.
    pub field: String,
    /// `value`: its name among the signing values.
    pub value: String,
    /// `random`: how many bytes.
    pub bytes: u32,
    /// `hash` and `hmac`: the parts that are joined.
    pub of: Vec<String>,
    /// `hash` and `hmac`: what stands between them.
    pub separator: String,
    /// `hmac`: the part that is the key; empty: the signing key.
    pub key: String,
    /// `body`, `hash` and `hmac`: the hash function.
    pub algorithm: String,
    /// `body`, `random`, `hash` and `hmac`: how bytes are written.
    pub encoding: String,
    /// `body`: what a body without bytes stands for: `hash` (of nothing) or `text` (an empty one).
    pub empty: String,
    /// `body`: what stands for a body that is sent from disk; empty: such a request is refused.
    pub spooled: String,
}

/// Where signing values come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuesSettings {
    /// Their source.
    pub source: ValuesSource,
    /// How long after they were read they are read again.
    pub refresh: Duration,
}

/// A JSON object of texts and numbers.
#[derive(Clone, PartialEq, Eq)]
pub enum ValuesSource {
    /// A file.
    File(PathBuf),
    /// An address that responds with it to a GET.
    Url(Zeroizing<String>),
}

/// A process on this machine that signs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalSettings {
    /// `http://` on this machine, or `unix:` and the path of a socket.
    pub url: String,
    /// How long it may take.
    pub timeout: Duration,
    /// The credentials that it is told.
    pub fields: Vec<String>,
}

impl fmt::Debug for SigningSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SigningSettings")
            .field("scheme", &self.scheme)
            .field("client_id", &self.client_id)
            .field("client_version", &self.client_version)
            .field("parts", &self.parts)
            .field("headers", &self.headers)
            .field("values", &self.values)
            .field("external", &self.external)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PartSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PartSettings")
            .field("name", &self.name)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ValuesSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
            // Its path or query may hold a key.
            Self::Url(_) => formatter.write_str("Url"),
        }
    }
}
