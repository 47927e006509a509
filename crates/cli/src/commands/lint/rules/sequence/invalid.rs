use crate::commands::lint::rules::prelude::*;
use rollcall_api::sequence::{parse_spec, spec_facts};

pub const RULE: Rule = Rule {
    code: "RC101",
    severity: Severity::Error,
    title: "an invalid PodSequence",
    why: "The API server rejects it. If its validation rules cannot detect the problem, the controller reports `Stalled` with \
          the reason `InvalidSpec` and releases no pods.",
    hint: "# to list all fields with their descriptions:\n# kubectl explain podseq.spec --recursive",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for object in all.of_kind(Kind::PodSequence) {
        let read =
            parse_spec(&object.value["spec"]).map_err(|invalid| (invalid.field.clone(), invalid.to_string()));
        let understood = read.and_then(|spec| {
            let facts = spec_facts(&spec, &object.namespace);
            facts.map_err(|invalid| (invalid.field.clone(), invalid.to_string()))
        });
        if let Err((field, message)) = understood {
            found.at(&object.root().along(&field), message);
        }
    }
}
