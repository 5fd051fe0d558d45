//! The retired route for registration.

use serde_json::json;
use test_service::contract::document;
use test_service::with_app;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_retired_signup_is_gone_and_names_its_successor() {
    with_app(async |app| {
        let form = json!({"email": "late@example.com", "password": "correct horse battery"});

        let replies = [
            app.anonymous().post("/v1/signup", &form).await,
            app.anonymous().send("POST", "/v1/signup", Some(b"not json".to_vec())).await,
            app.with_key(&app.customer(1).await.key).post("/v1/signup", &form).await,
        ];

        for reply in replies {
            assert_eq!(reply.failure(), (410, "gone".to_owned()), "{}", reply.text());
            assert_eq!(reply.header("deprecation"), "@1795219200");
            assert_eq!(reply.header("link"), "</v1/auth/register>; rel=\"successor-version\"");
        }
        let email = "late@example.com".parse().unwrap();
        let made = store::customers::find_by_email(app.store(), &email).await.unwrap();
        assert_eq!(made, None);
        app
    })
    .await;
}

#[test]
fn the_contract_marks_only_the_signup_as_deprecated() {
    let document = document();

    let deprecated: Vec<(String, String)> = test_service::contract::operations(&document)
        .into_iter()
        .filter(|(_, _, operation)| operation["deprecated"] == true)
        .map(|(method, path, _)| (method, path))
        .collect();

    assert_eq!(deprecated, [("post".to_owned(), "/v1/signup".to_owned())]);
}
