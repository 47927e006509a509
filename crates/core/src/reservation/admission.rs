//! What admission has to know of reservations: which new pods are held until they have been given their room.

use super::Facts;
use super::names::GUARDIAN;
use super::spec::{Places, Wanted};
use crate::Uid;
use crate::labels::Labels;
use crate::selector::Selector;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whose pods wait for tickets. Kept up to date one Order at a time.
#[derive(Debug, Default)]
pub struct Reservers {
    /// Somebody hands tickets out: whoever is held is let go again.
    served: bool,
    /// The selectors of Orders that want one ticket on each node, by namespace.
    selectors: BTreeMap<Arc<str>, BTreeMap<Uid, Selector>>,
    namespaces: BTreeMap<Uid, Arc<str>>,
}

impl Reservers {
    /// Where nobody serves reservations, nobody waits for one.
    pub fn set_served(&mut self, served: bool) {
        self.served = served;
    }

    pub fn is_served(&self) -> bool {
        self.served
    }

    /// Takes in what is known about an Order now. This is asked whenever anything about it has changed, so it looks first whether
    /// there is something to do.
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

    /// The keys of labels that decide.
    pub fn label_keys(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let selectors = self.selectors.get(namespace).into_iter().flat_map(BTreeMap::values);
        let keys = selectors.flat_map(|selector| &selector.requirements).map(|requirement| &*requirement.key);
        keys.chain([GUARDIAN]).filter(|_| self.served)
    }

    /// Whether a new pod waits for a ticket. A guardian never does, whatever an Order selects.
    pub fn hold(&self, namespace: &str, wanted: &Wanted, labels: &Labels) -> bool {
        let selected = || {
            let mut selectors = self.selectors.get(namespace).into_iter().flat_map(BTreeMap::values);
            selectors.any(|selector| selector.matches(labels))
        };
        self.served && labels.get(GUARDIAN).is_none() && (*wanted != Wanted::Any || selected())
    }
}
