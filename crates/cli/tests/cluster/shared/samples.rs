//! Runs the commands of the documentation verbatim: each sample is applied, completes in order, and can be deleted.

use std::collections::BTreeMap;

use crate::common::lab::repository;
use crate::common::*;
use tokio::sync::Mutex;

/// Serialises the tests: all samples use the namespace `default`, and two of them have pods of the same names.
static TURN: Mutex<()> = Mutex::const_new(());

/// The text of a sample file, with an annotation on pods that run to completion, so that kwok completes them.
fn manifest(file: &str) -> Result<String> {
    let text = std::fs::read_to_string(repository("config/samples").join(file))?;
    let mut documents = Vec::new();
    for document in text.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document)?;
        let ends = object["kind"] == "Pod" && object["spec"]["restartPolicy"] == "Never";
        documents.push(if ends {
            object.kwok("complete-after", "100ms").to_string()
        } else {
            document.to_owned()
        });
    }
    Ok(documents.join("\n---\n"))
}

/// Applies a sample, waits for its completion, and returns its pods in the order of their release.
async fn run(file: &str, sequence: &str, expected: &[(&str, u64)]) -> Result<Vec<String>> {
    let _turn = TURN.lock().await;
    let mut scene = Scene::in_namespace("default").await?;
    for (group, number) in expected {
        scene.expect(sequence, group, *number);
    }
    let before = scene.history()?.releases().len();
    scene.lab.cluster().apply(&manifest(file)?)?;
    let waited = ["wait", "--for=condition=Ready", &format!("podseq/{sequence}"), "--timeout=90s"];
    scene.kubectl(&waited)?;
    let status = scene.phase(sequence, "Completed").await?;
    assert!(
        status["groups"].as_array().is_some_and(|groups| groups.iter().all(|g| g["state"] == "Complete"))
    );
    scene.verify().await?;
    let released = scene.history()?.releases().into_iter().skip(before).map(|release| release.pod).collect();
    let path = repository("config/samples").join(file);
    scene.kubectl(&["delete", "-f", path.to_str().expect("UTF-8"), "--wait"])?;
    scene.done().await?;
    Ok(released)
}

/// Returns the workloads of the pods in order, derived from the pods' names.
fn owners(pods: &[String], owners: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for pod in pods {
        let owner = owners.iter().filter(|owner| pod.starts_with(**owner)).max_by_key(|owner| owner.len());
        let owner = owner.unwrap_or_else(|| panic!("{pod} has no known owner")).to_string();
        if found.last() != Some(&owner) {
            found.push(owner);
        }
    }
    found
}

#[tokio::test]
async fn example_podsequence() -> Result<()> {
    let order = run("example-podsequence.yaml", "example-sequence", &[]).await?;
    assert_eq!(order, ["pod-1", "pod-2", "pod-3"]);
    Ok(())
}

#[tokio::test]
async fn podgroups_example() -> Result<()> {
    let mut order = run("podgroups-example.yaml", "podgroups-example", &[]).await?;
    order[..2].sort();
    order[2..4].sort();
    assert_eq!(order, ["pod-1", "pod-2", "pod-3", "pod-4", "pod-5"]);
    Ok(())
}

#[tokio::test]
async fn database_init_example() -> Result<()> {
    let order = run("database-init-example.yaml", "database-init-sequence", &[]).await?;
    assert_eq!(order, ["init-db", "database", "migrate", "app"]);
    Ok(())
}

#[tokio::test]
async fn deployments_example() -> Result<()> {
    let expected = [("Database Layer", 1), ("Application Layer", 3), ("Frontend Layer", 2)];
    let order = run("deployments-example.yaml", "shop", &expected).await?;
    assert_eq!(order.len(), 6);
    let tiers = ["shop-database", "shop-application", "shop-frontend"];
    // Two of three ready pods are enough for the frontend, so the third one may be released later.
    assert_eq!(owners(&order[..3], &tiers)[..2], tiers[..2]);
    Ok(())
}

#[tokio::test]
async fn migration_job_example() -> Result<()> {
    let expected = [("Database", 1), ("Migration", 1), ("Application", 2)];
    let order = run("migration-job-example.yaml", "ledger", &expected).await?;
    assert_eq!(
        owners(&order, &["ledger-database", "ledger-migration", "ledger-"]),
        ["ledger-database", "ledger-migration", "ledger-"]
    );
    Ok(())
}

#[tokio::test]
async fn workloads_by_reference() -> Result<()> {
    let expected = [("Database", 2), ("Migration", 1), ("Web", 2)];
    let order = run("workloads/by-reference.yaml", "bookshop", &expected).await?;
    let tiers = ["bookshop-db", "bookshop-migrate", "bookshop-web"];
    assert_eq!(owners(&order, &tiers), tiers);
    Ok(())
}

#[test]
fn every_sample_is_run_here() -> Result<()> {
    // The samples of Node scope and of launch order run elsewhere, with another controller.
    let here = [
        include_str!("samples.rs"),
        include_str!("../full/nodes/each.rs"),
        include_str!("../full/launch/samples.rs"),
    ]
    .concat();
    let mut seen = BTreeMap::new();
    for folder in ["", "workloads/", "launch/"] {
        for entry in std::fs::read_dir(repository("config/samples").join(folder))? {
            let entry = entry?;
            let name = format!("{folder}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_file() {
                seen.insert(name.clone(), here.contains(&format!("run(\"{name}\"")));
            }
        }
    }
    assert!(!seen.is_empty() && seen.values().all(|run| *run), "{seen:?}");
    Ok(())
}
