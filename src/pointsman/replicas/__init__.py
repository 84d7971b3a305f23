"""One replica among several: signs of life, shared counts, shared health."""
