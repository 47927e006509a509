//! Name resolution in an image without glibc: from `/etc/hosts`, and by DNS with search domains.

use super::node::{LIMIT, Lab};
use anyhow::{Context, Result, ensure};
use rollcall_testbed::wait;
use serde_json::json;
use std::net::{Ipv4Addr, UdpSocket};

pub async fn resolve_without_glibc(lab: &Lab) -> Result<()> {
    let jsonpath = "jsonpath={.status.addresses[?(@.type==\"InternalIP\")].address}";
    let server: Ipv4Addr = lab.cluster.kubectl_ok(&["get", "node", "real", "-o", jsonpath])?.parse()?;
    let service =
        lab.cluster.kubectl_ok(&["get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"])?;
    answer("csi.kube-system.svc.test", service.parse()?, server)?;
    let hosts = json!({"hostAliases": [{"ip": service, "hostnames": ["csi.hosts"]}]});
    lab.run("by-hosts", &["wait", "--tcp", "csi.hosts:443", "--timeout", "30s"], None, hosts)?;
    let dns = json!({
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": [server], "searches": ["nowhere.test", "svc.test"], "options": [{"name": "ndots", "value": "5"}]},
    });
    let url = "https://csi.kube-system/readyz";
    lab.run("by-dns", &["wait", "--http", url, "--insecure", "--tcp", "csi.kube-system:443"], None, dns)?;
    for name in ["by-hosts", "by-dns"] {
        let code = wait::until(&format!("the exit of {name}"), LIMIT, async || lab.exit_code(name)).await;
        let log = lab.cluster.kubectl_ok(&["logs", name])?;
        let code = code.with_context(|| log.clone())?;
        ensure!(code == 0, "{name}: {code}: {log}");
    }
    Ok(())
}

/// Runs a name server that knows one name, until the end of the test.
fn answer(name: &str, address: Ipv4Addr, at: Ipv4Addr) -> Result<()> {
    let socket = UdpSocket::bind((at, 53)).with_context(|| format!("listen on {at}:53"))?;
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    let wanted: Vec<u8> = labels.chain([0]).collect();
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            let _ = socket.send_to(&reply(&query[..length], &wanted, address), from);
        }
    });
    Ok(())
}

/// Builds the reply: an address if the query is an A query for the name, an empty answer for other types, and otherwise
/// NXDOMAIN.
fn reply(query: &[u8], wanted: &[u8], address: Ipv4Addr) -> Vec<u8> {
    const HEADER: usize = 12;
    let end =
        query[HEADER..].iter().position(|byte| *byte == 0).map_or(query.len(), |zero| HEADER + zero + 1);
    let known = query[HEADER..end].eq_ignore_ascii_case(wanted);
    let asks_for_a = query.get(end..end + 2) == Some(&[0, 1]);
    let (code, answers) = match (known, asks_for_a) {
        (true, true) => (0, 1),
        (true, false) => (0, 0),
        (false, _) => (3, 0),
    };
    // Flags: response, recursion available. Then one question and the number of answers.
    let mut reply = [&query[..2], &[0x81, 0x80 | code, 0, 1, 0, answers, 0, 0, 0, 0]].concat();
    reply.extend(&query[HEADER..(end + 4).min(query.len())]);
    if answers == 1 {
        // A pointer to the name in the question, then type A, class IN, a TTL of one minute, and four bytes of address.
        reply.extend([0xc0, HEADER as u8, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        reply.extend(address.octets());
    }
    reply
}
