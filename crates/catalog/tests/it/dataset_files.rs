//! Datasets of an operator's own: what is refused, where their pages are, and what words mean.

use std::collections::HashSet;

use catalog::Catalog;
use catalog::column::{ColumnType, ColumnUnit, DatasetColumn};
use catalog::dataset::{self, IdForm, JsonPointer};
use domain::dataset::DatasetName::{ChatMessages, Chats, Subscribers};
use domain::platform::Platform;

use crate::platform_file::{problem, read, route};

/// A dataset with further lines; those that stand in it already are replaced.
fn entry(name: &str, template: &str, lines: &[&str]) -> String {
    let usual = [
        "rows = \"/data\"",
        "id = \"/id\"",
        "time = { field = \"/t\", unit = \"unix_millis\" }",
        "paging = { style = \"offset\", parameter = \"o\", size_parameter = \"s\", size = 5 }",
    ];
    let key = |line: &str| line.split(" =").next().unwrap().to_owned();
    let kept = usual.iter().filter(|line| lines.iter().all(|other| key(other) != key(line)));
    let text: Vec<&str> = kept.chain(lines).copied().collect();
    format!("[[datasets]]\nname = {name:?}\nroute = {template:?}\n{}\n", text.join("\n"))
}

#[test]
fn a_dataset_that_cannot_be_read_is_refused_with_its_name_and_the_rule() {
    let list = route("GET", "list", "") + &route("POST", "new", "") + &route("GET", "all/{x*}", "");
    let paging =
        |text: &str| format!("paging = {{ parameter = \"o\", size_parameter = \"s\", {text} }}");
    for (template, lines, expected) in [
        ("list", "id = \"\"", "id is a field of the row"),
        ("list", "id = \"id\"", "a JSON pointer begins with a slash"),
        ("list", "rows = \"/a//b\"", "a name of a JSON pointer is not empty and holds no ~"),
        ("list", "rows = \"/a/b/c/d/e/f/g/h/i\"", "a JSON pointer has at most 8 names"),
        ("list", &paging("style = \"page\", size = 10001"), "paging.size is 1 to 10000"),
        (
            "list",
            &paging("style = \"page\", size = 5, next = \"/n\""),
            "paging.next belongs to the style cursor, which needs it",
        ),
        (
            "list",
            "paging = { style = \"page\", parameter = \"\", size_parameter = \"s\", size = 5 }",
            "paging names its parameters",
        ),
        ("new", "", "there is no route GET new"),
        ("LIST", "", "there is no route GET LIST"),
        ("all/{x}", "", "path lacks x"),
        (
            "list",
            "query = [{ name = \"a\", value = \"{ID}\" }]",
            "holds braces other than {id} and {chat}",
        ),
    ] {
        let told = problem(&(list.clone() + &entry("chats", template, &[lines])));

        assert!(
            told.contains("dataset chats: ") && told.contains(expected),
            "{told}\nlacks: {expected}"
        );
    }
}

#[test]
fn two_datasets_of_one_name_are_refused_however_the_file_is_taken() {
    let once = entry("chats", "messaging/groups", &[]);
    let file = route("GET", "messaging/groups", "") + &once + &once;
    let built_in = || Catalog::built_in().unwrap();

    let merged = built_in().with_extra(Platform::BETA, &file).unwrap_err().to_string();
    let replaced = built_in().with_replacement(Platform::BETA, &file).unwrap_err().to_string();

    let expected = "the catalogue of platform_beta: line 12: two datasets are called chats";
    assert_eq!((merged.as_str(), replaced.as_str()), (expected, expected));
}

const LOOKUP: &str =
    "chat = { form = \"word\", lookup = { dataset = \"chats\", fan = \"/f\", chat = \"/c\" } }";
const TO_CHAT: &str = "path = [{ name = \"chat\", value = \"{chat}\" }]";

/// A list of conversations and the messages of one, with the scopes of their routes.
fn conversations() -> String {
    route("GET", "chats", "scopes = [\"read:list\", \"read:chat\"]")
        + &route("GET", "chats/{chat}/messages", "scopes = [\"read:chat\"]")
        + &entry("chat_messages", "chats/{chat}/messages", &[TO_CHAT, LOOKUP])
        + &entry("chats", "chats", &[])
}

#[test]
fn messages_need_the_scopes_of_the_list_that_their_conversation_is_looked_for_in() {
    let catalog = read(&conversations());

    let messages = catalog.dataset(ChatMessages).unwrap();

    assert!(messages.needs_chat() && !catalog.dataset(Chats).unwrap().needs_chat());
    assert_eq!(messages.scopes, ["read:chat", "read:list"]);
    assert_eq!(messages.missing_scopes(&["read:chat", "other"]), ["read:list"]);
    assert_eq!(messages.missing_scopes(&["read:list", "read:chat"]), [""; 0]);
}

#[test]
fn a_list_to_look_in_must_be_there_and_be_no_conversation_itself() {
    for (list, told) in [
        ("following", "there is no list following"),
        ("chat_messages", "there is no list chat_messages"),
    ] {
        let file = conversations().replace("dataset = \"chats\"", &format!("dataset = \"{list}\""));

        assert_eq!(problem(&file), format!("dataset chat_messages: {told}"));
    }
}

#[test]
fn a_replacement_without_the_list_loses_the_messages_that_are_looked_for_in_it() {
    let before = Catalog::empty().with_extra(Platform::ALPHA, &conversations()).unwrap();

    let routes = route("GET", "chats/{chat}/messages", "");
    let after = before.clone().with_replacement(Platform::ALPHA, &routes).unwrap();
    let both =
        before.with_replacement(Platform::ALPHA, &(routes + &route("GET", "chats", ""))).unwrap();

    assert_eq!(after.platform(Platform::ALPHA).datasets().len(), 0);
    assert_eq!(both.platform(Platform::ALPHA).datasets().len(), 2);
}

#[test]
fn a_parameter_that_gets_another_name_under_a_dataset_is_refused_with_the_dataset() {
    let file = route("GET", "account/{id}/following", "");

    let told =
        Catalog::built_in().unwrap().with_extra(Platform::BETA, &file).unwrap_err().to_string();

    let route = "there is no route GET account/{accountId}/following";
    assert_eq!(told, format!("the catalogue of platform_beta: dataset following: {route}"));
}

#[test]
fn ids_are_put_where_their_marks_stand_and_never_read_as_marks_themselves() {
    let file = route("GET", "of/@{who}/{chat}.json", "")
        + &entry(
            "chat_messages",
            "of/@{who}/{chat}.json",
            &[
                "path = [{ name = \"who\", value = \"{id}\" }, { name = \"chat\", value = \"c-{chat}\" }]",
                "query = [{ name = \"for one\", value = \"{id}/{chat}\" }]",
                "chat = { form = \"word\" }",
            ],
        );
    let catalog = read(&file);
    let messages = catalog.dataset(ChatMessages).unwrap();
    for (own, chat, path, query) in [
        ("7", "9", "of/@7/c-9.json", "for%20one=7%2F9"),
        ("é", "a b", "of/@%C3%A9/c-a%20b.json", "for%20one=%C3%A9%2Fa%20b"),
        ("{chat}", "9", "of/@%7Bchat%7D/c-9.json", "for%20one=%7Bchat%7D%2F9"),
        ("7", "{id}", "of/@7/c-%7Bid%7D.json", "for%20one=7%2F%7Bid%7D"),
    ] {
        let place = messages.place(own, chat).unwrap();

        assert_eq!((place.path.as_str(), place.query.as_str()), (path, query), "{own} {chat}");
    }
    for (own, chat) in [("", "9"), ("7", ""), ("..", "9"), (".", "9"), ("7", "..")] {
        assert_eq!(messages.place(own, chat), None, "{own:?} {chat:?}");
    }
}

#[test]
fn a_dataset_of_a_shorthand_has_the_path_and_the_parameters_that_it_stands_for() {
    let fills =
        "fills = [{ name = \"owner\", value = \"{id}\" }, { name = \"kind\", value = \"all\" }]";
    let file =
        route("GET", "fans", &format!("shorthand = {{ target = \"user/{{id}}/fans\", {fills} }}"))
            + &entry("subscribers", "fans", &["days = { from = \"since\", to = \"until\" }"]);
    let catalog = read(&file);
    let fans = catalog.dataset(Subscribers).unwrap();

    let place = fans.place("a/b", "").unwrap();

    assert_eq!(
        (place.path.as_str(), place.query.as_str()),
        ("user/a%2Fb/fans", "owner=a%2Fb&kind=all")
    );
    for set in ["o", "s", "since", "until", "owner", "kind"] {
        assert!(fans.sets_parameter(set), "{set}");
    }
    for free in ["", "S", "id", "owner2"] {
        assert!(!fans.sets_parameter(free), "{free}");
    }
}

#[test]
fn a_parameter_is_added_to_a_query_percent_encoded() {
    let mut query = String::new();
    for (name, value) in [("a", "1"), ("b c", "x&y=z"), ("é", ""), ("~-._", "100%")] {
        dataset::add(&mut query, name, value);
    }

    assert_eq!(query, "a=1&b%20c=x%26y%3Dz&%C3%A9=&~-._=100%25");
}

#[test]
fn a_pointer_is_written_as_it_was_read() {
    for (text, names) in [
        ("", vec![]),
        ("/a", vec!["a"]),
        ("/a.b/é", vec!["a.b", "é"]),
        ("/1/2/3/4/5/6/7/8", vec!["1", "2", "3", "4", "5", "6", "7", "8"]),
    ] {
        let pointer = JsonPointer::parse(text).unwrap();

        assert_eq!(pointer.names(), names);
        assert_eq!(pointer.to_string(), text);
    }
    for text in ["a", "/", "/a/", "//a", "/a~1b", "/1/2/3/4/5/6/7/8/9"] {
        assert!(JsonPointer::parse(text).is_err(), "{text}");
    }
}

#[test]
fn the_name_of_a_column_tells_apart_members_whose_names_hold_dots() {
    let paths: [&[&str]; 6] = [&["a", "b"], &["a.b"], &["a\\", "b"], &["a\\.b"], &["a"], &[""]];
    let name = |path: &[&str]| {
        DatasetColumn::name_of(&path.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>())
    };

    assert_eq!(paths.map(name), ["a.b", "a\\.b", "a\\\\.b", "a\\\\\\.b", "a", ""]);
    assert_eq!(paths.map(name).into_iter().collect::<HashSet<_>>().len(), 6);
}

#[test]
fn every_unit_is_of_numbers_or_of_times_and_never_of_both() {
    for unit in ColumnUnit::ALL {
        let fits: Vec<ColumnType> =
            ColumnType::ALL.into_iter().filter(|kind| unit.fits(*kind)).collect();

        let expected = if fits == [ColumnType::Time] {
            &fits[..]
        } else {
            &[ColumnType::Integer, ColumnType::Number]
        };
        assert_eq!(fits, expected, "{}", unit.as_str());
    }
    let times = ["rfc3339", "unix_seconds", "unix_millis"];
    let of_times = ColumnUnit::ALL.into_iter().filter(|unit| unit.fits(ColumnType::Time));
    assert_eq!(of_times.map(ColumnUnit::as_str).collect::<Vec<_>>(), times);
    assert_eq!([IdForm::Digits.as_str(), IdForm::Word.as_str()], ["digits", "word"]);
}
