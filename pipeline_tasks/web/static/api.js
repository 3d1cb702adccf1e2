// The page's own API, below the same login.

const TRIES = 10;

/** JSON of `api/<path>`; a parameter that is a list is sent once for each. An error carries the server's own words.
 *
 * Where the server is busy and says when it will not be, it is asked again. */
export async function get(path, parameters = {}, signal = undefined) {
  const pairs = Object.entries(parameters).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const query = new URLSearchParams(pairs.filter(([, value]) => value !== ""));
  for (let tries = 1; ; tries += 1) {
    const response = await fetch(`api/${path}?${query}`, { signal });
    const wait = response.status === 503 && Number(response.headers.get("retry-after"));
    if (!wait || tries === TRIES) return read(response);
    await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
  }
}

export async function post(path, body, signal = undefined) {
  const headers = { "content-type": "application/json" };
  return read(await fetch(`api/${path}`, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

async function read(response) {
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  if (response.status === 401) throw new Error("Your session has ended. Log in to Airflow again and reload this page.");
  const detail = Array.isArray(body.detail) ? body.detail.map((d) => d.msg).join("; ") : body.detail;
  throw new Error(detail ?? `The server answered ${response.status}.`);
}
