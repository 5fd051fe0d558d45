//! Platforms and their routes, which customers read first.

use serde_json::{Value, json};
use test_service::{TestApp, with_app};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_platform_lists_its_auth_fields() {
    let app = TestApp::on_sqlite("").await;

    let platforms = app.anonymous().get("/v1/platforms").await.json();

    let fields = |index: usize| {
        let fields = platforms["platforms"][index]["auth"].as_array().unwrap();
        fields.iter().map(|field| field["name"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(platforms["platforms"].as_array().unwrap().len(), 4);
    assert_eq!(fields(0), ["user_id", "session_token", "user_agent", "extra"]);
    assert_eq!(fields(1), ["token", "device_id"]);
    assert_eq!(fields(2), ["token", "resource", "account_id"]);
    assert_eq!(fields(3), ["access_token", "refresh_token", "expires_at", "scopes"]);
    let token = &platforms["platforms"][2]["auth"][0];
    assert_eq!((&token["required"], &token["secret"]), (&json!(true), &json!(true)));
    assert!(token["description"].as_str().is_some_and(|text| !text.is_empty()));
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_has_a_price_a_group_and_scopes() {
    let app = TestApp::on_sqlite("").await;
    let listed = async |platform: &str| {
        let path = format!("/v1/platforms/{platform}/routes?limit=500");
        let reply = app.anonymous().get(&path).await.json();
        reply["routes"].as_array().unwrap().clone()
    };
    let platforms = app.anonymous().get("/v1/platforms").await.json();

    for platform in platforms["platforms"].as_array().unwrap() {
        let routes = listed(platform["platform"].as_str().unwrap()).await;
        assert_eq!(platform["routes"], routes.len());
        for route in &routes {
            let price = if route["method"] == "GET" { 1 } else { 2 };
            assert_eq!(route["cost"], price, "{route}");
            assert!(route["group"].as_str().is_some_and(|group| !group.is_empty()), "{route}");
        }
    }
    let delta = listed("platform_delta").await;
    let chats = delta.iter().find(|route| route["path"] == "chats" && route["method"] == "POST");
    assert_eq!(chats.unwrap()["scopes"], json!(["write:chat"]));
    let gamma = listed("platform_gamma").await;
    let subscribers = gamma.iter().find(|route| route["path"] == "subscribers").unwrap();
    assert_eq!(subscribers["default_query"]["limit"], "50", "{subscribers}");
    assert!(subscribers["rewrites_to"].is_string(), "{subscribers}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_are_listed_in_pages_that_make_the_whole() {
    let app = TestApp::on_sqlite("").await;
    let client = app.anonymous();
    let path = "/v1/platforms/platform_beta/routes";
    let whole = client.get(&format!("{path}?limit=500")).await.json();
    let count = whole["routes"].as_array().unwrap().len();

    let (mut count_of_pages, mut before, mut paged) = (0, Value::Null, Vec::new());
    loop {
        let cursor = before.as_str().map(|name| format!("&before={}", name.replace(' ', "%20")));
        let page =
            client.get(&format!("{path}?limit=40{}", cursor.unwrap_or_default())).await.json();
        paged.extend(page["routes"].as_array().unwrap().clone());
        (count_of_pages, before) = (count_of_pages + 1, page["next_before"].clone());
        if before.is_null() {
            break;
        }
    }

    assert_eq!((count_of_pages, paged.len()), (count.div_ceil(40), count));
    assert_eq!(Value::Array(paged), whole["routes"]);
    let default = client.get(path).await.json();
    assert_eq!(default["routes"].as_array().unwrap().len(), 100);
    let lost = client.get(&format!("{path}?before=GET%20nothing")).await;
    assert_eq!(
        lost.wrong_fields().first().map(|field| field.0.clone()),
        Some("query.before".to_owned())
    );
    for wrong in ["limit=0", "limit=501", "method=HEAD", "colour=red"] {
        assert_eq!(client.get(&format!("{path}?{wrong}")).await.status, 422, "{wrong}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_are_found_by_group_method_and_text() {
    let app = TestApp::on_sqlite("").await;
    let client = app.anonymous();
    let found = async |query: &str| {
        let path = format!("/v1/platforms/platform_delta/routes?{query}");
        client.get(&path).await.json()["routes"].as_array().unwrap().clone()
    };

    let agencies = found("group=AGENCIES").await;
    let deletes = found("method=DELETE").await;
    let folders = found("search=VAULT%2Ffolders&method=GET&limit=500").await;
    let none = found("search=unheard-of").await;

    assert!(agencies.len() > 5 && agencies.iter().all(|route| route["group"] == "agencies"));
    assert!(deletes.len() > 5 && deletes.iter().all(|route| route["method"] == "DELETE"));
    assert_eq!(folders.len(), 3, "{folders:?}");
    assert!(none.is_empty());
    let chats = found("group=chats&method=GET").await;
    let with_query = chats.iter().find(|route| route["query"][0]["name"].is_string());
    let parameter = &with_query.unwrap()["query"][0];
    assert!(parameter["type"].is_string() && parameter["required"].is_boolean(), "{parameter}");
    assert_eq!(chats[0]["paging"], Value::Null);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_platform_has_no_routes() {
    let app = TestApp::on_sqlite("").await;

    let reply = app.anonymous().get("/v1/platforms/platform_omega/routes").await;

    assert_eq!(reply.failure(), (404, "not_found".to_owned()));
    app.end().await;
}

/// A route is verified by its first 2xx, permanently and for all customers; a refusal does not
/// verify it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_success_verifies_a_route() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        let listed = async |service: &TestApp| {
            let path = "/v1/platforms/platform_alpha/routes";
            service.anonymous().get(path).await.json()["routes"].as_array().unwrap().clone()
        };
        let verified_at = |routes: &[Value], path: &str| {
            let found =
                routes.iter().find(|route| route["path"] == path && route["method"] == "GET");
            found.unwrap()["verified_at"].clone()
        };
        assert_eq!(verified_at(&listed(&app).await, "users/me"), Value::Null);

        assert_eq!(client.get(&format!("/v1/{account}/native/users/me")).await.status, 200);
        assert_eq!(client.get(&format!("/v1/{account}/native/users/list")).await.status, 400);
        app.settled(&client).await;
        let first = wait_for(async || verified_at(&listed(&app).await, "users/me")).await;
        app.advance_seconds(60);
        assert_eq!(client.get(&format!("/v1/{account}/native/users/me")).await.status, 200);
        app.settled(&client).await;

        assert!(first.as_str().unwrap().starts_with("2026-11-21T12:00:00"), "{first}");
        let again = app.restart().await;
        assert_eq!(verified_at(&listed(&again).await, "users/me"), first);
        assert_eq!(verified_at(&listed(&again).await, "users/list"), Value::Null);
        again
    })
    .await;
}

/// Reads until there is a value, because routes are marked in the background.
async fn wait_for(ask: impl AsyncFn() -> Value) -> Value {
    for _ in 0..10_000 {
        let answer = ask().await;
        if !answer.is_null() {
            return answer;
        }
    }
    panic!("the route was never marked");
}
