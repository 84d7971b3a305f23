"""The operator's work on a home: doctor, rules, store copies, the starter files."""
