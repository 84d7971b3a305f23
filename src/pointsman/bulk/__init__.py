"""Work over millions of recorded decisions: planned as ranges, done by many, folded into one."""
