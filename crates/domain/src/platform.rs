//! Which platforms there are: the four built-in ones, or those that the configuration declares.
//!
//! A platform has a name, which is the wire value in bodies, paths, commands and logs, and a stored
//! name, which is what the database holds. They differ where the configuration gives a built-in
//! platform another name; the stored name stays accepted wherever a name is read.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::{LazyLock, PoisonError, RwLock};

use crate::id::UnknownWord;

/// A creator platform (specification, introduction). Cheap to copy and compare.
#[derive(Clone, Copy)]
pub struct Platform(&'static PlatformNames);

/// The names of one platform.
#[derive(Debug)]
struct PlatformNames {
    name: &'static str,
    stored: &'static str,
    sells_slots: bool,
}

/// A platform as the configuration declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformDeclaration {
    /// The wire value: 1 to 32 lowercase letters, digits and `_`, starting with a letter.
    pub name: String,
    /// What the database holds; the same as the name unless a built-in platform has been renamed.
    pub stored_name: String,
    /// Whether extra slots are sold for it.
    pub sells_slots: bool,
}

/// The platforms of this process.
struct PlatformRegistry {
    /// Those that were declared, in that order.
    declared: Vec<Platform>,
    /// All that this process has named: declared ones, and ones that only the database knows.
    known: Vec<Platform>,
    /// The sentence that says which names are accepted.
    expected: &'static str,
}

/// The longest name of a platform, in bytes.
const NAME_BYTES_MAX: usize = 32;

static BUILT_IN_NAMES: [PlatformNames; 4] = [
    PlatformNames { name: "platform_alpha", stored: "platform_alpha", sells_slots: true },
    PlatformNames { name: "platform_beta", stored: "platform_beta", sells_slots: true },
    PlatformNames { name: "platform_gamma", stored: "platform_gamma", sells_slots: false },
    PlatformNames { name: "platform_delta", stored: "platform_delta", sells_slots: false },
];

static REGISTRY: LazyLock<RwLock<PlatformRegistry>> =
    LazyLock::new(|| RwLock::new(PlatformRegistry::built_in()));

impl Platform {
    /// Routes such as `users/me`; each has a group.
    pub const ALPHA: Self = Self(&BUILT_IN_NAMES[0]);
    /// Responses in an envelope, signed requests.
    pub const BETA: Self = Self(&BUILT_IN_NAMES[1]);
    /// Routes under `user/{id}/…`, with shorthands.
    pub const GAMMA: Self = Self(&BUILT_IN_NAMES[2]);
    /// An official interface with OAuth scopes.
    pub const DELTA: Self = Self(&BUILT_IN_NAMES[3]);

    /// The built-in platforms under their own names.
    pub const BUILT_IN: [Self; 4] = [Self::ALPHA, Self::BETA, Self::GAMMA, Self::DELTA];

    /// The platforms of this process in the order of their declaration: the built-in ones unless
    /// [`declare`](Self::declare) was called.
    pub fn all() -> Vec<Self> {
        read(|registry| registry.declared.clone())
    }

    /// Declares the platforms of this process, in place of those declared before. Values that exist
    /// keep their names. The configuration calls it once, before anything else is read.
    ///
    /// Fails with the first name that is malformed or declared twice, as its name or as its stored
    /// name.
    pub fn declare(declarations: &[PlatformDeclaration]) -> Result<(), PlatformNameProblem> {
        check(declarations)?;
        let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
        let declared: Vec<Self> =
            declarations.iter().map(|declaration| registry.named(declaration)).collect();
        let names =
            |platforms: &[Self]| platforms.iter().map(|one| one.as_str()).collect::<Vec<_>>();
        if names(&declared) != names(&registry.declared) {
            registry.expected = expected(&declared);
        }
        registry.declared = declared;
        Ok(())
    }

    /// The wire value.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        self.0.name
    }

    /// What the database holds.
    #[inline]
    pub const fn stored_name(self) -> &'static str {
        self.0.stored
    }

    /// Which names are accepted, for people: "one of …".
    pub fn expected() -> &'static str {
        read(|registry| registry.expected)
    }

    /// Whether extra slots are sold for it.
    pub const fn sells_slots(self) -> bool {
        self.0.sells_slots
    }

    /// The platform of a stored name. One that is not declared (any more) is a platform too: it is
    /// offered nowhere, and its rows can still be listed.
    ///
    /// Only for text that this service wrote: each new name stays in memory.
    pub fn from_stored(text: &str) -> Result<Self, UnknownWord> {
        let known = read(|registry| {
            let mut declared = registry.declared.iter().chain(&registry.known);
            declared.find(|one| one.stored_name() == text).copied()
        });
        if let Some(known) = known {
            return Ok(known);
        }
        if !is_name(text) {
            return Err(UnknownWord { expected: "the name of a platform" });
        }
        let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
        let (name, stored_name) = (text.to_owned(), text.to_owned());
        Ok(registry.named(&PlatformDeclaration { name, stored_name, sells_slots: false }))
    }
}

/// A name of a platform that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlatformNameProblem {
    /// It has other characters than a name may have, or is too long.
    #[error("{0:?} must be 1 to 32 lowercase letters, digits and `_`, starting with a letter")]
    Malformed(String),
    /// Another platform has it already, as its name or in the database.
    #[error("{0:?} is the name of two platforms")]
    Repeated(String),
}

/// Whether a platform can have this name.
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

fn check(declarations: &[PlatformDeclaration]) -> Result<(), PlatformNameProblem> {
    let mut taken: Vec<&str> = Vec::new();
    for declaration in declarations {
        let PlatformDeclaration { name, stored_name, .. } = declaration;
        let own = if name == stored_name { vec![name] } else { vec![name, stored_name] };
        for text in own {
            if !is_name(text) {
                return Err(PlatformNameProblem::Malformed(text.clone()));
            }
            if taken.contains(&text.as_str()) {
                return Err(PlatformNameProblem::Repeated(text.clone()));
            }
            taken.push(text);
        }
    }
    Ok(())
}

fn read<T>(what: impl FnOnce(&PlatformRegistry) -> T) -> T {
    what(&REGISTRY.read().unwrap_or_else(PoisonError::into_inner))
}

/// Lives as long as the process, as does what it names.
fn expected(platforms: &[Platform]) -> &'static str {
    let names: Vec<&str> = platforms.iter().map(|platform| platform.as_str()).collect();
    match names.as_slice() {
        [one] => leak(&format!("{one}, the only platform")),
        _ => leak(&format!("one of {}", names.join(", "))),
    }
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

impl PlatformRegistry {
    fn built_in() -> Self {
        Self {
            declared: Platform::BUILT_IN.to_vec(),
            known: Platform::BUILT_IN.to_vec(),
            expected: "one of platform_alpha, platform_beta, platform_gamma, platform_delta",
        }
    }

    /// The platform of this declaration, which is new if there is none.
    fn named(&mut self, declaration: &PlatformDeclaration) -> Platform {
        let PlatformDeclaration { name, stored_name, sells_slots } = declaration;
        let is_it = |one: &&Platform| {
            one.as_str() == name
                && one.stored_name() == stored_name
                && one.sells_slots() == *sells_slots
        };
        if let Some(known) = self.known.iter().find(is_it) {
            return *known;
        }
        let (name, stored) = (leak(name), leak(stored_name));
        let names = PlatformNames { name, stored, sells_slots: *sells_slots };
        let platform = Platform(Box::leak(Box::new(names)));
        self.known.push(platform);
        platform
    }
}

impl PartialEq for Platform {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0) || self.0.stored == other.0.stored
    }
}

impl Eq for Platform {}

impl Hash for Platform {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.stored.hash(state);
    }
}

impl PartialOrd for Platform {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Platform {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.stored.cmp(other.0.stored)
    }
}

impl fmt::Debug for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for Platform {
    type Err = UnknownWord;

    /// Reads the name of a declared platform, or its stored name, which stays an alias.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        read(|registry| {
            let declared = &registry.declared;
            let named = declared.iter().find(|one| one.as_str() == text);
            let found = named.or_else(|| declared.iter().find(|one| one.stored_name() == text));
            found.copied().ok_or(UnknownWord { expected: registry.expected })
        })
    }
}

crate::wire::written_as_text!(Platform);

#[cfg(test)]
mod tests {
    use super::*;

    fn declaration(name: &str, stored_name: &str) -> PlatformDeclaration {
        let (name, stored_name) = (name.to_owned(), stored_name.to_owned());
        PlatformDeclaration { name, stored_name, sells_slots: false }
    }

    /// One test for everything that changes the registry: it belongs to the whole process.
    #[test]
    fn names_are_declared_and_stored_names_stay_aliases() {
        assert_eq!("platform_gamma".parse(), Ok(Platform::GAMMA));
        assert_eq!(Platform::all(), Platform::BUILT_IN);

        Platform::declare(&[declaration("mine", "platform_alpha"), declaration("fifth", "fifth")])
            .unwrap();

        let mine: Platform = "mine".parse().unwrap();
        assert_eq!("platform_alpha".parse(), Ok(mine));
        assert_eq!((mine.as_str(), mine.stored_name()), ("mine", "platform_alpha"));
        assert_eq!(Platform::from_stored("platform_alpha"), Ok(mine));
        let refused = "platform_gamma".parse::<Platform>().unwrap_err();
        assert_eq!(refused.to_string(), "expected one of mine, fifth");
        let gone = Platform::from_stored("gone").unwrap();
        assert_eq!(gone.as_str(), "gone");
        assert!("gone".parse::<Platform>().is_err());
        assert_eq!(Platform::from_stored("gone"), Ok(gone));
        assert!(Platform::from_stored("Gone!").is_err());
        Platform::declare(&Platform::BUILT_IN.map(|it| declaration(it.as_str(), it.as_str())))
            .unwrap();
    }

    #[test]
    fn malformed_and_repeated_names_are_refused() {
        for name in ["", "A", "1a", "a-b", &"a".repeat(33)] {
            let refused = Platform::declare(&[declaration(name, "x")]);
            assert_eq!(refused, Err(PlatformNameProblem::Malformed(name.to_owned())));
        }
        let twice = [declaration("a", "b"), declaration("b", "c")];
        assert_eq!(Platform::declare(&twice), Err(PlatformNameProblem::Repeated("b".to_owned())));
    }
}
