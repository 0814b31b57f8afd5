(function () {
  "use strict";
  const specs = JSON.parse(document.getElementById("specs").textContent);
  for (const [id, spec] of Object.entries(specs)) {
    const place = document.getElementById(id);
    // ast: no eval, which the content policy forbids; actions would offer to send data away
    vegaEmbed(place, spec, { ast: true, actions: false, renderer: "svg" })
      .then(function () { place.dataset.drawn = "yes"; })
      .catch(function () { place.textContent = "This chart could not be drawn; its table is below."; });
  }
  let opened = [];
  window.addEventListener("beforeprint", function () {
    opened = Array.from(document.querySelectorAll("details:not([open]):not(.rows)"));
    for (const part of opened) part.open = true;
  });
  window.addEventListener("afterprint", function () {
    for (const part of opened) part.open = false;
  });
})();
