//! `/docs/{page}`: a document as a page, or as Markdown for programs; and the images in them.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue};
use pages::accept::wants_html;

use crate::documents::{self, ERRORS, PublishedDocument};
use crate::markdown::{self, DocumentSection};
use crate::shell::{DocsFrame, show};
use crate::state::ReferenceState;

const MARKDOWN: &str = "text/markdown; charset=utf-8";
/// Documents change with the program alone.
const CACHED: &str = "public, max-age=300";
/// A shorter document needs no table of contents.
const CONTENTS_MIN: usize = 3;
/// A longer table of contents lists nothing that the page itself does not.
const CONTENTS_MAX: usize = 60;

pub(super) fn router() -> Router<ReferenceState> {
    Router::new().route("/docs/errors", get(errors)).route("/docs/{page}", get(read))
}

#[derive(Template)]
#[template(path = "reference/document.html")]
struct DocumentPage<'a> {
    frame: DocsFrame,
    title: &'a str,
    html: &'a str,
    contents: Vec<&'a DocumentSection>,
    source: String,
}

async fn read(
    State(reference): State<ReferenceState>,
    Path(page): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Some(slug) = page.strip_suffix(".md") {
        return documents::find(slug)
            .map_or_else(crate::shell::nothing_here, |(_, found)| source(found));
    }
    if let Some(image) = documents::find_image(&page) {
        let kept = [(CONTENT_TYPE, "image/svg+xml; charset=utf-8"), (CACHE_CONTROL, CACHED)];
        return (kept, image.text).into_response();
    }
    document(&reference, &page, &headers)
}

/// The meaning of each code, where the `type` of every error leads: a page for people, Markdown for
/// programs.
async fn errors(State(reference): State<ReferenceState>, headers: HeaderMap) -> Response {
    let mut response = if wants_html(&headers) {
        document(&reference, ERRORS, &headers)
    } else {
        documents::find(ERRORS).map_or_else(crate::shell::nothing_here, |(_, found)| source(found))
    };
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    response
}

/// A document as Markdown.
fn source(document: &PublishedDocument) -> Response {
    let kept = [(CONTENT_TYPE, MARKDOWN), (CACHE_CONTROL, CACHED)];
    (kept, markdown::for_programs(document)).into_response()
}

/// A document as a page.
fn document(reference: &ReferenceState, slug: &str, headers: &HeaderMap) -> Response {
    let found = documents::find(slug);
    let found = found.and_then(|(place, document)| reference.rendered(place, document));
    let Some(rendered) = found else { return crate::shell::nothing_here() };
    show(&DocumentPage {
        frame: DocsFrame::new(reference, headers, &format!("/docs/{slug}")),
        title: &rendered.title,
        html: &rendered.html,
        contents: contents(&rendered.sections),
        source: format!("/docs/{slug}.md"),
    })
}

/// The chapters of a document.
fn contents(sections: &[DocumentSection]) -> Vec<&DocumentSection> {
    let chapters: Vec<_> = sections.iter().filter(|section| section.level == 2).collect();
    let is_useful = (CONTENTS_MIN..=CONTENTS_MAX).contains(&chapters.len());
    if is_useful { chapters } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;
    use crate::documents::{DOCUMENTS, IMAGES};
    use crate::markdown::RenderedDocument;
    use crate::shell::NAVIGATION;

    fn all() -> HashMap<String, RenderedDocument> {
        let rendered = |document: &PublishedDocument| {
            (format!("/docs/{}", document.slug), markdown::render(document))
        };
        DOCUMENTS.iter().map(rendered).collect()
    }

    fn addresses<'a>(html: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
        html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn every_link_of_every_document_leads_to_a_heading_that_exists() {
        let documents = all();
        let anchors = |path: &str| {
            let sections = &documents[path].sections;
            sections.iter().map(|section| section.anchor.as_str()).collect::<BTreeSet<_>>()
        };
        let mut broken = Vec::new();
        for (path, document) in &documents {
            for link in addresses(&document.html, " href=\"") {
                let (to, anchor) = link.split_once('#').unwrap_or((link, ""));
                let to = if to.is_empty() { path.as_str() } else { to };
                let is_elsewhere = to.contains("://") || to.starts_with("mailto:");
                if !is_elsewhere && (!documents.contains_key(to) || !anchors(to).contains(anchor)) {
                    broken.push(format!("{path}: {link}"));
                }
            }
        }
        assert!(broken.is_empty(), "{broken:#?}");
    }

    #[test]
    fn a_document_loads_nothing_from_elsewhere_and_names_each_anchor_once() {
        let images: Vec<String> =
            IMAGES.iter().map(|image| format!("/docs/{}", image.name)).collect();
        for (path, document) in all() {
            for source in addresses(&document.html, " src=\"") {
                assert!(images.iter().any(|image| image == source), "{path}: {source}");
            }
            for forbidden in ["<script", "<style", " style=", "<iframe", "<link"] {
                assert!(!document.html.contains(forbidden), "{path}: {forbidden}");
            }
            let mut seen = BTreeSet::new();
            for id in addresses(&document.html, " id=\"") {
                assert!(seen.insert(id.to_owned()), "{path}: {id} twice");
            }
            assert!(!document.title.is_empty(), "{path} has no title");
        }
    }

    #[test]
    fn every_document_is_in_the_sidebar() {
        let links: Vec<&str> =
            NAVIGATION.iter().flat_map(|group| group.links).map(|link| link.path).collect();
        for document in DOCUMENTS {
            let path = format!("/docs/{}", document.slug);
            assert!(links.contains(&path.as_str()), "{path}");
        }
    }
}
