use super::*;
use rollcall_sim::plan::Origin;
use serde_json::json;

fn error<T: std::fmt::Debug>(result: Result<T>) -> String {
    format!("{:#}", result.expect_err("refused"))
}

fn labels(pairs: &[(&str, &str)]) -> SelectBy {
    SelectBy::Labels(pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
}

fn named(pattern: &str) -> Pattern {
    Pattern(pattern.into())
}

fn nothing(_: &str) -> Result<Vec<Given>> {
    bail!("this test reads no files")
}

fn one_at(time: &str, action: &str) -> Result<Action> {
    Ok(at(&[time.into(), action.into()], &nothing)?.remove(0).action)
}

#[test]
fn nodes_and_what_they_have() {
    assert_eq!(nodes("3").unwrap(), NodePool { count: 3, capacity: BTreeMap::new() });
    let capacity: BTreeMap<String, String> = [("cpu", "3500m"), ("memory", "1.5Gi"), ("nvidia.com/gpu", "1")]
        .map(|(k, v)| (k.into(), v.into()))
        .into();
    assert_eq!(
        nodes("5000:cpu=3500m,memory=1.5Gi,nvidia.com/gpu=1").unwrap(),
        NodePool { count: 5000, capacity }
    );
}

#[test]
fn no_nodes() {
    for (text, answer) in [
        ("", "\"\" must be a number of nodes from 1 to 5000"),
        ("0", "\"0\" must be a number of nodes from 1 to 5000"),
        ("-1", "\"-1\" must be a number of nodes from 1 to 5000"),
        ("5001", "\"5001\" must be a number of nodes from 1 to 5000"),
        ("three", "\"three\" must be a number of nodes from 1 to 5000"),
        ("3:", "\"\" must be RESOURCE=QUANTITY, such as cpu=4 or memory=16Gi"),
        ("3:cpu", "\"cpu\" must be RESOURCE=QUANTITY, such as cpu=4 or memory=16Gi"),
        ("3:=4", "\"=4\" must be RESOURCE=QUANTITY, such as cpu=4 or memory=16Gi"),
        ("3:cpu=", "\"\" must be a quantity such as 4, 500m or 16Gi"),
        ("3:cpu=-4", "\"-4\" must be a quantity such as 4, 500m or 16Gi"),
        ("3:memory=16GB", "\"16GB\" must be a quantity such as 4, 500m or 16Gi"),
        ("3:memory=1.2.3Gi", "\"1.2.3Gi\" must be a quantity such as 4, 500m or 16Gi"),
        ("3:memory=.Gi", "\".Gi\" must be a quantity such as 4, 500m or 16Gi"),
        ("3:cpu=4,cpu=8", "cpu is given twice"),
    ] {
        assert_eq!(error(nodes(text)), answer, "{text}");
    }
}

#[test]
fn pods_by_label_name_and_workload() {
    let all = |by| Selector { namespace: None, by };
    for (text, wanted) in [
        ("app=db", all(labels(&[("app", "db")]))),
        ("app.kubernetes.io/name=db,tier=", all(labels(&[("app.kubernetes.io/name", "db"), ("tier", "")]))),
        ("pod=web-*", all(SelectBy::Name(named("web-*")))),
        ("po/web-0", all(SelectBy::Name(named("web-0")))),
        ("deployment/web", all(SelectBy::Workload(Kind::Deployment, named("web")))),
        ("sts/*", all(SelectBy::Workload(Kind::StatefulSet, named("*")))),
        ("app=db,namespace=shop", Selector { namespace: Some(named("shop")), by: labels(&[("app", "db")]) }),
        ("namespace=shop", Selector { namespace: Some(named("shop")), by: SelectBy::Name(named("*")) }),
    ] {
        assert_eq!(selector(text).unwrap(), wanted, "{text}");
    }
}

#[test]
fn when_pods_are_ready_and_when_they_fail() {
    let pods = Selector { namespace: None, by: labels(&[("app", "db")]) };
    let after = Duration::from_millis(1500);
    assert_eq!(ready_after("app=db:1.5s").unwrap(), ReadyAfter { pods: pods.clone(), after });
    assert_eq!(fail("app=db").unwrap(), Fail { pods: pods.clone(), after: None });
    assert_eq!(fail("app=db:1.5s").unwrap(), Fail { pods, after: Some(after) });
}

#[test]
fn no_selector() {
    const NAME: &str = "must be a name: lower-case letters, digits, -, . and the wildcard *";
    for (text, answer) in [
        ("app=db", "\"app=db\" must be SELECTOR:DURATION, such as app=db:40s".to_owned()),
        ("app=db:", "\"\" must be a duration such as 90s, 5m or 1h30m, not negative".into()),
        ("app=db:40", "\"40\" must be a duration such as 90s, 5m or 1h30m, not negative".into()),
        ("app=db:9000h", "\"9000h\" must be at most 8760h (a year)".into()),
        (":40s", format!("a selector is missing: {SELECTORS}")),
        ("db:40s", format!("\"db\" must be {SELECTORS}")),
        ("app=db,:40s", format!("\"\" must be {SELECTORS}")),
        (
            "app=d*:40s",
            "\"d*\" must be the value of a label: letters, digits, -, _ and . (* works only in pod=NAME)"
                .into(),
        ),
        ("-app=db:40s", "\"-app\" must be a label such as app or app.kubernetes.io/name".into()),
        ("=db:40s", "\"\" must be a label such as app or app.kubernetes.io/name".into()),
        ("app=a,app=b:40s", "\"app=a,app=b\" names the label app twice".into()),
        ("pod=:40s", format!("\"\" {NAME}")),
        ("pod=Web:40s", format!("\"Web\" {NAME}")),
        ("pod=a,pod=b:40s", "\"pod=a,pod=b\" selects more than one name; repeat the option instead".into()),
        ("pod=a,app=b:40s", "\"pod=a,app=b\" mixes labels with a name; use one or the other".into()),
        (
            "deploymnet/web:1s",
            "\"deploymnet\" is not a simulated kind; did you mean deployment or daemonset?".into(),
        ),
        ("service/web:1s", format!("a Service has no pods; select pods by {SELECTORS}")),
    ] {
        assert_eq!(error(ready_after(text)), answer, "{text}");
    }
}

#[test]
fn what_happens_meanwhile() {
    let target = |kind, namespace: Option<&str>, name: &str| ActionTarget {
        kind,
        namespace: namespace.map(Into::into),
        name: name.into(),
    };
    for (text, wanted) in [
        (
            "scale deployment/web 5",
            Action::Scale { target: target(Kind::Deployment, None, "web"), replicas: 5 },
        ),
        (
            "scale sts/db --replicas=0 -n shop",
            Action::Scale { target: target(Kind::StatefulSet, Some("shop"), "db"), replicas: 0 },
        ),
        ("delete pod/web-0", Action::Delete { target: target(Kind::Pod, None, "web-0") }),
        (
            "  delete  podseq/shop  --namespace a ",
            Action::Delete { target: target(Kind::PodSequence, Some("a"), "shop") },
        ),
        ("cordon node-1", Action::Cordon { node: "node-1".into() }),
        ("drain node-1", Action::Drain { node: "node-1".into() }),
        ("add-node gpu-1", Action::AddNode { name: "gpu-1".into() }),
    ] {
        assert_eq!(one_at("30s", text).unwrap(), wanted, "{text}");
    }
}

#[test]
fn in_the_order_of_time_and_then_as_given() {
    let values = ["1m", "drain b", "30s", "drain a", "1m", "cordon c"].map(String::from);
    let all = at(&values, &nothing).unwrap();
    let times: Vec<u64> = all.iter().map(|at| at.time.as_secs()).collect();
    assert_eq!(times, [30, 60, 60]);
    assert_eq!(all[1].action, Action::Drain { node: "b".into() });
}

#[test]
fn files_are_read_at_once() {
    let read = |file: &str| {
        assert_eq!(file, "more.yaml");
        Ok(vec![Given { value: json!({}), origin: Origin { file: file.into(), line: 1 } }])
    };
    let all = at(&["5s".into(), "apply -f more.yaml".into()], &read).unwrap();
    let Action::Apply { objects } = &all[0].action else { panic!("{all:?}") };
    assert_eq!(objects[0].origin.file, "more.yaml");
}

#[test]
fn nothing_that_happens() {
    for (text, answer) in [
        ("", format!("an action is missing: {ACTIONS}")),
        ("restart deployment/web", format!("\"restart\" is not an action; expected {ACTIONS}")),
        ("scale deployment/web", "must be 'scale KIND/NAME N', such as 'scale deployment/web 5'".into()),
        ("scale web 5", "\"web\" must be KIND/NAME, such as deployment/web".into()),
        ("scale deployment/web five", "\"five\" must be a number from 0 to 150000".into()),
        ("scale deployment/web -1", "\"-1\" must be a number from 0 to 150000".into()),
        (
            "scale ds/agent 5",
            "a DaemonSet cannot be scaled; expected a Deployment, StatefulSet or ReplicaSet".into(),
        ),
        ("scale deployment/Web 5", "\"Web\" must be a name: lower-case letters, digits, - and .".into()),
        ("delete", "must be 'delete KIND/NAME', such as 'delete pod/web-0'".into()),
        ("delete pod web", "must be 'delete KIND/NAME', such as 'delete pod/web-0'".into()),
        ("apply", "must be 'apply FILE', such as 'apply more.yaml'".into()),
        ("drain", "must be 'drain NAME', such as 'drain node-1'".into()),
        ("drain node-1 -n shop", "-n is valid only with scale and delete".into()),
        ("apply x.yaml", "this test reads no files".into()),
    ] {
        assert_eq!(error(one_at("30s", text)), format!("--at 30s '{text}': {answer}"));
    }
    assert_eq!(
        error(one_at("soon", "drain a")),
        "--at soon 'drain a': \"soon\" must be a duration such as 90s, 5m or 1h30m, not negative"
    );
}
