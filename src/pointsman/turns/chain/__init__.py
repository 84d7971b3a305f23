"""Steps of the chain: overrides, vetoes and banners."""
