//! Tests of Full mode.

mod doctor;
mod launch;
mod limits;
mod nodes;
mod nodes_scale;
mod order_by_node;
mod reservation;
mod webhook;
