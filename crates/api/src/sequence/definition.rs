//! The CustomResourceDefinition of `PodSequence`.

use super::PodSequence;
use crate::schema::Schema;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;
use std::sync::LazyLock;

/// The definition as it is installed (`config/crd/podsequence-crd.yaml`).
pub fn crd() -> CustomResourceDefinition {
    crate::crd::tidy(PodSequence::crd())
}

/// The schema of the whole object.
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::of(&open_api_schema()));
    &SCHEMA
}

/// The same, as the API server reads it.
pub(super) fn open_api_schema() -> Value {
    let mut crd = serde_json::to_value(crd()).expect("a definition is plain data");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
}

pub(super) fn spec_schema() -> &'static Schema {
    schema().property("spec").expect("it has one")
}
