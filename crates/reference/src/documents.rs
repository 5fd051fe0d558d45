//! The documents of the project that are served, as they are in this build.

/// A document in Markdown.
pub(crate) struct PublishedDocument {
    /// Its page is `/docs/{slug}`.
    pub(crate) slug: &'static str,
    /// Where it is in the repository: links between documents are relative to that.
    pub(crate) file: &'static str,
    /// What it is about, in one line.
    pub(crate) about: &'static str,
    /// The text.
    pub(crate) text: &'static str,
}

/// An image that documents show.
pub(crate) struct DocumentImage {
    /// Its address is `/docs/{name}`.
    pub(crate) name: &'static str,
    /// The drawing, as SVG.
    pub(crate) text: &'static str,
}

/// Includes a document of the repository.
macro_rules! document {
    ($slug:literal, $file:literal, $about:literal) => {
        PublishedDocument {
            slug: $slug,
            file: $file,
            about: $about,
            text: include_str!(concat!("../../../", $file)),
        }
    };
}

/// The document whose headings are the codes of errors.
pub(crate) const ERRORS: &str = "errors";

/// Every document, in the order of the sidebar.
pub(crate) const DOCUMENTS: &[PublishedDocument] = &[
    document!(
        "tutorial",
        "docs/guides/tutorial.md",
        "Register, connect, call, export and pay, in curl, Python and TypeScript"
    ),
    document!(
        "connecting",
        "docs/guides/connecting.md",
        "The credentials each platform needs, and how they’re checked"
    ),
    document!(
        "paging",
        "docs/guides/paging.md",
        "Offsets, cursors and IDs, with a helper for each"
    ),
    document!(
        "writing",
        "docs/guides/writing.md",
        "Repeat a write with an idempotency key and pay once"
    ),
    document!(
        "handling-errors",
        "docs/guides/errors.md",
        "What to repeat, what to fix, what to report"
    ),
    document!("exports", "docs/guides/exports.md", "CSV, Excel or JSON lines, with a checksum"),
    document!("budgets", "docs/guides/budgets.md", "Limits for keys, calls and days"),
    document!("production", "docs/guides/production.md", "What to set before others depend on it"),
    document!(
        "conventions",
        "docs/api.md",
        "Authentication, native calls, limits, exports, billing"
    ),
    document!("console", "docs/console.md", "The pages for people, and what each of them does"),
    document!("errors", "docs/errors.md", "Every code, its status and what to do"),
    document!("credits", "docs/money.md", "What is charged, held and given back"),
    document!("guarantees", "docs/guarantees.md", "What always holds, and the tests that show it"),
    document!("changes", "CHANGELOG.md", "What changed for callers and operators"),
    document!("installation", "docs/installation.md", "Packages, containers, Kubernetes, source"),
    document!("operations", "docs/operations.md", "Configure, watch, back up, upgrade, scale out"),
    document!("going-live", "docs/going-live.md", "Take real payments"),
    document!(
        "platform-settings",
        "docs/platforms.md",
        "Name, reach and sign for platforms of your own"
    ),
    document!("catalogue", "docs/catalogue.md", "Files of routes, imported and kept up to date"),
    document!("data", "docs/data.md", "What is stored, for how long, and how it is erased"),
    document!("simulators", "docs/simulators.md", "Platforms and payments that are simulated"),
    document!("performance", "docs/performance.md", "What was measured, and on what"),
    document!("scaling", "docs/scaling.md", "What one database carries, and what comes after it"),
    document!("performance-log", "docs/performance-log.md", "What was tried to make it fast"),
    document!("releases", "docs/releases.md", "What a version promises"),
    document!("glossary", "docs/glossary.md", "Every word that means something here"),
];

/// Every image.
pub(crate) const IMAGES: &[DocumentImage] = &[
    DocumentImage { name: "performance.svg", text: include_str!("../../../docs/performance.svg") },
    DocumentImage { name: "exports.svg", text: include_str!("../../../docs/exports.svg") },
];

/// The document with this slug, and its place in the list.
pub(crate) fn find(slug: &str) -> Option<(usize, &'static PublishedDocument)> {
    DOCUMENTS.iter().enumerate().find(|(_, document)| document.slug == slug)
}

/// The image with this name.
pub(crate) fn find_image(name: &str) -> Option<&'static DocumentImage> {
    IMAGES.iter().find(|image| image.name == name)
}
