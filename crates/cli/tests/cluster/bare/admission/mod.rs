//! Tests of the policies in `config/admission` on a real API server: the gates of pods, no other changes, the labels of nodes,
//! and the order that the controller keeps with them.

mod gates;
mod lifetime;
mod nodes;
mod odd;
mod order;
