//! Proof of order, from the audit log.
