/** Numbers, times and names as people read them. */

export function usd(microusd: number): string {
  const dollars = microusd / 1_000_000;
  if (dollars === 0) return "$0";
  if (Math.abs(dollars) >= 100) return `$${dollars.toFixed(0)}`;
  if (Math.abs(dollars) >= 1) return `$${dollars.toFixed(2)}`;
  return `$${dollars.toFixed(Math.abs(dollars) < 0.01 ? 5 : 4).replace(/0+$/, "").replace(/\.$/, "")}`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

export function counted(value: number, noun: string, many = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : many}`;
}

export function share(part: number, whole: number): string {
  return whole === 0 ? "0 %" : `${((100 * part) / whole).toFixed(part === whole ? 0 : 1)} %`;
}

export function milliseconds(value: number): string {
  if (value === 0) return "";
  if (value < 1) return `${value.toFixed(2)} ms`;
  if (value < 1000) return `${value.toFixed(0)} ms`;
  return `${(value / 1000).toFixed(value < 10_000 ? 2 : 1)} s`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} kB`;
  return `${(value / 1024 / 1024).toFixed(1)} MB`;
}

const pad = (value: number): string => String(value).padStart(2, "0");

/** The local time of an instant: today's without the day. */
export function clock(instant: string | null, now: Date = new Date()): string {
  if (!instant) return "";
  const at = new Date(instant);
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  const isToday = at.toDateString() === now.toDateString();
  if (isToday) return time;
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${time}`;
}

export function ago(instant: string | null, now: number = Date.now()): string {
  if (!instant) return "never";
  const seconds = Math.max(0, Math.round((now - new Date(instant).getTime()) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

export function span(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A long id by its end, where ids made in one run differ. */
export function short(id: string, letters = 8): string {
  return id.length <= letters + 1 ? id : `…${id.slice(-letters)}`;
}

export function words(slot: string): string {
  return slot.replaceAll("_", " ");
}
