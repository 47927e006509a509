//! Runs the script: in virtual time on the embedded cluster, as fast as possible on the real one.

use super::clusters::{self, Ours};
use super::compare::{Line, compare};
use super::differences::{Difference, unexplained};
use super::objects::whole;
use super::recorder::{Recorder, existing_objects};
use super::requests::{Topic, filled_in};
use super::scenario::{File, Scenario, Turn};
use super::side::{Side, place};
use super::snapshot::{End, nodes, said};
use super::words::Words;
use super::{files, left_out};
use anyhow::{Context, Result, bail};
use futures::future::join_all;
use jiff::Timestamp;
use rollcall_controller::clock::Clock;
use rollcall_sim::kinds::Kind;
use rollcall_testbed::{Cluster, Component, wait};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Components that are paused while requests run, so that only the test changes objects.
const ACTORS: [Component; 3] = [Component::Kwok, Component::Scheduler, Component::ControllerManager];
/// Time limit for the real cluster to reach the state of the embedded one.
const SETTLES: Duration = Duration::from_secs(120);
/// Time that the embedded cluster continues after the last step.
const RESTS: Duration = Duration::from_secs(5);
/// The controller manager takes some seconds to start, and longer on a busy machine.
const WARM_UP: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);
/// A scenario is compared at this interval even without events.
const AT_LEAST: Duration = Duration::from_secs(1);
const ACCOUNTS: Duration = Duration::from_secs(120);
/// The node with a real kubelet.
const REAL_NODE: &str = "real";
/// A placeholder in scenarios for the scenario's name, which is a label of its nodes.
const OWN_NAME: &str = "$scenario";

pub struct Story {
    pub name: String,
    turn: Turn,
    /// The source text, which contains [`OWN_NAME`].
    text: String,
    scenario: Scenario,
}

impl Story {
    fn new(name: String, turn: Turn, text: String) -> Result<Story> {
        let scenario = serde_json::from_str(&text.replace(OWN_NAME, &name)).with_context(|| name.clone())?;
        Ok(Story { name, turn, text, scenario })
    }

    /// The same scenario with another name and namespace.
    fn again(&self) -> Result<&'static Story> {
        let again = Story::new(format!("{}-again", self.name), self.turn, self.text.clone())?;
        Ok(Box::leak(Box::new(again)))
    }
}

pub fn stories() -> Result<Vec<Story>> {
    let mut stories = Vec::new();
    for (file, text) in files("scenarios")? {
        let parsed: File = serde_saphyr::from_str(&text).with_context(|| format!("scenarios/{file}.yaml"))?;
        for (name, scenario) in parsed.scenarios {
            let text = filled_in(&parsed.given, &scenario).to_string();
            stories.push(Story::new(name, parsed.turn, text).with_context(|| format!("scenarios/{file}"))?);
        }
    }
    Ok(stories)
}

/// Runs a future in virtual time on its own thread.
fn virtually<T: Send + 'static, F: Future<Output = Result<T>>>(
    make: impl FnOnce() -> F + Send + 'static,
) -> Result<T> {
    let run = move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build()?.block_on(make())
    };
    std::thread::spawn(run).join().map_err(|_| anyhow::anyhow!("the embedded cluster panicked"))?
}

async fn add_namespace(side: &Side, name: &str) -> Result<()> {
    let namespace = json!({ "metadata": { "name": name } });
    side.done("POST", "/api/v1/namespaces", "application/json", &namespace).await?;
    let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
    wait::until("the service account of a namespace", ACCOUNTS, async || {
        Ok((side.get(&account).await?.code == 200).then_some(()))
    })
    .await
}

/// Runs all topics on both sides.
pub async fn requests(topics: &[Topic], differences: &[Difference], cluster: &Cluster) -> Result<Vec<Line>> {
    let theirs = Side { client: clusters::client(cluster).await? };
    let wanted = topics.iter().filter(|topic| !left_out(&format!("requests/{}", topic.name)));
    let wanted: Vec<&Topic> = wanted.collect();
    join_all(wanted.iter().map(async |topic| add_namespace(&theirs, &topic.namespace()).await))
        .await
        .into_iter()
        .collect::<Result<()>>()?;
    for component in ACTORS {
        cluster.pause(component).await?;
    }
    let both = async |topic: &&Topic| both_answer(topic, differences, &theirs).await;
    let (alone, together): (Vec<&Topic>, Vec<&Topic>) = wanted.iter().partition(|topic| topic.alone);
    let mut lines = Vec::new();
    for topic in &alone {
        lines.extend(both(topic).await?);
    }
    for of_topic in join_all(together.iter().map(both)).await {
        lines.extend(of_topic?);
    }
    for topic in topics.iter().map(Topic::namespace) {
        let path = format!("/api/v1/namespaces/{topic}");
        theirs.send("DELETE", &path, "application/json", Vec::new()).await?;
    }
    for component in ACTORS {
        cluster.resume(component).await?;
    }
    at_work(&theirs).await?;
    Ok(lines)
}

/// Runs a topic on both sides. Returns the differences.
async fn both_answer(topic: &Topic, differences: &[Difference], theirs: &Side) -> Result<Vec<Line>> {
    let again = topic.clone();
    let ours = virtually(move || async move {
        let ours = Ours::new().await?;
        add_namespace(&ours.side(), &again.namespace()).await?;
        again.run(&ours.side(), &|| ours.shared.lock().store.compact()).await
    })?;
    let theirs = topic.run(theirs, &|| ()).await?;
    let mut lines = Vec::new();
    for ((at, ours), (_, theirs)) in ours.iter().zip(&theirs) {
        compare(at, "", ours, theirs, &mut lines);
    }
    show(differences, &lines);
    Ok(lines)
}

/// Waits until the controllers of the real cluster work, because some scenarios depend on the time.
async fn at_work(side: &Side) -> Result<()> {
    add_namespace(side, "warm-up").await?;
    let set = json!({ "kind": "ReplicaSet", "name": "first", "app": "first" });
    let (_, set) = whole(&set, "warm-up")?;
    let place = place(Kind::ReplicaSet, Some("warm-up"));
    side.done("POST", &place, "application/json", &set).await?;
    wait::until("a first pod", WARM_UP, async || {
        let set = side.get(&format!("{place}/first")).await?.body;
        Ok((set["status"]["readyReplicas"] == 1).then_some(()))
    })
    .await
}

/// Prints unexpected differences immediately, because a whole run takes minutes.
fn show(differences: &[Difference], lines: &[Line]) {
    unexplained(differences, lines).iter().for_each(|line| println!("{line}"));
}

/// Runs a scenario on the embedded cluster.
async fn play(story: &Story) -> Result<End> {
    let Ours { embedded, shared: _, clock } = Ours::new().await?;
    let side = Side { client: embedded.client(rollcall_sim::store::Author::User) };
    if story.turn == Turn::Kubelet {
        let more = json!({ "labels": { "testbed.rollcall.dev/node": "real" } });
        let node = clusters::node(REAL_NODE, &more, &clusters::room("2", "8Gi", "110"));
        side.done("POST", "/api/v1/nodes", "application/json", &node).await?;
    }
    let controller = clusters::controller(embedded.client(rollcall_sim::store::Author::Controller(0)), clock);
    let recorder = Recorder::start(&side).await?;
    let story = async {
        add_namespace(&side, &story.name).await?;
        story.scenario.run(&side, &recorder, &story.name).await?;
        tokio::time::sleep(RESTS).await;
        look(&side, &recorder, story).await
    };
    tokio::select! {
        biased;
        end = story => end,
        () = embedded.run() => bail!("the embedded cluster ended"),
        ended = controller => bail!("the controller ended: {ended:?}"),
    }
}

/// The current state of a scenario.
async fn look(side: &Side, recorder: &Recorder, story: &Story) -> Result<End> {
    let events = recorder.events_of(&story.name);
    let mut all: Vec<(Kind, Value)> =
        existing_objects(&events).map(|(kind, object)| (kind, object.clone())).collect();
    all.extend(nodes(side, &story.name).await?);
    all.extend(said(side, &story.name).await?);
    let words = Words::new(&events, story.scenario.anywhere, story.turn == Turn::Kubelet);
    Ok(End::new(&all, &events, &words, &story.scenario.order))
}

/// Runs all scenarios on both sides.
pub async fn scenarios(
    stories: &'static [Story],
    differences: &[Difference],
    cluster: &Cluster,
) -> Result<Vec<Line>> {
    let begun = std::time::Instant::now();
    let wanted: Vec<&'static Story> =
        stories.iter().filter(|story| !left_out(&format!("scenarios/{}", story.name))).collect();
    let mut ends: BTreeMap<&str, Result<End>> = BTreeMap::new();
    for story in &wanted {
        let story: &'static Story = story;
        ends.insert(&story.name, virtually(move || play(story)));
    }
    println!("all scenarios were played in virtual time within {:?}", begun.elapsed());
    let side = Side { client: clusters::client(cluster).await? };
    let stage = Stage { recorder: Recorder::start(&side).await?, side, ends, differences };
    let clock = Clock::starting_at(Timestamp::now());
    let controller = clusters::controller(clusters::client(cluster).await?, clock);
    let of = |turn: Turn| wanted.iter().copied().filter(move |story| story.turn == turn);
    let others = async {
        let mut played = join_all(of(Turn::Together).map(|story| stage.play(story))).await;
        for story in of(Turn::Alone) {
            played.push(stage.play(story).await);
        }
        if of(Turn::Kubelet).next().is_some() {
            let node = cluster.start_real_node(REAL_NODE).await?;
            played.extend(join_all(of(Turn::Kubelet).map(|story| stage.play(story))).await);
            node.stop_kubelet().await?;
        }
        anyhow::Ok(played)
    };
    // Done first, so that these scenarios do not miss the next full minute.
    let places = of(Turn::Long).map(async |story| add_namespace(&stage.side, &story.name).await);
    join_all(places).await.into_iter().collect::<Result<()>>()?;
    let all = async {
        let long = join_all(of(Turn::Long).map(|story| stage.play(story)));
        let (long, others) = tokio::join!(long, others);
        let played = [long, others?].concat();
        let mut lines: Vec<Line> = played.iter().flat_map(|played| played.lines.clone()).collect();
        // A real cluster that only passed through our end state has moved on by now.
        for Played { story, end, .. } in played.iter().filter(|played| played.story.turn == Turn::Together) {
            lines.extend(stage.look_again(story, end.as_ref()).await?);
        }
        anyhow::Ok(lines)
    };
    tokio::select! {
        lines = all => lines,
        ended = controller => bail!("the controller ended: {ended:?}"),
    }
}

/// The real cluster, and the expected ends.
struct Stage<'a> {
    side: Side,
    recorder: Recorder,
    ends: BTreeMap<&'a str, Result<End>>,
    differences: &'a [Difference],
}

/// A scenario that was run on the real cluster.
#[derive(Clone)]
struct Played<'a> {
    story: &'a Story,
    /// The end on the embedded cluster, unless it failed.
    end: Option<End>,
    lines: Vec<Line>,
}

impl Stage<'_> {
    /// Runs a scenario on the real cluster, and waits until it reaches the end state of the embedded cluster. Controllers
    /// race on a real cluster. A scenario with differences is therefore repeated with another name, and passes if one of
    /// the two runs has none.
    async fn play<'s>(&self, story: &'s Story) -> Played<'s> {
        let first = self.play_once(story, &self.ends[&*story.name]).await;
        if unexplained(self.differences, &first.lines).is_empty() {
            return first;
        }
        println!("{} differs, and is played once more", story.name);
        let once_more = async {
            let again = story.again()?;
            let end = tokio::task::spawn_blocking(move || virtually(move || play(again))).await?;
            if story.turn == Turn::Long {
                add_namespace(&self.side, &again.name).await?;
            }
            anyhow::Ok(self.play_once(again, &end).await)
        };
        once_more.await.unwrap_or(first)
    }

    async fn play_once<'s>(&self, story: &'s Story, ours: &Result<End>) -> Played<'s> {
        let begun = Instant::now();
        let failed = |ours: String, theirs: String| {
            vec![Line { at: format!("scenarios/{}", story.name), path: "failed".into(), ours, theirs }]
        };
        let played = match ours {
            Ok(ours) => self.compare(story, ours).await,
            Err(error) => Ok(failed(format!("{error:#}"), "not tried".into())),
        };
        let cleared = match story.turn {
            Turn::Alone => self.clear(story).await,
            Turn::Together | Turn::Long | Turn::Kubelet => Ok(()),
        };
        let lines = played.and_then(|lines| cleared.map(|()| lines));
        let lines = lines.unwrap_or_else(|error| failed("fine".into(), format!("{error:#}")));
        println!("{} took {:?}", story.name, begun.elapsed());
        show(self.differences, &lines);
        Played { story, end: ours.as_ref().ok().cloned(), lines }
    }

    async fn compare(&self, story: &Story, ours: &End) -> Result<Vec<Line>> {
        if story.turn != Turn::Long {
            add_namespace(&self.side, &story.name).await?;
        }
        story.scenario.run(&self.side, &self.recorder, &story.name).await?;
        let deadline = Instant::now() + SETTLES;
        loop {
            let known = self.recorder.count(&story.name);
            let lines = ours.compare(&look(&self.side, &self.recorder, story).await?, &story.name);
            if unexplained(self.differences, &lines).is_empty() || Instant::now() > deadline {
                return Ok(lines);
            }
            // Events and nodes are not watched, and are compared at the next check.
            let patience = Instant::now() + AT_LEAST;
            while self.recorder.count(&story.name) == known && Instant::now() < patience {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    /// Checks some time later whether the state is still the same.
    async fn look_again(&self, story: &Story, ours: Option<&End>) -> Result<Vec<Line>> {
        let Some(ours) = ours else { return Ok(Vec::new()) };
        let theirs = look(&self.side, &self.recorder, story).await?;
        let lines = ours.compare(&theirs, &format!("{} (later)", story.name));
        show(self.differences, &lines);
        Ok(lines)
    }

    /// Deletes the nodes of a scenario, because other scenarios would use them.
    async fn clear(&self, story: &Story) -> Result<()> {
        let nodes = format!("/api/v1/nodes?labelSelector=scenario%3D{}", story.name);
        self.side.done("DELETE", &nodes, "application/json", &json!(null)).await?;
        self.until_empty(&nodes).await
    }

    async fn until_empty(&self, path: &str) -> Result<()> {
        wait::until(path, SETTLES, async || {
            let left = self.side.get(path).await?.body["items"].as_array().map_or(0, Vec::len);
            Ok((left == 0).then_some(()))
        })
        .await
    }
}
