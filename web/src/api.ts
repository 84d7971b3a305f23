/** Asking the gateway: the page's half of a login goes with every request, the cookie by itself. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

const PAGE = "pointsman.page";

export function keepLogin(page: string | null): void {
  if (page === null) localStorage.removeItem(PAGE);
  else localStorage.setItem(PAGE, page);
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  const page = localStorage.getItem(PAGE);
  return page === null ? more : { "x-pointsman-page": page, ...more };
}

export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
  ) {
    super(message);
  }
}

async function failureOf(answer: Response): Promise<Failure> {
  try {
    const told = (await answer.json()) as Record<string, string>;
    const message = told.user_message ?? `the gateway answered ${answer.status}`;
    return new Failure(answer.status, told.error_code ?? "", message, told.developer_message ?? "");
  } catch {
    return new Failure(answer.status, "", `the gateway answered ${answer.status}`, "");
  }
}

export async function send(
  method: string,
  path: string,
  body?: unknown,
  more: Record<string, string> = {},
): Promise<Response> {
  const isText = typeof body === "string";
  const type: Record<string, string> =
    body === undefined ? {} : { "content-type": isText ? "application/yaml" : "application/json" };
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      headers: headers({ ...type, ...more }),
      body: body === undefined ? undefined : isText ? body : JSON.stringify(body),
      cache: "no-store",
    });
  } catch {
    throw new Failure(0, "", "the gateway cannot be reached", "is `pointsman serve` running?");
  }
  if (!answer.ok) throw await failureOf(answer);
  return answer;
}

export async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  return (await (await send(method, path, body)).json()) as T;
}

export interface Loaded<T> {
  value: T | null;
  failure: Failure | null;
  isLoading: boolean;
  again: () => void;
}

/** Loads a path and keeps the last value while the next one is on its way. */
export function useLoad<T>(path: string | null, everyMs = 0): Loaded<T> {
  const [value, setValue] = useState<T | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isLoading, setLoading] = useState(path !== null);
  const latest = useRef(0);
  const loaded = useRef<string | null>(null);

  const again = useCallback(() => {
    if (path === null) return;
    const mine = ++latest.current;
    setLoading(true);
    ask<T>("GET", path).then(
      (found) => {
        if (mine !== latest.current) return;
        loaded.current = path;
        setValue(found);
        setFailure(null);
        setLoading(false);
      },
      (error: unknown) => {
        if (mine !== latest.current) return;
        setFailure(error instanceof Failure ? error : new Failure(0, "", String(error), ""));
        if (loaded.current !== path) setValue(null);
        setLoading(false);
      },
    );
  }, [path]);

  useEffect(() => {
    again();
    if (everyMs === 0) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) again();
    }, everyMs);
    return () => clearInterval(timer);
  }, [again, everyMs]);

  return { value, failure, isLoading, again };
}

export interface ServerEvent {
  name: string;
  id: string;
  data: Record<string, unknown>;
}

/** Reads server-sent events; not by EventSource, which cannot send the page's half of a login. */
export async function* eventsOf(answer: Response): AsyncGenerator<ServerEvent> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = eventOf(block);
      if (event !== null) yield event;
    }
  }
}

function eventOf(block: string): ServerEvent | null {
  let name = "message";
  let id = "";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  if (data.length === 0) return null;
  return { name, id, data: JSON.parse(data.join("\n")) as Record<string, unknown> };
}

export type FeedState = "connecting" | "live" | "lost";

/** Follows the live feed until told to stop; comes back by itself when the gateway does. */
export function follow(
  told: (event: ServerEvent) => void,
  state: (now: FeedState) => void,
): () => void {
  const stop = new AbortController();
  const run = async (): Promise<void> => {
    let wait = 1000;
    while (!stop.signal.aborted) {
      try {
        const answer = await fetch("/api/events", { headers: headers(), signal: stop.signal });
        if (!answer.ok) throw await failureOf(answer);
        state("live");
        wait = 1000;
        for await (const event of eventsOf(answer)) told(event);
      } catch {
        if (stop.signal.aborted) return;
      }
      state("lost");
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, 15_000);
    }
  };
  void run();
  return () => stop.abort();
}
