"""Learning from turns: what is counted, judged, tried beside, and reported."""
