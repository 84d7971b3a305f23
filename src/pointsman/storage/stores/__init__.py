"""The stores of a home, one class each, over any driver."""
