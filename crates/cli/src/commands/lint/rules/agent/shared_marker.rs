use super::{rest_below, seen};
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC503",
    severity: Severity::Warning,
    title: "a marker on storage that nodes share",
    why: "A marker means that the agent of this node is ready. On storage that several nodes mount, agents overwrite each \
          other's markers, and a pod may start because of an agent on another node. Keep the marker on the node: use a \
          hostPath, or set `--marker` to a path outside the volume.",
    hint: "args: [volume, --source, /pv-storage, --target, /host/mnt/dump, --marker, /host/run/agents/dump.ready]",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates_of(all, Kind::DaemonSet) {
        for (field, container) in seen(&template) {
            let sources =
                container.keeps().into_iter().map(|kept| match on_source(&container.args, &kept.path) {
                    Some(source) => source,
                    None => kept.path,
                });
            for path in sources {
                let Some(claim) = claim_at(&template, &field, &path) else { continue };
                if is_shared(all, &template, claim) {
                    found.at_key(
                        &field.get("volumeMounts"),
                        format!(
                            "the marker of container {} is on PersistentVolumeClaim {claim}, which all nodes share",
                            container.name
                        ),
                    );
                }
            }
        }
    }
}

/// Returns the path in the source of `rollcall-node volume` for a marker below its target.
fn on_source(args: &[String], marker: &str) -> Option<String> {
    let value = |flag: &str| args.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1].as_str());
    let (source, target) = (value("--source")?, value("--target")?);
    rest_below(marker, target).map(|rest| format!("{source}{rest}"))
}

/// Name of the PersistentVolumeClaim that contains a path of a container; the innermost mount decides.
fn claim_at<'a>(template: &PodTemplate<'a>, container: &Field<'a>, path: &str) -> Option<&'a str> {
    let mounts = container.get("volumeMounts").items();
    let below = |mount: &&Field| rest_below(path, mount.get("mountPath").text()).is_some();
    let mount = mounts.iter().filter(below).max_by_key(|mount| mount.get("mountPath").text().len())?;
    let volumes = template.spec.get("volumes").items();
    let volume = volumes.iter().find(|volume| volume.get("name").text() == mount.get("name").text())?;
    let claim = volume.down("persistentVolumeClaim.claimName").text();
    (!claim.is_empty()).then_some(claim)
}

/// Whether all nodes share the claim: it is `ReadWriteMany`, and its volume is not a local directory of each node.
fn is_shared(all: &Manifests, template: &PodTemplate, claim: &str) -> bool {
    let Some(object) = all.named(Kind::PersistentVolumeClaim, &template.object.namespace, claim) else {
        return false;
    };
    let volume = object.field("spec.volumeName").text();
    let is_volume = |one: &&Object| one.field("kind").text() == "PersistentVolume" && one.name == volume;
    let local =
        all.objects.iter().find(is_volume).is_some_and(|volume| {
            ["hostPath", "local"].iter().any(|kind| !volume.spec().get(kind).is_missing())
        });
    let modes = object.field("spec.accessModes").items();
    !local && modes.iter().any(|mode| mode.text() == "ReadWriteMany")
}
