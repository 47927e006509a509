//! The kinds of objects that the index knows.

use crate::{facts::OwnerKind, key::Feature};

/// The identity of an object within its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Its uid. A deleted object never reappears.
    Uid,
    /// Its name. A later object may have the same one.
    Name,
    /// The uid of another object, the one it describes: a note has the uid of its sequence. After a deletion, an object may be created
    /// with the same identity.
    Subject,
}

/// When a kind is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Always,
    /// In Full mode: Lite mode has no permissions on nodes.
    FullMode,
    /// In Full mode, if reservations are enabled.
    Reservations,
    /// Objects are written and read one by one.
    Never,
}

/// The consequence if the API server does not serve a kind, or forbids reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The features that need the kind cannot decide.
    Fatal,
    /// Before the first list, the kind counts as listed and empty.
    Empty,
    /// The known objects stay, and the features that need the kind make no decisions. A cluster without the kind is not an
    /// error.
    Frozen,
}

/// The labels of an object that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoredLabels {
    /// Those whose keys occur in selectors. With a new key, the objects are read again.
    Selected,
    /// Those that the facts of the kind use, independently of selectors.
    Fixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KindScope {
    Namespaced,
    Cluster,
}

/// The properties of a kind.
struct Row {
    plural: &'static str,
    identity: Identity,
    watched: Watched,
    /// The features that make no decisions until all objects of the kind are known.
    needed_by: &'static [Feature],
    absence: Absence,
    labels: StoredLabels,
    scope: KindScope,
}

macro_rules! kinds {
    ($($kind:ident = $plural:literal, $identity:ident, $watched:ident, [$($feature:ident),*], $absence:ident, $labels:ident, $scope:ident;)*) => {
        /// The kinds of objects that the index stores. Each has its own watch, unless it is `Watched::Never`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($kind,)* }

        impl Kind {
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            fn row(self) -> Row {
                match self {
                    $(Kind::$kind => Row {
                        plural: $plural,
                        identity: Identity::$identity,
                        watched: Watched::$watched,
                        needed_by: &[$(Feature::$feature),*],
                        absence: Absence::$absence,
                        labels: StoredLabels::$labels,
                        scope: KindScope::$scope,
                    },)*
                }
            }
        }
    };
}

// The position counts: it seeds the back-off of each watch.
kinds! {
    Pod = "pods", Uid, Always, [Sequence, Launch, Reservation], Fatal, Selected, Namespaced;
    Deployment = "deployments", Uid, Always, [Sequence, Launch], Fatal, Selected, Namespaced;
    ReplicaSet = "replicasets", Uid, Always, [Sequence, Launch], Fatal, Selected, Namespaced;
    StatefulSet = "statefulsets", Uid, Always, [Sequence, Launch], Fatal, Selected, Namespaced;
    DaemonSet = "daemonsets", Uid, Always, [Sequence, Launch], Fatal, Selected, Namespaced;
    Job = "jobs", Uid, Always, [Sequence, Launch], Fatal, Selected, Namespaced;
    // Permission to read CronJobs is not required: most sequences name none.
    CronJob = "cronjobs", Uid, Always, [Sequence, Launch], Empty, Fixed, Namespaced;
    Namespace = "namespaces", Name, Always, [Sequence, Launch], Fatal, Fixed, Cluster;
    Sequence = "podsequences", Uid, Always, [Sequence, Launch], Fatal, Fixed, Namespaced;
    Note = "notes", Subject, Always, [Sequence, Launch], Empty, Fixed, Namespaced;
    Node = "nodes", Name, FullMode, [Sequence, Launch, Reservation], Fatal, Fixed, Cluster;
    // Permission to read CSINodes is not required either: most sequences require no CSI driver.
    CsiNode = "csinodes", Name, FullMode, [Sequence, Launch], Empty, Fixed, Cluster;
    Barrier = "barriers", Uid, Never, [], Fatal, Fixed, Namespaced;
    Order = "orders", Uid, Reservations, [Reservation], Frozen, Fixed, Namespaced;
    Ticket = "tickets", Uid, Reservations, [Reservation], Frozen, Fixed, Namespaced;
    PriorityClass = "priorityclasses", Name, Reservations, [Reservation], Frozen, Fixed, Cluster;
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        self.row().plural
    }

    pub fn identity(self) -> Identity {
        self.row().identity
    }

    /// Whether a controller in these modes watches the kind.
    pub fn is_watched(self, full: bool, reservations: bool) -> bool {
        match self.row().watched {
            Watched::Always => true,
            Watched::FullMode => full,
            Watched::Reservations => full && reservations,
            Watched::Never => false,
        }
    }

    /// Whether the feature makes no decisions until all objects of the kind are known.
    pub fn is_needed_by(self, feature: Feature) -> bool {
        self.row().needed_by.contains(&feature)
    }

    pub fn absence(self) -> Absence {
        self.row().absence
    }

    /// Whether only the labels whose keys occur in selectors are stored.
    pub fn has_selected_labels(self) -> bool {
        self.row().labels == StoredLabels::Selected
    }

    pub fn is_namespaced(self) -> bool {
        self.row().scope == KindScope::Namespaced
    }

    pub fn of_mode(full: bool) -> Vec<Kind> {
        Kind::ALL.iter().copied().filter(|kind| kind.is_watched(full, false)).collect()
    }

    pub fn of_owner(kind: OwnerKind) -> Option<Kind> {
        match kind {
            OwnerKind::Deployment => Some(Kind::Deployment),
            OwnerKind::ReplicaSet => Some(Kind::ReplicaSet),
            OwnerKind::StatefulSet => Some(Kind::StatefulSet),
            OwnerKind::DaemonSet => Some(Kind::DaemonSet),
            OwnerKind::Job => Some(Kind::Job),
            OwnerKind::CronJob => Some(Kind::CronJob),
            OwnerKind::Other => None,
        }
    }

    /// The kind of workload, if this kind is a workload.
    pub fn owner(self) -> Option<OwnerKind> {
        OwnerKind::ALL.iter().copied().find(|owner| Kind::of_owner(*owner) == Some(self))
    }
}
