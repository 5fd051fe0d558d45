//! Comments on file stacks.

use http::Method;
use serde_json::{Value, json};

use super::file_stacks::stack_param;
use super::shapes::{id, index_of, rows, user_ref};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::content::post_and_place;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::time::rfc3339;

const PATH: &str = "file-stack/{stack_id}/comment";

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get(PATH, comments).post(PATH, write).write(
        Method::DELETE,
        "file-stack/{stack_id}/comment/{comment_id}",
        delete,
    )
}

/// The table of the comments on a stack: generated ones by position, written ones by number.
pub(super) fn table(stack: u64) -> String {
    format!("comments/{stack}")
}

/// The generated comments on a stack.
pub(super) fn generated(call: &PlatformCall<'_>, stack: u64) -> Series {
    if stack < CREATED { call.world.comments(stack) } else { Series::all(0) }
}

fn comments(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let stack = stack_param(call, overlay)?;
    rows(call, overlay, &table(stack), generated(call, stack), |row| {
        comment_json(call, overlay, stack, row)
    })
}

fn comment_json(call: &PlatformCall<'_>, overlay: &Overlay, stack: u64, row: u64) -> Value {
    let (index, base) = if row > CREATED {
        let writer = json!({
            "_id": id(call, Kind::Creator, 0),
            "username": call.world.creator_username(),
            "display_name": call.world.creator_name(),
        });
        (row, json!({"user": writer, "like_count": 0}))
    } else {
        let comment = call.world.comment(stack, row);
        let base = json!({
            "user": user_ref(call, comment.fan),
            "text": comment.text,
            "like_count": comment.likes,
            "created_at": rfc3339(comment.written_at_ms),
        });
        (comment.index, base)
    };
    let mut shown = object(overlay.over(&table(stack), row, base));
    shown.insert("_id".to_owned(), json!(id(call, Kind::Comment, index)));
    shown.insert("file_stack_id".to_owned(), json!(id(call, Kind::Post, stack)));
    Value::Object(shown)
}

fn write(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let stack = stack_param(call, overlay)?;
    let text = call.text("text")?.to_owned();
    let fields = json!({"text": text, "created_at": rfc3339(call.now_ms)});
    let row = overlay.create(&table(stack), object(fields));
    Ok(Answer::created(comment_json(call, overlay, stack, row)))
}

fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let stack = stack_param(call, overlay)?;
    let row = index_of(call, Kind::Comment, call.param("comment_id")).and_then(|index| {
        if index > CREATED {
            return Some(index);
        }
        let (of, place) = post_and_place(index);
        (of == stack).then_some(place)
    });
    let row = row
        .filter(|row| overlay.holds(&table(stack), generated(call, stack), *row))
        .ok_or_else(|| Refusal::not_found("Comment"))?;
    overlay.take(&table(stack), row);
    Ok(Answer::empty())
}
