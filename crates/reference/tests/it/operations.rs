//! The pages of operations, made from a contract.

use serde_json::{Value, json};

use crate::{CONFIG, Docs, assert_has};

fn contract() -> Value {
    json!({
        "info": {"description": "The `API` <of> **ours**."},
        "security": [{"key": []}],
        "tags": [
            {"name": "things", "description": "What there is."},
            {"name": "empty", "description": "Nothing has it."},
            {"name": "others", "description": "More <of> it."},
        ],
        "paths": {
            "/v1/things/{thing_id}": {
                "parameters": [{"name": "thing_id", "in": "path", "required": true,
                    "description": "which thing", "schema": {"type": "string", "maxLength": 9}}],
                "get": {"tags": ["things"], "operationId": "get_thing",
                    "summary": "Reads a `thing`. It costs nothing.",
                    "description": "More words.",
                    "security": [{"key": []}, {"session": []}],
                    "parameters": [{"$ref": "#/components/parameters/Limit"}],
                    "responses": {
                        "200": {"description": "the thing", "content": {"application/json": {
                            "schema": {"$ref": "#/components/schemas/Thing"}, "example": {"id": "<1>"}}}},
                        "204": {"description": "nothing"},
                        "404": {"description": "* `no_thing`: There is no such thing.\n* `no_thing`: Again.\n* `gone`: It is gone.\nother"},
                        "500": {"$ref": "#/components/responses/Broken"},
                    }},
                "delete": {"tags": ["things"], "operationId": "delete_thing", "deprecated": true,
                    "summary": "Deletes a thing.", "security": [{"session": []}], "responses": {}},
            },
            "/v1/open": {
                "post": {"tags": ["others"], "operationId": "open", "summary": "Opens",
                    "security": [{}],
                    "requestBody": {"required": false, "content": {"application/json": {
                        "schema": {"$ref": "#/components/schemas/Thing"}, "example": {"id": "a'b"}}}},
                    "responses": {"201": {"description": "It is open!"}}},
                "trace": {"tags": ["others"], "operationId": "trace"},
            },
            "/v1/untagged": {"get": {"operationId": "untagged", "responses": {}}},
        },
        "components": {
            "parameters": {"Limit": {"name": "limit", "in": "query", "schema": {"type": "integer"},
                "description": "how many"}},
            "schemas": {"Thing": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string", "description": "Its <id>."}}}},
            "responses": {"Broken": {"description": "* `internal`: Our fault."}},
        },
    })
}

fn docs() -> Docs {
    Docs::of(CONFIG, contract())
}

#[tokio::test]
async fn operations_are_listed_in_the_groups_of_the_contract_and_empty_groups_are_not() {
    let page = docs().page("/docs/api").await;

    assert_has(
        &page,
        &[
            "The <code>API</code> &lt;of&gt; <strong>ours</strong>.",
            "/docs/api/things/get_thing",
            "/docs/api/things/delete_thing",
            "/docs/api/others/open",
        ],
    );
    for missing in ["/docs/api/empty", "untagged", "trace"] {
        assert!(!page.contains(missing), "{missing}: {page}");
    }
    let (things, others) =
        (page.find("/docs/api/things/get_thing"), page.find("/docs/api/others/open"));
    assert!(things < others, "in the order of the contract");
}

#[tokio::test]
async fn an_operation_says_what_it_does_needs_and_returns() {
    let page = docs().page("/docs/api/things/get_thing").await;

    assert_has(
        &page,
        &[
            "<p>Reads a <code>thing</code></p>",
            "<p>It costs nothing.</p>\n<p>More words.</p>",
            "<dd>A key or a session</dd>",
            "https://gateway.example/v1/things/$THING_ID",
            "Which thing.",
            "How many.",
            "The thing.",
            "Its &lt;id&gt;.",
            "<a class=\"mono\" href=\"/docs/errors#no_thing\">no_thing</a></th><td>There is no such thing.</td>",
            "<a class=\"mono\" href=\"/docs/errors#gone\">gone</a>",
            "<td>500</td><th scope=\"row\"><a class=\"mono\" href=\"/docs/errors#internal\">",
        ],
    );
    assert_eq!(page.matches("/docs/errors#no_thing").count(), 1, "each code once");
    assert!(!page.contains("<1>"), "an example is text: {page}");
    assert!(!page.contains("Retired"), "{page}");
}

#[tokio::test]
async fn what_only_a_person_can_do_has_no_command() {
    let page = docs().page("/docs/api/things/delete_thing").await;

    assert_has(
        &page,
        &["<dd>A session</dd>", "<span class=\"badge warn\">Retired</span>", "verb d"],
    );
    assert!(!page.contains("curl"), "{page}");
}

#[tokio::test]
async fn an_open_operation_sends_no_key_and_its_body_is_quoted_for_the_shell() {
    let page = docs().page("/docs/api/others/open").await;

    assert_has(
        &page,
        &[
            "<dd>No credentials</dd>",
            "<code>application/json</code>, optional",
            "It is open!",
            "curl -X POST",
            "<b class=\"small\">required</b>",
        ],
    );
    assert!(!page.contains("X-API-Key"), "{page}");
}

#[tokio::test]
async fn an_operation_is_found_in_its_own_group_alone() {
    let docs = docs();
    for path in [
        "/docs/api/others/get_thing",
        "/docs/api/things/open",
        "/docs/api/things/",
        "/docs/api/empty",
        "/docs/api/empty/open",
        "/docs/api/Things",
        "/docs/api/things/get_thing/more",
    ] {
        assert_eq!(docs.get(path).await.status, 404, "{path}");
    }
    assert_has(&docs.page("/docs/api/others").await, &["More &#60;of&#62; it."]);
}

#[tokio::test]
async fn a_contract_that_is_empty_or_odd_makes_pages_without_operations() {
    for contract in [
        json!(null),
        json!({}),
        json!({"tags": {}, "paths": []}),
        json!({"tags": [{}], "paths": {"/a": null, "/b": {"get": null}, "/c": {"get": {"tags": []}}}}),
    ] {
        let docs = Docs::of(CONFIG, contract.clone());

        let page = docs.page("/docs/api").await;

        assert!(!page.contains("/docs/api/things"), "{contract}");
        assert_eq!(docs.get("/docs/search?q=credits").await.status, 200, "{contract}");
    }
}

/// An operation with these members, and a schema that its bodies refer to.
fn one(members: &Value, thing: &Value) -> Docs {
    let mut operation = json!({"tags": ["things"], "operationId": "it"});
    operation.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let parameters = json!([
        {"name": "id", "in": "path", "required": true, "description": "of the path"},
        {"name": "sort", "in": "query", "description": "of the path"},
    ]);
    let contract = json!({
        "tags": [{"name": "things"}],
        "paths": {"/v1/things/{id}": {"parameters": parameters, "put": operation}},
        "components": {"schemas": {"Thing": thing}},
    });
    Docs::of(CONFIG, contract)
}

/// The cells of the rows of a page, without their tags: name, type and the rest.
fn rows(page: &str) -> Vec<String> {
    let plain = |row: &str| -> String {
        let parts = row.split('<').filter_map(|part| Some(part.split_once('>')?.1));
        parts.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let rows = page.split("<tr><th scope=\"row\"").skip(1);
    rows.map(|row| plain(&format!("<{}", row.split("</tr>").next().unwrap()))).collect()
}

#[tokio::test]
async fn a_parameter_of_an_operation_replaces_that_of_its_path() {
    let parameters = json!([
        {"name": "sort", "in": "query", "description": "its own", "required": true},
        {"name": "id", "in": "header", "description": "another place"},
    ]);
    let docs = one(&json!({"parameters": parameters}), &Value::Null);

    let page = docs.page("/docs/api/things/it").await;

    assert_eq!(
        rows(&page),
        [
            "id path anything required Of the path.",
            "sort query anything required Its own.",
            "id header anything Another place."
        ]
    );
}

#[tokio::test]
async fn a_member_says_whether_it_is_required_and_whether_it_may_be_null() {
    let thing = json!({
        "allOf": [{"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}],
        "required": ["a", "c", "absent"],
        "properties": {
            "c": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/Part"}]},
            "d": {"type": ["array", "null"], "items": {"type": "string"}},
            "e": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            "f": {"properties": {"a": {"type": "boolean"}}},
        },
    });
    let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}});
    let docs = one(&json!({"requestBody": {"content": content}}), &thing);

    let page = docs.page("/docs/api/things/it").await;

    assert_eq!(
        rows(&page)[2..],
        [
            "a string required",
            "b integer",
            "c anything or null required",
            "d list of string or null",
            "e one of several forms or null",
            "f object",
            "f.a boolean",
        ]
    );
}

#[tokio::test]
async fn a_response_without_a_body_and_an_operation_without_responses_are_shown_as_they_are() {
    let responses = json!({
        "204": {"description": "gone"}, "default": {"description": "anything else"},
        "4XX": {"description": "* `bad`: It is bad.\n* no code\n* `half"},
    });
    let docs = one(&json!({"responses": responses}), &Value::Null);

    let page = docs.page("/docs/api/things/it").await;
    let bare = one(&json!({"summary": ""}), &Value::Null).page("/docs/api/things/it").await;

    assert_has(
        &page,
        &[">204</span></h3>", "<p>Gone.</p>", ">default</span></h3>", "<td>4XX</td>"],
    );
    assert_eq!(page.matches("/docs/errors#").count(), 1, "{page}");
    assert!(!page.contains("<pre id=\"response-"), "{page}");
    assert!(!bare.contains("<h3>") && !bare.contains("<h2>Errors"), "{bare}");
}
