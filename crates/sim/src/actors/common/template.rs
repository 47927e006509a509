//! Creates pods from templates, and computes hashes of templates.

use crate::store::{Key, Stored};
use serde_json::{Map, Value, json};

/// The alphabet of generated names. It has no vowels, so that names contain no words.
const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The controller reference to an owner.
pub fn controller_reference(key: &Key, owner: &Stored) -> Value {
    let info = key.kind.info();
    json!({
        "apiVersion": info.api_version(), "kind": info.name, "name": &*key.name, "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A pod of this template with `owner` as its controller, not named yet.
pub fn pod(template: &Value, key: &Key, owner: &Stored) -> Value {
    let mut metadata = Map::new();
    metadata.insert("namespace".into(), (*key.namespace).into());
    for field in ["labels", "annotations", "finalizers"] {
        if !template["metadata"][field].is_null() {
            metadata.insert(field.into(), template["metadata"][field].clone());
        }
    }
    metadata.insert("ownerReferences".into(), json!([controller_reference(key, owner)]));
    json!({ "metadata": metadata, "spec": template["spec"] })
}

/// The hash of a template. Another collision count gives another hash.
pub fn hash(template: &Value, collisions: Option<i64>) -> String {
    let mut hash = fnv1a(template.to_string().as_bytes(), FNV_START);
    if let Some(collisions) = collisions {
        hash = fnv1a(&collisions.to_le_bytes(), hash);
    }
    safe(&hash.to_string())
}

/// The hash of a text followed by a number.
pub fn hash_of_text(text: &str, number: Option<i64>) -> String {
    let number = number.map(|number| number.to_string()).unwrap_or_default();
    let bytes = text.bytes().chain(number.bytes());
    safe(&bytes.fold(FNV_START, |hash, byte| hash.wrapping_mul(FNV_PRIME) ^ u32::from(byte)).to_string())
}

const FNV_START: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

fn fnv1a(bytes: &[u8], start: u32) -> u32 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME))
}

/// Maps a text to letters that cannot form words.
fn safe(text: &str) -> String {
    text.bytes().map(|byte| SAFE[usize::from(byte) % SAFE.len()] as char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_look_like_those_of_kubernetes() {
        let one = hash(&json!({ "a": 1 }), None);
        assert_eq!(one, hash(&json!({ "a": 1 }), None));
        assert_ne!(one, hash(&json!({ "a": 2 }), None));
        assert_ne!(one, hash(&json!({ "a": 1 }), Some(1)));
        assert!((8..=10).contains(&one.len()), "{one}");
        assert!(one.bytes().all(|byte| SAFE.contains(&byte)), "{one}");
    }
}
