//! Faults between client and API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::LIMIT;
use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rollcall_testbed::{Fault, FaultProxy, Go, Hold, Line, WatchFault, namespace, shared, wait};

struct Bench {
    proxy: FaultProxy,
    /// Uses the proxy.
    maps: Api<ConfigMap>,
    /// Bypasses the proxy.
    direct: Api<ConfigMap>,
}

async fn bench() -> Result<Bench> {
    let cluster = shared().await;
    let namespace = namespace("proxy").await;
    let proxy = FaultProxy::start(cluster)?;
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig_at(&proxy.url())?)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    let maps = Api::namespaced(Client::try_from(config)?, &namespace);
    let direct = Api::namespaced(cluster.client(), &namespace);
    Ok(Bench { proxy, maps, direct })
}

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

async fn create(maps: &Api<ConfigMap>, name: &str) -> kube::Result<ConfigMap> {
    maps.create(&PostParams::default(), &map(name)).await
}

fn code(result: kube::Result<ConfigMap>) -> Option<u16> {
    match result {
        Err(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

#[tokio::test]
async fn writes_can_be_dropped_before_and_after() -> Result<()> {
    let Bench { proxy, maps, direct } = bench().await?;
    proxy.on_write(|write| match write.n {
        2 => Fault::Drop,
        3 => Fault::LoseAnswer,
        4 => Fault::CutAnswer,
        _ => Fault::Pass,
    });
    create(&maps, "one").await?;
    assert!(create(&maps, "two").await.is_err());
    assert!(create(&maps, "three").await.is_err());
    assert!(create(&maps, "four").await.is_err());
    create(&maps, "five").await?;
    assert_eq!(proxy.writes(), 5);
    let exists = async |name| direct.get_opt(name).await.map(|map| map.is_some());
    assert!(!exists("two").await?, "a dropped write was carried out");
    assert!(exists("three").await?, "a write with a lost answer was not carried out");
    assert!(exists("four").await?, "a write with a cut answer was not carried out");
    Ok(())
}

#[tokio::test]
async fn answers_can_be_made_up_and_delayed() -> Result<()> {
    let Bench { proxy, maps, direct } = bench().await?;
    for status in [401, 403, 409, 429, 500, 503] {
        proxy.on_write(move |_| StatusCode::from_u16(status).map_or(Fault::Pass, Fault::Status));
        assert_eq!(code(create(&maps, "made-up").await), Some(status));
    }
    proxy.on_write(|_| Fault::Raw(StatusCode::OK, "{ no JSON".into()));
    assert!(matches!(create(&maps, "made-up").await, Err(kube::Error::SerdeError(_))));
    assert!(direct.get_opt("made-up").await?.is_none());

    for fault in
        [|| Fault::Delay(Duration::from_millis(200)), || Fault::DelayAnswer(Duration::from_millis(200))]
    {
        proxy.on_read(move |_| fault());
        let begin = Instant::now();
        assert!(maps.get_opt("absent").await?.is_none());
        assert!(begin.elapsed() >= Duration::from_millis(200));
    }
    Ok(())
}

#[tokio::test]
async fn a_write_stands_still_where_the_test_wants() -> Result<()> {
    let Bench { proxy, maps, direct } = bench().await?;
    for (name, after, go) in [
        ("before", false, Go::On),
        ("never", false, Go::Drop),
        ("after", true, Go::On),
        ("lost", true, Go::Drop),
    ] {
        let (hold, mut held) = Hold::new();
        let hold = std::sync::Mutex::new(Some(hold));
        proxy.on_write(move |_| match hold.lock().expect("no panic").take() {
            Some(hold) if after => Fault::HoldAfter(hold),
            Some(hold) => Fault::HoldBefore(hold),
            None => Fault::Pass,
        });
        let write = tokio::spawn({
            let maps = maps.clone();
            async move { create(&maps, name).await }
        });
        held.reached().await?;
        assert_eq!(direct.get_opt(name).await?.is_some(), after, "{name}: while held");
        held.go(go);
        assert_eq!(write.await?.is_ok(), go == Go::On, "{name}: the answer");
        assert_eq!(direct.get_opt(name).await?.is_some(), after || go == Go::On, "{name}: in the end");
    }
    Ok(())
}

/// The object names in the events of a watch since the creation of the namespace, until the watch ends or breaks.
async fn watched(maps: &Api<ConfigMap>) -> (Vec<String>, Option<u16>) {
    let params = WatchParams::default().fields("metadata.name!=kube-root-ca.crt").disable_bookmarks();
    let mut events = match maps.watch(&params, "0").await {
        Ok(events) => events.boxed(),
        Err(kube::Error::Api(status)) => return (Vec::new(), Some(status.code)),
        Err(_) => return (Vec::new(), None),
    };
    let mut names = Vec::new();
    while let Ok(Some(event)) = events.try_next().await {
        match event {
            WatchEvent::Added(map) => names.push(map.metadata.name.unwrap_or_default()),
            WatchEvent::Error(status) => return (names, Some(status.code)),
            _ => {}
        }
    }
    (names, None)
}

#[tokio::test]
async fn watches_break_in_every_way() -> Result<()> {
    let Bench { proxy, maps, direct } = bench().await?;
    for name in ["a", "b", "c"] {
        create(&direct, name).await?;
    }
    proxy.on_watch(|_| WatchFault::Status(StatusCode::GONE));
    assert_eq!(watched(&maps).await, (vec![], Some(410)));
    proxy.on_watch(|_| WatchFault::Drop);
    assert_eq!(watched(&maps).await, (vec![], None));
    proxy.on_watch(|_| WatchFault::CutAfter(2));
    assert_eq!(watched(&maps).await.0.len(), 2);
    proxy.on_watch(|_| WatchFault::EndAfter(1));
    assert_eq!(watched(&maps).await.0.len(), 1);
    proxy.on_watch(|_| WatchFault::GoneAfter(3));
    let (names, code) = watched(&maps).await;
    assert_eq!((names.len(), code), (3, Some(410)));
    let events = Arc::new(AtomicU64::new(0));
    let seen = events.clone();
    proxy.on_watch(move |_| {
        let events = events.clone();
        let twice = move |event| vec![event; if events.fetch_add(1, Ordering::SeqCst) == 0 { 2 } else { 0 }];
        WatchFault::Rewrite(Box::new(twice))
    });
    let cut_after_all = async {
        let all = async || Ok((seen.load(Ordering::SeqCst) >= 3).then_some(()));
        let result = wait::until("three events", LIMIT, all).await;
        proxy.cut_watches();
        result
    };
    let (names, cut) = tokio::join!(watched(&maps), cut_after_all);
    cut?;
    assert_eq!(names.0.len(), 2);
    assert_eq!(names.0[0], names.0[1]);
    assert_eq!(proxy.watches(), 6);
    Ok(())
}

#[tokio::test]
async fn the_line_falls_silent_and_comes_back() -> Result<()> {
    let Bench { proxy, maps, direct } = bench().await?;
    let params = WatchParams::default().fields("metadata.name!=kube-root-ca.crt").disable_bookmarks();
    let mut events = maps.watch(&params, "0").await?.boxed();
    create(&direct, "heard").await?;
    let event = events.try_next().await?;
    assert!(matches!(event, Some(WatchEvent::Added(_))), "{event:?}");

    proxy.line(Line::Silent);
    create(&direct, "unheard").await?;
    let answered = AtomicBool::new(false);
    let read = async {
        let map = maps.get("heard").await;
        answered.store(true, Ordering::SeqCst);
        map
    };
    let open = async {
        let silent = tokio::time::timeout(Duration::from_millis(300), events.try_next()).await;
        assert!(silent.is_err(), "an event came over a silent line");
        assert!(!answered.load(Ordering::SeqCst), "an answer came over a silent line");
        proxy.line(Line::Open);
        events.try_next().await
    };
    let (map, event) = tokio::join!(read, open);
    map?;
    assert!(
        matches!(event?, Some(WatchEvent::Added(map)) if map.metadata.name.as_deref() == Some("unheard"))
    );

    proxy.line(Line::Cut);
    assert!(!matches!(events.next().await, Some(Ok(_))), "an event came over a cut line");
    assert!(maps.get("heard").await.is_err());
    proxy.clear();
    maps.get("heard").await?;
    Ok(())
}
