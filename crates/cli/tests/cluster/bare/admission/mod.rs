//! The policies of `config/admission` on a real API server: which pods get which gates, that nothing else is changed, how
//! nodes are labelled, and that the controller keeps order under them.

mod gates;
mod lifetime;
mod nodes;
mod odd;
mod order;
