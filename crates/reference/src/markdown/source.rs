//! The Markdown itself, for programs: the document as it is, with links that work where it is
//! served.

use pulldown_cmark::{Event, Tag};

use super::links::{LinkForm, LinkTarget, target};
use super::parser;
use crate::documents::PublishedDocument;

/// The document with its links to other documents as addresses. Links to files that are not served
/// stay as they are.
pub(crate) fn for_programs(document: &PublishedDocument) -> String {
    let mut text = String::with_capacity(document.text.len() + 1_024);
    let mut copied = 0;
    for (event, range) in parser(document.text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
            continue;
        };
        let LinkTarget::Address(address) = target(document.file, &dest_url, LinkForm::Markdown)
        else {
            continue;
        };
        let written = format!("]({dest_url}");
        let whole = document.text.get(range.clone()).unwrap_or_default();
        let Some(place) = whole.rfind(&written) else { continue };
        let start = range.start + place;
        // A link around an image begins before it.
        let Some(before) = document.text.get(copied..start) else { continue };
        text.push_str(before);
        text.extend(["](", &address]);
        copied = start + written.len();
    }
    text.push_str(document.text.get(copied..).unwrap_or_default());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_markdown_and_code_stays() {
        let text = "See [a](money.md#x), [b](../LICENSE) and `[c](money.md)`.";
        let document = PublishedDocument { slug: "x", file: "docs/x.md", about: "", text };

        let written = for_programs(&document);

        assert_eq!(written, "See [a](/docs/credits.md#x), [b](../LICENSE) and `[c](money.md)`.");
    }

    #[test]
    fn everything_but_the_addresses_of_links_stays_byte_for_byte() {
        for (text, expected) in [
            ("", ""),
            ("no link\n", "no link\n"),
            ("![x](exports.svg)", "![x](/docs/exports.svg)"),
            (
                "[a](money.md) é [b](money.md)\r\n",
                "[a](/docs/credits.md) é [b](/docs/credits.md)\r\n",
            ),
            ("[a](money.md \"t\")", "[a](/docs/credits.md \"t\")"),
            ("[`](money.md`](money.md)", "[`](money.md`](/docs/credits.md)"),
            ("| [a](money.md) |\n|---|\n", "| [a](/docs/credits.md) |\n|---|\n"),
            ("[a](https://x.example/money.md)", "[a](https://x.example/money.md)"),
            ("```\n[a](money.md)\n```", "```\n[a](money.md)\n```"),
            ("[a][1]\n\n[1]: money.md", "[a][1]\n\n[1]: money.md"),
        ] {
            let text: &'static str = text;
            let document = PublishedDocument { slug: "x", file: "docs/x.md", about: "", text };

            assert_eq!(for_programs(&document), expected, "{text}");
        }
    }
}
