//! Shared by the tests of pages: a reader of the simulated platforms, and the platforms' own lists
//! to compare with.

use domain::dataset::DatasetName;
use domain::window::DateWindow;
use exports::pages::{CheckedPage, PageFault, PageReader, PageWaits, ReadLimits, WantedList};
use serde_json::Value;
use test_service::{Client, TestApp};

pub(crate) use domain::dataset::DatasetName::{
    ChatMessages, Chats, Following, Subscribers, Subscriptions, Transactions,
};

/// Every dataset of every platform.
pub(crate) const ALL: [(&str, &[DatasetName]); 4] = [
    ("platform_alpha", &[Subscribers, Transactions, Chats, ChatMessages]),
    ("platform_beta", &[Subscribers, Subscriptions, Following, Chats, ChatMessages]),
    ("platform_gamma", &[Subscribers, Transactions, Chats, Following, ChatMessages]),
    ("platform_delta", &[Subscribers, Transactions, Chats, ChatMessages]),
];

/// An account on a platform whose lists are read.
pub(crate) struct Reading {
    pub(crate) platform: &'static str,
    pub(crate) client: Client,
    pub(crate) account: String,
    customer: String,
    own_id: String,
}

impl Reading {
    /// Connects the platform's demo account.
    pub(crate) async fn of(app: &TestApp, platform: &'static str) -> Self {
        let (customer, client, account) = app.ready(platform, 100_000).await;
        let record = client.get(&format!("/v1/accounts/{account}")).await.json();
        let own_id = record["platform_account_id"].as_str().unwrap_or_default().to_owned();
        Self { platform, client, account, customer: customer.id, own_id }
    }

    /// A request for a whole list of the account.
    pub(crate) fn wanted(&self, dataset: DatasetName) -> WantedList {
        WantedList {
            customer: self.customer.parse().unwrap(),
            account: self.account.parse().unwrap(),
            dataset,
            chat_id: None,
            window: DateWindow::default(),
            max_rows: None,
            limits: ReadLimits { rows_max: 1_000_000, pages_max: 10_000, ends_at: None },
            label: "export_test".to_owned(),
            waits: PageWaits::default(),
        }
    }

    /// The same; for messages it reads the conversation of the `nth` chat.
    pub(crate) async fn wanted_whole(&self, dataset: DatasetName, nth: usize) -> WantedList {
        let mut wanted = self.wanted(dataset);
        if dataset == ChatMessages {
            wanted.chat_id = Some(self.fan(nth).await.0);
        }
        wanted
    }

    /// The account id of the fan and the id of the conversation of the `nth` chat.
    pub(crate) async fn fan(&self, nth: usize) -> (String, String) {
        let chats = self.list(Chats, "").await;
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let (fan, chat) = match self.platform {
            "platform_alpha" => ("/withUser/id", "/id"),
            "platform_beta" => ("/partnerAccountId", "/groupId"),
            "platform_gamma" => ("/user/_id", "/_id"),
            _ => ("/user/uuid", "/user/uuid"),
        };
        (text(chats[nth].pointer(fan).unwrap()), text(chats[nth].pointer(chat).unwrap()))
    }

    /// The list through native calls, read differently from exports: with another page size, and by
    /// offset where the platform supports it.
    pub(crate) async fn list(&self, dataset: DatasetName, chat: &str) -> Vec<Value> {
        let own = &self.own_id;
        let (path, rows) = match (self.platform, dataset) {
            ("platform_alpha", Subscribers) => ("subscriptions/subscribers".to_owned(), "/list"),
            ("platform_alpha", Transactions) => ("payments/all/transactions".to_owned(), "/list"),
            ("platform_alpha", Chats) => ("chats".to_owned(), "/list"),
            ("platform_alpha", _) => (format!("chats/{chat}/messages"), "/list"),
            ("platform_beta", Subscribers) => ("subscribers".to_owned(), "/subscribers"),
            ("platform_beta", Subscriptions) => ("subscriptions".to_owned(), "/subscriptions"),
            ("platform_beta", Following) => (format!("account/{own}/following"), "/following"),
            ("platform_beta", Chats) => ("messaging/groups".to_owned(), "/groups"),
            ("platform_beta", _) => (format!("message?groupId={chat}"), "/messages"),
            ("platform_gamma", Subscribers) => (format!("user/{own}/subscription"), ""),
            ("platform_gamma", Transactions) => (format!("user/{own}/process/stats"), "/processes"),
            ("platform_gamma", Chats) => (format!("user/{own}/chatsByList"), ""),
            ("platform_gamma", Following) => (format!("user/{own}/following"), ""),
            ("platform_gamma", _) => (format!("user/{own}/chat/{chat}/message"), ""),
            (_, Subscribers) => ("insights/fans".to_owned(), "/data"),
            (_, Transactions) => ("insights/earnings".to_owned(), "/data"),
            (_, Chats) => ("chats".to_owned(), "/data"),
            (_, _) => (format!("chats/{chat}/messages"), "/data"),
        };
        self.all(&path, rows).await
    }

    async fn all(&self, path: &str, rows: &str) -> Vec<Value> {
        const SIZE: usize = 37;
        let mut all: Vec<Value> = Vec::new();
        let mut cursor = String::new();
        loop {
            let turn = match self.platform {
                "platform_delta" if cursor.is_empty() => {
                    format!("size={SIZE}&page={}", all.len() / SIZE + 1)
                }
                "platform_delta" => format!("size={SIZE}&cursor={cursor}"),
                _ => format!("limit={SIZE}&offset={}", all.len()),
            };
            let mark = if path.contains('?') { '&' } else { '?' };
            let target = format!("/v1/{}/native/{path}{mark}{turn}", self.account);
            let reply = self.client.get(&target).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            let page = reply.json();
            let found = page.pointer(rows).unwrap().as_array().unwrap();
            all.extend(found.iter().cloned());
            page["nextCursor"].as_str().unwrap_or_default().clone_into(&mut cursor);
            let has_cursor = page.get("nextCursor").is_some();
            if found.len() < SIZE || (has_cursor && cursor.is_empty()) {
                return all;
            }
        }
    }

    /// A reader before the first page.
    pub(crate) async fn reader(&self, app: &TestApp, wanted: WantedList) -> PageReader {
        app.running().read_pages(wanted).await.unwrap()
    }

    /// Reads all pages.
    pub(crate) async fn read(
        &self,
        app: &TestApp,
        wanted: WantedList,
    ) -> Result<Vec<CheckedPage>, PageFault> {
        let mut reader = app.running().read_pages(wanted).await?;
        let mut pages = Vec::new();
        while let Some(page) = reader.next().await? {
            pages.push(page);
        }
        assert!(reader.next().await?.is_none(), "there must be nothing after the last page");
        Ok(pages)
    }

    /// The fault with which reading all pages fails.
    pub(crate) async fn fault_of(&self, app: &TestApp, wanted: WantedList) -> PageFault {
        match while_time_passes(app, self.read(app, wanted)).await {
            Ok(pages) => panic!("{} {} pages were read", self.platform, pages.len()),
            Err(fault) => fault,
        }
    }

    /// The queries of the platform's requests to paths with this ending.
    pub(crate) async fn asked(&self, app: &TestApp, path: &str) -> Vec<String> {
        let seen = app.seen(self.platform).await;
        let there = seen.iter().filter(|it| it["path"].as_str().unwrap().ends_with(path));
        there.map(|it| it["query"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// The rows of all pages, as text.
pub(crate) fn texts(pages: &[CheckedPage]) -> Vec<String> {
    pages.iter().flat_map(|page| page.rows.iter()).map(str::to_owned).collect()
}

/// The rows in the simulated platforms' notation.
pub(crate) fn written(rows: &[Value]) -> Vec<String> {
    rows.iter().map(Value::to_string).collect()
}

/// Advances the clocks one second at a time until the work is done.
pub(crate) async fn while_time_passes<T>(app: &TestApp, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut tick = tokio::time::interval(std::time::Duration::from_millis(4));
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = tick.tick() => app.advance_seconds(1),
        }
    }
}
