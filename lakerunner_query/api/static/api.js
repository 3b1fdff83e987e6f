// The query API as this page uses it. The key lives in sessionStorage: it ends with the tab.
const KEY = "lakerunner-key";

export const key = { get: () => sessionStorage.getItem(KEY) || "", set: (text) => sessionStorage.setItem(KEY, text.trim()) };

export class ApiError extends Error {
  constructor({ status, message, position }) {
    super(message);
    Object.assign(this, { status, position });
  }
}

/** POST `body`, a form or else JSON; the response, or an `ApiError` with what the server said. */
export async function ask(path, body, signal) {
  const form = body instanceof URLSearchParams, headers = { "x-cardinalhq-api-key": key.get() };
  if (!form) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: "POST", headers, body: form ? body : JSON.stringify(body), signal });
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
    const { message, error, position } = JSON.parse(text);
    return { message: message ?? error, position };
  } catch {
    return { message: text || `the query API answered ${status}` };
  }
}

/** The data of results, batch by batch to `take`; at the end what `done` says. */
export async function answered(response, take) {
  let done = null;
  for await (const messages of events(response)) {
    for (const { type, data } of messages) {
      if (type === "error") throw data;
      if (type === "done") done = data;
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
    yield parts.filter((part) => part.startsWith("data: ")).map((part) => JSON.parse(part.slice(6)));
  }
}
