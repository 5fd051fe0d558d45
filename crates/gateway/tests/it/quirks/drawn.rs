//! A platform drawn from a seed: what it wants of requests, and how its responses look. Plain data,
//! which the stub checks and the configuration is written from, each on its own.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Hash functions and encodings, as the configuration names them.
pub(super) const ALGORITHMS: [&str; 3] = ["sha1", "sha256", "sha512"];
pub(super) const ENCODINGS: [&str; 6] =
    ["hex", "hex_upper", "base64", "base64_unpadded", "base64url", "base64url_unpadded"];

/// Types of responses, all of which are JSON.
const CONTENT_TYPES: [&str; 4] = [
    "application/json",
    "Application/JSON; charset=utf-8",
    "text/json;charset=UTF-8",
    "application/vnd.drawn.v2+json",
];

/// All that is special about one platform.
#[derive(Debug, Clone)]
pub(super) struct Quirks {
    pub(super) seed: u64,
    pub(super) name: String,
    pub(super) prefix: String,
    /// The credential that proves who calls, and the one that says it.
    pub(super) token: String,
    pub(super) user: String,
    /// Headers: a name, what stands before and after a credential, and which one.
    pub(super) headers: Vec<HeaderQuirk>,
    pub(super) version_header: Option<(String, String)>,
    pub(super) signing: Option<SigningQuirk>,
    pub(super) proxy: Option<ProxyQuirk>,
    /// The beginning of the native paths that another host serves, and that host's own path.
    pub(super) second_host: Option<(String, String)>,
    /// The name of a parameter that holds the token.
    pub(super) query: Option<String>,
    pub(super) cookies: bool,
    pub(super) envelope: EnvelopeQuirk,
    pub(super) verify: VerifyQuirk,
    /// Whether tokens are refreshed, and whether the client proves itself in a header.
    pub(super) oauth: Option<bool>,
    /// What its responses say they are.
    pub(super) content_type: &'static str,
}

/// A header with a credential.
#[derive(Debug, Clone)]
pub(super) struct HeaderQuirk {
    pub(super) name: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) is_token: bool,
}

/// A recipe of one signature.
#[derive(Debug, Clone)]
pub(super) struct SigningQuirk {
    /// What is joined, in this order.
    pub(super) parts: Vec<PartQuirk>,
    pub(super) separator: String,
    pub(super) algorithm: &'static str,
    pub(super) encoding: &'static str,
    pub(super) key: KeyQuirk,
    pub(super) body_algorithm: &'static str,
    pub(super) body_encoding: &'static str,
    pub(super) empty_is_text: bool,
    pub(super) header: String,
    pub(super) time_header: String,
    pub(super) random_header: String,
    /// A signing value that stands in a header, and the name of the header.
    pub(super) value_header: Option<String>,
    pub(super) value: (String, String),
    pub(super) random_bytes: usize,
}

/// What is joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartQuirk {
    Method,
    Target,
    Path,
    Body,
    TimeSeconds,
    TimeMillis,
    Random,
    Token,
    Text,
    Secret,
    Value,
}

/// What a signature is keyed with.
#[derive(Debug, Clone)]
pub(super) enum KeyQuirk {
    /// Nothing: a hash.
    None,
    /// A key of the configuration.
    Fixed(String),
    /// The HMAC of the signing value under a secret, as bytes.
    Derived(String),
}

/// A proxy in front of the platform.
#[derive(Debug, Clone)]
pub(super) struct ProxyQuirk {
    pub(super) is_socks: bool,
    pub(super) user: String,
    pub(super) password: String,
    /// Whether each account brings its address in a credential of this name.
    pub(super) credential: Option<String>,
}

/// What is around responses.
#[derive(Debug, Clone)]
pub(super) enum EnvelopeQuirk {
    None,
    Response,
    Pointers { data: String, error: String, success: Option<String> },
}

/// How credentials are proved.
#[derive(Debug, Clone)]
pub(super) struct VerifyQuirk {
    pub(super) is_post: bool,
    pub(super) body: String,
    pub(super) path: String,
    pub(super) names_user: bool,
    pub(super) id_members: Vec<String>,
    pub(super) equals_user: bool,
}

/// Draws words and choices.
struct Drawing(StdRng);

impl Drawing {
    fn word(&mut self) -> String {
        let letters = "abcdefghijklmnopqrstuvwxyz";
        let length = self.0.random_range(4..9);
        (0..length).filter_map(|_| letters.chars().nth(self.0.random_range(0..26))).collect()
    }

    fn header(&mut self) -> String {
        format!("X-{}-{}", self.word(), self.word())
    }

    fn secret(&mut self) -> String {
        format!("{}!{}%{}", self.word(), self.0.random_range(0..9_999), self.word())
    }

    fn coin(&mut self) -> bool {
        self.0.random_bool(0.5)
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.0.random_range(0..all.len())].clone()
    }

    fn maybe<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.coin().then(|| draw(self))
    }

    fn headers(&mut self) -> Vec<HeaderQuirk> {
        let count = self.0.random_range(1..4);
        let mut headers: Vec<HeaderQuirk> = (0..count)
            .map(|_| HeaderQuirk {
                name: self.header(),
                before: self.one_of(&["", "Bearer ", "id=", "Token token="]).to_owned(),
                after: self.one_of(&["", ";v=2", " end"]).to_owned(),
                is_token: self.coin(),
            })
            .collect();
        headers[0].is_token = true;
        headers
    }

    fn signing(&mut self) -> SigningQuirk {
        use PartQuirk::{
            Body, Method, Path, Random, Secret, Target, Text, TimeMillis, TimeSeconds, Token, Value,
        };
        let time = self.one_of(&[TimeSeconds, TimeMillis]);
        let mut pool = vec![Method, Path, Body, Random, Token, Text, Secret, Value];
        let mut parts = vec![Target, time];
        for _ in 0..self.0.random_range(1..7) {
            let at = self.0.random_range(0..pool.len());
            parts.insert(self.0.random_range(0..parts.len()), pool.swap_remove(at));
        }
        let key = match self.0.random_range(0..3) {
            0 => KeyQuirk::None,
            1 => KeyQuirk::Fixed(self.secret()),
            _ => KeyQuirk::Derived(self.secret()),
        };
        SigningQuirk {
            parts,
            separator: self.one_of(&["", "\n", "|", "::"]).to_owned(),
            algorithm: self.one_of(&ALGORITHMS),
            encoding: self.one_of(&ENCODINGS),
            key,
            body_algorithm: self.one_of(&ALGORITHMS),
            body_encoding: self.one_of(&ENCODINGS),
            empty_is_text: self.coin(),
            header: self.header(),
            time_header: self.header(),
            random_header: self.header(),
            value_header: self.maybe(Self::header),
            value: (self.word(), self.word()),
            random_bytes: self.0.random_range(4..33),
        }
    }

    fn envelope(&mut self) -> EnvelopeQuirk {
        match self.0.random_range(0..3) {
            0 => EnvelopeQuirk::None,
            1 => EnvelopeQuirk::Response,
            _ => EnvelopeQuirk::Pointers {
                data: format!("d_{}", self.word()),
                error: format!("e_{}", self.word()),
                success: self.maybe(|drawing| format!("s_{}", drawing.word())),
            },
        }
    }

    fn verify(&mut self) -> VerifyQuirk {
        let is_post = self.coin();
        VerifyQuirk {
            is_post,
            body: if is_post { format!(r#"{{"{}":true}}"#, self.word()) } else { String::new() },
            path: format!("{}/{}", self.word(), self.word()),
            names_user: self.coin(),
            id_members: (0..self.0.random_range(1..4)).map(|_| self.word()).collect(),
            equals_user: self.coin(),
        }
    }
}

impl Quirks {
    /// The platform of this seed, always the same.
    pub(super) fn draw(seed: u64) -> Self {
        let mut drawing = Drawing(StdRng::seed_from_u64(seed));
        let draw = &mut drawing;
        let oauth = draw.maybe(Drawing::coin);
        Self {
            seed,
            name: format!("q_{}_{seed}", draw.word()),
            prefix: draw.one_of(&["", "api", "api/v3"]).to_owned(),
            token: if oauth.is_some() {
                "access_token".to_owned()
            } else {
                format!("t_{}", draw.word())
            },
            user: format!("u_{}", draw.word()),
            headers: draw.headers(),
            version_header: draw.maybe(|draw| (draw.header(), draw.word())),
            signing: draw.maybe(Drawing::signing),
            proxy: draw.maybe(|draw| ProxyQuirk {
                is_socks: draw.coin(),
                user: draw.word(),
                password: draw.secret(),
                credential: draw.maybe(|draw| format!("p_{}", draw.word())),
            }),
            second_host: draw.maybe(|draw| (draw.word(), draw.word())),
            query: draw.maybe(Drawing::word),
            cookies: draw.coin(),
            envelope: draw.envelope(),
            verify: draw.verify(),
            oauth,
            // Drawn last, so that everything else is what it was before this was drawn.
            content_type: draw.one_of(&CONTENT_TYPES),
        }
    }
}
