//! A page as a browser reads it. Every page that a test opens is checked against the rules for all
//! pages: nothing from elsewhere, no script or style in the page, its budget, its headings.
#![expect(clippy::panic, clippy::expect_used, reason = "an unexpected value must fail the test")]

use crate::Reply;

/// The largest page, in bytes.
const BYTES_MAX: usize = 60 * 1024;
/// The most elements of a page.
const ELEMENTS_MAX: usize = 1_500;

/// A response to a browser.
#[derive(Debug)]
pub struct Page {
    reply: Reply,
    html: String,
}

impl Page {
    /// Reads a response. A page must keep the rules for pages.
    pub fn read(path: &str, reply: Reply) -> Self {
        let html = String::from_utf8_lossy(&reply.body).into_owned();
        let page = Self { reply, html };
        if page.reply.header("content-type").starts_with("text/html") {
            page.assert_rules(path);
        }
        page
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.reply.status
    }

    /// The response itself.
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// The page that a redirect leads to; empty if it is none.
    pub fn location(&self) -> &str {
        self.reply.header("location")
    }

    /// The page as it was sent.
    pub fn html(&self) -> &str {
        &self.html
    }

    /// What a person reads: without the head and tags, with one space between words.
    pub fn words(&self) -> String {
        let body = self.html.split_once("<body").map_or(&*self.html, |(_, body)| body);
        let body = body.split_once('>').map_or(body, |(_, body)| body);
        let mut text = String::new();
        for (place, part) in body.split('<').enumerate() {
            let shown = if place == 0 { part } else { part.split_once('>').unwrap_or(("", "")).1 };
            if place > 0 && !is_inside_words(part) {
                text.push(' ');
            }
            text.push_str(shown);
        }
        plain(&text).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Whether a person reads this.
    pub fn says(&self, text: &str) -> bool {
        self.words().contains(text)
    }

    /// Asserts the status and what a person reads.
    #[track_caller]
    pub fn assert(&self, status: u16, says: &str) -> &Self {
        assert_eq!(self.status(), status, "{}", self.words());
        assert!(self.says(says), "{says:?} is not in {}", self.words());
        self
    }

    /// Asserts that a person does not read this.
    #[track_caller]
    pub fn assert_not(&self, says: &str) -> &Self {
        assert!(!self.says(says), "{says:?} is in {}", self.words());
        self
    }

    /// Whether the page has a form that is sent to this path.
    pub fn has_form(&self, action: &str) -> bool {
        self.form(action).is_some()
    }

    /// The fields of a form as it stands: hidden ones, values, ticked boxes, chosen options.
    pub fn fields(&self, action: &str) -> Vec<(String, String)> {
        let form = self.form(action);
        let form = form.unwrap_or_else(|| panic!("no form for {action} in {}", self.html));
        let mut fields = Vec::new();
        for tag in tags(form, "input") {
            let name = attribute(tag, "name").unwrap_or_default();
            let kind = attribute(tag, "type").unwrap_or_default();
            let is_choice = matches!(&*kind, "checkbox" | "radio");
            if name.is_empty() || (is_choice && !has_word(tag, "checked")) {
                continue;
            }
            let usual = if is_choice { "on" } else { "" };
            fields.push((name, attribute(tag, "value").unwrap_or_else(|| usual.to_owned())));
        }
        fields.extend(enclosed(form, "select").map(|select| {
            let chosen = tags(select.1, "option");
            let chosen = chosen.iter().find(|tag| has_word(tag, "selected")).or(chosen.first());
            let value = chosen.and_then(|tag| attribute(tag, "value")).unwrap_or_default();
            (attribute(select.0, "name").unwrap_or_default(), value)
        }));
        fields.extend(enclosed(form, "textarea").map(|area| {
            (attribute(area.0, "name").unwrap_or_default(), plain(area.1.trim_start_matches('\n')))
        }));
        fields
    }

    /// The value of a form's field.
    #[track_caller]
    pub fn field(&self, action: &str, name: &str) -> String {
        let found = self.fields(action).into_iter().find(|(field, _)| field == name);
        found.unwrap_or_else(|| panic!("no field {name} in {}", self.html)).1
    }

    /// Where the link with these words leads.
    #[track_caller]
    pub fn link(&self, words: &str) -> String {
        let mut links = enclosed(&self.html, "a").filter(|(_, text)| *text == words);
        let (tag, _) = links.next().unwrap_or_else(|| panic!("no link says {words}"));
        attribute(tag, "href").expect("a link leads somewhere")
    }

    fn form(&self, action: &str) -> Option<&str> {
        let forms = enclosed(&self.html, "form");
        let of_action = |tag: &str| attribute(tag, "action").as_deref() == Some(action);
        let forms: Vec<_> = forms.filter(|(tag, _)| of_action(tag)).collect();
        // A search may have the same address.
        let is_sent = |tag: &str| attribute(tag, "method").as_deref() == Some("post");
        let sent = forms.iter().find(|(tag, _)| is_sent(tag));
        sent.or(forms.first()).map(|(_, form)| *form)
    }

    /// Asserts the rules for every page.
    #[track_caller]
    fn assert_rules(&self, path: &str) {
        let html = &self.html;
        let policy = self.reply.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; "), "{path}: {policy}");
        assert!(policy.contains("base-uri 'none'; frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!(self.reply.header("cache-control"), "private, no-store", "{path}");
        assert_eq!(self.reply.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(self.reply.header("x-content-type-options"), "nosniff", "{path}");
        assert!(html.len() <= BYTES_MAX, "{path} has {} bytes", html.len());
        let elements = html.matches('<').count() - html.matches("</").count();
        assert!(elements <= ELEMENTS_MAX, "{path} has {elements} elements");
        for tag in html.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
            assert!(attribute(tag, "style").is_none(), "{path} has a style: {tag}");
            assert!(
                !tag.contains(" onclick") && !tag.contains(" onload"),
                "{path} has a script: {tag}"
            );
        }
        for (tag, script) in enclosed(html, "script") {
            assert!(script.is_empty(), "{path} has a script: {tag}");
        }
        // A part that the script puts into a page has none.
        let headings = usize::from(html.contains("<html"));
        let shown = html.matches("<h1").count();
        assert_eq!(shown, headings, "{path} must have one first heading: {html}");
        self.assert_ids(path);
    }

    /// Asserts that no id is used twice, and that those that are referred to exist.
    #[track_caller]
    fn assert_ids(&self, path: &str) {
        let all = self.html.split('<').skip(1).filter_map(|rest| rest.split('>').next());
        let all: Vec<_> = all.collect();
        let mut ids: Vec<_> = all.iter().filter_map(|tag| attribute(tag, "id")).collect();
        ids.sort_unstable();
        for pair in ids.windows(2) {
            assert_ne!(pair.first(), pair.last(), "{path} has an id twice");
        }
        for name in ["for", "aria-labelledby", "aria-describedby"] {
            for value in all.iter().filter_map(|tag| attribute(tag, name)) {
                for id in value.split_whitespace() {
                    assert!(ids.iter().any(|own| own == id), "{path} has no {id} for {name}");
                }
            }
        }
    }
}

/// Whether a tag stands within words, so that none are separated by it.
fn is_inside_words(tag: &str) -> bool {
    let name = tag.trim_start_matches('/').split([' ', '>']).next().unwrap_or_default();
    matches!(name, "b" | "code" | "span" | "a" | "time" | "strong" | "em")
}

/// The opening tags with this name, without their brackets.
fn tags<'h>(html: &'h str, name: &str) -> Vec<&'h str> {
    let all = html.split('<').skip(1).filter_map(|rest| rest.split('>').next());
    all.filter(|tag| tag.split([' ', '\n']).next() == Some(name)).collect()
}

/// Each element with this name: its opening tag, and what it encloses.
fn enclosed<'h>(html: &'h str, name: &str) -> impl Iterator<Item = (&'h str, &'h str)> {
    let (start, end) = (format!("<{name}"), format!("</{name}>"));
    let parts: Vec<_> = html.split(&*start).skip(1).collect();
    let parts = parts.into_iter().filter(|part| part.starts_with([' ', '>', '\n']));
    parts.map(move |part| {
        let (tag, rest) = part.split_once('>').expect("a tag ends");
        (tag, rest.split(&*end).next().unwrap_or_default())
    })
}

/// The value of an attribute.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    Some(plain(rest.split('"').next()?))
}

/// Whether a tag has an attribute without a value.
fn has_word(tag: &str, word: &str) -> bool {
    tag.split_whitespace().any(|part| part.trim_end_matches('/') == word)
}

/// Text without the escapes of HTML.
fn plain(text: &str) -> String {
    let escapes = [
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&nbsp;", " "),
        // Last, so that an escape that was written out is not read as one.
        ("&amp;", "&"),
        ("&#38;", "&"),
    ];
    escapes.iter().fold(text.to_owned(), |text, (escape, letter)| text.replace(escape, letter))
}

#[test]
fn a_page_is_read_as_a_person_reads_it() {
    let html = "<body class=\"app\"><h1>Keys</h1>\n<p>You &#38; <b>I</b>.</p><form method=\"post\" \
        action=\"/x\"><input type=\"hidden\" name=\"csrf\" value=\"&#34;1&#34;\"><input name=\"on\" \
        type=\"checkbox\" checked><input name=\"off\" type=\"checkbox\"><select name=\"s\"><option \
        value=\"a\">A</option><option value=\"b\" selected>B</option></select><textarea name=\"t\">\
        \nx</textarea></form></body>";
    let page = Page {
        reply: Reply { status: 200, headers: http::HeaderMap::new(), body: bytes::Bytes::new() },
        html: html.to_owned(),
    };

    assert_eq!(page.words(), "Keys You & I. A B x");
    let fields = [("csrf", "\"1\""), ("on", "on"), ("s", "b"), ("t", "x")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(page.fields("/x"), fields);
    assert!(page.has_form("/x") && !page.has_form("/y"));
}
