//! The pages of an operator's own platform: everything its file says of a route is on its page.

use serde_json::Value;

use crate::{Docs, assert_has};

/// A file that says all that can be said of a route.
const FILE: &str = r#"
    [[auth_fields]]
    name = "token"
    kind = "string"
    required = true
    secret = true
    bytes_max = 9
    description = "From `settings` & <more>."

    [[routes]]
    method = "GET"
    template = "boards/{board}/notes/{rest*}"
    group = "A & B"
    description = "Lists `notes`."
    notes = "Slow on <Mondays>."
    scopes = ["read:note", "read:board"]
    operation_id = "listNotes"
    deprecated = true
    parameters = [{ name = "board", description = "which <board>", schema = '{"type":"string","format":"uuid"}' }]
    query = [
        { name = "limit", required = true, schema = '{"type":"integer","maximum":100}' },
        { name = "after" },
    ]
    headers = [{ name = "X-Version", description = "Of the API.", schema = '{"enum":["1","2"]}' }]
    response = { status = 200, content_type = "application/json", schema = '{"type":"array","items":{"required":["id"],"properties":{"id":{"type":["string","null"]},"tags":{"type":["array","null"],"items":{"type":"string"}}}}}' }
    paging = { style = "cursor", parameter = "after", size_parameter = "limit", next = "/next" }
    default_query = [{ name = "limit", value = "5" }, { name = "sort", value = "<new>" }]

    [[routes]]
    method = "PUT"
    template = "boards/{board}"
    body = { content_type = "application/merge-patch+json", schema = '{"allOf":[{"properties":{"title":{"type":"string"}}}],"required":["title"]}' }

    [[routes]]
    method = "GET"
    template = "mine"
    shorthand = { target = "boards/{id}" }

    [[routes]]
    method = "POST"
    template = "media/upload"
    kind = "upload"

    [[datasets]]
    name = "chats"
    description = "Chats with `fans`."
    route = "mine"
    rows = ""
    id = "/id"
    time = { field = "/t", unit = "unix_seconds" }
    paging = { style = "page", parameter = "page", size_parameter = "size", size = 5 }
"#;

/// The text of a page without its tags and breaks, so that rows read as lines of words.
fn words(page: &str) -> String {
    let main = page.split_once("<main").unwrap().1;
    let text: String = main
        .split('<')
        .filter_map(|part| Some(part.split_once('>')?.1))
        .fold(String::new(), |text, part| text + " " + part);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn everything_that_is_known_of_a_route_is_on_its_page() {
    let page = Docs::of_platform(FILE).page("/docs/platforms/own/listNotes").await;

    assert_has(
        &page,
        &[
            "<p>Lists <code>notes</code>.</p>",
            "Slow on &lt;Mondays&gt;.",
            "Deprecated by the platform",
            "<dt>Address</dt><dd><code>/v1/{account}/native/boards/{board}/notes/{rest}</code></dd>",
            "<a href=\"/docs/platforms/own?group=A+%26+B\">A &#38; B</a>",
            "<dd class=\"mono\">read:note, read:board</dd>",
            "<code>limit=5, sort=&#60;new&#62;</code>",
            "cursor with after, limit rows a page",
            "curl https://gateway.example/v1/demo_own/native/boards/{board}/notes/{rest} \\",
        ],
    );
    let said = words(&page);
    assert_has(
        &said,
        &[
            "board path string (uuid) required which &lt;board&gt;",
            "rest path string required",
            "limit query integer, at most 100 required",
            "after query string X-Version header anything, 1|2 Of the API.",
            "Response Name Type id string or null required tags list of string or null",
        ],
    );
    assert!(!said.contains("Body Name"), "{said}");
}

#[tokio::test]
async fn a_write_shows_its_body_and_no_example_to_copy() {
    let page = Docs::of_platform(FILE).page("/docs/platforms/own/put_boards_board").await;

    assert_has(
        &page,
        &["<code>application/merge-patch+json</code>", "/docs/writing\">write safely"],
    );
    let said = words(&page);
    assert_has(&said, &["Body application/merge-patch+json Name Type title string required"]);
    for missing in ["curl", "Deprecated", "Scopes", "Group", "Added if absent", "Response Name"] {
        assert!(!said.contains(missing), "{missing}: {said}");
    }
}

#[tokio::test]
async fn a_shorthand_says_what_it_stands_for_and_an_upload_where_it_is_sent() {
    let docs = Docs::of_platform(FILE);

    let shorthand = docs.page("/docs/platforms/own/get_mine").await;
    let upload = docs.page("/docs/platforms/own/post_media_upload").await;

    assert_has(
        &shorthand,
        &["<dt>Stands for</dt><dd><code>/boards/{id}</code>", "/native/mine \\"],
    );
    assert_has(&upload, &["<dt>Address</dt><dd><code>/v1/{account}/media/upload</code></dd>"]);
    assert!(!upload.contains("/native/"), "{upload}");
}

#[tokio::test]
async fn the_page_of_a_platform_lists_routes_credentials_and_lists() {
    let page = Docs::of_platform(FILE).page("/docs/platforms/own").await;

    assert_has(
        &page,
        &[
            "<p>4 routes. ",
            "<span class=\"sub mono\">?limit, after</span>",
            "<span class=\"sub\">Slow on &lt;Mondays&gt;.</span>",
            "<span class=\"sub\">Scopes: read:note, read:board</span>",
            "<option>A &#38; B</option>",
            "From <code>settings</code> &amp; &lt;more&gt;.",
            "<dt class=\"mono\">chats</dt><dd>Chats with <code>fans</code>.</dd>",
        ],
    );
    assert_has(&words(&page), &["token string required From settings"]);
}

#[tokio::test]
async fn a_platform_of_which_little_is_known_has_only_the_parts_that_there_are() {
    let docs = Docs::of_platform("[[routes]]\nmethod = \"GET\"\ntemplate = \"x\"\n");

    let page = docs.page("/docs/platforms/own").await;
    let overview = docs.page("/docs").await;

    for missing in ["id=\"h-auth\"", "id=\"h-lists\"", "Clear filters", "class=\"pager\""] {
        assert!(!page.contains(missing), "{missing}: {page}");
    }
    assert_has(&page, &["<p>1 routes. "]);
    assert_has(&overview, &["https://gateway.example/v1/demo_own/native/x \\", "X-Route: GET x"]);
    let empty = Docs::of("", Value::Null).page("/docs/platforms").await;
    assert_has(&empty, &["No platforms yet", "/docs/platform-settings"]);
}

#[tokio::test]
async fn a_renamed_platform_is_found_by_both_of_its_names_and_shown_under_its_own() {
    let config =
        "[platforms.zoo]\nextends = \"platform_alpha\"\nbase_url = \"https://zoo.example\"";
    let docs = Docs::of(config, Value::Null);

    let page = docs.page("/docs/platforms/zoo").await;
    let list = docs.page("/docs/platforms").await;

    assert_has(&page, &["<h1>zoo</h1>", "href=\"/docs/platforms/zoo/"]);
    assert_has(&list, &["<a href=\"/docs/platforms/zoo\">zoo</a>"]);
    assert!(!list.contains("platform_alpha"), "{list}");
    assert_eq!(docs.page("/docs/platforms/platform_alpha").await, page);
}
