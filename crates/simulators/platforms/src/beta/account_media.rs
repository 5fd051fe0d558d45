//! Media as the account offers them: each wraps a medium with a price and the permission to see it.
//! Bundles contain several. Orders record purchases.

use serde_json::{Value, json};

use super::media::{self, medium};
use super::shapes::{
    AccountRef, Collection, NOTHING, account_id, body_id, body_ids, cursor, id, index_of, limit,
    mills, net_mills, price, query_ids,
};
use super::{offers, permissions};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::trade::{Payment, PaymentKind};

pub(super) const BUNDLES: Collection<'static> =
    Collection { table: "bundles", series: NOTHING, kind: Kind::Bundle };
const ACCOUNT_MEDIA: &str = "account-media";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("account/media", by_ids)
        .post("account/media", add)
        .post("account/media/edit", edit)
        .post("account/media/permissions", set_permissions)
        .get("account/media/bundle", bundles_by_ids)
        .post("account/media/bundle", create_bundle)
        .post("account/media/bundle/permissions", set_bundle_permissions)
        .get("account/media/orders", orders)
}

/// Every generated medium is offered under its own index; others are added.
pub(super) fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: ACCOUNT_MEDIA, series: call.world.media(), kind: Kind::AccountMedia }
}

/// The price of a generated medium, in mills: every fifth one has a price.
pub(super) fn generated_price(medium: u64) -> i64 {
    if medium % 5 == 1 { 5000 + i64::try_from(medium % 7).unwrap_or(0) * 1000 } else { 0 }
}

pub(super) fn account_media(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let written = overlay.field(ACCOUNT_MEDIA, index, "mediaId").and_then(Value::as_str);
    let medium_index =
        written.map_or(Some(index), |media_id| index_of(call, Kind::Media, media_id));
    let medium_index = medium_index.unwrap_or(index);
    let generated = json!({
        "id": id(call, Kind::AccountMedia, index),
        "accountId": account_id(call, AccountRef::Creator),
        "mediaId": id(call, Kind::Media, medium_index),
        "previewId": null,
        "price": if index < CREATED { generated_price(index) } else { 0 },
        "permissionFlags": [],
        "access": true,
        "createdAt": media::created_at_ms(call, overlay, medium_index),
    });
    let mut shown = object(overlay.over(ACCOUNT_MEDIA, index, generated));
    shown.insert("media".to_owned(), medium(call, overlay, medium_index));
    Value::Object(shown)
}

/// Account media by `ids`; unknown ones are omitted.
fn by_ids(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let ids = query_ids(call, "ids")?;
    let found = ids.iter().filter_map(|id| collection(call).find(call, overlay, id, "Media").ok());
    Ok(Answer::ok(found.map(|index| account_media(call, overlay, index)).collect()))
}

/// The id in the body's field `name`, if a medium of the vault has it.
fn known_media_id(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    name: &str,
) -> Result<Value, Refusal> {
    let media_id = body_id(call, name)?;
    media::collection(call).find(call, overlay, &media_id, "Media")?;
    Ok(json!(media_id))
}

fn known_preview(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<Value, Refusal> {
    if call.field("previewId").is_null() {
        return Ok(Value::Null);
    }
    known_media_id(call, overlay, "previewId")
}

/// `mediaId`, and optionally `previewId`, `price` in mills, `permissionFlags`.
fn add(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fields = json!({
        "mediaId": known_media_id(call, overlay, "mediaId")?,
        "previewId": known_preview(call, overlay)?,
        "price": price(call)?,
        "permissionFlags": permissions::sent_or_none(call, overlay)?,
        "createdAt": call.now_ms,
    });
    let index = overlay.create(ACCOUNT_MEDIA, object(fields));
    offers::set_price(call, overlay, index, price(call)?);
    Ok(Answer::ok(account_media(call, overlay, index)))
}

fn named(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    collection(call).find(call, overlay, &body_id(call, "accountMediaId")?, "Account media")
}

/// `accountMediaId` and the changed fields: `previewId`, `price`.
fn edit(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = named(call, overlay)?;
    let mut fields = call.fields(&["previewId", "price"]);
    known_preview(call, overlay)?;
    fields.insert("updatedAt".to_owned(), json!(call.now_ms));
    let price = price(call)?;
    if fields.contains_key("price") {
        fields.insert("price".to_owned(), json!(price));
        offers::set_price(call, overlay, index, price);
    }
    overlay.set(ACCOUNT_MEDIA, index, fields);
    Ok(Answer::ok(account_media(call, overlay, index)))
}

fn set_permissions(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = named(call, overlay)?;
    let flags = permissions::sent(call, overlay)?;
    overlay.set(ACCOUNT_MEDIA, index, object(json!({"permissionFlags": flags})));
    Ok(Answer::ok(account_media(call, overlay, index)))
}

pub(super) fn bundle(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let generated = json!({
        "id": id(call, Kind::Bundle, index),
        "accountId": account_id(call, AccountRef::Creator),
        "access": true,
    });
    overlay.over(BUNDLES.table, index, generated)
}

fn bundles_by_ids(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let ids = query_ids(call, "ids")?;
    let found = ids.iter().filter_map(|id| BUNDLES.find(call, overlay, id, "Bundle").ok());
    Ok(Answer::ok(found.map(|index| bundle(call, overlay, index)).collect()))
}

/// `accountMediaIds`, and optionally `price` in mills, `permissionFlags`.
fn create_bundle(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let account_media_ids = body_ids(call, "accountMediaIds")?;
    for account_media_id in &account_media_ids {
        collection(call).find(call, overlay, account_media_id, "Account media")?;
    }
    let fields = json!({
        "accountMediaIds": account_media_ids,
        "price": price(call)?,
        "permissionFlags": permissions::sent_or_none(call, overlay)?,
        "createdAt": call.now_ms,
    });
    let index = overlay.create(BUNDLES.table, object(fields));
    Ok(Answer::ok(bundle(call, overlay, index)))
}

fn set_bundle_permissions(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = BUNDLES.find(call, overlay, &body_id(call, "bundleId")?, "Bundle")?;
    let flags = permissions::sent(call, overlay)?;
    overlay.set(BUNDLES.table, index, object(json!({"permissionFlags": flags})));
    Ok(Answer::ok(bundle(call, overlay, index)))
}

/// Payments for media, newest first; `before` and `after` are ids of orders. There is no total,
/// because it would require reading every payment.
fn orders(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let world = call.world;
    let place = |name: &str| -> Result<Option<u64>, Refusal> {
        let Some(sent) = cursor(call, name) else {
            return Ok(None);
        };
        let index = index_of(call, Kind::Order, sent);
        let known = index.filter(|index| {
            world.payments().place_of(*index).is_some() && is_order(&world.payment(*index))
        });
        known.map(Some).ok_or_else(|| Refusal::not_found("Order"))
    };
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (before, after, limit) = (place("before")?, place("after")?, number(limit(call)?));
    let newer = before.is_none() && after.is_some();
    let first = before.map_or(0, |before| before + 1);
    let payments = first..after.unwrap_or_else(|| world.payments().count());
    let order_at = |index| Some(world.payment(index)).filter(is_order);
    let mut page: Vec<Payment> = if newer {
        payments.rev().filter_map(order_at).take(limit + 1).collect()
    } else {
        let offset = if before.is_some() { 0 } else { call.query_number("offset")?.unwrap_or(0) };
        payments.filter_map(order_at).skip(number(offset)).take(limit + 1).collect()
    };
    let has_more = page.len() > limit;
    page.truncate(limit);
    if newer {
        page.reverse();
    }
    let rows: Vec<Value> = page.iter().map(|payment| order(call, payment)).collect();
    Ok(Answer::ok(json!({"orders": rows, "hasMore": has_more})))
}

/// Whether the payment was for media.
fn is_order(payment: &Payment) -> bool {
    matches!(payment.kind, PaymentKind::Message | PaymentKind::Post)
}

fn order(call: &PlatformCall<'_>, payment: &Payment) -> Value {
    let medium = call.world.medium_before(payment.paid_at_ms, payment.index);
    json!({
        "id": id(call, Kind::Order, payment.index),
        "accountId": account_id(call, AccountRef::Fan(payment.fan)),
        "accountMediaId": id(call, Kind::AccountMedia, medium),
        "totalGross": mills(payment.gross_cents),
        "totalNet": net_mills(payment.gross_cents),
        "status": if payment.charged_back { "refunded" } else { "paid" },
        "createdAt": payment.paid_at_ms,
    })
}
