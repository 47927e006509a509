use crate::commands::lint::rules::prelude::*;
use rollcall_sim::server::defaults;

pub const RULE: Rule = Rule {
    code: "RC002",
    severity: Severity::Warning,
    title: "a field that there is not",
    why: "kubectl refuses it (`strict decoding error`); other clients get it dropped by the API server, without a word. Either \
          way it does nothing. Mostly it is misspelt, or one level too high or too low.",
    hint: "# which fields there are:\n# kubectl explain KIND.spec --recursive",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for object in &all.objects {
        let Some(kind) = object.kind else { continue };
        let Some(refusal) = defaults::unknown_fields(kind, &object.value) else { continue };
        // `strict decoding error: unknown field "a.b", unknown field "c"`
        for field in refusal.message.split("unknown field \"").skip(1) {
            let field = field.split('"').next().unwrap_or_default();
            let name = kind.info().name;
            found
                .at_key(&object.root().along(field), format!("a {name} has no field {field}"))
                .hint(format!("# which fields there are:\n# kubectl explain {}", above(name, field)));
        }
    }
}

/// What to ask kubectl for: the part of the path that is there.
fn above(kind: &str, field: &str) -> String {
    let words: Vec<&str> = field.split('.').map(|word| word.split('[').next().unwrap_or(word)).collect();
    let known = &words[..words.len() - 1];
    std::iter::once(kind.to_lowercase().as_str()).chain(known.iter().copied()).collect::<Vec<_>>().join(".")
}
