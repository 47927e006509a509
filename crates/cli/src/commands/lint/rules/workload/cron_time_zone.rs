use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC241",
    severity: Severity::Warning,
    title: "a TZ variable on a CronJob",
    why: "The schedule is read by the controller manager, in its own time zone (mostly UTC); what a container has in its environment does \
          not move it. `spec.timeZone` does. `TZ` only changes what the program itself prints.",
    hint: "spec:\n  timeZone: America/New_York",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates_of(all, Kind::CronJob) {
        if !template.object.field("spec.timeZone").is_missing() {
            continue;
        }
        for container in template.all_containers() {
            for variable in container.get("env").items().iter().filter(|one| one.get("name").text() == "TZ") {
                let zone = variable.get("value");
                let name = &template.object.name;
                found
                    .at(&variable.get("name"), format!("TZ does not move the schedule of CronJob {name}"))
                    .hint(format!(
                        "spec:\n  timeZone: {}",
                        if zone.text().is_empty() { "Etc/UTC" } else { zone.text() }
                    ));
            }
        }
    }
}
