-- Sums are folded from the ledger by whoever finds them behind it: nothing tells any more which part
-- of a writer's calls they hold, or whether it closed.
DROP TABLE pointsman_spend.batches;
DROP TABLE pointsman_spend.closing;
