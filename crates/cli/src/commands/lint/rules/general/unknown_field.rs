use crate::commands::lint::rules::prelude::*;
use rollcall_sim::server::defaults;

pub const RULE: Rule = Rule {
    code: "RC002",
    severity: Severity::Warning,
    title: "an unknown field",
    why: "kubectl rejects the field (`strict decoding error`); for other clients the API server drops it silently. Either way \
          it has no effect. Usually it is misspelt, or at the wrong level of indentation.",
    hint: "# to list the valid fields:\n# kubectl explain KIND.spec --recursive",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for object in &all.objects {
        let Some(kind) = object.kind else { continue };
        let Some(refusal) = defaults::unknown_fields(kind, &object.value) else { continue };
        // `strict decoding error: unknown field "a.b", unknown field "c"`
        for field in refusal.message.split("unknown field \"").skip(1) {
            let field = field.split('"').next().unwrap_or_default();
            let name = kind.info().name;
            found
                .at_key(&object.root().along(field), format!("{name} has no field {field}"))
                .hint(format!("# to list the valid fields:\n# kubectl explain {}", above(name, field)));
        }
    }
}

/// Returns the argument for `kubectl explain`: the kind and the path of the field's parent.
fn above(kind: &str, field: &str) -> String {
    let words: Vec<&str> = field.split('.').map(|word| word.split('[').next().unwrap_or(word)).collect();
    let known = &words[..words.len() - 1];
    std::iter::once(kind.to_lowercase().as_str()).chain(known.iter().copied()).collect::<Vec<_>>().join(".")
}
