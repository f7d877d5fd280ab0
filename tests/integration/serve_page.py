"""The chat page of weft serve in headless Chromium: streaming, stop, regenerate, late frames, failed requests, settings, Markdown,
probabilities, dark and light, a phone's width, the keyboard alone. Skipped without selenium (PyPI) and Chromium (Debian: chromium,
chromium-driver).

    serve_page.py TOOL SOURCE_DIR [FOLDER]    FOLDER: for screenshots
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from checks import expect, finish, skip

try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    skip("no selenium")
if not shutil.which("chromium") or not shutil.which("chromedriver"):
    skip("no chromium")

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
shots = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
CODE = "A **weft** is the thread that goes *across*:\n\n```c\nfor (int i = 0; i < n; ++i)\n  y[i] = <b>x[i]</b>;\n```\n\n- [docs](https://example.org/)\n- `weft serve`\n"
ANSWERS = {"What is a weft?": CODE, "Say hello.": "Hello there!", "Count.": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 " * 6}
# Refuses two questions in a row, as the templates of Gemma, Mistral and Llama 2 do.
ALTERNATE = ("{% set first = 1 if messages[0]['role'] == 'system' else 0 %}{% for message in messages %}{% if loop.index0 >= first and "
             "(message['role'] == 'user') != ((loop.index0 - first) % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}")
# The test plays server and screen: event() sends an event of the answer, draw() draws the frames requested until now; refuse: status and
# message of every response; pass: requests reach the real server.
SCRIPTED = r"""
  window.server = {sent: [], frames: [], refuse: null, pass: false, event: null, draw: () => server.frames.splice(0).forEach(frame => frame())};
  window.requestAnimationFrame = frame => server.frames.push(frame);
  const real = window.fetch;
  window.fetch = async (url, options) => {
    server.sent.push(JSON.parse(options.body).messages);
    if (server.pass) return real(url, options);
    if (server.refuse) return new Response(JSON.stringify({error: {message: server.refuse[1]}}), {status: server.refuse[0]});
    return new Response(new ReadableStream({start(stream) {
      server.event = data => stream.enqueue(new TextEncoder().encode("data: " + JSON.stringify(data) + "\n\n"));
      options.signal.addEventListener("abort", () => stream.error(new DOMException("aborted", "AbortError")));
    }}));
  };"""
ROLE = {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
# Markdown and the HTML that it becomes.
MARKDOWN = {
    "```print(1)```\nafter": "<p><code>print(1)</code><br>after</p>",
    "``a ` b`` `` `c` `` ``d `e`": "<p><code>a ` b</code> <code>`c`</code> ``d <code>e</code></p>",
    "````md\n```\nx\n```\n````\nafter": "<pre><code>```\nx\n```</code></pre><p>after</p>",
    "~~~\n```\n~~~~\n\nafter": "<pre><code>```</code></pre><p>after</p>",
    "1. a\n\n2. b\n\nend": '<ol><li value="1">a</li><li value="2">b</li></ol><p>end</p>',
    "a\n\n2024. It was": "<p>a</p><p>2024. It was</p>",
    "999. a\n7. b": '<ol><li value="999">a</li><li value="7">b</li></ol>',
    "1. a\n\ntext\n\n2. b": '<ol><li value="1">a</li></ol><p>text</p><ol><li value="2">b</li></ol>',
    "1. a\n\n   more\n2. b\nlazy": '<ol><li value="1">a<p>more</p></li><li value="2">b<br>lazy</li></ol>',
    "1. a\n   - x\n   - y\n\n2. b": '<ol><li value="1">a<ul><li>x</li><li>y</li></ul></li><li value="2">b</li></ol>',
    "1. a\n   ```c\n   x\n     y\n   ```\n2. b": '<ol><li value="1">a<pre><code>x\n  y</code></pre></li><li value="2">b</li></ol>',
    "# T\nb\n- c\n1) d\n## U": '<h2>T</h2><p>b</p><ul><li>c</li></ul><ol><li value="1">d</li></ol><h3>U</h3>',
    "<b>\n`<i>`\n[x](javascript:y)": "<p>&lt;b&gt;<br><code>&lt;i&gt;</code><br>[x](javascript:y)</p>",
    "```\n\n a\n": "<pre><code>\n a\n</code></pre>",
    "x\n| a | b |\n|:--|--:|\n| 1 | `p\\|q` |\n| 2\n\nend": "<p>x</p><table><tbody><tr><th>a</th><th>b</th></tr><tr><td>1</td><td><code>p|q</code></td></tr>"
                                                      "<tr><td>2</td></tr></tbody></table><p>end</p>",
    "a | b\n--- | ---\n1 | 2 | 3": "<table><tbody><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td><td>3</td></tr></tbody></table>",
    "a | b\n---\nc": "<p>a | b</p><hr><p>c</p>",
    "> a\n> ```\n> x\nb\n>> c": "<blockquote><p>a</p><pre><code>x</code></pre></blockquote><p>b</p><blockquote><blockquote><p>c</p></blockquote></blockquote>",
    "- a\n  > b\n\n* * *\n-- -": "<ul><li>a<blockquote><p>b</p></blockquote></li></ul><hr><hr>",
}
# Texts of random pieces: returns those of which a word is not shown, or with an element or attribute that Markdown has no use for.
RANDOM_MARKDOWN = r"""
  const pieces = ["W", "W", "W ", " ", "\n", "\n\n", "\n   ", "\n- ", "\n  * ", "\n1. ", "\n   2) ", "\n2024. ", "\n999) ", "\n# ", "`W`", "``W ` W``", "```W```", "\n```W W```\n", "\n```c\n",
    "\n````\n", "\n   ```\n", "\n~~~\n", "*", "**", "**W**", "[W](https://e.org/)", "[W](", ")", "|", "| W |", "\n|---|---|\n", "\n--|:-:\n", "\n---\n", "\n> ", "\n>> ", "<img src=x onerror=W>", "</code></pre><script>W</script>", "\"", "' onclick='W", "&lt;W", "\u0000"];
  const allowed = new Set(["P", "BR", "UL", "OL", "LI", "PRE", "CODE", "H2", "H3", "STRONG", "EM", "A", "TABLE", "TBODY", "TR", "TH", "TD", "BLOCKQUOTE", "HR", "LI value", "A href", "A rel", "A target"]), wrong = [];
  let state = 1;
  const random = n => (state = (state * 48271) % 2147483647) % n;
  for (let i = 0; i < arguments[0]; ++i) {
    let text = "", words = 0;
    for (let left = 1 + random(30); left > 0; --left) text += pieces[random(pieces.length)].replace(/W/g, () => "w" + words++ + ".");
    const body = new DOMParser().parseFromString(markdown(text), "text/html").body, all = Array.from(body.querySelectorAll("*"));
    const names = all.flatMap(e => [e.tagName, ...Array.from(e.attributes, a => e.tagName + " " + a.name)]);
    const lost = Array.from({length: words}, (_, i) => "w" + i + ".").filter(word => !body.textContent.includes(word));
    if (lost.length || !names.every(name => allowed.has(name))) wrong.push([text, lost, names.filter(name => !allowed.has(name))]);
  }
  return wrong;"""


def train(folder):
    """A model that gives these answers."""
    data = folder / "talk.jsonl"
    data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}) + "\n" for q, a in ANSWERS.items()) * 40)
    subprocess.run([tool, "train", "--data", data, "--chat-template", "chatml", "--packing", "concatenate", "--vocabulary", "bytes", "--width", "96", "--layers", "2",
                    "--heads", "4", "--sequence", "512", "--context", "1024", "--batch", "4", "--validation", "0", "--learning-rate", "0.004", "--warmup", "10",
                    "--evaluate-every", "0", "--steps", "250", "--out", folder / "run"], check=True, capture_output=True)
    template = folder / "run/model/chat_template.jinja"
    template.write_text(ALTERNATE + template.read_text())
    return folder / "run/model"


class Page:
    def __init__(self, port):
        options = webdriver.ChromeOptions()
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,800", "--hide-scrollbars"):
            options.add_argument(flag)
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        self.driver.set_script_timeout(300)
        self.driver.get(f"http://127.0.0.1:{port}/")

    def one(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def until(self, what, condition, seconds=300):
        end = time.time() + seconds
        while not condition() and time.time() < end:
            time.sleep(0.02)
        expect(what, condition())

    def idle(self):
        return not self.one("#stop").is_displayed()

    def send(self, text, wait=True):
        self.one("#question").send_keys(text, Keys.ENTER)
        if wait:
            self.until(f"an answer to {text}", self.idle)
        return self.all("article.assistant")[-1] if self.all("article.assistant") else None

    def script(self):
        """A new page whose server and frames the test plays."""
        self.driver.refresh()
        self.until("the model's name", lambda: self.one("#name").text == "model")
        self.js(SCRIPTED)

    def ask(self, text, *events):
        """Sends a question to the scripted server, which answers with these events and does not end."""
        self.js("server.event = null; server.frames = []")
        self.send(text, wait=False)
        self.until("a request", lambda: self.js("return server.event !== null"))
        for event in events:
            self.js("server.event(arguments[0])", event)
        self.until("a frame is requested", lambda: not events or self.js("return server.frames.length") > 0)

    def talk(self):
        return [(article.get_attribute("class"), article.text) for article in self.all("article")]

    def written(self):
        return self.one("#question").get_attribute("value")

    def keys(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self):
        return self.js("return document.activeElement.id")

    def shot(self, name):
        if shots:
            shots.mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(shots / f"{name}.png"))

    def media(self, scheme):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def speed(self, bytes_per_second):
        """-1: as fast as the model, which is too fast for a test that looks at an unfinished answer."""
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, "latency": 0, "downloadThroughput": bytes_per_second, "uploadThroughput": -1})

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})


def markdown_and_streaming(page):
    page.until("the model's name", lambda: page.one("#name").text == "model")
    page.js("window.seen = new Set(); new MutationObserver(() => { const a = document.querySelector('article.assistant'); if (a) seen.add(a.textContent.length); })"
            ".observe(document.querySelector('main'), {childList: true, subtree: true, characterData: true});")
    page.speed(40000)
    answer = page.send("What is a weft?")
    page.speed(-1)
    html = answer.get_attribute("innerHTML")
    expect("it streams", page.js("return seen.size") > 3, page.js("return seen.size"))
    expect("bold, italics, code, lists", all(tag in html for tag in ("<strong>weft</strong>", "<em>across</em>", "<code>weft serve</code>", "<li>")), html)
    expect("a link", page.one("article.assistant a").get_attribute("href") == "https://example.org/")
    expect("a block of code, escaped", page.one("article.assistant pre").text == "for (int i = 0; i < n; ++i)\n  y[i] = <b>x[i]</b>;", page.one("article.assistant pre").text)
    expect("tokens per second", re.search(r"\d+ tokens, [\d.]+ per second", page.one(".notes").text), page.one(".notes").text)
    page.shot("light")
    before = page.one("article.assistant pre").text
    page.one("#again").click()
    page.until("again", lambda: page.idle() and len(page.all("article.assistant")) == 1)
    expect("the same greedy answer", page.one("article.assistant pre").text == before)


def stopping(page):
    page.speed(40000)
    for how in ("click", "escape"):
        page.one("#clear").click()
        page.js("window.stopped = new MutationObserver(() => { const all = document.querySelectorAll('article.assistant'), last = all[all.length - 1];"
                "if (last && last.textContent.length > 5 && !document.getElementById('stop').hidden) { stopped.disconnect();" +
                ("document.getElementById('stop').click();" if how == "click" else "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));") +
                "} }); setTimeout(() => stopped.observe(document.querySelector('main'), {childList: true, subtree: true, characterData: true}), 0);")
        count = len(page.all("article.assistant"))
        answer = page.send("Count.")
        text = answer.text
        expect(f"stopped by {how}", len(page.all("article.assistant")) == count + 1 and "stopped" in text and not ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 " * 5 in text), text)
        page.js("stopped.disconnect()")
    page.speed(-1)


def token(text):
    return {"choices": [{"delta": {"content": text}, "finish_reason": None}]}


def late_frames(page):
    """A frame that was requested before the answer ended, and comes after it."""
    page.script()
    page.ask("One.", ROLE, token("old"))
    page.one("#clear").click()
    page.until("stopped by New", page.idle)
    page.js("server.draw()")
    expect("New shows the hint", page.talk() == [] and page.one("#hint").text.startswith("Ask something"), page.one("#talk").text)
    page.ask("One.", ROLE, token("old"))
    page.one("#clear").click()
    page.until("stopped by New", page.idle)
    late = page.js("window.late = server.frames; return late.length")
    page.ask("Two.", ROLE, token("new"))
    page.js("late.forEach(frame => frame()); server.draw()")
    expect("New keeps the next answer", late == 1 and page.talk() == [("user", "Two."), ("assistant", "new")], page.talk())
    page.js("server.event(arguments[0])", {"error": {"message": "out of luck"}})
    page.until("the error ends the answer", page.idle)
    page.js("server.draw()")
    failed = [("user", "Two."), ("assistant", "new"), ("error", "out of luck")]
    expect("an error keeps the answer's start", page.talk() == failed, page.talk())
    page.one("#clear").click()
    page.ask("Two.", token("new"))
    page.js("server.event(arguments[0])", {"error": {"message": "out of luck"}})
    page.until("the error ends the answer", page.idle)
    page.js("server.draw()")
    expect("an error right after a token is shown", page.talk() == failed, page.talk())
    for how in ("click", "escape"):
        page.ask("Three.", ROLE)
        page.one("#stop").click() if how == "click" else page.keys(Keys.ESCAPE)
        page.until("stopped before any text", page.idle)
        page.js("server.draw()")
        expect("a stop before any text keeps the conversation", page.talk() == failed[:2], page.talk())
        expect("and returns the question", page.written() == "Three.", page.written())
        page.one("#question").clear()
    page.driver.refresh()


def unanswered(page):
    """Questions without an answer are not sent with the next one: the model's template would refuse them."""
    page.script()
    for status, why in ((429, "the queue is full"), (503, "the server is stopping"), (504, "it took too long")):
        page.js("server.refuse = arguments[0]", [status, why])
        page.send("" if page.written() else "Say hello.")
        expect(f"{status}: the question returns to the input box", page.talk() == [("error", why)] and page.written() == "Say hello.", (page.talk(), page.written()))
        expect(f"{status}: nothing to regenerate", not page.one("#again").is_enabled())
    page.shot("refused")
    page.js("server.pass = true")
    page.send("")
    expect("the question is answered", page.talk()[0] == ("user", "Say hello.") and "Hello there!" in page.talk()[-1][1] and len(page.talk()) == 2, page.talk())
    before = page.talk()
    page.js("server.pass = false; server.refuse = null")
    page.ask("Cuont.", ROLE)
    page.one("#question").send_keys("and", Keys.SHIFT + Keys.ENTER + Keys.NULL, "then")
    height = page.one("#question").size["height"]
    page.one("#stop").click()
    page.until("stopped", page.idle)
    expect("a draft stays below the question", page.written() == "Cuont.\nand\nthen" and page.talk() == before, (page.written(), page.talk()))
    expect("the box grows with it", page.one("#question").size["height"] > height)
    expect("and needs no scroll bar", page.js("const box = document.getElementById('question'); return box.clientHeight >= box.scrollHeight"))
    page.one("#question").clear()
    page.ask("Half?", token("ha"))
    page.one("#stop").click()
    page.until("stopped", page.idle)
    expect("a stopped answer stays", page.talk() == [*before, ("user", "Half?"), ("assistant", "ha\nstopped")] and page.written() == "", page.talk())
    page.js("server.refuse = [429, 'the queue is full']")
    page.one("#again").click()
    page.until("refused", page.idle)
    expect("a refused Regenerate keeps the answer", page.talk() == [*before, ("user", "Half?"), ("assistant", "ha\nstopped"), ("error", "the queue is full")] and page.written() == "", page.talk())
    page.js("server.pass = true")
    page.send("What is a weft?")
    expect("the template takes what is sent", [role for role, _ in page.talk()] == ["user", "assistant"] * 3, page.talk())
    sent = page.js("return server.sent")
    expect("roles alternate in every request", all(m["role"] == ("user", "assistant")[i % 2] and m["content"] for s in sent for i, m in enumerate(s)) and len(sent) == 8, sent)
    page.driver.refresh()


def markdown_text(page):
    """All text is shown, and nothing but text."""
    for text, html in MARKDOWN.items():
        shown = page.js("const e = document.createElement('article'); e.innerHTML = markdown(arguments[0]); return e.innerHTML", text)
        expect(f"Markdown of {text!r}", shown == html, shown)
    wrong = page.js(RANDOM_MARKDOWN, 5000)
    expect("random Markdown", not wrong, (len(wrong), wrong[:3]))
    page.js("messages = [{role: 'user', content: 'Markdown?'}, {role: 'assistant', tokens: [], content: arguments[0]}]; draw()", "\n\n---\n\n".join(MARKDOWN))
    for width, height in ((1100, 1500), (375, 1700)):
        page.size(width, height)
        page.js("document.getElementById('talk').scrollTop = 0")
        page.shot(f"markdown-{width}")
    page.size(1100, 800)
    page.driver.refresh()


def settings(page):
    page.one("#toggle").click()
    page.one("#max_tokens").send_keys("4")
    page.one("#system").send_keys("Be brief.")
    page.js("window.sent = []; const before = window.fetch; window.fetch = (...all) => { sent.push(JSON.parse(all[1].body || 'null')); return before(...all); };")
    page.shot("settings")
    page.one("#toggle").click()
    answer = page.send("Say hello.")
    sent = page.js("return sent[0]")
    expect("settings are sent", sent["max_tokens"] == 4 and sent["messages"][0] == {"role": "system", "content": "Be brief."}, sent)
    expect("and hold", "cut at the limit" in answer.text, answer.text)
    page.driver.refresh()
    page.until("kept in the browser", lambda: page.one("#max_tokens").get_attribute("value") == "4")
    page.one("#toggle").click()
    for name in ("max_tokens", "system"):
        page.one(f"#{name}").clear()
        page.js("arguments[0].dispatchEvent(new Event('change'))", page.one(f"#{name}"))
    page.one("#toggle").click()


def probabilities(page):
    page.one("#clear").click()
    page.send("Say hello.")
    page.one("#toggle").click()
    page.one("#tokens").click()
    page.one("#toggle").click()
    spans = page.all(".tokens span")
    expect("a span for each token", "".join(page.js("return Array.from(document.querySelectorAll('.tokens span'), s => s.textContent)")).startswith("Hello there!"))
    ActionChains(page.driver).move_to_element(spans[1]).perform()
    page.until("hovering shows the probability", lambda: page.one("#tip").is_displayed() and "%" in page.one("#tip").text)
    expect("and the alternatives", len(page.one("#tip").text.splitlines()) >= 3, page.one("#tip").text)
    page.shot("probabilities")
    page.js("document.querySelector('.tokens span').focus()")
    first = page.one("#tip").text
    page.keys(Keys.ARROW_RIGHT)
    expect("arrows go through the tokens", page.one("#tip").text != first and page.one("#tip").is_displayed(), first)
    page.one("#toggle").click()
    page.one("#tokens").click()
    page.one("#toggle").click()


def colours_and_widths(page):
    page.one("#clear").click()
    page.send("Say hello.")
    page.send("What is a weft?")
    colours = set()
    for scheme in ("light", "dark"):
        page.media(scheme)
        colours.add(page.js("return getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color"))
        for width, height in ((1100, 800), (375, 667)):
            page.size(width, height)
            expect(f"no sideways scrolling at {width}", page.js("return document.documentElement.scrollWidth") <= width, page.js("return document.documentElement.scrollWidth"))
            for name in ("question", "send", "again", "toggle", "clear"):
                box = page.js("const r = document.getElementById(arguments[0]).getBoundingClientRect(); return [r.left, r.right, r.top, r.bottom]", name)
                expect(f"{name} is on the screen at {width}", box[0] >= 0 and box[1] <= width and box[2] >= 0 and box[3] <= height, box)
            page.shot(f"{scheme}-{width}")
    page.one("#toggle").click()
    expect("settings fit a phone", page.js("return document.documentElement.scrollWidth") <= 375 and page.one("#question").is_displayed())
    page.shot("phone-settings")
    page.one("#toggle").click()
    page.size(1100, 800)
    expect("dark differs from light", len(colours) == 2, colours)
    page.media("light")


def keyboard(page):
    page.driver.refresh()
    page.until("the message has the focus", lambda: page.focused() == "question")
    page.keys("Say hello.", Keys.ENTER)
    page.until("an answer by keyboard", lambda: page.idle() and len(page.all("article.assistant")) == 1 and "Hello there!" in page.one("article.assistant").text)
    expect("the focus stays", page.focused() == "question", page.focused())
    seen = []
    for _ in range(12):
        page.keys(Keys.TAB)
        seen.append(page.focused())
    expect("everything is reached by Tab", {"clear", "toggle", "again", "send"} <= set(seen), seen)
    page.js("document.getElementById('toggle').focus()")
    page.keys(Keys.ENTER)
    page.keys(Keys.TAB)
    expect("settings follow their button", page.focused() == "system" and page.one("#settings").is_displayed(), page.focused())
    expect("a focus is visible", page.js("const s = getComputedStyle(document.activeElement); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0"))
    page.js("document.getElementById('again').focus()")
    page.keys(Keys.SPACE)
    page.until("regenerated by keyboard", lambda: page.idle() and len(page.all("article.assistant")) == 1)


with tempfile.TemporaryDirectory() as temporary:
    model = train(pathlib.Path(temporary))
    server = subprocess.Popen([tool, "serve", str(model), "--port", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    page = Page(int(re.search(r"http://127\.0\.0\.1:(\d+)", server.stdout.readline())[1]))
    try:
        for test in (markdown_and_streaming, stopping, late_frames, unanswered, markdown_text, settings, probabilities, colours_and_widths, keyboard):
            test(page)
            print(f"{test.__name__}: done")
        errors = [entry for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"]
        expect("no errors in the console", not [e for e in errors if "favicon" not in e["message"]], errors)
    finally:
        page.driver.quit()
        server.terminate()
        server.wait()
finish()
