// Which view is shown: #/<view>/<argument>/… in the address, so that every state can be linked and gone back to.

/** Shows `views[name](root, arguments, ...given)` now and whenever the address changes; the first view unless named. */
export function route(views, ...given) {
  const root = document.getElementById("view");

  function show() {
    const [, name, ...words] = location.hash.split("/");
    const view = Object.hasOwn(views, name ?? "") ? name : Object.keys(views)[0];
    for (const link of document.querySelectorAll("nav a[data-view]")) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    root.className = view;
    root.turn = null; // what another view still waits for is not shown in this one
    views[view](root, words.map(decoded), ...given);
  }

  addEventListener("hashchange", show);
  show();
}

function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return "";
  }
}
