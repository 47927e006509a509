use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC241",
    severity: Severity::Warning,
    title: "a CronJob with a TZ variable instead of timeZone",
    why: "The controller manager evaluates the schedule in its own time zone (usually UTC), regardless of the environment of \
          the container. `spec.timeZone` changes that. `TZ` affects only the program in the container.",
    hint: "spec:\n  timeZone: America/New_York",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates_of(all, Kind::CronJob) {
        if !template.object.field("spec.timeZone").is_missing() {
            continue;
        }
        for container in template.all_containers() {
            for variable in container.get("env").items().iter().filter(|one| one.get("name").text() == "TZ") {
                let zone = variable.get("value");
                let name = &template.object.name;
                found
                    .at(&variable.get("name"), format!("TZ does not affect the schedule of CronJob {name}"))
                    .hint(format!(
                        "spec:\n  timeZone: {}",
                        if zone.text().is_empty() { "Etc/UTC" } else { zone.text() }
                    ));
            }
        }
    }
}
