//! Reads the API server's audit log: the history of committed writes, with their users.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::wait;

/// One line of the audit log, flattened.
#[derive(Debug, Clone)]
pub struct AuditEvent {
    pub audit_id: String,
    /// `ResponseComplete`; a watch also has `ResponseStarted`.
    pub stage: String,
    pub verb: String,
    pub user: String,
    pub user_groups: Vec<String>,
    pub user_agent: String,
    pub request_uri: String,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    /// Empty for lists, and for the creation of an object with `generateName` (see `response_object`).
    pub name: String,
    /// The uid, if the request or the response contains it.
    pub uid: String,
    pub status_code: u16,
    /// The request body (for a patch, the patch itself); null where the policy logs only metadata.
    pub request_object: Value,
    /// The committed object, or a `Status` on failure.
    pub response_object: Value,
    pub request_received: Timestamp,
    pub stage_time: Timestamp,
}

impl AuditEvent {
    /// Whether the request is a write.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Whether the request is a write that succeeded.
    pub fn is_committed(&self) -> bool {
        self.is_write() && self.stage == "ResponseComplete" && (200..300).contains(&self.status_code)
    }

    /// `pods` or `pods/status`.
    pub fn resource_path(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            sub => format!("{}/{sub}", self.resource),
        }
    }
}

/// The audit log of a cluster, which is read incrementally.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    offset: u64,
    events: Vec<AuditEvent>,
}

impl AuditLog {
    pub(crate) fn new(path: PathBuf) -> AuditLog {
        AuditLog { path, offset: 0, events: Vec::new() }
    }

    pub(crate) fn from_end(path: PathBuf) -> Result<AuditLog> {
        let offset = std::fs::metadata(&path).with_context(|| format!("look at {}", path.display()))?.len();
        Ok(AuditLog { path, offset, events: Vec::new() })
    }

    /// All events so far, in the order of the log, which is the order of the responses.
    pub fn all(&mut self) -> Result<&[AuditEvent]> {
        self.read()?;
        Ok(&self.events)
    }

    /// Waits for an event; past events count, too.
    pub async fn wait_for(
        &mut self,
        limit: Duration,
        wanted: impl Fn(&AuditEvent) -> bool,
    ) -> Result<AuditEvent> {
        let mut looked = 0;
        wait::until("an audit event", limit, async || {
            self.read()?;
            let found = self.events[looked..].iter().find(|event| wanted(event)).cloned();
            looked = self.events.len();
            Ok(found)
        })
        .await
    }

    /// Passes on the new events one by one without keeping them: for logs that are too large for memory.
    pub fn pass(&mut self, mut each: impl FnMut(AuditEvent)) -> Result<()> {
        let mut file = File::open(&self.path).with_context(|| format!("open {}", self.path.display()))?;
        file.seek(SeekFrom::Start(self.offset))?;
        let (mut file, mut line) = (BufReader::new(file), Vec::new());
        // The last line may be incomplete.
        while file.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            let raw: Raw = serde_json::from_slice(&line)
                .with_context(|| format!("audit line {}", String::from_utf8_lossy(&line)))?;
            each(raw.flatten());
            self.offset += line.len() as u64;
            line.clear();
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let mut new = Vec::new();
        let read = self.pass(|event| new.push(event));
        self.events.append(&mut new);
        read
    }
}

/// A line as the API server writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: RawUser,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: RawRef,
    #[serde(default)]
    response_status: RawStatus,
    #[serde(default)]
    request_object: Value,
    #[serde(default)]
    response_object: Value,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct RawUser {
    /// Empty if the API server did not authenticate the caller.
    #[serde(default)]
    username: String,
    #[serde(default)]
    groups: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    uid: String,
    api_group: String,
    api_version: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawStatus {
    code: u16,
}

impl Raw {
    fn flatten(self) -> AuditEvent {
        let Raw {
            audit_id,
            stage,
            request_uri,
            verb,
            user,
            user_agent,
            object_ref,
            response_status,
            request_object,
            response_object,
            request_received_timestamp,
            stage_timestamp,
        } = self;
        let RawRef { resource, subresource, namespace, name, uid, api_group, api_version } = object_ref;
        AuditEvent {
            audit_id,
            stage,
            verb,
            user: user.username,
            user_groups: user.groups,
            user_agent,
            request_uri,
            group: api_group,
            version: api_version,
            resource,
            subresource,
            namespace,
            name,
            uid,
            status_code: response_status.code,
            request_object,
            response_object,
            request_received: request_received_timestamp,
            stage_time: stage_timestamp,
        }
    }
}
