//! Lists whose rows are added, removed and moved while they are read: a completed read has every
//! row that was present the whole time, and none twice. Pages are small here, so that lists of some
//! hundred rows have many.

use std::collections::{BTreeMap, BTreeSet};

use domain::dataset::DatasetName;
use domain::window::DateWindow;
use exports::pages::CheckedPage;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use super::reading::{ALL, ChatMessages, Chats, Reading, Subscribers, texts, while_time_passes};
use test_service::TestApp;

/// The rows of a page.
const SIZE: usize = 20;
/// The reads of each list; `CREATOR_GATEWAY_TEST_MOVING_LISTS` overrides the number.
const READS: u64 = 6;

/// Lists with pages of [`SIZE`] rows for each style of paging: by offset, id, page number and
/// cursor.
const LISTS: [(&str, DatasetName, &str, &str); 6] = [
    (
        "platform_alpha",
        Subscribers,
        "/id",
        r#"name = "subscribers"
        route = "subscriptions/subscribers"
        query = [{ name = "type", value = "all" }]
        rows = "/list"
        id = "/id"
        time = { field = "/subscribedOnData/subscribeAt", unit = "rfc3339" }
        paging = { style = "offset", parameter = "offset", size_parameter = "limit", size = 20, more = "/hasMore" }"#,
    ),
    (
        "platform_beta",
        Subscribers,
        "/id",
        r#"name = "subscribers"
        route = "subscribers"
        rows = "/subscribers"
        id = "/id"
        time = { field = "/createdAt", unit = "unix_millis" }
        paging = { style = "before_id", parameter = "before", size_parameter = "limit", size = 20, more = "/hasMore", total = "/total" }"#,
    ),
    (
        "platform_beta",
        Chats,
        "/id",
        r#"name = "chats"
        route = "messaging/groups"
        rows = "/groups"
        id = "/id"
        time = { field = "/lastMessageAt", unit = "unix_millis" }
        paging = { style = "before_id", parameter = "before", size_parameter = "limit", size = 20, more = "/hasMore", total = "/total" }"#,
    ),
    (
        "platform_gamma",
        Subscribers,
        "/_id",
        r#"name = "subscribers"
        route = "subscribers"
        rows = ""
        id = "/_id"
        time = { field = "/created_at", unit = "rfc3339" }
        paging = { style = "offset", parameter = "offset", size_parameter = "limit", size = 20, empty_body = true }"#,
    ),
    (
        "platform_delta",
        Subscribers,
        "/userUuid",
        r#"name = "subscribers"
        route = "insights/fans"
        rows = "/data"
        id = "/userUuid"
        time = { field = "/subscribedAt", unit = "rfc3339" }
        paging = { style = "page", parameter = "page", size_parameter = "size", size = 20, more = "/pagination/hasMore" }"#,
    ),
    (
        "platform_delta",
        ChatMessages,
        "/uuid",
        r#"name = "chat_messages"
        route = "chats/{userUuid}/messages"
        path = [{ name = "userUuid", value = "{chat}" }]
        rows = "/data"
        id = "/uuid"
        time = { field = "/sentAt", unit = "rfc3339" }
        paging = { style = "cursor", parameter = "cursor", size_parameter = "size", size = 10, next = "/nextCursor" }
        chat = { form = "word" }"#,
    ),
];

/// A service whose platforms have these small pages.
async fn app_with_small_pages(folder: &std::path::Path) -> TestApp {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for (platform, _, _, dataset) in LISTS {
        *files.entry(platform).or_default() += &["[[datasets]]\n", dataset, "\n"].concat();
    }
    let mut settings = String::new();
    for (platform, text) in files {
        let file = folder.join(format!("{platform}.toml"));
        std::fs::write(&file, text).unwrap();
        let own = format!("[platforms.{platform}]\ncatalog = {:?}\n", file.display().to_string());
        settings += &own;
    }
    TestApp::on_sqlite(&settings).await
}

/// A list at a simulated platform, and what the test knows about its rows.
struct Moving<'a> {
    app: &'a TestApp,
    platform: &'static str,
    dataset: DatasetName,
    chat: usize,
    /// The ids of its rows; `None` for a row that was added later.
    rows: Vec<Option<String>>,
    added: usize,
    moved: BTreeSet<String>,
}

impl Moving<'_> {
    async fn change(&self, change: Value) -> Value {
        let mut change = change;
        (change["platform"], change["list"]) = (json!(self.platform), json!(self.dataset.as_str()));
        change["chat"] = json!(self.chat);
        self.app.world_control("lists", &change).await
    }

    async fn add(&mut self, at: usize) {
        self.change(json!({"do": "add", "at": at})).await;
        self.rows.insert(at, None);
        self.added += 1;
    }

    async fn remove(&mut self, at: usize) {
        self.change(json!({"do": "remove", "at": at})).await;
        self.rows.remove(at);
    }

    /// Each row moves at most once, as the guarantee requires.
    async fn shift(&mut self, at: usize, to: usize) {
        let is_new = self.rows[at].clone().is_none_or(|id| self.moved.insert(id));
        if is_new {
            self.change(json!({"do": "move", "at": at, "to": to})).await;
            let row = self.rows.remove(at);
            self.rows.insert(to, row);
        }
    }

    /// Adds, removes, or moves rows to the front or down. The row at which a cursor points stays.
    async fn stir(&mut self, random: &mut StdRng) {
        for _ in 0..random.random_range(0..4) {
            let last = self.rows.len() - 1;
            let at = [0, random.random_range(0..=last), last][random.random_range(0..3)];
            match random.random_range(0..4) {
                0 if self.dataset == Subscribers => self.add(at).await,
                0 | 1 if self.rows.len() > SIZE => self.remove(at).await,
                2 if self.dataset != ChatMessages => {
                    self.shift(at, random.random_range(at..=last)).await;
                }
                _ => self.shift(at, 0).await,
            }
        }
    }
}

fn ids(rows: &[String], pointer: &str) -> Vec<String> {
    let id = |row: &String| {
        serde_json::from_str::<Value>(row).unwrap().pointer(pointer).unwrap().to_string()
    };
    rows.iter().map(id).collect()
}

/// The index of the chat with the most messages.
async fn longest_chat(reading: &Reading) -> usize {
    let mut lengths = Vec::new();
    for nth in 0..12 {
        let (_, chat) = reading.fan(nth).await;
        lengths.push((reading.list(ChatMessages, &chat).await.len(), nth));
    }
    lengths.into_iter().max().unwrap().1
}

#[tokio::test]
async fn every_row_present_the_whole_time_is_read_exactly_once() {
    let reads = std::env::var("CREATOR_GATEWAY_TEST_MOVING_LISTS");
    let reads = reads.map_or(READS, |reads| reads.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let app = app_with_small_pages(folder.path()).await;
    let mut ended = 0;
    for (number, (platform, dataset, id, _)) in
        (0..reads).flat_map(|number| LISTS.map(|it| (number, it)))
    {
        app.reset_world().await;
        let mut random = StdRng::seed_from_u64(number);
        let reading = Reading::of(&app, platform).await;
        let chat = if dataset == ChatMessages { longest_chat(&reading).await } else { 0 };
        let chat_id = reading.fan(chat).await.1;
        let before = ids(&texts_of(&reading.list(dataset, &chat_id).await), id);
        let rows = before.iter().cloned().map(Some).collect();
        let (added, moved) = (0, BTreeSet::new());
        let mut list = Moving { app: &app, platform, dataset, chat, rows, added, moved };
        let wanted = reading.wanted_whole(dataset, chat).await;
        let mut reader = reading.reader(&app, wanted).await;
        let mut pages: Vec<CheckedPage> = Vec::new();
        let told = loop {
            match while_time_passes(&app, reader.next()).await {
                Ok(Some(page)) => pages.push(page),
                Ok(None) => break Ok(()),
                Err(fault) => break Err(fault),
            }
            list.stir(&mut random).await;
        };
        if let Err(fault) = told {
            assert_eq!(fault.code, "list_changed", "{platform} {dataset} {number}: {fault}");
            continue;
        }
        ended += 1;
        let read = ids(&texts(&pages), id);
        let unique: BTreeSet<&String> = read.iter().collect();
        assert_eq!(
            unique.len(),
            read.len(),
            "{platform} {dataset} {number}: a row was returned twice"
        );
        let stayed = list.rows.iter().flatten();
        let missing: Vec<&String> = stayed.filter(|row| !unique.contains(row)).collect();
        assert!(
            missing.is_empty(),
            "{platform} {dataset} {number}: {missing:?} of {before:?} are missing"
        );
        let new = unique.iter().filter(|row| !before.contains(row)).count();
        assert!(new <= list.added, "{platform} {dataset} {number}: {new} rows never existed");
        drop(reader);
    }
    let all = reads * LISTS.len() as u64;
    assert!(ended * 10 >= all * 9, "only {ended} of {all} reads completed");
    app.end().await;
}

fn texts_of(rows: &[Value]) -> Vec<String> {
    rows.iter().map(Value::to_string).collect()
}

#[tokio::test]
async fn a_row_removed_from_a_page_already_read_hides_no_other_row() {
    let app = TestApp::on_sqlite("").await;
    for (platform, _) in ALL {
        let reading = Reading::of(&app, platform).await;
        let before = texts_of(&reading.list(Subscribers, "").await);
        let mut reader = reading.reader(&app, reading.wanted(Subscribers)).await;
        let mut pages = vec![reader.next().await.unwrap().unwrap()];

        let gone = json!({"do": "remove", "at": 7, "platform": platform, "list": "subscribers"});
        app.world_control("lists", &gone).await;
        while let Some(page) = reader.next().await.unwrap() {
            pages.push(page);
        }

        // The row was read before it was removed.
        assert_eq!(texts(&pages), before, "{platform}");
        drop(reader);
    }
    app.end().await;
}

#[tokio::test]
async fn a_list_whose_cursors_have_disappeared_is_read_again_even_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_with_small_pages(folder.path()).await;
    let reading = Reading::of(&app, "platform_delta").await;
    let chat = longest_chat(&reading).await;
    let chat_id = reading.fan(chat).await.1;
    let before = texts_of(&reading.list(ChatMessages, &chat_id).await);
    let wanted = reading.wanted_whole(ChatMessages, chat).await;
    let mut first = reading.reader(&app, wanted.clone()).await;
    let mut pages: Vec<CheckedPage> = Vec::new();
    for _ in 0..3 {
        pages.push(first.next().await.unwrap().unwrap());
    }

    // Remove the rows at which the last two cursors point. The first page returns its cursor again.
    for at in [29, 19] {
        let gone = json!({
            "do": "remove", "at": at, "platform": "platform_delta", "list": "chat_messages", "chat": chat,
        });
        app.world_control("lists", &gone).await;
    }
    pages.push(first.next().await.unwrap().unwrap());
    let mut second = reading.reader(&app, wanted).await;
    for page in &pages {
        second.restore(&page.point, page.rows.iter()).unwrap();
    }
    while let Some(page) = second.next().await.unwrap() {
        pages.push(page);
    }

    assert_eq!(texts(&pages), before);
    drop((first, second));
    app.end().await;
}

#[tokio::test]
async fn a_list_that_grows_with_every_page_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_with_small_pages(folder.path()).await;
    for (platform, dataset, id, _) in LISTS.into_iter().filter(|list| list.1 == Subscribers) {
        let reading = Reading::of(&app, platform).await;
        let before = ids(&texts_of(&reading.list(dataset, "").await), id);
        let mut reader = reading.reader(&app, reading.wanted(dataset)).await;
        let mut pages = Vec::new();
        while let Some(page) = reader.next().await.unwrap() {
            pages.push(page);
            for _ in 0..3 {
                let new =
                    json!({"do": "add", "at": 0, "platform": platform, "list": "subscribers"});
                app.world_control("lists", &new).await;
            }
        }

        let read: BTreeSet<String> = ids(&texts(&pages), id).into_iter().collect();
        assert!(before.iter().all(|row| read.contains(row)), "{platform}");
        drop(reader);
    }
    app.end().await;
}

#[tokio::test]
async fn a_read_stops_when_all_rows_are_older_than_the_window() {
    let app = TestApp::on_sqlite("").await;
    for (platform, path) in [
        ("platform_alpha", "subscriptions/subscribers"),
        ("platform_beta", "subscribers"),
        ("platform_gamma", "subscription"),
    ] {
        let reading = Reading::of(&app, platform).await;
        let rows = reading.list(Subscribers, "").await;
        let time = super::pages::time_of(platform, Subscribers, &rows[149]);
        let mut wanted = reading.wanted(Subscribers);
        wanted.window = DateWindow::parse(Some(&time.to_rfc3339()), None).unwrap();
        let before = reading.asked(&app, path).await.len();

        let pages = reading.read(&app, wanted).await.unwrap();

        assert_eq!(texts(&pages), texts_of(&rows[..150]), "{platform}");
        // Two pages contain the rows, and the first page is read once more.
        assert_eq!(reading.asked(&app, path).await.len() - before, 3, "{platform}");
    }
    app.end().await;
}

#[tokio::test]
async fn lists_declared_as_newest_first_are() {
    let app = TestApp::on_sqlite("").await;
    let catalog = catalog::Catalog::built_in().unwrap();
    for (platform, datasets) in ALL {
        let reading = Reading::of(&app, platform).await;
        for name in datasets {
            let dataset = catalog.platform(platform.parse().unwrap()).dataset(*name).unwrap();
            let chat = if *name == ChatMessages { reading.fan(1).await.1 } else { String::new() };
            let rows = reading.list(*name, &chat).await;
            let times: Vec<_> =
                rows.iter().map(|row| super::pages::time_of(platform, *name, row)).collect();
            let is_newest_first = times.is_sorted_by(|one, next| one >= next);
            assert_eq!(dataset.time.newest_first, is_newest_first, "{platform} {name}");
        }
    }
    app.end().await;
}
