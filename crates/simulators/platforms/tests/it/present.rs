//! The generated worlds end on the day of their first start, and stay the same.

use serde_json::Value;

use crate::beta::read;
use crate::kit::{Kit, NOW_MS, id_of};

const DAY_MS: i64 = 86_400_000;
const BETA: &str = "demo_beta";
const GAMMA: &str = "demo_gamma";
const ALPHA: &str = "demo_alpha";
const DELTA: &str = "demo_delta";
const JANUARY: &str = "agencies/earnings?startDate=2026-01-01&endDate=2026-01-31";

async fn of_gamma(kit: &Kit, path: &str) -> Value {
    let me = id_of(&kit.auth(GAMMA)["account_id"]);
    kit.get(GAMMA, &format!("user/{me}/{path}")).await
}

/// The newest things of both platforms, with their times.
async fn newest(kit: &Kit) -> Vec<Value> {
    let mut all = Vec::new();
    for path in ["subscribers?limit=50", "timeline", "messaging/groups", "mediastoriesnew"] {
        all.push(read(kit, BETA, path).await);
    }
    for path in ["subscription?limit=50", "file-stack", "chatsByList?limit=50", "payout"] {
        all.push(of_gamma(kit, path).await);
    }
    for path in ["payments/all/transactions", "posts", "stories/archive", "users/me/stories"] {
        all.push(kit.get(ALPHA, path).await);
    }
    for path in ["notifications", "posts", JANUARY, "chats/mass-messages"] {
        all.push(kit.get(DELTA, path).await);
    }
    all
}

/// On any day, the last thirty days contain something, and nothing is in the future.
#[tokio::test]
async fn the_last_thirty_days_are_never_empty_on_the_day_of_the_first_start() {
    for now_ms in [NOW_MS - 31 * DAY_MS, NOW_MS + 7 * 3_600_000, NOW_MS + 900 * DAY_MS] {
        let kit = Kit::started_at(now_ms, None);

        let window = format!("startDate={}&endDate={now_ms}", now_ms - 30 * DAY_MS);
        let earned = read(&kit, BETA, &format!("account/wallets/earnings?{window}")).await;
        let months = read(&kit, BETA, "account/wallets/earnings/monthlystats?months=2").await;
        let payments = of_gamma(&kit, "process/stats?limit=100").await;
        let subscriber = read(&kit, BETA, "subscribers?limit=1").await["subscribers"][0].clone();
        let running = read(&kit, BETA, "mediastories").await["total"].as_u64().unwrap();

        assert!(earned["transactions"].as_u64().unwrap() > 80);
        assert!(earned["pendingNet"].as_i64().unwrap() > 0);
        let months = months["monthlyStats"].as_array().unwrap();
        assert!(months.iter().any(|month| month["totalGross"].as_i64().unwrap() > 0));
        let newest = payments["processes"][0]["created_at"].as_str().unwrap();
        assert!(&newest[..10] <= payments["init_to"].as_str().unwrap());
        assert!((now_ms - 2 * DAY_MS..now_ms).contains(&subscriber["createdAt"].as_i64().unwrap()));
        assert!((1..=12).contains(&running));
    }
}

#[tokio::test]
async fn the_last_days_of_alpha_and_delta_are_not_empty_either() {
    for now_ms in [NOW_MS - 31 * DAY_MS, NOW_MS + 7 * 3_600_000, NOW_MS + 900 * DAY_MS] {
        let kit = Kit::started_at(now_ms, None);

        let overview = kit.get(ALPHA, "users/me/stats/overview").await;
        let payouts = kit.get(ALPHA, "payouts/account").await;
        let stories = kit.get(ALPHA, "users/me/stories").await;
        let earnings = kit.get(DELTA, "agencies/earnings").await;
        let notifications = kit.get(DELTA, "notifications?size=1").await;

        assert!(overview["earnings"]["total"].as_f64().unwrap() > 0.0);
        assert!(payouts["payoutPending"].as_f64().unwrap() > 0.0);
        assert!((1..=12).contains(&stories["list"].as_array().unwrap().len()));
        let days = earnings["data"].as_array().unwrap();
        assert!(days.iter().any(|day| day["transactions"].as_u64().unwrap() > 0));
        let newest = notifications["data"][0]["createdAt"].as_str().unwrap();
        assert!(newest[..10] >= days[2]["date"].as_str().unwrap()[..10], "{newest}");
    }
}

/// The same day generates the same rows at any hour; another day moves all of them.
#[tokio::test]
async fn generated_data_depends_only_on_the_day() {
    let at = async |now_ms| newest(&Kit::started_at(now_ms, None)).await;

    let morning = at(NOW_MS + 1).await;

    assert_eq!(at(NOW_MS + DAY_MS - 1).await, morning);
    assert_ne!(at(NOW_MS + DAY_MS).await, morning);
    assert_ne!(at(NOW_MS - 1).await, morning);
}

/// A data folder keeps the day of its first start, so that nothing moves later.
#[tokio::test]
async fn a_later_start_on_the_same_folder_shows_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = Some(folder.path());
    let first = newest(&Kit::started_at(NOW_MS, folder)).await;

    let later = Kit::started_at(NOW_MS + 6 * DAY_MS, folder);
    let after = newest(&later).await;

    let ids = |rows: &Value, name: &str| -> Vec<Value> {
        rows[name].as_array().unwrap().iter().map(|row| row["createdAt"].clone()).collect()
    };
    assert_eq!(ids(&after[0], "subscribers"), ids(&first[0], "subscribers"));
    assert_eq!(after[1..4], first[1..4]);
    assert_eq!(after[5..], first[5..]);

    // Active subscriptions keep renewing: they never end in the past.
    let now_ms = later.clock.now_ms();
    let running = read(&later, BETA, "subscribers?status=active&limit=100").await;
    for subscriber in running["subscribers"].as_array().unwrap() {
        assert!(subscriber["endsAt"].as_i64().unwrap() > now_ms);
    }
    let own = read(&later, BETA, "subscriptions").await;
    for subscription in own["subscriptions"].as_array().unwrap() {
        assert!(subscription["endsAt"].as_i64().unwrap() > now_ms);
    }
}
