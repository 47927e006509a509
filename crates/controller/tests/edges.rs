//! The edges of the controller: its servers, its watches and what it reads of the world around it.

mod outside;
mod server;
mod watch;
