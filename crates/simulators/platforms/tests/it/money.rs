//! Money adds up: what fans paid, what they spent, and what was earned, paid out and left over are
//! sums of the same payments.

use serde_json::Value;
use simulator_platforms::PlatformSettings;

use crate::beta::{DEMO as BETA, all_by_offset, read};
use crate::gamma::{DEMO as GAMMA, all_pages, own};
use crate::kit::{Kit, NOW_MS, id_of};

fn sum(rows: &[Value], pointer: &str) -> i64 {
    rows.iter().map(|row| row.pointer(pointer).unwrap().as_i64().unwrap()).sum()
}

#[tokio::test]
async fn gammas_payments_match_spending_payouts_and_balance() {
    let kit = Kit::new();
    let me = id_of(&kit.auth(GAMMA)["account_id"]);
    let payments = all_pages(&kit, &format!("user/{me}/process/stats"), 100).await;
    let subscriptions = all_pages(&kit, &format!("user/{me}/subscription"), 100).await;
    let payouts = all_pages(&kit, &format!("user/{me}/payout"), 100).await;
    let (stats, balance) = (own(&kit, "process/stats").await, own(&kit, "payout/available").await);

    assert_eq!(stats["total"], sum(&payments, "/amount"));
    assert_eq!(stats["total_netto"], sum(&payments, "/amount_netto"));
    assert_eq!(sum(&subscriptions, "/total_spent"), sum(&payments, "/amount"));
    for payment in &payments {
        let amount = payment["amount"].as_i64().unwrap();
        assert_eq!(payment["amount_netto"].as_i64().unwrap() * 10, amount * 8);
    }

    let (back, kept): (Vec<Value>, Vec<Value>) =
        payments.into_iter().partition(|payment| payment["status"] == "charged_back");
    assert!(!back.is_empty());
    assert_eq!(stats["total_charged_back"], sum(&back, "/amount"));
    let left = sum(std::slice::from_ref(&balance), "/available")
        + sum(std::slice::from_ref(&balance), "/pending");
    assert_eq!(sum(&payouts, "/amount") + left, sum(&kept, "/amount_netto"));
}

#[tokio::test]
async fn betas_wallet_matches_payouts_held_amounts_and_chargebacks() {
    let kit = Kit::new();
    for advance_ms in [0, 5 * 86_400_000] {
        kit.clock.advance_ms(advance_ms);
        let wallet = read(&kit, BETA, "account/wallets/earnings").await;
        let part = |name: &str| wallet[name].as_i64().unwrap();

        let parts = ["paidOutNet", "availableNet", "pendingNet", "chargedBackNet"].map(part);

        assert!(parts.iter().all(|mills| *mills > 0));
        assert_eq!(parts.iter().sum::<i64>(), part("totalNet"));
        assert_eq!(part("totalNet") * 10, part("totalGross") * 8);
    }
}

/// Adjacent windows add up, also if there are too many payments to read each.
#[tokio::test]
async fn the_earnings_of_a_big_account_add_up_over_months() {
    let kit = Kit::with(&PlatformSettings { subscribers: 100_000, ..PlatformSettings::default() });
    let total = read(&kit, BETA, "account/wallets/earnings").await;
    let months = read(&kit, BETA, "account/wallets/earnings/monthlystats?months=36").await;
    let months = months["monthlyStats"].as_array().unwrap();

    assert_eq!(total["transactions"], 300_000);
    assert_eq!(sum(months, "/totalGross"), total["totalGross"].as_i64().unwrap());
    assert_eq!(sum(months, "/totalNet"), total["totalNet"].as_i64().unwrap());
    let stats = read(&kit, BETA, "account/wallets/earnings/stats").await;
    let stats = stats["stats"].as_array().unwrap();
    assert_eq!(sum(stats, "/totalGross"), total["totalGross"].as_i64().unwrap());
    assert_eq!(sum(stats, "/transactions"), 300_000);
    let halves = [
        format!("endDate={}", NOW_MS - 100 * 86_400_000),
        format!("startDate={}", NOW_MS - 100 * 86_400_000),
    ];
    let mut gross = 0;
    for half in halves {
        let half = read(&kit, BETA, &format!("account/wallets/earnings?{half}")).await;
        gross += half["totalGross"].as_i64().unwrap();
    }
    assert_eq!(gross, total["totalGross"].as_i64().unwrap());
}

#[tokio::test]
async fn all_sums_of_an_empty_account_are_zero() {
    let kit = Kit::new();
    let me = id_of(&kit.auth("fresh_gamma")["account_id"]);
    let balance = kit.get("fresh_gamma", &format!("user/{me}/payout/available")).await;
    assert_eq!((&balance["available"], &balance["pending"]), (&0.into(), &0.into()));
    let wallet = read(&kit, "fresh_beta", "account/wallets/earnings").await;
    for name in ["totalGross", "totalNet", "paidOutNet", "availableNet", "pendingNet"] {
        assert_eq!(wallet[name], 0, "{name}");
    }
    for row in all_by_offset(&kit, "account/wallets/earnings/accounts", "accounts", 100).await {
        assert!(row["totalGross"].as_i64().unwrap() > 0);
    }
}
