//! Where the links of documents lead: documents name each other by files, readers by addresses.

use crate::documents::{DOCUMENTS, IMAGES};

/// What a document's link leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkTarget {
    /// An address of ours, or of another site.
    Address(String),
    /// A file of the repository that is not served. Its name is shown without a link.
    NotServed,
}

/// In which form the reader gets the document that a link leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkForm {
    /// As a page.
    Page,
    /// As Markdown.
    Markdown,
}

/// Where a link in the document of this file leads.
pub(crate) fn target(file: &str, link: &str, form: LinkForm) -> LinkTarget {
    let is_complete =
        ["https://", "http://", "mailto:"].iter().any(|start| link.starts_with(start));
    if is_complete || link.starts_with('#') || link.starts_with('/') {
        return LinkTarget::Address(link.to_owned());
    }
    let (path, fragment) = match link.split_once('#') {
        Some((path, fragment)) => (path, format!("#{fragment}")),
        None => (link, String::new()),
    };
    let path = resolved(file, path);
    if let Some(image) = IMAGES.iter().find(|image| path == format!("docs/{}", image.name)) {
        return LinkTarget::Address(format!("/docs/{}", image.name));
    }
    let ending = if form == LinkForm::Markdown { ".md" } else { "" };
    DOCUMENTS
        .iter()
        .find(|document| document.file == path)
        .map_or(LinkTarget::NotServed, |document| {
            LinkTarget::Address(format!("/docs/{}{ending}{fragment}", document.slug))
        })
}

/// The path from the root of the repository of a path that is relative to a file.
fn resolved(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_between_documents_become_addresses_and_other_files_none() {
        let page = |file, link| target(file, link, LinkForm::Page);
        let address = |text: &str| LinkTarget::Address(text.to_owned());

        let guide = "docs/guides/paging.md";
        assert_eq!(page(guide, "../api.md#exports"), address("/docs/conventions#exports"));
        assert_eq!(page(guide, "exports.md"), address("/docs/exports"));
        assert_eq!(page("docs/api.md", "guides/errors.md"), address("/docs/handling-errors"));
        assert_eq!(page("CHANGELOG.md", "docs/errors.md"), address("/docs/errors"));
        assert_eq!(
            page("docs/performance.md", "performance.svg"),
            address("/docs/performance.svg")
        );
        assert_eq!(page(guide, "#start"), address("#start"));
        assert_eq!(page(guide, "https://example.com/a.md"), address("https://example.com/a.md"));
        assert_eq!(
            page("docs/operations.md", "high-availability/patroni.yml"),
            LinkTarget::NotServed
        );
        assert_eq!(page(guide, "../../crates/node/src/lib.rs"), LinkTarget::NotServed);
        let evil = [
            "javascript:alert(1)",
            "javascript://x/%0aalert(1)",
            "data:text/html,x",
            "ftp://x/y",
            "",
        ];
        for link in evil {
            assert_eq!(page(guide, link), LinkTarget::NotServed, "{link}");
        }
        assert_eq!(page(guide, "../../../../docs/api.md"), address("/docs/conventions"));
        assert_eq!(page(guide, ".././/api.md#"), address("/docs/conventions#"));
        assert_eq!(page(guide, "mailto:a@b.example"), address("mailto:a@b.example"));
        assert_eq!(page(guide, "/v1/me"), address("/v1/me"));
        let markdown = target(guide, "../money.md#x", LinkForm::Markdown);
        assert_eq!(markdown, address("/docs/credits.md#x"));
    }
}
