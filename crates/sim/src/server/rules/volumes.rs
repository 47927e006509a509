//! Validation of a pod's volumes.

use super::{container_fields, invalid_each, items, names, one_of, text};
use crate::server::defaults::quantity;
use crate::server::refusal::Wrong;
use serde_json::Value;
use std::collections::BTreeSet;

/// The names of the volumes that can be mounted.
pub type VolumeNames<'a> = BTreeSet<&'a str>;

/// Volume types in the API server's order. The first one found determines the type of the volume.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "storageos",
    "photonPersistentDisk",
    "projected",
    "portworxVolume",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

pub fn check<'a>(spec: &'a Value, path: &str, found: &mut Vec<Wrong>) -> VolumeNames<'a> {
    let mut good = VolumeNames::new();
    for (at, volume) in items(spec, "volumes").enumerate() {
        let path = format!("{path}.volumes[{at}]");
        let before = found.len();
        source(volume, &path, found);
        let name = text(volume, "name");
        match name {
            "" => found.push(Wrong::required(format!("{path}.name"), "")),
            name => invalid_each(found, &format!("{path}.name"), name, names::dns_label(name)),
        }
        if good.contains(name) {
            found.push(Wrong::duplicate(format!("{path}.name"), &name.into()));
        }
        if found.len() == before {
            good.insert(name);
        }
    }
    good
}

fn source(volume: &Value, path: &str, found: &mut Vec<Wrong>) {
    let mut given = SOURCES.iter().filter(|source| volume.get(**source).is_some());
    let Some(first) = given.next() else {
        found.push(Wrong::required(path, "must specify a volume type"));
        return;
    };
    let required = |part: &str, found: &mut Vec<Wrong>| {
        if text(&volume[*first], part).is_empty() {
            found.push(Wrong::required(format!("{path}.{first}.{part}"), ""));
        }
    };
    match *first {
        "hostPath" => {
            required("path", found);
            let kinds = [
                "",
                "BlockDevice",
                "CharDevice",
                "Directory",
                "DirectoryOrCreate",
                "File",
                "FileOrCreate",
                "Socket",
            ];
            one_of(found, &format!("{path}.hostPath.type"), &volume["hostPath"]["type"], &kinds);
        }
        "secret" => {
            required("secretName", found);
            files(&volume["secret"], &format!("{path}.secret"), found);
        }
        "configMap" => {
            required("name", found);
            files(&volume["configMap"], &format!("{path}.configMap"), found);
        }
        "emptyDir" => {
            let limit = quantity::parse(&volume["emptyDir"]["sizeLimit"]);
            if limit.is_some_and(|limit| limit.nanos() < 0) {
                let words = "SizeLimit field must be a valid resource quantity";
                found.push(Wrong::forbidden(format!("{path}.emptyDir.sizeLimit"), words));
            }
        }
        "persistentVolumeClaim" => required("claimName", found),
        "csi" => required("driver", found),
        _ => {}
    }
    for more in given {
        found.push(Wrong::forbidden(format!("{path}.{more}"), "may not specify more than 1 volume type"));
    }
}

/// Validates the files of a volume that is created from keys.
fn files(source: &Value, path: &str, found: &mut Vec<Wrong>) {
    let mode = |value: &Value, field: String, found: &mut Vec<Wrong>| {
        if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
            let words = "must be a number between 0 and 0777 (octal), both inclusive";
            found.push(Wrong::invalid(field, value, words));
        }
    };
    mode(&source["defaultMode"], format!("{path}.defaultMode"), found);
    for (at, item) in items(source, "items").enumerate() {
        let path = format!("{path}.items[{at}]");
        for part in ["key", "path"] {
            if text(item, part).is_empty() {
                found.push(Wrong::required(format!("{path}.{part}"), ""));
            }
        }
        container_fields::relative_path(text(item, "path"), &format!("{path}.path"), found);
        mode(&item["mode"], format!("{path}.mode"), found);
    }
}
