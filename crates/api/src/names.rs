//! Every name by which Rollcall is known in a cluster, in one place: API groups, gates, labels, annotations,
//! objects. They are part of the interface; changing one breaks manifests that people have written.

use rollcall_core::{gates, launch};

/// API group of `PodSequence`.
pub const SEQUENCE_GROUP: &str = "scheduling.example.com";
/// Version of `PodSequence`.
pub const SEQUENCE_VERSION: &str = "v1alpha1";
/// `apiVersion` of `PodSequence`.
pub const SEQUENCE_API_VERSION: &str = "scheduling.example.com/v1alpha1";
/// Kind of `PodSequence`.
pub const SEQUENCE_KIND: &str = "PodSequence";
/// Resource name of `PodSequence`, as it stands in URLs and in RBAC rules.
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
/// Holds a pod until its reserved room is handed over.
pub const TICKET_GATE: &str = gates::TICKET;

/// On a Namespace: which other namespaces may sequence its pods, `<ns>[,<ns>…]` or `*`.
pub const ALLOW_FROM: &str = "podsequence.example.com/allow-from";
/// On a Namespace: `"true"` lets the sequences in it taint nodes (`nodeGuard: Taints`).
pub const ALLOW_NODE_TAINTS: &str = "podsequence.example.com/allow-node-taints";
/// On a Namespace: gates, besides those with our prefixes, that the limits of `config/rbac` let the controller remove there,
/// `<gate>[,<gate>…]` or `*`.
pub const ALLOW_GATES: &str = "podsequence.example.com/allow-gates";
/// On a PodSequence: the groups that were opened by hand.
pub const OPEN_GROUPS: &str = "podsequence.example.com/open-groups";
/// On a PodSequence: which start was asked for last. When it is another one than `status.begunAgain`, the order holds once more.
pub const BEGIN_AGAIN: &str = "podsequence.example.com/begin-again";
/// On a workload that `rollcall stop` has stopped: what it was before, as JSON.
pub const BEFORE_STOP: &str = "rollcall.dev/before-stop";
/// On a workload that `rollcall restart` rolls: the value of [`RESTARTED_AT`] before, until all are rolled.
pub const BEFORE_RESTART: &str = "rollcall.dev/before-restart";
/// On the template of a workload: when it was restarted; kubectl's own.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// On a Pod: the sequence it belongs to, for pods that no group selects.
pub const POD_SEQUENCE_NAME: &str = "podsequence.example.com/name";
/// On a Pod: the index, counted from 0, of the group it belongs to; goes with [`POD_SEQUENCE_NAME`].
pub const POD_SEQUENCE_GROUP: &str = "podsequence.example.com/group";
/// On a Pod: who removed its gate by hand.
pub const RELEASED_BY: &str = "podsequence.example.com/released-by";
/// On a Pod: why its gate was removed by hand.
pub const RELEASED_REASON: &str = "podsequence.example.com/released-reason";
/// On a Pod: asks to restart the containers of lower ranks when one of a higher rank restarted, which is not done.
pub const RESTART_DEPENDENTS: &str = launch::RESTART_DEPENDENTS;
/// On a Pod: the priority of the containers that were allowed to start last.
pub const LAUNCH_RANK: &str = launch::RANK;
/// On a Pod: how often its kubelet was told to look again.
pub const LAUNCH_NUDGE: &str = launch::NUDGE;
/// On a Pod, with the value `"true"`: all its containers may start.
pub const LAUNCHED: &str = launch::COMPLETED;
/// On a Pod, a label or an annotation with the value `Ordered`: its containers start one after the other.
pub const LAUNCH_ORDERED: &str = launch::ranks::ORDERED_KEY;
/// On a Pod: the DaemonSets that must be ready on its node before it starts.
pub const WAIT_FOR_NODE: &str = "rollcall.dev/wait-for-node";
/// On a DaemonSet: where on its node it keeps a marker, a path such as `/mnt/dump/.ready`.
pub const MARKER: &str = "rollcall.dev/marker";

/// Label on a Namespace, with the value [`ENABLED_VALUE`]: its pods get their gate at admission.
pub const ENABLED_LABEL: &str = "podsequence-enabled";
/// The value of [`ENABLED_LABEL`] that counts.
pub const ENABLED_VALUE: &str = "true";
/// Label on a Node that no controller has seen since it registered.
pub const UNSEEN_LABEL: &str = rollcall_core::sequence::keys::UNSEEN;
/// Start of the annotations in which sequences write down what they know about a Node; the uid of the sequence follows.
pub const JOURNAL_PREFIX: &str = "podsequence.example.com/journal.";

/// The namespace of our own objects.
pub const OWN_NAMESPACE: &str = "pod-sequence-system";
/// Our Deployment and our ServiceAccount.
pub const CONTROLLER: &str = "pod-sequence-controller";
/// Our leader lease, in [`OWN_NAMESPACE`].
pub const LEASE: &str = "pod-sequence-controller.example.com";
/// On that lease: the version of the controller that holds it.
pub const LEASE_VERSION: &str = "podsequence.example.com/version";
/// The Service in front of the admission webhook.
pub const WEBHOOK_SERVICE: &str = "pod-sequence-webhook";
/// The MutatingWebhookConfiguration.
pub const WEBHOOK_CONFIGURATION: &str = "podsequence-mutating-webhook";

/// The MutatingWebhookConfiguration of launch order, and the webhook in it.
pub const LAUNCH_CONFIGURATION: &str = "podsequence-launch-webhook";
pub const LAUNCH_WEBHOOK: &str = "launch.podsequence.example.com";

/// The Secret with the webhook's certificates, in [`OWN_NAMESPACE`].
pub const WEBHOOK_SECRET: &str = "pod-sequence-webhook-certs";
/// On that Secret, with the value `"true"`: the certificates are ours to renew.
pub const MANAGED_CERTIFICATES: &str = "podsequence.example.com/managed-certificates";

/// Start of the names of note ConfigMaps; the uid of the sequence follows.
pub const NOTE_PREFIX: &str = "podsequence-note-";
/// Label, with the value [`NOTE_LABEL_VALUE`], by which notes are listed and watched.
pub const NOTE_LABEL: &str = "podsequence.example.com/note";
/// The value of [`NOTE_LABEL`].
pub const NOTE_LABEL_VALUE: &str = "true";

/// The manager under which the API server records the fields that we own.
pub const FIELD_MANAGER: &str = "rollcall";
