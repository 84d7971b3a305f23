"""Decision tables from DMN and CSV files."""
