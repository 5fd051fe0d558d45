//! Writes HTML while a document is read.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};

use super::anchors::AnchorNames;
use super::links::{LinkForm, LinkTarget, target};
use super::{DocumentSection, RenderedDocument, escape, parts};

/// What has been written so far.
pub(super) struct DocumentWriter {
    /// The file of the document, which links are relative to.
    file: &'static str,
    html: String,
    title: Option<String>,
    sections: Vec<DocumentSection>,
    anchors: AnchorNames,
    heading: Option<OpenHeading>,
    code: Option<OpenCode>,
    image: Option<OpenImage>,
    table: TableState,
    codes: usize,
    /// For each open link, whether it has a tag.
    links: Vec<bool>,
}

/// A heading whose end has not come yet.
struct OpenHeading {
    level: u8,
    text: String,
    /// What was written before it.
    before: String,
}

/// A block of code whose end has not come yet.
struct OpenCode {
    language: String,
    text: String,
}

/// An image whose end has not come yet.
struct OpenImage {
    address: Option<String>,
    alt: String,
}

/// Where in a table the writer is.
#[derive(Default)]
struct TableState {
    alignments: Vec<Alignment>,
    is_head: bool,
    column: usize,
    number: usize,
}

impl DocumentWriter {
    pub(super) fn new(file: &'static str) -> Self {
        Self {
            file,
            html: String::new(),
            title: None,
            sections: vec![DocumentSection { level: 1, ..DocumentSection::default() }],
            anchors: AnchorNames::default(),
            heading: None,
            code: None,
            image: None,
            table: TableState::default(),
            codes: 0,
            links: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> RenderedDocument {
        let (title, html, sections) = (self.title.unwrap_or_default(), self.html, self.sections);
        RenderedDocument { title, html, sections }
    }

    pub(super) fn event(&mut self, event: Event<'_>) {
        if self.image.is_some() {
            return self.event_of_image(event);
        }
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => self.inline_code(&text),
            Event::SoftBreak => self.text("\n"),
            Event::HardBreak => self.html.push_str("<br>"),
            Event::Rule => self.html.push_str("<hr>\n"),
            // Not switched on.
            Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_) => {}
        }
    }

    /// The text of an image has no marks.
    fn event_of_image(&mut self, event: Event<'_>) {
        let Some(image) = &mut self.image else { return };
        match event {
            Event::End(TagEnd::Image) => self.end_image(),
            Event::Text(text) | Event::Code(text) => image.alt.push_str(&text),
            Event::SoftBreak | Event::HardBreak => image.alt.push(' '),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => self.start_heading(level),
            Tag::CodeBlock(kind) => self.start_code(&kind),
            Tag::Table(alignments) => self.start_table(alignments),
            Tag::TableHead => {
                (self.table.is_head, self.table.column) = (true, 0);
                self.html.push_str("<thead><tr>");
            }
            Tag::TableRow => {
                self.table.column = 0;
                self.html.push_str("<tr>");
            }
            Tag::TableCell => self.start_cell(),
            Tag::List(Some(first)) if first != 1 => {
                self.put(&format!("<ol start=\"{first}\">\n"));
            }
            Tag::Link { dest_url, .. } => self.start_link(&dest_url),
            Tag::Image { dest_url, .. } => {
                let address = match target(self.file, &dest_url, LinkForm::Page) {
                    LinkTarget::Address(address) if is_own(&address) => Some(address),
                    LinkTarget::Address(_) | LinkTarget::NotServed => None,
                };
                self.image = Some(OpenImage { address, alt: String::new() });
            }
            other => self.html.push_str(opening(&other)),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => self.end_heading(),
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::TableHead => {
                self.table.is_head = false;
                self.html.push_str("</tr></thead><tbody>\n");
            }
            TagEnd::TableCell => {
                self.html.push_str(if self.table.is_head { "</th>" } else { "</td>" });
                self.table.column += 1;
                self.remember(" ");
            }
            TagEnd::Link => {
                if self.links.pop() == Some(true) {
                    self.html.push_str("</a>");
                }
            }
            other => {
                self.html.push_str(closing(other));
                self.remember(" ");
            }
        }
    }

    /// Writes HTML.
    fn put(&mut self, html: &str) {
        self.html.push_str(html);
    }

    /// Text of the document, wherever it belongs.
    fn text(&mut self, text: &str) {
        if let Some(code) = &mut self.code {
            code.text.push_str(text);
            return;
        }
        self.html.push_str(&escape(text));
        self.remember(text);
    }

    fn inline_code(&mut self, text: &str) {
        self.put(&format!("<code>{}</code>", escape(text)));
        self.remember(text);
    }

    /// Keeps text for the search, or for the anchor of a heading.
    fn remember(&mut self, text: &str) {
        if let Some(heading) = &mut self.heading {
            heading.text.push_str(text);
        } else if let Some(section) = self.sections.last_mut() {
            section.text.push_str(text);
        }
    }

    fn start_heading(&mut self, level: HeadingLevel) {
        let before = std::mem::take(&mut self.html);
        let level = u8::try_from(level as usize).unwrap_or(6);
        self.heading = Some(OpenHeading { level, text: String::new(), before });
    }

    fn end_heading(&mut self) {
        let Some(heading) = self.heading.take() else { return };
        let inner = std::mem::replace(&mut self.html, heading.before);
        let text = heading.text.trim().to_owned();
        let anchor = self.anchors.next(&text);
        if heading.level == 1 && self.title.is_none() {
            self.title = Some(text);
            return;
        }
        // A page has one title; what else is written as one is a chapter.
        let level = heading.level.max(2);
        self.put(&format!(
            "<h{level} id=\"{anchor}\">{inner} <a class=\"hash\" href=\"#{anchor}\" aria-label=\"Link to: {}\">#</a></h{level}>\n",
            escape(&text)
        ));
        self.sections.push(DocumentSection { level, anchor, title: text, text: String::new() });
    }

    fn start_code(&mut self, kind: &CodeBlockKind<'_>) {
        let language = match kind {
            CodeBlockKind::Fenced(info) => info.split([' ', ',']).next().unwrap_or_default(),
            CodeBlockKind::Indented => "",
        };
        self.code = Some(OpenCode { language: language.to_owned(), text: String::new() });
    }

    fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        self.codes += 1;
        self.html.push_str(&parts::code_block(&code.language, &code.text, self.codes));
        self.remember(&code.text);
    }

    fn start_table(&mut self, alignments: Vec<Alignment>) {
        let number = self.table.number + 1;
        self.table = TableState { alignments, number, ..TableState::default() };
        self.put(&format!(
            "<div class=\"scroll card\" tabindex=\"0\" role=\"group\" aria-label=\"Table {number}\"><table>"
        ));
    }

    fn start_cell(&mut self) {
        let tag = if self.table.is_head { "th scope=\"col\"" } else { "td" };
        let is_right = self.table.alignments.get(self.table.column) == Some(&Alignment::Right);
        let class = if is_right { " class=\"r\"" } else { "" };
        self.put(&format!("<{tag}{class}>"));
    }

    fn start_link(&mut self, link: &str) {
        let found = target(self.file, link, LinkForm::Page);
        if let LinkTarget::Address(address) = &found {
            self.put(&format!("<a href=\"{}\">", escape(address)));
        }
        self.links.push(found != LinkTarget::NotServed);
    }

    fn end_image(&mut self) {
        let Some(OpenImage { address, alt }) = self.image.take() else { return };
        match address {
            Some(address) => self.html.push_str(&parts::image(&address, &alt)),
            None => self.text(&alt),
        }
    }
}

/// Whether an address is on this service.
fn is_own(address: &str) -> bool {
    address.starts_with('/') && !address.starts_with("//")
}

/// The tags that need no more than their name.
const fn opening(tag: &Tag<'_>) -> &'static str {
    match tag {
        Tag::Paragraph => "<p>",
        Tag::BlockQuote(_) => "<blockquote>\n",
        Tag::List(None) => "<ul>\n",
        Tag::List(Some(_)) => "<ol>\n",
        Tag::Item => "<li>",
        Tag::Emphasis => "<em>",
        Tag::Strong => "<strong>",
        _ => "",
    }
}

const fn closing(tag: TagEnd) -> &'static str {
    match tag {
        TagEnd::Paragraph => "</p>\n",
        TagEnd::BlockQuote(_) => "</blockquote>\n",
        TagEnd::List(false) => "</ul>\n",
        TagEnd::List(true) => "</ol>\n",
        TagEnd::Item => "</li>\n",
        TagEnd::Emphasis => "</em>",
        TagEnd::Strong => "</strong>",
        TagEnd::Table => "</tbody></table></div>\n",
        TagEnd::TableRow => "</tr>\n",
        _ => "",
    }
}
