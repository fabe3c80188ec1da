// The page of a running hunt asks its server what happens now. Everything that comes from there is shown as text.
(() => {
  const at = (name) => document.getElementById("live-" + name);
  const badges = new Map([...document.querySelectorAll(".card")].map((card) => [card.id, card.querySelector(".badge").textContent]));
  const PERIOD_MS = 2000, FAILURES_MAX = 3;
  let failures = 0, said = "";

  const item = (...parts) => {
    const made = document.createElement("li");
    made.append(...parts);
    return made;
  };
  const part = (kind, text) => {
    const made = document.createElement("span");
    made.className = kind;
    made.textContent = text;
    return made;
  };
  const put = (place, text) => { if (place.textContent !== text) place.textContent = text; };

  function show(status) {
    put(at("time"), status.time);
    put(at("runs"), status.words);
    at("share").value = status.share;
    const now = status.now.map((run) => item(`run ${run.run} for ${run.since}: ${run.words}`));
    at("now").replaceChildren(...(now.length ? now : [item("no run is under way")]));
    const fresh = status.findings.filter((finding) => badges.get(finding.id) !== finding.badge);
    const words = fresh.length ? `${fresh.length} new or changed finding${fresh.length > 1 ? "s" : ""}` : "";
    if (words !== said) put(at("news"), said = words);
    at("findings").hidden = !fresh.length;
    at("findings").replaceChildren(...fresh.map((finding) => {
      const link = document.createElement("a");
      link.href = "./#" + finding.id;
      link.addEventListener("click", (event) => {
        event.preventDefault();
        location.hash = finding.id;
        location.reload();
      });
      link.append(part("id", finding.id), part("name", finding.title), part("badge " + finding.kind, finding.badge));
      return item(link);
    }));
  }

  async function ask() {
    try {
      const answer = await fetch("status", { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      show(await answer.json());
      failures = 0;
    } catch {
      if (++failures >= FAILURES_MAX) {
        put(at("state"), "The hunt has ended");
        put(at("news"), "This page is no longer updated. The complete report is report.html in the folder of the campaign.");
        at("now").replaceChildren();
        return;
      }
    }
    setTimeout(ask, PERIOD_MS);
  }
  ask();
})();
