//! The kinds of objects that are watched, one row each.

use crate::{facts::OwnerKind, key::Feature};

/// When a kind is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Always,
    /// Only in Full mode: Lite mode has no rights on nodes.
    FullMode,
    /// Only where reservations are served. Where it cannot be read, nothing is reserved, and all else goes on.
    Reservation,
    /// Written and looked at, one by one.
    Never,
}

macro_rules! kinds {
    ($($kind:ident = $plural:literal, $watched:ident;)*) => {
        /// The kinds of objects the index is fed with, each by a watch of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($kind,)* }

        impl Kind {
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Kind::$kind => $plural,)* }
            }

            fn watched(self) -> Watched {
                match self { $(Kind::$kind => Watched::$watched,)* }
            }
        }
    };
}

kinds! {
    Pod = "pods", Always;
    Deployment = "deployments", Always;
    ReplicaSet = "replicasets", Always;
    StatefulSet = "statefulsets", Always;
    DaemonSet = "daemonsets", Always;
    Job = "jobs", Always;
    CronJob = "cronjobs", Always;
    Namespace = "namespaces", Always;
    Sequence = "podsequences", Always;
    Note = "notes", Always;
    Node = "nodes", FullMode;
    CsiNode = "csinodes", FullMode;
    Barrier = "barriers", Never;
    Order = "orders", Reservation;
    Ticket = "tickets", Reservation;
    PriorityClass = "priorityclasses", Reservation;
}

impl Kind {
    /// Whether a controller watches it: in Full mode everything, in Lite mode nothing about nodes.
    pub fn is_watched(self, full: bool) -> bool {
        match self.watched() {
            Watched::Always => true,
            Watched::FullMode => full,
            Watched::Reservation | Watched::Never => false,
        }
    }

    /// Whether only reservations need it.
    pub fn is_of_reservations(self) -> bool {
        self.watched() == Watched::Reservation
    }

    /// Whether a feature decides nothing before all objects of the kind are known.
    pub fn is_needed_by(self, feature: Feature) -> bool {
        match (self.watched(), feature) {
            (Watched::Never, _) => false,
            (Watched::Reservation, _) => feature == Feature::Reservation,
            (_, Feature::Reservation) => matches!(self, Kind::Pod | Kind::Node),
            (Watched::Always | Watched::FullMode, Feature::Sequence | Feature::Launch) => true,
        }
    }

    pub fn of_mode(full: bool) -> Vec<Kind> {
        Kind::ALL.iter().copied().filter(|kind| kind.is_watched(full)).collect()
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

    /// Which workload this is, if it is one.
    pub fn owner(self) -> Option<OwnerKind> {
        OwnerKind::ALL.iter().copied().find(|owner| Kind::of_owner(*owner) == Some(self))
    }
}
