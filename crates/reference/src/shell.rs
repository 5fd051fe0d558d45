//! What is around every page: the sidebar, the search, the theme.

use std::ops::Deref;

use axum::response::{IntoResponse, Response};
use failures::Failure;
use http::{HeaderMap, StatusCode};
use pages::PageFrame;
use pages::respond::PagePolicy;
use web::error::ApiError;

use crate::state::ReferenceState;

/// A link of the sidebar.
pub(crate) struct NavLink {
    pub(crate) path: &'static str,
    pub(crate) word: &'static str,
}

/// A group of links.
pub(crate) struct NavGroup {
    pub(crate) id: &'static str,
    pub(crate) heading: &'static str,
    pub(crate) links: &'static [NavLink],
}

const fn link(path: &'static str, word: &'static str) -> NavLink {
    NavLink { path, word }
}

/// The sidebar.
pub(crate) const NAVIGATION: &[NavGroup] = &[
    NavGroup {
        id: "nav-start",
        heading: "Start",
        links: &[link("/docs", "Overview"), link("/docs/tutorial", "Tutorial")],
    },
    NavGroup {
        id: "nav-guides",
        heading: "Guides",
        links: &[
            link("/docs/connecting", "Connect each platform"),
            link("/docs/paging", "Page through a list"),
            link("/docs/writing", "Write safely"),
            link("/docs/handling-errors", "Handle errors"),
            link("/docs/exports", "Export a list"),
            link("/docs/budgets", "Keep to a budget"),
            link("/docs/production", "Run in production"),
        ],
    },
    NavGroup {
        id: "nav-reference",
        heading: "Reference",
        links: &[
            link("/docs/api", "API reference"),
            link("/docs/platforms", "Routes by platform"),
            link("/docs/errors", "Errors"),
            link("/docs/conventions", "Conventions"),
            link("/docs/console", "Console"),
            link("/docs/credits", "Credits"),
            link("/docs/guarantees", "Guarantees"),
            link("/docs/glossary", "Glossary"),
            link("/docs/changes", "Changes"),
        ],
    },
    NavGroup {
        id: "nav-own",
        heading: "Run your own",
        links: &[
            link("/docs/installation", "Installation"),
            link("/docs/operations", "Operations"),
            link("/docs/going-live", "Going live"),
            link("/docs/platform-settings", "Platform settings"),
            link("/docs/catalogue", "Route catalogue"),
            link("/docs/data", "Data"),
            link("/docs/simulators", "Simulators"),
            link("/docs/performance", "Performance"),
            link("/docs/scaling", "Scaling"),
            link("/docs/performance-log", "Performance log"),
            link("/docs/releases", "Releases"),
        ],
    },
];

/// What is around one page. Templates call it `frame`.
pub(crate) struct DocsFrame {
    frame: PageFrame,
    /// The path of the page, to come back to.
    pub(crate) here: String,
    /// The text that was searched for.
    pub(crate) query: String,
}

impl DocsFrame {
    /// What is around the page at this path.
    pub(crate) fn new(reference: &ReferenceState, headers: &HeaderMap, here: &str) -> Self {
        let frame = reference.pages().frame(headers);
        Self { frame, here: here.to_owned(), query: String::new() }
    }

    /// The groups of the sidebar.
    #[expect(clippy::unused_self, reason = "templates call it on the frame")]
    pub(crate) const fn navigation(&self) -> &'static [NavGroup] {
        NAVIGATION
    }

    /// The value of `aria-current` for a link of the sidebar: the page itself, or one above it.
    pub(crate) fn current(&self, path: &str) -> Option<&'static str> {
        let below = self.here.strip_prefix(path)?;
        if below.is_empty() {
            return Some("page");
        }
        (path != "/docs" && below.starts_with('/')).then_some("true")
    }
}

impl Deref for DocsFrame {
    type Target = PageFrame;

    fn deref(&self) -> &PageFrame {
        &self.frame
    }
}

/// A page.
pub(crate) fn show<T: askama::Template>(page: &T) -> Response {
    pages::plain::or_apology(StatusCode::OK, page, &PagePolicy::default())
}

/// The refusal of an address below `/docs` that does not exist.
pub(crate) fn nothing_here() -> Response {
    ApiError::Failure(Failure::NotFound(
        "there is no such page; `GET /llms.txt` lists what there is",
    ))
    .into_response()
}
