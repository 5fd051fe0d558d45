//! Ways to win fans: bundles (several months in one payment) and tracking links.

use serde_json::{Value, json};

use super::shapes::{dollars, id, index, page_of, user_ref};
use super::statistics::window;
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::signed;
use crate::world::time::{day, rfc3339_offset};

const BUNDLES: &str = "bundles";
const CAMPAIGNS: &str = "campaigns";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("subscriptions/bundles", bundles)
        .post("subscriptions/bundles", create_bundle)
        .get("campaigns", campaigns)
        .post("campaigns", create_campaign)
        .get("campaigns/chart", chart)
        .get("campaigns/{campaign_id}/claimers", claimers)
}

/// Three, six and twelve months at 10, 20 and 30 percent off.
fn bundles(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let all = overlay.page(BUNDLES, call.world.tiers(), 0, u64::MAX);
    Ok(Answer::ok(all.indexes.into_iter().map(|it| bundle_json(call, overlay, it)).collect()))
}

fn bundle_json(call: &PlatformCall<'_>, overlay: &Overlay, bundle: u64) -> Value {
    let (months, discount) = match bundle {
        0 => (3, 10),
        1 => (6, 20),
        _ => (12, 30),
    };
    let whole = |name, generated| {
        overlay.field(BUNDLES, bundle, name).and_then(Value::as_i64).unwrap_or(generated)
    };
    let (months, discount) = (whole("duration", months), whole("discount", discount));
    json!({
        "id": id(call, Kind::Bundle, bundle),
        "duration": months,
        "discount": discount,
        "price": dollars(call.world.tier(0).price_cents * months * (100 - discount) / 100),
        "canBuy": true,
    })
}

/// `duration` in months, `discount` in percent.
fn create_bundle(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let months = call.field("duration").as_i64().filter(|months| (1..=12).contains(months));
    let discount = call.field("discount").as_i64().filter(|percent| (0..=95).contains(percent));
    let (Some(months), Some(discount)) = (months, discount) else {
        return Err(Refusal::bad_request("duration is 1 to 12 months, discount 0 to 95 percent"));
    };
    let fields = json!({"duration": months, "discount": discount});
    let bundle = overlay.create(BUNDLES, object(fields));
    Ok(Answer::created(bundle_json(call, overlay, bundle)))
}

fn campaigns(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, CAMPAIGNS, call.world.campaigns(), |campaign| {
        campaign_json(call, overlay, campaign)
    })
}

fn campaign_json(call: &PlatformCall<'_>, overlay: &Overlay, campaign: u64) -> Value {
    let code = campaign % CREATED + 1;
    let base = if campaign < CREATED {
        let link = call.world.campaign(campaign);
        let came = link.claimers.count();
        json!({
            "campaignName": link.name,
            "createDate": rfc3339_offset(link.created_at_ms),
            "clicksCount": link.clicks,
            "subscribersCount": came,
            "revenue": dollars(signed(came) * 2150),
        })
    } else {
        json!({"clicksCount": 0, "subscribersCount": 0, "revenue": 0})
    };
    let mut shown = object(overlay.over(CAMPAIGNS, campaign, base));
    let username = call.world.creator_username();
    shown.insert("id".to_owned(), json!(id(call, Kind::Campaign, campaign)));
    shown.insert("campaignCode".to_owned(), json!(code));
    shown.insert("campaignUrl".to_owned(), json!(format!("https://alpha.test/{username}/c{code}")));
    Value::Object(shown)
}

fn create_campaign(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let sent = call.text("campaignName").or_else(|_| call.text("name"));
    let name = sent.map_err(|_| Refusal::bad_request("campaignName is required"))?.to_owned();
    let fields = json!({"campaignName": name, "createDate": rfc3339_offset(call.now_ms)});
    let campaign = overlay.create(CAMPAIGNS, object(fields));
    Ok(Answer::created(campaign_json(call, overlay, campaign)))
}

fn chart(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let (from_ms, to_ms) = window(call, 30)?;
    let links = (0..call.world.campaigns().count()).map(|index| call.world.campaign(index));
    let rows: Vec<Value> = links
        .map(|link| {
            json!({
                "id": id(call, Kind::Campaign, link.index),
                "clicks": link.clicks / 6,
                "subscribers": link.claimers.count() / 6,
            })
        })
        .collect();
    Ok(Answer::ok(json!({"startDate": day(from_ms), "endDate": day(to_ms), "campaigns": rows})))
}

fn claimers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let campaign = index(call, Kind::Campaign, "campaign_id", "Campaign")?;
    if !overlay.holds(CAMPAIGNS, call.world.campaigns(), campaign) {
        return Err(Refusal::not_found("Campaign"));
    }
    let came =
        if campaign < CREATED { call.world.campaign(campaign).claimers } else { Series::all(0) };
    page_of(call, overlay, "claimers", came, |fan| user_ref(call, fan))
}
