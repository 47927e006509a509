//! The capacity that a ticket reserves.

use super::limits;
use super::rules;
use crate::crd::map_of;
use rollcall_core::quantity::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Capacity of a ticket: the most that a claiming pod can request.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::resources()))]
pub struct Resources {
    /// Reserved amount of each resource: cpu, memory, ephemeral-storage, hugepages-SIZE, or an extended resource such as
    /// nvidia.com/gpu. At least one resource is required.
    #[schemars(schema_with = "requests")]
    pub requests: BTreeMap<String, Amount>,

    /// Limits of the guardian; not lower than its requests. A guardian uses almost no resources, so limits matter only if a
    /// ResourceQuota of the namespace counts limits. As for pods, a limit without a request is also the request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "amounts")]
    pub limits: BTreeMap<String, Amount>,
}

fn requests(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = amounts(generator);
    schema.insert("minProperties".into(), 1.into());
    schema
}

fn amounts(generator: &mut SchemaGenerator) -> Schema {
    map_of(limits::RESOURCES, Amount::json_schema(generator), rules::resource_names())
}

/// An amount of a resource, such as `500m`, `2` or `1.5Gi`. Serialised in the canonical form of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount(pub Quantity);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Amount, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Amount, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                text.parse().map(Amount).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let rules = serde_json::to_value(rules::amount()).expect("rules are plain data");
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "maxLength": limits::QUANTITY,
            "x-kubernetes-validations": rules,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_and_texts_are_read_and_written_in_one_form() {
        for (value, written) in
            [(json!(2), "2"), (json!("2"), "2"), (json!("0.5"), "500m"), (json!("1.5Gi"), "1536Mi")]
        {
            let amount: Amount = serde_json::from_value(value).unwrap();
            assert_eq!(serde_json::to_value(amount).unwrap(), written);
        }
        for value in [json!("much"), json!(true), json!(1.5), json!(null)] {
            assert!(serde_json::from_value::<Amount>(value).is_err());
        }
    }
}
