"""The HTTP surface: OpenAI's and Anthropic's wire formats, and the APIs of the product itself."""
