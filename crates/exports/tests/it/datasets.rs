//! `GET /v1/exports/datasets`: the datasets that can be exported.

use serde_json::{Value, json};

use super::reading::ALL;
use test_service::TestApp;

#[tokio::test]
async fn the_datasets_of_a_platform_are_listed_with_their_parameters() {
    let app = TestApp::on_sqlite("").await;
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);
    let words = ["disabled", "unavailable", "not_offered", "not_offered"];
    for ((platform, datasets), media) in ALL.into_iter().zip(words) {
        let reply = client.get(&format!("/v1/exports/datasets?platform={platform}")).await;

        assert_eq!(reply.status, 200, "{}", reply.text());
        let listed = reply.json();
        let found = listed["datasets"].as_array().unwrap();
        let name = |dataset: &Value| dataset["dataset"].as_str().unwrap().to_owned();
        let names: Vec<String> = found.iter().map(name).collect();
        let mut expected: Vec<String> = datasets.iter().map(ToString::to_string).collect();
        expected.sort_by_key(|wanted| names.iter().position(|have| have == wanted));
        assert_eq!(names, expected, "{platform}");
        assert_eq!(listed["media_archive"], json!({platform: media}));
        for dataset in found {
            assert_eq!(dataset["platform"], platform);
            assert_eq!(dataset["formats"], json!(["csv", "jsonl", "xlsx", "zip"]));
            assert_eq!(dataset["media_archive"], media);
            assert!(dataset["fields"]["id"].as_str().unwrap().starts_with('/'), "{dataset}");
            let params: Vec<&Value> =
                dataset["params"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
            let takes_chat = name(dataset) == "chat_messages";
            assert_eq!(params.len(), usize::from(takes_chat), "{dataset}");
            assert!(params.iter().all(|param| **param == "chat_id"));
        }
    }
    app.end().await;
}

#[tokio::test]
async fn without_a_platform_all_datasets_are_listed_and_an_unknown_platform_is_refused() {
    let app = TestApp::on_sqlite("").await;
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);

    let all = client.get("/v1/exports/datasets").await.json();
    let unknown = client.get("/v1/exports/datasets?platform=platform_omega").await;
    let misspelt = client.get("/v1/exports/datasets?platforms=platform_alpha").await;

    let count: usize = ALL.iter().map(|(_, datasets)| datasets.len()).sum();
    assert_eq!(all["datasets"].as_array().unwrap().len(), count);
    assert_eq!(all["media_archive"].as_object().unwrap().len(), 4);
    assert_eq!((unknown.status, misspelt.status), (422, 422));
    let told = unknown.json();
    assert_eq!(told["detail"][0]["loc"], json!(["query", "platform"]), "{told}");
    app.end().await;
}
