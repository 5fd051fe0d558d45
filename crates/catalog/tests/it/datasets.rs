//! What can be exported: which datasets each platform has, and that each says all that reading it
//! takes.

use catalog::column::{ColumnType, ColumnUnit, DatasetColumn};
use catalog::dataset::{IdForm, MediaArchive, PagingStyle};
use catalog::{Catalog, Dataset, ParameterSetter};
use domain::dataset::DatasetName::{self, ChatMessages, Following, Subscribers, Transactions};
use domain::platform::Platform;

fn dataset(platform: Platform, name: DatasetName) -> Dataset {
    let catalog = Catalog::built_in().unwrap();
    catalog.platform(platform).dataset(name).unwrap().clone()
}

fn refused(extra: &str) -> String {
    let catalog = Catalog::built_in().unwrap();
    catalog.with_extra(Platform::BETA, extra).unwrap_err().to_string()
}

#[test]
fn each_platform_has_its_own_datasets_and_says_why_there_are_no_media() {
    let catalog = Catalog::built_in().unwrap();
    let names = |platform| -> Vec<&str> {
        let datasets = catalog.platform(platform).datasets();
        datasets.iter().map(|dataset| dataset.name.as_str()).collect()
    };

    assert_eq!(names(Platform::ALPHA), ["subscribers", "transactions", "chats", "chat_messages"]);
    assert_eq!(
        names(Platform::BETA),
        ["subscribers", "subscriptions", "following", "chats", "chat_messages"]
    );
    assert_eq!(
        names(Platform::GAMMA),
        ["subscribers", "transactions", "chats", "following", "chat_messages"]
    );
    assert_eq!(names(Platform::DELTA), ["subscribers", "transactions", "chats", "chat_messages"]);
    let archives = Platform::all().into_iter().map(|it| catalog.platform(it).media_archive());
    assert_eq!(
        archives.collect::<Vec<_>>(),
        [
            MediaArchive::Disabled,
            MediaArchive::Unavailable,
            MediaArchive::NotOffered,
            MediaArchive::NotOffered
        ]
    );
}

#[test]
fn parameters_that_the_service_sets_itself_are_known_with_what_they_are_for() {
    let extra = "[[routes]]\nmethod = \"GET\"\ntemplate = \"plain\"\n\
                 default_query = [{ name = \"view\", value = \"all\" }]";
    let catalog = Catalog::built_in().unwrap().with_extra(Platform::ALPHA, extra).unwrap();
    let of = |platform, parameter| catalog.platform(platform).setter_of(parameter);

    for (platform, parameter, dataset) in [
        (Platform::ALPHA, "offset", Subscribers),
        (Platform::ALPHA, "limit", Subscribers),
        (Platform::ALPHA, "type", Subscribers),
        (Platform::ALPHA, "before_id", ChatMessages),
        (Platform::BETA, "groupId", ChatMessages),
        (Platform::DELTA, "page", Subscribers),
        (Platform::DELTA, "cursor", Transactions),
    ] {
        let expected = Some(ParameterSetter::Dataset(dataset));
        assert_eq!(of(platform, parameter), expected, "{platform} {parameter}");
    }
    assert_eq!(of(Platform::ALPHA, "view"), Some(ParameterSetter::Route("GET plain")));
    let filled = of(Platform::GAMMA, "categories");
    assert!(matches!(filled, Some(ParameterSetter::Route(_))), "{filled:?}");
    for free in ["key", "Offset", "", "cursor"] {
        assert_eq!(of(Platform::ALPHA, free), None, "{free}");
    }
}

#[test]
fn pages_are_where_the_platforms_have_them() {
    let place = |platform, name| {
        let place = dataset(platform, name).place("own/1", "chat 2").unwrap();
        format!("{}?{}", place.path, place.query)
    };

    assert_eq!(place(Platform::ALPHA, Subscribers), "subscriptions/subscribers?type=all");
    assert_eq!(place(Platform::ALPHA, ChatMessages), "chats/chat%202/messages?");
    assert_eq!(place(Platform::BETA, Following), "account/own%2F1/following?");
    assert_eq!(place(Platform::BETA, ChatMessages), "message?groupId=chat%202");
    assert_eq!(place(Platform::GAMMA, Subscribers), "user/own%2F1/subscription?");
    assert_eq!(place(Platform::GAMMA, Transactions), "user/own%2F1/process/stats?");
    assert_eq!(place(Platform::GAMMA, ChatMessages), "user/own%2F1/chat/chat%202/message?");
    assert_eq!(place(Platform::DELTA, ChatMessages), "chats/chat%202/messages?");
}

#[test]
fn an_id_that_is_unknown_or_would_climb_gives_no_place() {
    let messages = dataset(Platform::GAMMA, ChatMessages);
    let group = dataset(Platform::BETA, ChatMessages);

    assert_eq!(messages.place("", "chat"), None);
    assert_eq!(messages.place("own", ".."), None);
    assert_eq!(group.place("own", ""), None);
    assert!(messages.place("own", "chat").is_some());
}

#[test]
fn every_dataset_knows_its_end_and_the_scopes_of_its_routes() {
    let catalog = Catalog::built_in().unwrap();
    for platform in Platform::all() {
        for dataset in catalog.platform(platform).datasets() {
            let paging = &dataset.paging;
            let place = format!("{platform} {}", dataset.name);
            assert_eq!(paging.next.is_some(), paging.style == PagingStyle::Cursor, "{place}");
            assert_eq!(dataset.scopes.is_empty(), platform != Platform::DELTA, "{place}");
            assert!(!dataset.description.is_empty(), "{place}");
            let form = dataset.chat.as_ref().map(|chat| chat.form);
            let digits = [Platform::ALPHA, Platform::BETA].contains(&platform);
            let expected = if digits { IdForm::Digits } else { IdForm::Word };
            assert_eq!(form, dataset.needs_chat().then_some(expected), "{place}");
        }
    }
    let fans = dataset(Platform::DELTA, Subscribers);
    assert_eq!(fans.missing_scopes(&["read:fan"]), ["read:insights"]);
}

#[test]
fn ids_of_conversations_are_digits_or_words() {
    for (id, digits, word) in [
        ("123", true, true),
        ("66a-b_C", false, true),
        ("", false, false),
        ("1 2", false, false),
        ("../1", false, false),
        ("\u{661}", false, false),
        (&"9".repeat(64), true, true),
        (&"9".repeat(65), false, false),
    ] {
        assert_eq!((IdForm::Digits.fits(id), IdForm::Word.fits(id)), (digits, word), "{id}");
    }
}

#[test]
fn an_operators_file_replaces_a_dataset_of_the_same_name() {
    let extra = r#"
        media_archive = "not_offered"
        [[datasets]]
        name = "subscribers"
        route = "account/{accountId}/followers"
        path = [{ name = "accountId", value = "{id}" }]
        rows = "/followers"
        id = "/id"
        time = { field = "/createdAt", unit = "unix_millis" }
        paging = { style = "offset", parameter = "offset", size_parameter = "limit", size = 1000 }
    "#;

    let catalog = Catalog::built_in().unwrap().with_extra(Platform::BETA, extra).unwrap();

    let beta = catalog.platform(Platform::BETA);
    let place = beta.dataset(Subscribers).unwrap().place("7", "").unwrap();
    assert_eq!((beta.datasets().len(), place.path.as_str()), (5, "account/7/followers"));
    assert_eq!(beta.media_archive(), MediaArchive::NotOffered);
    let again = Catalog::built_in().unwrap().with_extra(Platform::BETA, &beta.to_toml()).unwrap();
    assert_eq!(again.platform(Platform::BETA).datasets(), beta.datasets());
}

#[test]
fn a_dataset_that_cannot_be_read_is_refused_with_its_name() {
    let entry = |name: &str, route: &str, paging: &str, more: &str| {
        format!(
            "[[datasets]]\nname = \"{name}\"\nroute = \"{route}\"\nrows = \"/r\"\nid = \"/id\"\n\
             time = {{ field = \"/t\", unit = \"unix_millis\" }}\n\
             paging = {{ parameter = \"p\", size_parameter = \"s\", {paging} }}\n{more}\n"
        )
    };
    let offset = "style = \"offset\", size = 5";
    for (text, problem) in [
        (entry("following", "nowhere", offset, ""), "there is no route GET nowhere"),
        (entry("following", "account/{accountId}/following", offset, ""), "path lacks accountId"),
        (
            entry("following", "subscribers", offset, "path = [{ name = \"x\", value = \"y\" }]"),
            "the route has no x in its path",
        ),
        (entry("following", "subscribers", "style = \"cursor\", size = 5", ""), "paging.next"),
        (entry("following", "subscribers", "style = \"offset\", size = 0", ""), "paging.size"),
        (
            entry(
                "following",
                "subscribers",
                offset,
                "query = [{ name = \"x\", value = \"{chat}\" }]",
            ),
            "{chat} belongs to chat_messages",
        ),
        (
            entry(
                "following",
                "subscribers",
                offset,
                "query = [{ name = \"x\", value = \"{y}\" }]",
            ),
            "braces",
        ),
        (entry("following", "subscribers", offset, "chat = { form = \"word\" }"), "chat_messages"),
        (entry("chat_messages", "message", offset, ""), "chat_messages"),
        (
            entry(
                "chat_messages",
                "message",
                offset,
                "query = [{ name = \"x\", value = \"{chat}\" }]\n\
                 chat = { form = \"word\", lookup = { dataset = \"transactions\", fan = \"/f\", chat = \"/c\" } }",
            ),
            "there is no list transactions",
        ),
        (entry("nothing", "subscribers", offset, ""), "one of subscribers"),
    ] {
        let told = refused(&text);
        assert!(told.contains(problem), "{told}\nlacks: {problem}");
    }
}

#[test]
fn every_dataset_declares_its_columns_the_id_and_the_time_before_the_rest() {
    let catalog = Catalog::built_in().unwrap();
    for platform in Platform::all() {
        for dataset in catalog.platform(platform).datasets() {
            let place = format!("{platform} {}", dataset.name);
            let names: Vec<&str> =
                dataset.columns.iter().map(|column| column.name.as_str()).collect();

            let id = DatasetColumn::name_of(dataset.id.names());
            let time = DatasetColumn::name_of(dataset.time.field.names());
            assert_eq!(names.get(..2), Some(&[&*id, &*time][..]), "{place}");
        }
    }
}

#[test]
fn money_is_in_the_unit_of_its_platform_and_times_say_how_they_are_written() {
    let unit = |platform, name, column: &str| {
        let found = dataset(platform, name);
        let found = found.columns.iter().find(|one| one.name == column).unwrap().clone();
        (found.kind, found.unit)
    };

    for (platform, name, column, kind, expected) in [
        (Platform::ALPHA, Transactions, "amount", ColumnType::Number, ColumnUnit::Dollars),
        (Platform::BETA, Subscribers, "price", ColumnType::Integer, ColumnUnit::Mills),
        (Platform::BETA, Subscribers, "billingCycle", ColumnType::Integer, ColumnUnit::Days),
        (Platform::GAMMA, Transactions, "amount", ColumnType::Integer, ColumnUnit::MinorUnits),
        (Platform::DELTA, Transactions, "gross", ColumnType::Integer, ColumnUnit::Cents),
        (Platform::ALPHA, Transactions, "createdAt", ColumnType::Time, ColumnUnit::Rfc3339),
        (Platform::BETA, Following, "createdAt", ColumnType::Time, ColumnUnit::UnixMillis),
    ] {
        assert_eq!(unit(platform, name, column), (kind, Some(expected)), "{platform} {column}");
    }
}

fn with_columns(columns: &str) -> String {
    format!(
        "[[datasets]]\nname = \"following\"\nroute = \"subscribers\"\nrows = \"/r\"\nid = \"/a.b/id\"\n\
         time = {{ field = \"/t\", unit = \"unix_millis\" }}\n\
         paging = {{ style = \"offset\", parameter = \"p\", size_parameter = \"s\", size = 5 }}\n\
         columns = [{columns}]\n"
    )
}

const ID: &str = r#"{ name = "a\\.b.id", type = "text" }"#;
const TIME: &str = r#"{ name = "t", type = "time", unit = "unix_millis" }"#;

#[test]
fn an_operators_dataset_declares_columns_or_none() {
    let catalog = |columns: &str| {
        let built_in = Catalog::built_in().unwrap();
        built_in.with_extra(Platform::BETA, &with_columns(columns)).unwrap()
    };
    let columns = |columns: &str| {
        let catalog = catalog(columns);
        catalog.platform(Platform::BETA).dataset(Following).unwrap().columns.clone()
    };

    let declared = columns(&format!("{ID}, {TIME}"));
    let none = columns("");

    let names: Vec<&str> = declared.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["a\\.b.id", "t"]);
    assert_eq!(none, []);
}

#[test]
fn columns_that_cannot_be_are_refused_with_what_is_wrong() {
    let more = |column: &str| format!("{ID}, {TIME}, {column}");
    let many = |count: usize| {
        let column = |number| format!("{{ name = \"c{number}\", type = \"text\" }}, ");
        format!("{ID}, {TIME}, {}", (2..count).map(column).collect::<String>())
    };
    let long =
        |length: usize| more(&format!("{{ name = \"{}\", type = \"text\" }}", "x".repeat(length)));
    for good in [many(200), long(256)] {
        let catalog = Catalog::built_in().unwrap();
        assert!(catalog.with_extra(Platform::BETA, &with_columns(&good)).is_ok());
    }
    for (columns, problem) in [
        (TIME.to_owned(), "columns lack a\\.b.id, the id of a row"),
        (ID.to_owned(), "columns lack t, the time of a row"),
        (format!("{ID}, {TIME}, {TIME}"), "two columns are called t"),
        (
            format!("{TIME}, {}", ID.replace("\"text\"", "\"boolean\"")),
            "the column of the id has the type text or integer",
        ),
        (
            format!("{ID}, {}", TIME.replace("unix_millis", "unix_seconds")),
            "the column of the time has the type time and the unit unix_millis",
        ),
        (
            format!("{ID}, {{ name = \"t\", type = \"integer\" }}"),
            "the column of the time has the type time and the unit unix_millis",
        ),
        (
            more(r#"{ name = "x", type = "money" }"#),
            "column x: the type money is not one of text, integer, number, boolean, time, json",
        ),
        (
            more(r#"{ name = "x", type = "integer", unit = "euros" }"#),
            "column x: the unit euros is not one of mills, cents, dollars, minor_units, days, rfc3339, \
             unix_seconds, unix_millis",
        ),
        (
            more(r#"{ name = "x", type = "text", unit = "cents" }"#),
            "column x: the unit cents does not fit the type text",
        ),
        (
            more(r#"{ name = "x", type = "integer", unit = "unix_millis" }"#),
            "column x: the unit unix_millis does not fit the type integer",
        ),
        (
            more(r#"{ name = "x", type = "time", unit = "mills" }"#),
            "column x: the unit mills does not fit the type time",
        ),
        (more(r#"{ name = "x", type = "time" }"#), "column x: a time needs a unit"),
        (more(r#"{ name = "", type = "text" }"#), "the name of a column has 1 to 256 bytes"),
        (long(257), "the name of a column has 1 to 256 bytes"),
        (many(201), "columns are at most 200"),
        (more(r#"{ name = "x", type = "text", units = "cents" }"#), "units"),
    ] {
        let told = refused(&with_columns(&columns));
        assert!(told.contains(problem), "{told}\nlacks: {problem}");
    }
    let named = refused(&with_columns(ID));
    assert!(named.contains("dataset following: "), "{named}");
}
