/** What the gateway answers, as `/openapi.json` describes it. */

export interface Me {
  name: string;
  scopes: string[];
  is_admin: boolean;
  is_logged_in: boolean;
  is_login_needed: boolean;
  expires_at: string | null;
  has_keys: boolean;
  version: string;
}

export interface Placed {
  rule_id: string;
  gate: "open" | "local" | "closed" | "zone";
  zones?: string[];
  reason: string;
}

export type TurnState = "open" | "done" | "failed" | "fallback" | "refused" | "preview";

export interface TurnRow {
  turn_id: string;
  decision_id: string;
  session_id: string;
  at: string;
  chosen_model: string;
  policy: string;
  rule_name: string | null;
  is_preview: boolean;
  placement: Placed | null;
  workspace: string;
  digest: string;
  rejected: number;
  is_worker: boolean;
  served_model: string;
  state: TurnState;
  fallbacks: number;
  calls: number;
  error_class: string;
  cost_microusd: number;
  input_tokens: number;
  output_tokens: number;
  elapsed_ms: number;
}

export interface Turns {
  turns: TurnRow[];
  next: string | null;
  behind: number;
}

export interface Filters {
  values: { what: "model" | "policy" | "rule" | "workspace"; value: string; turns: number }[];
}

export interface Bucket {
  at: string;
  model: string;
  turns: number;
  fallbacks: number;
  cost_microusd: number;
}

export interface Overview {
  at: string;
  since: string;
  bucket_s: number;
  buckets: Bucket[];
  cost_today_microusd: number;
  turns_today: number;
  tainted_sessions: number;
  stops: string[];
  ledger: { writable: boolean; cause: string };
  configuration: string[];
  default_model: string | null;
  behind: number;
}

export interface Budget {
  name: string;
  limit_usd: string;
  per: string;
  each: string;
  left_usd: string | null;
  resets_at: string | null;
  key_id: string | null;
}

export interface Providers {
  rows: {
    provider: string;
    model: string;
    state: "healthy" | "degraded" | "unavailable" | "half_open" | "rate_limited";
    cause: string | null;
    why: string;
    since: string | null;
    clears_at: string | null;
    clears_in_s: number | null;
    models_affected: string[];
  }[];
  limits: {
    provider: string;
    rpm: number | null;
    tpm: number | null;
    requests_left: number | null;
    tokens_left: number | null;
    free_in_s: number;
  }[];
}

export type Verdict = "not_applicable" | "deferred" | "rejected" | "chose";

/** A candidate that a veto rejected; without a rule's name it is a default. */
export interface Attempt {
  rule_name: string;
  candidate_model: string;
  validation_failure: string;
  reason: string;
}

export interface Link {
  policy: string;
  verdict: Verdict;
  candidate_model: string | null;
  reason: string;
  rule_name: string | null;
  rule_attempts: Attempt[];
  confidence: number | null;
  pattern_alternatives: { model: string; score: number; sample_size: number }[] | null;
  validation_failure: string | null;
  neighbours:
    | {
        fingerprint_id: string;
        model: string;
        similarity: number;
        success: number | null;
        sample_size: number;
      }[]
    | null;
  flip_margin: number | null;
}

export interface Decided {
  decision_id: string;
  turn_id: string;
  chosen_model: string;
  winner_index: number;
  decision_version: number;
  policy_id: string;
  facts_id: string;
  elapsed_ms: number;
  banners: { code: string; text: string }[];
  placement: Placed | null;
  chain: Link[];
}

export interface Call {
  decision_id: string;
  at: string;
  role: "turn" | "shadow" | "judge";
  model: string;
  number: number;
  outcome: "done" | "failed" | "refused" | "unknown";
  error_class: string;
  status: number;
  attempts: number;
  stop_reason: string;
  input_tokens: number;
  output_tokens: number;
  cached_input_tokens: number;
  cache_creation_input_tokens: number;
  cost_usd: string | null;
  is_estimated: boolean;
  first_byte_ms: number;
  elapsed_ms: number;
}

export interface Later {
  kind: "fallback" | "override";
  decision_id: string;
  at: string;
  failed_model: string;
  error_class: string;
  status: number;
  chosen_model: string;
  policy: string;
  rule_name: string | null;
  chain: Link[];
}

export interface Refusal {
  decision_id: string;
  at: string;
  model: string;
  rule_id: string;
  reason: string;
}

export interface Turn extends Decided {
  session_id: string;
  at: string;
  is_preview: boolean;
  state: TurnState;
  served_model: string;
  cost_usd: string;
  calls: Call[];
  fallbacks: Later[];
  beside: Call[];
  refusals: Refusal[];
  not_asked: { policy: string; rule_name: string; model: string }[];
  not_asked_unknown: string;
  why: string;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface LinkedEntry {
  id: string;
  kind: string;
  at: string;
  chain: string;
  seq: number;
  hash: string;
  detail: { [key: string]: Json };
}

export interface TurnRecord {
  caller_told: { status: number; code: string; message: string } | null;
  turn_id: string;
  decision_id: string;
  session_id: string;
  trace_id: string;
  is_preview: boolean;
  product_version: string;
  at: string;
  chain: string;
  seq: number;
  hash: string;
  message: { digest: string; characters: number; text: string | null; told: string };
  facts: { [key: string]: Json } | null;
  policy: { [key: string]: Json } | null;
  policy_told: string;
  linked: LinkedEntry[];
}

export interface Replayed {
  decisions: {
    decision_id: string;
    kind: string;
    verdict: "identical" | "REPLAY_DIVERGENCE" | "unable";
    code: string;
    reason: string;
    differences: { path: string; recorded: Json; found: Json }[];
    recorded_bytes: number;
    recorded_sha256: string;
  }[];
}

export interface Sessions {
  sessions: {
    session_id: string;
    first_at: string;
    last_at: string;
    turns: number;
    fallbacks: number;
    model: string;
    model_switches: number;
    pinned_model: string | null;
    taint: { turn_id: string; rule_id: string; since: string } | null;
    calls: number;
    cost_usd: string;
  }[];
  turns_looked_at: number;
}

export interface SessionNode {
  session_id: string;
  first_at: string | null;
  last_at: string | null;
  is_worker: boolean;
  turns: number;
  fallbacks: number;
  calls: number;
  cost_microusd: number;
  cost_with_workers_microusd: number;
  models: {
    model: string;
    turns: number;
    calls: number;
    cost_microusd: number;
    input_tokens: number;
    output_tokens: number;
  }[];
  workers: SessionNode[];
}

export interface Session {
  session: SessionNode;
  parent: string | null;
  behind: number;
}

export interface Finding {
  code: string;
  message: string;
  workspace: string | null;
  rule_name: string | null;
  by: string | null;
}

export interface Proof {
  holds: boolean;
  explanation: string;
}

export interface Rules {
  policy_id: string;
  scopes: {
    workspace: string | null;
    default: string | null;
    rules: {
      name: string;
      when: string;
      use: string;
      is_global: boolean;
      hits: number;
      rejected: number;
      last_at: string | null;
      findings: Finding[];
    }[];
  }[];
  warnings: Finding[];
  privacy: Proof;
  problems: string[];
  is_writable: boolean;
  behind: number;
}

export interface Problem {
  source: string;
  line: number;
  column: number;
  code: string;
  message: string;
  hint: string;
}

export interface Check {
  ok: boolean;
  problems: Problem[];
  warnings: Finding[];
  privacy: Proof | null;
  policy_id: string | null;
}

export interface PolicyFile {
  name: string;
  text: string;
  problems: string[];
  is_there: boolean;
}

export interface Backtest {
  turns: number;
  changed_count: number;
  changed: {
    turn_id: string;
    at: string;
    before_model: string;
    after_model: string;
    before_policy: string;
    after_policy: string;
    rule: string | null;
  }[];
  shifts: { before: string; after: string; count: number }[];
  by_rule: Record<string, number>;
  models_before: Record<string, number>;
  models_after: Record<string, number>;
  input_cost: {
    turns: number;
    before_usd: string;
    after_usd: string;
    difference_usd: string;
    price_unknown: number;
    no_model: number;
    note: string;
  };
  unable_count: number;
  unable: { turn_id: string; code: string; reason: string }[];
}

export interface Definition {
  id: string;
  name: string;
  type: string;
  input: string;
  hit_policy: string | null;
  cases: {
    target: string;
    label: string;
    condition: string | null;
    weight: number | null;
    priority: number | null;
    ranges: number[][] | null;
  }[];
  default: { target: string };
  cache: { enabled: boolean; ttl: string };
  guardrails: { [key: string]: Json }[];
  salt: string | null;
  source: string;
  policy_id: string;
}

export interface Kept {
  enabled: boolean;
  ttl: string;
  entries: number;
  expired: number;
}

export interface Definitions {
  decisions: (Definition & { evaluations: number; kept: Kept; warnings: number })[];
  problems: string[];
  most_answers: number;
}

export interface Evaluation {
  evaluation_id: string;
  timestamp: string;
  input_value: Json;
  selected_targets: string[];
  selected_labels: string[];
  cached: boolean;
  workflow_id: string;
  stage_id: string;
  is_default: boolean;
  blocked: boolean;
  reason: string;
}

export interface DefinitionView {
  definition: Definition;
  distribution: Record<string, number>;
  expected: Record<string, number>;
  total: number;
  log: Evaluation[];
  findings: { code: string; message: string; rule: number | null; example: Json }[];
  cache: Kept;
}

export interface Graph {
  nodes: { id: string; type: string; label: string; metadata: { [key: string]: Json } }[];
  edges: { source: string; target: string; type: string; label: string }[];
}

export interface Ledger {
  ledger: string;
  keys: string[];
  bytes: number;
  state: { writable: boolean; cause: string };
  chains: {
    name: string;
    entries: number;
    signed: number;
    last_at: string | null;
    head: string;
    checkpoint_count: number;
    checkpoints: { size: number; root: string; at: string; note: string }[];
    checkpoints_told: string;
    latest: { seq: number; at: string; kind: string; id: string; ref: string; hash: string }[];
  }[];
}

export interface BulkJob {
  id: string;
  kind: string;
  state: "running" | "done" | "failed" | "cancelled";
  begun_at: string;
  ended_at: string | null;
  is_clean: boolean | null;
  told: string;
  ranges: number;
  ranges_done: number;
  entries: number;
  entries_done: number;
  entries_a_second: number | null;
  troubled: number;
}

export interface Bulk {
  jobs: BulkJob[];
}

export interface Verified {
  intact: boolean;
  entries: number;
  faults: { code: string; message: string; chain?: string; seq?: number | null }[];
}

export interface Egress {
  since: string;
  turns: number;
  previews: number;
  left: number;
  departures: number;
  rows: EgressRow[];
  violations: EgressRow[];
  proved: boolean;
  unreadable: number;
  ledger_entries: number;
  fault: { code: string; message: string } | null;
}

export interface EgressRow {
  at: string;
  turn_id: string;
  decision_id: string;
  session_id: string;
  model: string;
  slot: string;
  rule: string;
  placement_rule: string;
  gate: string;
  characters: number;
  tokens: number;
  call: string;
  calls: number;
  is_advice: boolean;
}

export interface HelpPages {
  pages: { name: string; section: string; title: string }[];
}

export interface Percentiles {
  count: number;
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
}

export interface PerformanceRow {
  name: string;
  turns: number;
  failed: number;
  refused: number;
  fallbacks: number;
  cost_microusd: number;
  took: Percentiles | null;
  first_byte: Percentiles | null;
}

export interface Performance {
  since: string;
  before: string;
  total: PerformanceRow;
  by_model: PerformanceRow[];
  by_provider: PerformanceRow[];
  is_cut: boolean;
  behind: number;
}

export interface Total {
  what: string;
  amounts: [
    calls: number,
    estimated_calls: number,
    unpriced_calls: number,
    input_tokens: number,
    output_tokens: number,
    cached_input_tokens: number,
    cache_creation_input_tokens: number,
    cost_microusd: number,
  ];
}

export type Cost = Partial<Record<`by_${"all" | "model" | "tenant" | "key" | "session" | "workspace" | "day"}`, Total[]>>;

export interface Learning {
  since: string;
  before: string;
  mode: string;
  default_model: string;
  turns: number;
  all_turns: number;
  saved_microusd: number | null;
  by_model: { model: string; turns: number; failed: number; cost_microusd: number; default_microusd: number | null }[];
  behind: number;
}

export interface KeyRow {
  id: string;
  name: string;
  scopes: string[];
  role: string | null;
  allowed_models: string[] | null;
  privacy: string;
  workspace: string;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  tenant: string;
  limits: { rpm: number | null; tpm: number | null; concurrent: number | null };
}

export interface PolicyDifference {
  headline: string;
  is_complete: boolean;
  notes: string[];
  recorded_turns: number | null;
  recorded_differing: number | null;
  kinds: {
    before: string;
    after: string;
    where: string;
    unless: string[];
    recorded_turns: number | null;
    example: string | null;
  }[];
}
