//! All names that Rollcall uses in a cluster: API groups, gates, labels, annotations, objects. They are part of the
//! interface; changing one breaks users' manifests.

use rollcall_core::{gates, launch};

/// API group of `PodSequence`.
pub const SEQUENCE_GROUP: &str = "scheduling.example.com";
/// Version of `PodSequence`.
pub const SEQUENCE_VERSION: &str = "v1alpha1";
/// `apiVersion` of `PodSequence`.
pub const SEQUENCE_API_VERSION: &str = "scheduling.example.com/v1alpha1";
/// Kind of `PodSequence`.
pub const SEQUENCE_KIND: &str = "PodSequence";
/// Resource name of `PodSequence`, as in URLs and RBAC rules.
pub const SEQUENCE_PLURAL: &str = "podsequences";

/// API group of `Order` and `Ticket`.
pub const KORDER_GROUP: &str = "core.korder.dev";
/// Version of `Order` and `Ticket`.
pub const KORDER_VERSION: &str = "v1alpha1";
/// `apiVersion` of `Order` and `Ticket`.
pub const KORDER_API_VERSION: &str = "core.korder.dev/v1alpha1";
/// Kind of `Order`.
pub const ORDER_KIND: &str = "Order";
/// Resource name of `Order`.
pub const ORDER_PLURAL: &str = "orders";
/// Kind of `Ticket`.
pub const TICKET_KIND: &str = "Ticket";
/// Resource name of `Ticket`.
pub const TICKET_PLURAL: &str = "tickets";
/// The CustomResourceDefinition of `Ticket`.
pub const TICKET_DEFINITION: &str = "tickets.core.korder.dev";

/// Prefix of the labels, annotations and gates of reservations.
pub const KORDER_PREFIX: &str = "korder.dev/";
/// Prefix of our labels, annotations, gates and node keys.
pub const PREFIX: &str = rollcall_core::sequence::keys::PREFIX;

/// The gate that a sequence manages unless its `schedulingGateName` names another one.
pub const SEQUENCE_GATE: &str = gates::SEQUENCE;
/// Holds a pod until its container-launch barrier exists.
pub const LAUNCH_GATE: &str = gates::LAUNCH;
/// Holds a pod until it is handed its reserved capacity.
pub const TICKET_GATE: &str = gates::TICKET;

/// On a Namespace: the other namespaces whose sequences may manage its pods, `<ns>[,<ns>…]` or `*`.
pub const ALLOW_FROM: &str = "podsequence.example.com/allow-from";
/// On a Namespace: `"true"` permits its sequences to taint nodes (`nodeGuard: Taints`).
pub const ALLOW_NODE_TAINTS: &str = "podsequence.example.com/allow-node-taints";
/// On a Namespace: gates that the policies in `config/rbac` permit the controller to remove there, besides those with
/// our prefixes, `<gate>[,<gate>…]` or `*`.
pub const ALLOW_GATES: &str = "podsequence.example.com/allow-gates";
/// On a PodSequence: the groups that a user opened by hand.
pub const OPEN_GROUPS: &str = "podsequence.example.com/open-groups";
/// On a PodSequence: an arbitrary value. When it differs from `status.begunAgain`, the sequence starts over.
pub const BEGIN_AGAIN: &str = "podsequence.example.com/begin-again";
/// On a workload that `rollcall stop` has stopped: its previous state, as JSON.
pub const BEFORE_STOP: &str = "rollcall.dev/before-stop";
/// On a workload that `rollcall restart` restarts: the previous value of [`RESTARTED_AT`], until all workloads are
/// restarted.
pub const BEFORE_RESTART: &str = "rollcall.dev/before-restart";
/// On the template of a workload: the time of its last restart. The annotation is kubectl's.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// On a Pod: the sequence it belongs to, for pods that no group selects.
pub const POD_SEQUENCE_NAME: &str = "podsequence.example.com/name";
/// On a Pod: the index, counted from 0, of the group it belongs to; used together with [`POD_SEQUENCE_NAME`].
pub const POD_SEQUENCE_GROUP: &str = "podsequence.example.com/group";
/// On a Pod: the user who removed its gate by hand.
pub const RELEASED_BY: &str = "podsequence.example.com/released-by";
/// On a Pod: the reason why its gate was removed by hand.
pub const RELEASED_REASON: &str = "podsequence.example.com/released-reason";
/// On a Pod: asks to restart the containers of lower ranks when one of a higher rank restarts. Not supported.
pub const RESTART_DEPENDENTS: &str = launch::RESTART_DEPENDENTS;
/// On a Pod: the priority of the last containers that were allowed to start.
pub const LAUNCH_RANK: &str = launch::RANK;
/// On a Pod: a counter; changing it makes the kubelet sync the pod again.
pub const LAUNCH_NUDGE: &str = launch::NUDGE;
/// On a Pod, with the value `"true"`: all its containers may start.
pub const LAUNCHED: &str = launch::COMPLETED;
/// On a Pod, a label or an annotation with the value `Ordered`: its containers start one after another.
pub const LAUNCH_ORDERED: &str = launch::ranks::ORDERED_KEY;
/// On a Pod: the DaemonSets that must be ready on its node before it starts.
pub const WAIT_FOR_NODE: &str = "rollcall.dev/wait-for-node";
/// On a DaemonSet: the path of the marker file that it keeps on its node, such as `/mnt/dump/.ready`.
pub const MARKER: &str = "rollcall.dev/marker";

/// Label on a Namespace, with the value [`ENABLED_VALUE`]: the webhook adds gates to its pods at admission.
pub const ENABLED_LABEL: &str = "podsequence-enabled";
/// The value of [`ENABLED_LABEL`] that enables it.
pub const ENABLED_VALUE: &str = "true";
/// Label on a Node that the controller has not processed since the node registered.
pub const UNSEEN_LABEL: &str = rollcall_core::sequence::keys::UNSEEN;
/// Prefix of the annotations that hold the journals of sequences on a Node; the uid of the sequence follows.
pub const JOURNAL_PREFIX: &str = "podsequence.example.com/journal.";

/// The namespace of Rollcall's own objects.
pub const OWN_NAMESPACE: &str = "pod-sequence-system";
/// The controller's Deployment and ServiceAccount.
pub const CONTROLLER: &str = "pod-sequence-controller";
/// The controller's leader lease, in [`OWN_NAMESPACE`].
pub const LEASE: &str = "pod-sequence-controller.example.com";
/// On that lease: the version of the controller that holds it.
pub const LEASE_VERSION: &str = "podsequence.example.com/version";
/// The Service in front of the admission webhook.
pub const WEBHOOK_SERVICE: &str = "pod-sequence-webhook";
/// The MutatingWebhookConfiguration.
pub const WEBHOOK_CONFIGURATION: &str = "podsequence-mutating-webhook";

/// The MutatingWebhookConfiguration for launch order, and the webhook in it.
pub const LAUNCH_CONFIGURATION: &str = "podsequence-launch-webhook";
pub const LAUNCH_WEBHOOK: &str = "launch.podsequence.example.com";

/// The Secret with the webhook's certificates, in [`OWN_NAMESPACE`].
pub const WEBHOOK_SECRET: &str = "pod-sequence-webhook-certs";
/// On that Secret, with the value `"true"`: the controller renews the certificates.
pub const MANAGED_CERTIFICATES: &str = "podsequence.example.com/managed-certificates";

/// Prefix of the names of note ConfigMaps; the uid of the sequence follows.
pub const NOTE_PREFIX: &str = "podsequence-note-";
/// Label of notes, with the value [`NOTE_LABEL_VALUE`]. Notes are listed and watched by it.
pub const NOTE_LABEL: &str = "podsequence.example.com/note";
/// The value of [`NOTE_LABEL`].
pub const NOTE_LABEL_VALUE: &str = "true";

/// The field manager of our writes.
pub const FIELD_MANAGER: &str = "rollcall";
