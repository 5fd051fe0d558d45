//! The list for programs, for services with few platforms or none.

use serde_json::Value;

use crate::{CONFIG, Docs, assert_has};

async fn list(docs: &Docs) -> String {
    docs.ask("/llms.txt", "*/*").await.text
}

#[tokio::test]
async fn a_service_without_platforms_names_none() {
    let text = list(&Docs::of("", Value::Null)).await;

    assert_has(&text, &["> An HTTP API to creator platforms: one key and one path pattern"]);
    assert!(!text.contains("()") && !text.contains("[Routes of"), "{text}");
}

#[tokio::test]
async fn addresses_are_those_of_the_service_with_one_slash_between_their_parts() {
    let text = list(&Docs::of_platform("")).await;

    assert_has(
        &text,
        &[
            "> An HTTP API to creator platforms (own): ",
            "[Routes of own](https://gateway.example/v1/platforms/own/openapi.json): \
             searchable at https://gateway.example/v1/platforms/own/routes?search=",
            "(https://gateway.example/docs/tutorial.md)",
        ],
    );
    assert!(!text.contains("example//"), "{text}");
}

#[tokio::test]
async fn every_document_is_listed_once_below_the_heading_of_its_group() {
    let text = list(&Docs::of(CONFIG, Value::Null)).await;

    let groups: Vec<(&str, usize)> = text
        .split("\n## ")
        .skip(1)
        .map(|group| (group.lines().next().unwrap(), group.matches("/docs/").count()))
        .collect();
    let headings: Vec<&str> = groups.iter().map(|(heading, _)| *heading).collect();
    assert_eq!(headings, ["OpenAPI", "Start", "Guides", "Reference", "Optional"]);
    assert!(groups[1..].iter().all(|(_, documents)| *documents > 0), "{groups:?}");
    for line in text.lines().filter(|line| line.contains(".md): ")) {
        let (title, about) = line.split_once("](").unwrap();
        assert!(title.len() > "- [".len() && !about.ends_with(": "), "{line}");
        assert_eq!(text.matches(line).count(), 1, "{line}");
    }
}
