//! Limits of surplus and unavailable pods during a rollout of a Deployment.

use crate::actors::common::numbers::{Round, int_or_percent};
use serde_json::{Value, json};

pub fn replicas(deployment: &Value) -> i64 {
    deployment["spec"]["replicas"].as_i64().unwrap_or(1)
}

pub fn is_rolling(deployment: &Value) -> bool {
    deployment["spec"]["strategy"]["type"] != "Recreate"
}

/// The surge and the number of unavailable pods that the strategy permits.
fn fence_posts(deployment: &Value) -> (i64, i64) {
    let strategy = &deployment["spec"]["strategy"]["rollingUpdate"];
    let quarter = json!("25%");
    let given =
        |field: &str| if strategy[field].is_null() { quarter.clone() } else { strategy[field].clone() };
    let total = replicas(deployment);
    let surge = int_or_percent(&given("maxSurge"), total, Round::Up).unwrap_or_default();
    let unavailable = int_or_percent(&given("maxUnavailable"), total, Round::Down).unwrap_or_default();
    // Both can round to zero. The rollout would then be stuck.
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

pub fn max_surge(deployment: &Value) -> i64 {
    if is_rolling(deployment) { fence_posts(deployment).0 } else { 0 }
}

pub fn max_unavailable(deployment: &Value) -> i64 {
    let replicas = replicas(deployment);
    if !is_rolling(deployment) || replicas == 0 {
        return 0;
    }
    fence_posts(deployment).1.min(replicas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surge_is_rounded_up_and_unavailability_down() {
        for (replicas, surge, unavailable, expected) in [
            (10, json!("25%"), json!("25%"), (3, 2)),
            (1, json!(null), json!(null), (1, 0)),
            (2, json!("0%"), json!("1%"), (0, 1)),
            (3, json!(0), json!(5), (0, 3)),
            (0, json!("25%"), json!("25%"), (0, 0)),
        ] {
            let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } });
            let deployment = json!({ "spec": { "replicas": replicas, "strategy": strategy } });
            assert_eq!((max_surge(&deployment), max_unavailable(&deployment)), expected, "{deployment}");
        }
        let recreate = json!({ "spec": { "replicas": 4, "strategy": { "type": "Recreate" } } });
        assert_eq!((max_surge(&recreate), max_unavailable(&recreate)), (0, 0));
    }
}
