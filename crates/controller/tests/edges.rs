//! Tests of the edges of the controller: its servers and its watches.

mod outside;
mod server;
mod watch;
