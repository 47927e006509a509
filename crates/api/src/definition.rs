//! The table of our custom resources. All code that serves, checks, documents or installs them uses it.

use crate::reservation::{Order, Ticket};
use crate::schema::Schema;
use crate::sequence::PodSequence;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;
use std::sync::OnceLock;

macro_rules! customs {
    ($($kind:ident),*) => {
        /// A custom resource of Rollcall.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Custom { $($kind),* }

        impl Custom {
            pub const ALL: &[Custom] = &[$(Custom::$kind),*];

            pub fn kind(self) -> &'static str {
                match self { $(Custom::$kind => stringify!($kind)),* }
            }

            fn derived(self) -> CustomResourceDefinition {
                match self { $(Custom::$kind => $kind::crd()),* }
            }
        }
    };
}

customs! { PodSequence, Order, Ticket }

impl Custom {
    /// The definition as it is installed.
    pub fn crd(self) -> CustomResourceDefinition {
        crate::crd::tidy(self.derived())
    }

    /// The schema of the whole object, as the API server reads it.
    pub fn open_api_schema(self) -> Value {
        let mut crd = serde_json::to_value(self.crd()).expect("a definition is plain data");
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
    }

    /// The parsed schema of the whole object.
    pub fn schema(self) -> &'static Schema {
        // One cell for each kind: a program that never needs an Order does not keep its schema in memory.
        static READ: [OnceLock<Schema>; Custom::ALL.len()] = [const { OnceLock::new() }; Custom::ALL.len()];
        READ[self as usize].get_or_init(|| Schema::from_json(&self.open_api_schema()))
    }

    /// The schema of `spec`.
    pub fn spec(self) -> &'static Schema {
        self.schema().property("spec").expect("it has one")
    }
}

/// The files of `config/crd`, each with the definitions in it: one file for each API group.
pub const FILES: [(&str, &[Custom]); 2] =
    [("podsequence-crd.yaml", &[Custom::PodSequence]), ("korder-crd.yaml", &[Custom::Order, Custom::Ticket])];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_rules;

    /// Parsing panics if a pattern or a rule is not in our tables.
    #[test]
    fn every_pattern_and_every_rule_of_the_definitions_is_known() {
        for custom in Custom::ALL {
            let (forms, rules) = count(custom.spec());
            assert!(forms >= 10 && rules >= 20, "{custom:?}: {forms} patterns, {rules} rules");
        }
    }

    fn count(schema: &Schema) -> (usize, usize) {
        let below = schema.properties.iter().flat_map(|properties| properties.values());
        let below = below.chain(schema.items.as_deref()).chain(schema.additional.as_deref());
        below.map(count).fold(
            (usize::from(schema.form.is_some()), schema.rules.len()),
            |(forms, rules), (more_forms, more_rules)| (forms + more_forms, rules + more_rules),
        )
    }

    #[test]
    fn every_definition_is_in_one_file() {
        let mut filed: Vec<Custom> = FILES.iter().flat_map(|(_, customs)| *customs).copied().collect();
        filed.sort();
        assert_eq!(filed, Custom::ALL);
    }

    #[test]
    fn the_rules_that_all_use_are_used() {
        let schemas: Vec<Value> = Custom::ALL.iter().map(|custom| custom.open_api_schema()).collect();
        for rule in shared_rules::all() {
            let text = serde_json::to_string(&rule.rule).expect("text");
            assert!(schemas.iter().any(|schema| schema.to_string().contains(&text)), "{text}");
        }
    }
}
