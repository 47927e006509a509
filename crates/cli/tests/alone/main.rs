//! Tests of the program as users run it, without a cluster.

mod cli;
mod demo;
mod lint;
mod page;
mod sarif;
mod simulate;
mod terminal;
