// Charts, the event stream of a running job, and uploads. No data leaves this machine.
(function () {
  "use strict";

  // a chart is asked for and drawn when somebody sees it: a page of one release has dozens
  const seen = new IntersectionObserver(function (entries) {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      embed(entry.target);
    }
  }, { rootMargin: "200px" });
  const waiting = new WeakSet();

  function embed(place) {
    const charts = document.querySelector("[data-charts]").dataset.charts;
    // ast: no eval, which the content policy forbids; no styles of its own for the same reason
    fetch(charts + place.id).then(function (answer) { return answer.json(); }).then(function (spec) {
      return vegaEmbed(place, spec, {
        ast: true, actions: false, renderer: "svg", defaultStyle: false,
        tooltip: { disableDefaultStyle: true },
      });
    }).then(function () { place.dataset.drawn = "yes"; })
      .catch(function () { place.textContent = "This chart could not be drawn; its table is below."; });
  }

  function draw(root) {
    if (typeof vegaEmbed === "undefined") return;
    for (const place of root.querySelectorAll(".chart")) {
      if (waiting.has(place)) continue;
      waiting.add(place);
      seen.observe(place);
    }
  }

  function follow() {
    const live = document.getElementById("live");
    if (!live || live.dataset.running !== "yes") return;
    const stream = new EventSource(live.dataset.events);
    let first = true;
    function refresh() {
      const chosen = document.querySelector("input[name=point]:checked");
      const focused = document.activeElement && document.activeElement.id;
      htmx.ajax("GET", live.dataset.page, { target: "#live", swap: "outerHTML" }).then(function () {
        if (chosen) {
          const again = document.getElementById(chosen.id);
          if (again) again.checked = true;
        }
        if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
      });
    }
    stream.onmessage = function () {
      if (!first) refresh();
      first = false;
    };
    stream.addEventListener("end", function () {
      stream.close();
      // what comes after reading are other steps, and nothing was typed yet
      if (live.dataset.page.endsWith("/data")) window.location.reload(); else refresh();
    });
  }

  // an error stays on the page where it happened, with everything that was typed
  function submit(event) {
    const form = event.target, button = event.submitter;
    event.preventDefault();
    const fields = new URLSearchParams(new FormData(form));
    if (button && button.name) fields.append(button.name, button.value);
    if ("shown" in form.dataset) {
      const shown = document.querySelectorAll("[data-place]:not([hidden])");
      fields.set("columns", Array.from(shown, function (one) { return one.dataset.place; }).join());
    }
    if (button) button.disabled = true;
    fetch(form.action, { method: "POST", body: fields }).then(async function (answer) {
      if (answer.ok) { window.location.assign(answer.url); return; }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      say(form, (page.querySelector("[role=alert]") || page.body).textContent);
    }).catch(function () { say(form, "The app does not answer: is it still running?"); })
      .finally(function () { if (button) button.disabled = false; });
  }

  // hundreds of columns: those whose names hold what is typed are shown
  function find() {
    const field = document.querySelector("input[data-find]");
    if (!field) return;
    const word = field.value.trim().toLowerCase();
    const all = document.querySelectorAll(field.dataset.find);
    const most = word ? Infinity : field.dataset.most;  // without a word, hundreds would hide the page
    let count = 0;
    all.forEach(function (one, place) {
      one.hidden = place >= most || !one.dataset.name.includes(word);
      count += !one.hidden;
    });
    document.getElementById("found").textContent = count < all.length ? count + " of " + all.length + " shown" : "";
  }

  function say(form, text) {
    let place = form.querySelector(".said");
    if (!place) {
      place = document.createElement("p");
      place.className = "said";
      place.setAttribute("role", "alert");
      form.append(place);
    }
    place.textContent = text;
    place.scrollIntoView({ block: "nearest" });
  }

  function dropped() {
    const input = document.getElementById("file"), zone = document.getElementById("upload-form");
    document.addEventListener("dragover", function (event) {
      event.preventDefault();
      zone.classList.add("over");
    });
    document.addEventListener("dragleave", function () { zone.classList.remove("over"); });
    document.addEventListener("drop", function (event) {
      event.preventDefault();
      zone.classList.remove("over");
      if (!event.dataTransfer.files.length) return;
      input.files = event.dataTransfer.files;
      zone.requestSubmit();
    });
  }

  function upload(event) {
    event.preventDefault();
    const file = document.getElementById("file").files[0];
    const said = document.getElementById("upload-said");
    said.textContent = "Copying ...";
    fetch("/upload", { method: "PUT", body: file, headers: { "X-Name": encodeURIComponent(file.name) } })
      .then(async function (answer) {
        const text = await answer.text();
        if (answer.ok) { window.location.assign(text); return; }
        const page = new DOMParser().parseFromString(text, "text/html");
        said.textContent = (page.querySelector("[role=alert]") || page.body).textContent;
      })
      .catch(function () { said.textContent = "The file could not be copied."; });
  }

  document.addEventListener("DOMContentLoaded", function () {
    draw(document);
    follow();
    const form = document.getElementById("upload-form");
    if (form) { form.addEventListener("submit", upload); dropped(); }
    document.addEventListener("submit", function (event) {
      if (event.target.method === "post") submit(event);
    });
    for (const button of document.querySelectorAll("button[data-gates]")) {
      button.addEventListener("click", function () {
        for (const field of document.querySelectorAll("input.filled")) field.value = button.dataset.gates;
      });
    }
    document.addEventListener("click", function (event) {
      if (event.target.id !== "show-all") return;
      document.querySelector("input[data-find]").dataset.most = Infinity;
      event.target.hidden = true;
      find();
    });
    document.addEventListener("input", function (event) { if (event.target.dataset.find) find(); });
    document.body.addEventListener("htmx:afterSettle", function () { draw(document); find(); });
  });
})();
