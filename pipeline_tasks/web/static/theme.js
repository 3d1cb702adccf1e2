// Light or dark as Airflow's own pages are: it keeps its choice in this origin's storage.

const system = matchMedia("(prefers-color-scheme: dark)");

function apply() {
  const chosen = localStorage.getItem("theme") ?? "system";
  const dark = chosen === "dark" || (chosen !== "light" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

export function followTheme() {
  apply();
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
}
