use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC211",
    severity: Severity::Note,
    title: "an even number of quorum members",
    why: "Systems that decide by majority (such as etcd, ZooKeeper and Consul) need more than half of their members for a \
          quorum. With 4 members it tolerates 1 failure, the same as with 3. With 2 members it tolerates none, the same as \
          with 1, and a failure is twice as likely. Use an odd number.",
    hint: "replicas: 3",
    about_absence: false,
    check,
};

/// Image names of such systems, without registry and tag.
const VOTERS: [&str; 8] = ["etcd", "zookeeper", "consul", "vault", "nats", "mongo", "mongodb", "rabbitmq"];

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates_of(all, Kind::StatefulSet) {
        let size = template.size().unwrap_or(1);
        let votes = |container: &Field| {
            let image = container.get("image").text();
            let name = image.rsplit('/').next().unwrap_or(image);
            VOTERS.contains(&name.split([':', '@']).next().unwrap_or(name))
        };
        if size > 0 && size % 2 == 0 && template.containers().iter().any(votes) {
            let tolerated = match size / 2 - 1 {
                0 => "no failure, the same as 1 member".to_owned(),
                1 => "1 failure, the same as 3".to_owned(),
                failures => format!("{failures} failures, the same as {}", size - 1),
            };
            let field = template.object.field("spec.replicas");
            found
                .at(&field, format!("a quorum of {size} members tolerates {tolerated}; use an odd number"))
                .hint(format!("replicas: {}", size + 1));
        }
    }
}
