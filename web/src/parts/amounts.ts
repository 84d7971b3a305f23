/** The sums of money and tokens, which come as a row of numbers. */
import type { Total } from "../types";

export interface Amounts {
  calls: number;
  estimated: number;
  unpriced: number;
  input: number;
  output: number;
  microusd: number;
}

export function amountsOf(total: Total): Amounts {
  const [calls, estimated, unpriced, input, output, cached, written, microusd] = total.amounts;
  return { calls, estimated, unpriced, input: input + cached + written, output, microusd };
}
