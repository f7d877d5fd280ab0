"""The chat page of weft serve in headless Chromium: streaming, stop, regenerate, settings, Markdown, probabilities, dark and light, a phone's
width, the keyboard alone. Skipped without selenium (PyPI) and Chromium (Debian: chromium, chromium-driver).

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


def train(folder):
    """A model that gives these answers."""
    data = folder / "talk.jsonl"
    data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}) + "\n" for q, a in ANSWERS.items()) * 40)
    subprocess.run([tool, "train", "--data", data, "--chat-template", "chatml", "--packing", "concatenate", "--vocabulary", "bytes", "--width", "96", "--layers", "2",
                    "--heads", "4", "--sequence", "512", "--context", "1024", "--batch", "4", "--validation", "0", "--learning-rate", "0.004", "--warmup", "10",
                    "--evaluate-every", "0", "--steps", "250", "--out", folder / "run"], check=True, capture_output=True)
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
        for test in (markdown_and_streaming, stopping, settings, probabilities, colours_and_widths, keyboard):
            test(page)
            print(f"{test.__name__}: done")
        errors = [entry for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"]
        expect("no errors in the console", not [e for e in errors if "favicon" not in e["message"]], errors)
    finally:
        page.driver.quit()
        server.terminate()
        server.wait()
finish()
