//! The containers of a pod that start in order.

pub mod init_container;
pub mod native_sidecar;
pub mod one_container;
pub mod ordered;

use crate::commands::lint::field::Field;

/// The variables by which a container says its rank.
const VARIABLES: [&str; 2] = ["KRUISE_CONTAINER_LAUNCH_PRIORITY", "KRUISE_CONTAINER_PRIORITY"];
/// The label or annotation by which position counts.
const ORDERED: &str = "apps.kruise.io/container-launch-priority";

/// The variable of a container that says its rank, where it stands.
fn rank<'a>(container: &Field<'a>) -> Option<Field<'a>> {
    let variables = container.get("env").items().into_iter();
    variables.map(|one| one.get("name")).find(|name| VARIABLES.contains(&name.text()))
}
