use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC211",
    severity: Severity::Note,
    title: "an even number of voters",
    why: "Systems that decide by majority (etcd, ZooKeeper, Consul and the like) need more than half of their members. Of 4, only one may \
          be lost, as of 3; of 2, none, as of 1, with twice the chance of a failure. One more or one fewer is better.",
    hint: "replicas: 3",
    about_absence: false,
    check,
};

/// By the name of the image, without its registry and tag.
const VOTERS: [&str; 8] = ["etcd", "zookeeper", "consul", "vault", "nats", "mongo", "mongodb", "rabbitmq"];

fn check(all: &Scene, found: &mut Findings) {
    for template in templates_of(all, Kind::StatefulSet) {
        let size = template.size().unwrap_or(1);
        let votes = |container: &Field| {
            let image = container.get("image").text();
            let name = image.rsplit('/').next().unwrap_or(image);
            VOTERS.contains(&name.split([':', '@']).next().unwrap_or(name))
        };
        if size > 0 && size % 2 == 0 && template.containers().iter().any(votes) {
            let lost = size / 2 - 1;
            let field = template.object.field("spec.replicas");
            found
                .at(&field, format!("of {size} voters {lost} may be lost, as of {}", size - 1))
                .hint(format!("replicas: {}", size + 1));
        }
    }
}
