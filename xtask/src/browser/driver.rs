//! As much of the `WebDriver` protocol as the checks need, over plain HTTP to a `ChromeDriver` on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// How elements are named in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// No page of ours takes this long, however busy the machine is.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A browser of its own for each run: nothing is remembered, no name is resolved, no update is looked for.
const BROWSER: &[&str] = &[
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--window-size=1400,900",
    // Scrolling that takes its time would move what is to be clicked.
    "--force-prefers-reduced-motion",
];

/// A browser and the `ChromeDriver` it is spoken to through. Both end with this value.
pub(crate) struct Browser {
    port: u16,
    session: String,
    // Ends after the session.
    _driver: Driver,
}

impl Browser {
    /// Starts both.
    pub(crate) fn start() -> Result<Self> {
        let driver = Driver::start()?;
        let options = json!({"args": BROWSER, "binary": "/usr/bin/chromium"});
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let session = send(driver.port, "POST", "/session", Some(&capabilities))?;
        let id = session["sessionId"].as_str().context("no session")?.to_owned();
        Ok(Self { port: driver.port, session: id, _driver: driver })
    }

    /// Opens a file and waits until its script has run. Nothing of the page before is left.
    pub(crate) fn open(&self, file: &Path) -> Result<Page<'_>> {
        let page = Page { browser: self };
        page.complaints()?;
        page.requests()?;
        page.size(1400, 900)?;
        page.scheme("light")?;
        page.post("/url", &json!({"url": format!("file://{}", encoded(&file.to_string_lossy()))}))?;
        page.wait("return document.documentElement.dataset.ready === 'true'")?;
        Ok(page)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        send(self.port, "DELETE", &format!("/session/{}", self.session), None).ok();
    }
}

/// A running `ChromeDriver`. It ends with this value.
struct Driver {
    process: Child,
    port: u16,
}

impl Driver {
    /// Starts one on a free port.
    fn start() -> Result<Self> {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run chromedriver")?;
        let out = process.stdout.take().context("chromedriver has no output")?;
        for line in BufReader::new(out).lines() {
            // "ChromeDriver was started successfully on port 34567."
            let line = line?;
            let port = line.split("on port ").nth(1).and_then(|rest| rest.trim_end_matches('.').parse().ok());
            if let Some(port) = port.filter(|_| line.contains("success")) {
                return Ok(Self { process, port });
            }
        }
        process.kill().ok();
        bail!("chromedriver ended before it was ready")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The page that a browser shows.
pub(crate) struct Page<'a> {
    browser: &'a Browser,
}

impl Page<'_> {
    /// What a script returns.
    pub(crate) fn script(&self, script: &str) -> Result<Value> {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// A text that a script returns.
    pub(crate) fn text(&self, script: &str) -> Result<String> {
        let value = self.script(script)?;
        value.as_str().map(str::to_owned).with_context(|| format!("no text from `{script}`: {value}"))
    }

    /// Fails unless the script returns true.
    pub(crate) fn holds(&self, script: &str) -> Result<()> {
        let value = self.script(&format!("return {script}"))?;
        ensure!(value == Value::Bool(true), "`{script}` is {value}");
        Ok(())
    }

    /// Fails unless all of these are true. Asked at once: every question costs a way to the browser and back.
    pub(crate) fn all_hold<S: AsRef<str>>(&self, scripts: &[S]) -> Result<()> {
        let list: Vec<String> = scripts.iter().map(|s| format!("() => {}", s.as_ref())).collect();
        let values = self.script(&format!("return [{}].map(f => f())", list.join(", ")))?;
        for (script, value) in scripts.iter().zip(values.as_array().into_iter().flatten()) {
            ensure!(*value == Value::Bool(true), "`{}` is {value}", script.as_ref());
        }
        ensure!(values.as_array().is_some_and(|v| v.len() == scripts.len()), "not all was answered: {values}");
        Ok(())
    }

    /// Waits until the script returns true.
    pub(crate) fn wait(&self, script: &str) -> Result<()> {
        for _ in 0..600 {
            if self.script(script)? == Value::Bool(true) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("`{script}` never came true")
    }

    /// Clicks an element as a user does: with the pointer, where it is seen.
    pub(crate) fn click(&self, selector: &str) -> Result<()> {
        let (x, y, seen) = self.middle(selector)?;
        ensure!(seen, "{selector} is covered by something else");
        let button = |kind: &str| json!({"type": kind, "button": 0});
        self.pointer(&[at(x, y), button("pointerDown"), button("pointerUp")])
    }

    /// Types into an element.
    pub(crate) fn fill(&self, selector: &str, text: &str) -> Result<()> {
        let element = self.element(selector)?;
        self.post(&format!("/element/{element}/value"), &json!({"text": text}))?;
        Ok(())
    }

    /// Moves the pointer over an element: to its middle, or that far off in pixels.
    pub(crate) fn hover(&self, selector: &str, (x, y): (i64, i64)) -> Result<()> {
        let middle = self.middle(selector)?;
        let (x, y) = (middle.0 + x, middle.1 + y);
        self.pointer(&[at(x + 1, y), at(x, y)])
    }

    /// Presses a key.
    pub(crate) fn key(&self, key: char) -> Result<()> {
        let presses = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.actions(&json!({"type": "key", "id": "keyboard", "actions": presses}))
    }

    /// Sets the size of the window's inside.
    pub(crate) fn size(&self, width: u32, height: u32) -> Result<()> {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics).map(drop)
    }

    /// Sets what the system prefers: `light` or `dark`.
    pub(crate) fn scheme(&self, scheme: &str) -> Result<()> {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &features).map(drop)
    }

    /// A picture of the whole page, as the base64 text of a PNG.
    pub(crate) fn picture(&self) -> Result<String> {
        self.script("scrollTo(0, 0)")?;
        let png = self.devtools(
            "Page.captureScreenshot",
            &json!({"format": "png", "captureBeyondViewport": true, "optimizeForSpeed": true}),
        )?;
        png["data"].as_str().map(str::to_owned).context("no picture")
    }

    /// Size of the page as PDF, in characters of base64.
    pub(crate) fn printed_bytes(&self) -> Result<usize> {
        let pdf = self.devtools("Page.printToPDF", &json!({"printBackground": true}))?;
        Ok(pdf["data"].as_str().context("no PDF")?.len())
    }

    /// Everything the browser complained about since the last time.
    pub(crate) fn complaints(&self) -> Result<Vec<String>> {
        let log = self.post("/se/log", &json!({"type": "browser"}))?;
        Ok(log.as_array().into_iter().flatten().map(|entry| entry["message"].to_string()).collect())
    }

    /// Every address that was asked for since the last time.
    pub(crate) fn requests(&self) -> Result<Vec<String>> {
        let log = self.post("/se/log", &json!({"type": "performance"}))?;
        let mut found = Vec::new();
        for entry in log.as_array().into_iter().flatten() {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap_or_default())?;
            let message = &event["message"];
            if message["method"] == "Network.requestWillBeSent" {
                found.extend(message["params"]["request"]["url"].as_str().map(str::to_owned));
            }
        }
        Ok(found)
    }

    /// Scrolls to an element, so that what sticks to the top of the page does not cover it. Returns its middle, and
    /// whether it is what is seen there.
    fn middle(&self, selector: &str) -> Result<(i64, i64, bool)> {
        let place = self.script(&format!(
            "const e = document.querySelector({}); if (!e) return null; \
             e.scrollIntoView({{block: 'center', inline: 'nearest'}}); const b = e.getBoundingClientRect(); \
             const x = Math.round(b.left + b.width / 2), y = Math.round(b.top + b.height / 2); \
             return [x, y, e.contains(document.elementFromPoint(x, y))]",
            json!(selector)
        ))?;
        let (x, y) = (place[0].as_i64(), place[1].as_i64());
        let (x, y) = x.zip(y).with_context(|| format!("no element {selector}"))?;
        Ok((x, y, place[2] == Value::Bool(true)))
    }

    fn pointer(&self, actions: &[Value]) -> Result<()> {
        self.actions(
            &json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}),
        )
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Result<Value> {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    fn actions(&self, source: &Value) -> Result<()> {
        self.post("/actions", &json!({"actions": [source]})).map(drop)
    }

    fn element(&self, selector: &str) -> Result<String> {
        let found = self.post("/element", &json!({"using": "css selector", "value": selector}))?;
        found[ELEMENT].as_str().map(str::to_owned).with_context(|| format!("no element {selector}"))
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        send(self.browser.port, "POST", &format!("/session/{}{path}", self.browser.session), Some(body))
    }
}

/// A way of the pointer to a place of the window.
fn at(x: i64, y: i64) -> Value {
    json!({"type": "pointerMove", "duration": 0, "origin": "viewport", "x": x, "y": y})
}

/// A path as an address has it.
fn encoded(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-_.~".contains(&b);
    path.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn send(port: u16, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("chromedriver does not answer")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        ensure!(reader.read_line(&mut line)? > 0, "chromedriver ended its answer early");
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':').filter(|(n, _)| n.eq_ignore_ascii_case("content-length")) {
            length = value.trim().parse().with_context(|| format!("{name} is no number"))?;
        }
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    let mut answer: Value = serde_json::from_slice(&bytes)?;
    let value = answer["value"].take();
    match value["error"].as_str() {
        Some(error) => bail!("{error}: {}", value["message"].as_str().unwrap_or_default()),
        None => Ok(value),
    }
}
