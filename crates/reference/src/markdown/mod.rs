//! Markdown as HTML. Only our own documents are rendered; HTML in them is shown as text all the
//! same, so that a page contains nothing that the templates and this code did not write.

mod anchors;
pub(crate) mod links;
mod parts;
mod source;
mod writer;

pub(crate) use source::for_programs;

use pulldown_cmark::{Options, Parser};

use crate::documents::PublishedDocument;

/// A document as HTML.
#[derive(Debug, Default)]
pub(crate) struct RenderedDocument {
    /// Its first heading.
    pub(crate) title: String,
    /// What comes after that heading.
    pub(crate) html: String,
    /// What comes below each heading, for the search and the table of contents. The first has no
    /// heading.
    pub(crate) sections: Vec<DocumentSection>,
}

/// A heading and the text below it, up to the next heading.
#[derive(Debug, Default)]
pub(crate) struct DocumentSection {
    /// 2 to 6; 1 for what comes before the first heading.
    pub(crate) level: u8,
    /// The anchor; empty for what comes before the first heading.
    pub(crate) anchor: String,
    /// The heading.
    pub(crate) title: String,
    /// The text, without marks.
    pub(crate) text: String,
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Renders a document.
pub(crate) fn render(document: &PublishedDocument) -> RenderedDocument {
    let mut writer = writer::DocumentWriter::new(document.file);
    parser(document.text).for_each(|event| writer.event(event));
    writer.finish()
}

/// Renders a few sentences, such as the description of a parameter.
pub(crate) fn render_text(text: &str) -> String {
    let mut writer = writer::DocumentWriter::new("docs/api.md");
    parser(text).for_each(|event| writer.event(event));
    writer.finish().html
}

/// Renders one sentence, for a place that is a paragraph already.
pub(crate) fn render_inline(text: &str) -> String {
    let html = render_text(text);
    let inner = html.trim_end().strip_prefix("<p>").and_then(|rest| rest.strip_suffix("</p>"));
    inner.filter(|inner| !inner.contains("<p>")).map_or_else(|| escape(text), str::to_owned)
}

/// The text with `&`, `<`, `>` and `"` written so that HTML shows them.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &'static str) -> RenderedDocument {
        render(&PublishedDocument { slug: "x", file: "docs/x.md", about: "", text })
    }

    #[test]
    fn the_first_heading_is_the_title_and_others_have_anchors() {
        let page = rendered("# Top\n\nIntro.\n\n## A `b` c\n\nText.\n\n# Second top\n");

        assert_eq!(page.title, "Top");
        assert!(page.html.starts_with("<p>Intro.</p>"), "{}", page.html);
        assert!(page.html.contains("<h2 id=\"a-b-c\">A <code>b</code> c"), "{}", page.html);
        assert!(page.html.contains("<h2 id=\"second-top\">Second top"), "{}", page.html);
        let sections: Vec<&str> = page.sections.iter().map(|one| one.text.trim()).collect();
        assert_eq!(sections, ["Intro.", "Text.", ""]);
    }

    #[test]
    fn html_in_a_document_is_text() {
        let page = rendered("# T\n\n<script>alert(1)</script>\n\nand <b onclick=\"x\">bold</b>\n");

        assert!(!page.html.contains("<script"), "{}", page.html);
        assert!(!page.html.contains("<b onclick"), "{}", page.html);
        assert!(page.html.contains("&lt;script&gt;"), "{}", page.html);
    }

    #[test]
    fn tables_scroll_and_have_no_styles_of_their_own() {
        let page = rendered("# T\n\n| a | b |\n|---|--:|\n| 1 | `2` |\n");

        let (before, table) = page.html.split_once("<table>").unwrap();
        assert!(before.contains("class=\"scroll card\""), "{before}");
        assert!(
            table.contains("<th scope=\"col\">a</th><th scope=\"col\" class=\"r\">b</th>"),
            "{table}"
        );
        assert!(table.contains("<td>1</td><td class=\"r\"><code>2</code></td>"), "{table}");
        assert!(!page.html.contains("style="), "{}", page.html);
    }

    #[test]
    fn a_sentence_has_no_paragraph_of_its_own() {
        assert_eq!(render_inline("Sets `a_b` <x>."), "Sets <code>a_b</code> &lt;x&gt;.");
        assert_eq!(render_inline("- a\n- b"), "- a\n- b");
        assert_eq!(render_inline(""), "");
    }

    #[test]
    fn code_can_be_copied_and_links_to_files_are_text() {
        let page = rendered(
            "# T\n\n```bash\necho \"<x>\"\n```\n\nSee [it](../LICENSE) and [money](money.md).\n",
        );

        assert!(page.html.contains("data-copy=\"#code1\""), "{}", page.html);
        assert!(page.html.contains("echo &quot;&lt;x&gt;&quot;"), "{}", page.html);
        assert!(
            page.html.contains("See it and <a href=\"/docs/credits\">money</a>"),
            "{}",
            page.html
        );
    }

    #[test]
    fn every_mark_of_a_document_becomes_its_tag() {
        for (text, html) in [
            ("a *b* **c**", "<p>a <em>b</em> <strong>c</strong></p>\n"),
            ("a  \nb\nc", "<p>a<br>b\nc</p>\n"),
            ("> a", "<blockquote>\n<p>a</p>\n</blockquote>\n"),
            ("* a\n* b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n"),
            ("1. a\n2. b", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>\n"),
            ("7. a", "<ol start=\"7\">\n<li>a</li>\n</ol>\n"),
            ("a\n\n---\n\nb", "<p>a</p>\n<hr>\n<p>b</p>\n"),
            ("`<i>`", "<p><code>&lt;i&gt;</code></p>\n"),
            ("\\*a\\* &amp; &lt;b&gt;", "<p>*a* &amp; &lt;b&gt;</p>\n"),
            (
                "[a](https://x.example/?b&c \"title\")",
                "<p><a href=\"https://x.example/?b&amp;c\">a</a></p>\n",
            ),
            ("<https://x.example>", "<p><a href=\"https://x.example\">https://x.example</a></p>\n"),
            ("[a][1]\n\n[1]: money.md", "<p><a href=\"/docs/credits\">a</a></p>\n"),
            ("[a](javascript://x/%0aalert(1))", "<p>a</p>\n"),
            ("", ""),
        ] {
            assert_eq!(render_text(text), html, "{text}");
        }
    }

    #[test]
    fn images_of_ours_are_shown_and_others_are_their_text() {
        let own =
            "<p><img class=\"figure\" src=\"/docs/exports.svg\" alt=\"a &quot;b&quot;\"></p>\n";
        assert_eq!(render_text("![a *\"b\"*](exports.svg)"), own);
        assert_eq!(render_text("![a\n`\"b\"`](exports.svg)"), own);
        for address in ["https://x.example/a.png", "//x.example/a.png", "a.png", "data:image/png,x"]
        {
            assert_eq!(render_text(&format!("![a *b*]({address})")), "<p>a b</p>\n", "{address}");
        }
    }

    #[test]
    fn a_heading_that_comes_twice_has_two_anchors_and_one_within_a_list_is_a_chapter_too() {
        let page = rendered("# T\n\n## A\n\na\n\n## A\n\nb\n\n###### [C](money.md)\n\nc `d`\n");

        let sections: Vec<(u8, &str, &str, &str)> = page
            .sections
            .iter()
            .map(|one| (one.level, one.anchor.as_str(), one.title.as_str(), one.text.trim()))
            .collect();
        assert_eq!(
            sections,
            [(1, "", "", ""), (2, "a", "A", "a"), (2, "a-1", "A", "b"), (6, "c", "C", "c d")]
        );
        let link = "<h6 id=\"c\"><a href=\"/docs/credits\">C</a> <a class=\"hash\" href=\"#c\" aria-label=\"Link to: C\">#</a></h6>";
        assert!(page.html.contains(link), "{}", page.html);
    }

    #[test]
    fn a_document_without_a_heading_has_no_title() {
        let page = rendered("## Chapter\n\ntext\n");

        assert_eq!(page.title, "");
        assert!(page.html.starts_with("<h2 id=\"chapter\">"), "{}", page.html);
    }

    #[test]
    fn each_block_of_code_and_each_table_has_a_number_of_its_own() {
        let page = rendered(
            "# T\n\n```sh\na\n```\n\n    b\n\n```json,x y\nc\n\n```\n\n|a|\n|-|\n|1|\n\ntext\n\n|b|\n|-|\n",
        );

        for part in [
            "aria-label=\"Example 1, sh\"><code>a</code>",
            "aria-label=\"Example 2, text\"><code>b</code>",
            "<pre id=\"code3\" tabindex=\"0\" role=\"group\" aria-label=\"Example 3, json\"><code>c</code>",
            "aria-label=\"Table 1\"",
            "aria-label=\"Table 2\"",
        ] {
            assert!(page.html.contains(part), "{part}: {}", page.html);
        }
        assert_eq!(
            page.sections[0].text.split_whitespace().collect::<Vec<_>>(),
            ["a", "b", "c", "a", "1", "text", "b"]
        );
    }

    #[test]
    fn what_html_would_read_as_markup_is_written_as_text() {
        assert_eq!(escape("<a href=\"x\">&'</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;'&lt;/a&gt;");
        assert_eq!(escape(""), "");
    }
}
