// The query API as this page uses it. The key lives in sessionStorage: it ends with the tab.
const KEY = "lakerunner-key";

export const key = { get: () => sessionStorage.getItem(KEY) || "", set: (text) => sessionStorage.setItem(KEY, text.trim()) };

export class ApiError extends Error {
  constructor({ status, message, position, code }) {
    super(message);
    Object.assign(this, { status, position, code });
  }
}

/** POST `body`, a form or else JSON, or GET where there is none; the response, or an `ApiError` with what the server said. */
export async function ask(path, body, signal, accept = "") {
  const form = body instanceof URLSearchParams, headers = { "x-cardinalhq-api-key": key.get(), ...(accept && { Accept: accept }) };
  if (body && !form) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, ...(body && { body: form ? body : JSON.stringify(body) }), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({ status: 0, message: "The query API does not answer. Is it running?" });
  }
  if (response.ok) return response;
  throw new ApiError({ ...told(await response.text(), response.status), status: response.status });
}

/** Our endpoints and Prometheus' tell errors as JSON, Loki's as text. */
function told(text, status) {
  try {
    const { message, error, position, code } = JSON.parse(text);
    return { message: message ?? error, position, code };
  } catch {
    return { message: text || `the query API answered ${status}` };
  }
}

const FRESH_MS = 60000, kept = new Map(); // what was asked → { at, answer }

/** An answer in JSON, asked for once a minute. */
export async function listed(path, body, accept) {
  const name = JSON.stringify([path, body, key.get()]);
  if (!(Date.now() - kept.get(name)?.at < FRESH_MS)) {
    kept.set(name, { at: Date.now(), answer: ask(path, body, undefined, accept).then((response) => response.json()) });
  }
  return kept.get(name).answer.catch((error) => { kept.delete(name); throw error; });
}

/** The data of results, batch by batch to `take`, and all else to `hear`; at the end what `done` says. */
export async function answered(response, take, hear = () => {}) {
  let done = null;
  for await (const messages of events(response)) {
    for (const { type, data } of messages) {
      if (type === "error") throw data;
      if (type === "done") done = data;
      else if (type !== "result") hear(type, data);
    }
    take(messages.filter(({ type }) => type === "result").map(({ data }) => data));
  }
  if (!done) throw new Error("The answer broke off before its end.");
  return done;
}

/** Server-sent events with fetch, because EventSource can neither POST nor send a key. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    const lines = parts.flatMap((part) => part.split("\n")).filter((line) => line.startsWith("data: "));
    yield lines.map((line) => JSON.parse(line.slice(6)));
  }
}
