//! The patch of a status. It applies only to the object with this uid, and only if the object has not changed since the
//! decision.

use super::json::{add, test};
use super::{Body, Style};
use rollcall_core::Uid;
use rollcall_core::planted::{Bug, planted};
use serde::Serialize;
use serde_json::json;

pub fn status(uid: Option<Uid>, resource_version: &str, status: &impl Serialize) -> Body {
    let guards = [
        test("/metadata/uid", uid.map(|uid| uid.to_string())),
        test("/metadata/resourceVersion", resource_version),
    ];
    let guards = guards.into_iter().filter(|_| !planted(Bug::NoTestInStatus));
    let operations = guards.chain([add("/status", json!(status))]).collect();
    Body { style: Style::Json, value: operations }
}
