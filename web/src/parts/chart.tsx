/** Turns over time by model, drawn by uPlot on a canvas. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Bucket } from "../types";

export const COLOURS = ["#3579b5", "#c4702f", "#3b9165", "#8762b5", "#b5476f", "#7c8a2c", "#2f9a9a", "#78818a"];

export function colourOf(models: string[], model: string): string {
  return COLOURS[models.indexOf(model) % COLOURS.length] ?? COLOURS[7]!;
}

function stacked(buckets: Bucket[], models: string[], times: number[], step: number): number[][] {
  const place = new Map(times.map((at, index) => [at, index]));
  const rows = models.map(() => new Array<number>(times.length).fill(0));
  for (const each of buckets) {
    const at = Math.floor(Date.parse(each.at) / 1000 / step) * step;
    const column = place.get(at);
    const row = models.indexOf(each.model);
    if (column !== undefined && row >= 0) rows[row]![column]! += each.turns;
  }
  for (let row = 1; row < rows.length; row++) {
    for (let column = 0; column < times.length; column++) rows[row]![column]! += rows[row - 1]![column]!;
  }
  return rows;
}

/** The step that leaves about a hundred columns over what there is to show. */
function spanOf(buckets: Bucket[], until: number, bucket: number): [number, number] {
  const first = Math.min(...buckets.map((each) => Date.parse(each.at) / 1000));
  const wide = Math.max(until - first, 3600);
  const step = Math.max(bucket, Math.ceil(wide / 96 / bucket) * bucket);
  return [Math.floor((until - wide) / step) * step, step];
}

function clockOf(at: number): string {
  const time = new Date(at * 1000);
  return `${String(time.getHours()).padStart(2, "0")}:${String(time.getMinutes()).padStart(2, "0")}`;
}

export function TurnsChart({ buckets, models, until, bucketS }: {
  buckets: Bucket[];
  models: string[];
  until: string;
  bucketS: number;
}) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = place.current;
    if (box === null || buckets.length === 0) return undefined;
    const end = Date.parse(until) / 1000;
    const [first, step] = spanOf(buckets, end, bucketS);
    const times: number[] = [];
    for (let at = first; at <= end; at += step) times.push(at);
    const rows = stacked(buckets, models, times, step);
    const style = getComputedStyle(box);
    const ink = style.getPropertyValue("--ink-2");
    const grid = { stroke: style.getPropertyValue("--line"), width: 1 };
    const font = "11px system-ui, sans-serif";
    // The highest sum is drawn first, so that each band shows below it.
    const order = models.map((_, index) => index).reverse();
    const bars = uPlot.paths.bars!({ size: [0.72, 28], gap: 1 });
    const chart = new uPlot(
      {
        width: box.clientWidth,
        height: 180,
        padding: [8, 8, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { range: [first - step / 2, end + step / 2] }, y: { range: (_plot, _low, high) => [0, Math.max(4, Math.ceil(high * 1.1))] } },
        axes: [
          {
            stroke: ink,
            grid: { show: false },
            ticks: { show: false },
            font,
            size: 26,
            values: (_plot, splits) => splits.map(clockOf),
          },
          { stroke: ink, grid, ticks: { show: false }, font, size: 40, incrs: [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 10_000, 50_000] },
        ],
        series: [
          {},
          ...order.map((index) => ({
            label: models[index] || "none",
            fill: colourOf(models, models[index]!),
            stroke: colourOf(models, models[index]!),
            width: 0,
            points: { show: false },
            paths: bars,
          })),
        ],
      },
      [times, ...order.map((index) => rows[index]!)] as uPlot.AlignedData,
      box,
    );
    const watch = new ResizeObserver(() => chart.setSize({ width: box.clientWidth, height: 180 }));
    watch.observe(box);
    return () => {
      watch.disconnect();
      chart.destroy();
    };
  }, [buckets, models, until, bucketS]);
  const total = buckets.reduce((sum, each) => sum + each.turns, 0);
  return <div class="chart" ref={place} role="img" aria-label={`${total} turns of the last day over time, by model`} />;
}
