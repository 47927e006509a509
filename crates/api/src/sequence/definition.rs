//! The CustomResourceDefinition of `PodSequence`.

use super::PodSequence;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;
use std::sync::LazyLock;

/// The definition as it is installed (`config/crd/podsequence-crd.yaml`).
pub fn crd() -> CustomResourceDefinition {
    crate::crd::tidy(PodSequence::crd())
}

/// The schema of `spec`, as JSON.
pub(super) fn spec_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let mut crd = serde_json::to_value(crd()).expect("a definition is plain data");
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].take()
    });
    &SCHEMA
}
