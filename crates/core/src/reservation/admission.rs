//! The part of reservations that admission needs: which new pods are held until they have claimed a ticket.

use super::Facts;
use super::names::GUARDIAN;
use super::spec::{Places, RequestedTicket};
use crate::Uid;
use crate::labels::Labels;
use crate::selector::Selector;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The Orders whose selected pods wait for tickets. Updated one Order at a time.
#[derive(Debug, Default)]
pub struct OrderRoster {
    /// Whether a controller serves reservations, and so releases the pods that admission holds.
    served: bool,
    /// The selectors of Orders with one ticket per node, by namespace.
    selectors: BTreeMap<Arc<str>, BTreeMap<Uid, Selector>>,
    namespaces: BTreeMap<Uid, Arc<str>>,
}

impl OrderRoster {
    /// Sets whether a controller serves reservations. If not, no pod is held for a ticket.
    pub fn set_served(&mut self, served: bool) {
        self.served = served;
    }

    pub fn is_served(&self) -> bool {
        self.served
    }

    /// Updates the selector of an Order. Called after every change of the Order, so it returns early if the selector is
    /// unchanged.
    pub fn update(&mut self, facts: Facts<'_>, uid: Uid) {
        let order = facts.reservations.order(uid).and_then(|entry| {
            let spec = entry.spec().filter(|spec| spec.places == Places::EachNode)?;
            Some((&entry.order.namespace, spec.selector.as_ref()?))
        });
        let namespace = self.namespaces.get(&uid);
        let known =
            namespace.and_then(|namespace| Some((namespace, self.selectors.get(namespace)?.get(&uid)?)));
        if order != known {
            let order = order.map(|(namespace, selector)| (namespace.clone(), selector.clone()));
            self.set(uid, order);
        }
    }

    pub fn set(&mut self, uid: Uid, order: Option<(Arc<str>, Selector)>) {
        if let Some(old) = self.namespaces.remove(&uid)
            && let Some(there) = self.selectors.get_mut(&old)
        {
            there.remove(&uid);
            if there.is_empty() {
                self.selectors.remove(&old);
            }
        }
        if let Some((namespace, selector)) = order {
            self.namespaces.insert(uid, namespace.clone());
            self.selectors.entry(namespace).or_default().insert(uid, selector);
        }
    }

    /// The label keys that [`OrderRoster::hold`] reads.
    pub fn label_keys(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let selectors = self.selectors.get(namespace).into_iter().flat_map(BTreeMap::values);
        let keys = selectors.flat_map(|selector| &selector.requirements).map(|requirement| &*requirement.key);
        keys.chain([GUARDIAN]).filter(|_| self.served)
    }

    /// Whether a new pod must wait for a ticket. A guardian never waits, even if an Order selects it.
    pub fn hold(&self, namespace: &str, wanted: &RequestedTicket, labels: &Labels) -> bool {
        let selected = || {
            let mut selectors = self.selectors.get(namespace).into_iter().flat_map(BTreeMap::values);
            selectors.any(|selector| selector.matches(labels))
        };
        self.served && labels.get(GUARDIAN).is_none() && (*wanted != RequestedTicket::Any || selected())
    }
}
