use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC205",
    severity: Severity::Warning,
    title: "a StatefulSet deleted without scaling it to 0 first",
    why: "Deleting a StatefulSet does not guarantee the order in which its pods terminate: the garbage collector deletes all \
          of them at once. Scaling it to 0 terminates them one by one, the highest ordinal first (with `OrderedReady`).",
    hint: "kubectl scale statefulset db --replicas=0\nkubectl wait --for=delete pod -l app=db --timeout=5m\n\
           kubectl delete statefulset db",
    about_absence: false,
    check,
};

const KINDS: [&str; 4] = ["statefulset", "statefulsets", "sts", "statefulset.apps"];

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all) {
        for container in template.all_containers() {
            let mut places = vec![container.get("command"), container.get("args")];
            for hook in ["preStop", "postStart"] {
                places.push(container.get("lifecycle").get(hook).get("exec").get("command"));
            }
            for place in places {
                let script = place.items().iter().map(Field::text).collect::<Vec<_>>().join(" ");
                if deletes(&script) {
                    found.at_key(
                        &place,
                        "deleting a StatefulSet does not terminate its pods in order; scale it to 0 first",
                    );
                }
            }
        }
    }
}

/// Whether a script runs `kubectl delete statefulset …` without scaling to 0.
fn deletes(script: &str) -> bool {
    let words: Vec<&str> =
        script.split([' ', '\n', '\t', ';', '&', '"', '\'']).filter(|word| !word.is_empty()).collect();
    let is_set = |word: &str| KINDS.contains(&word.split('/').next().unwrap_or_default());
    let verb = |verb: &str| {
        words.windows(4).chain(words.windows(3)).any(|window| {
            window[0].ends_with("kubectl")
                && window[1..].contains(&verb)
                && window.iter().any(|word| is_set(word))
        })
    };
    verb("delete") && !script.contains("--replicas=0") && !script.contains("--cascade=orphan")
}
